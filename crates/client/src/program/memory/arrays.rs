//! Arrays, and texture and surface objects: what the program was given, and what was said of it.
//!
//! Arrays are numbered here. An object's handle is the provider's own, since kernels take it as a
//! parameter; it is only looked up.

use crate::handles::Table;
use crate::lock::Guard;
use crate::program::Client;
use crate::program::recovery::recover::{Losses, patiently};
use channel::limits::ARRAYS_MAX;
use channel::request::{
    CreateArray, CreateMipmappedArray, CreateSurface, CreateTexture, DestroyArray,
    DestroyMipmappedArray, DestroySurface, DestroyTexture, NameLevel, Resource,
};
use cuda_api::array::{ArrayShape, level_of, levels_max};
use cuda_api::constants::resource_type;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
    CUarray, CUdevice, CUmipmappedArray, CUresult, CudaError,
};
use std::collections::BTreeMap;

/// An array, or a level of a mipmapped one.
#[derive(Clone, Copy)]
struct Array {
    context: u64,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    is_level: bool,
}

struct Mipmapped {
    context: u64,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    /// The handle of each level that the program has asked for.
    levels: Vec<Option<Handle>>,
}

/// What the program said of an object.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    context: u64,
    pub(crate) resource: CUDA_RESOURCE_DESC,
    /// How it is read; `None` for a surface.
    pub(crate) texture: Option<CUDA_TEXTURE_DESC>,
    pub(crate) view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

/// Which kind of object; each has handles of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectKind {
    Texture,
    Surface,
}

/// All arrays and objects.
pub(crate) struct Arrays {
    arrays: Table<Array>,
    mipmapped: Table<Mipmapped>,
    objects: BTreeMap<(ObjectKind, u64), Object>,
}

fn wire_array(handle: Handle) -> CUarray {
    CUarray(handle.to_word() as usize)
}

fn wire_mipmapped(handle: Handle) -> CUmipmappedArray {
    CUmipmappedArray(handle.to_word() as usize)
}

impl Arrays {
    /// None yet.
    pub(crate) fn new(device: CUdevice) -> Self {
        Self {
            arrays: Table::on(HandleKind::Array, device, 0, ARRAYS_MAX),
            mipmapped: Table::on(HandleKind::MipmappedArray, device, 0, ARRAYS_MAX),
            objects: BTreeMap::new(),
        }
    }

    /// What an array was made as. CUDA_ERROR_INVALID_HANDLE if it is none.
    pub(crate) fn descriptor(&self, array: CUarray) -> Result<CUDA_ARRAY3D_DESCRIPTOR, CudaError> {
        self.arrays.lookup(array.0).map(|array| array.descriptor)
    }

    /// An array's extents. CUDA_ERROR_INVALID_HANDLE if it is none.
    pub(crate) fn shape(&self, array: CUarray) -> Result<ArrayShape, CudaError> {
        ArrayShape::of(&self.descriptor(array)?)
    }

    /// CUDA_ERROR_INVALID_HANDLE if it is no mipmapped array.
    pub(crate) fn check_mipmapped(&self, mipmapped: CUmipmappedArray) -> CUresult {
        self.mipmapped.lookup(mipmapped.0).map(|_| ())
    }

    /// What the program said of an object. CUDA_ERROR_INVALID_VALUE if it is none.
    pub(crate) fn object(&self, kind: ObjectKind, handle: u64) -> Result<Object, CudaError> {
        self.objects.get(&(kind, handle)).copied().ok_or(CudaError::INVALID_VALUE)
    }

    /// The resource on the wire, whose arrays are checked to be some.
    fn resource(&self, described: &CUDA_RESOURCE_DESC) -> Result<Resource, CudaError> {
        let handle = described.resource[0] as usize;
        match described.resType {
            resource_type::ARRAY => self.arrays.lookup(handle).map(|_| ())?,
            resource_type::MIPMAPPED_ARRAY => self.mipmapped.lookup(handle).map(|_| ())?,
            resource_type::LINEAR | resource_type::PITCH2D => {}
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(Resource::from(described))
    }
}

impl Client {
    /// The arrays and objects. Their lock is taken before that of calls.
    pub(crate) fn arrays(&self) -> Guard<'_, Arrays> {
        self.arrays.lock()
    }

    /// Makes an array.
    pub(crate) fn create_array(
        &self,
        context: u64,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    ) -> Result<CUarray, CudaError> {
        ArrayShape::of(&descriptor)?;
        let array = Array { context, descriptor, is_level: false };
        let handle = self.arrays().arrays.insert(array)?;
        let made = self.call(&CreateArray::new(wire_array(handle), &descriptor));
        if made.is_err() {
            self.arrays().arrays.remove(handle);
        }
        made.map(|()| wire_array(handle))
    }

    /// Destroys an array. CUDA_ERROR_INVALID_HANDLE if it is none, or a level of one.
    pub(crate) fn destroy_array(&self, array: CUarray) -> CUresult {
        let mut arrays = self.arrays();
        let handle = arrays.arrays.decode(array.0)?;
        if arrays.arrays.lookup(array.0)?.is_level {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.state().check_open()?;
        arrays.arrays.remove(handle);
        // Under the lock: the place may be used again for what is posted behind.
        self.posting()?.push(&DestroyArray { array })
    }

    /// Makes a mipmapped array of so many levels, as far as they can be halved.
    pub(crate) fn create_mipmapped_array(
        &self,
        context: u64,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
        levels: u32,
    ) -> Result<CUmipmappedArray, CudaError> {
        ArrayShape::of(&descriptor)?;
        let levels = levels.clamp(1, levels_max(&descriptor));
        let mipmapped = Mipmapped { context, descriptor, levels: vec![None; levels as usize] };
        let handle = self.arrays().mipmapped.insert(mipmapped)?;
        let wire = wire_mipmapped(handle);
        let made = self.call(&CreateMipmappedArray::new(wire, &descriptor, levels));
        if made.is_err() {
            self.arrays().mipmapped.remove(handle);
        }
        made.map(|()| wire)
    }

    /// A level of a mipmapped array: the same handle each time. CUDA_ERROR_INVALID_VALUE if there
    /// are fewer levels.
    pub(crate) fn level(
        &self,
        mipmapped: CUmipmappedArray,
        level: u32,
    ) -> Result<CUarray, CudaError> {
        let mut all = self.arrays();
        let Arrays { arrays, mipmapped: table, .. } = &mut *all;
        let whole = table.lookup_mut(mipmapped.0)?;
        let context = whole.context;
        let descriptor = level_of(&whole.descriptor, level);
        let place = whole.levels.get_mut(level as usize).ok_or(CudaError::INVALID_VALUE)?;
        if let Some(handle) = place {
            return Ok(wire_array(*handle));
        }
        let handle = arrays.insert(Array { context, descriptor, is_level: true })?;
        let array = wire_array(handle);
        match self.call(&NameLevel { mipmapped, level, array }) {
            Ok(()) => {
                *place = Some(handle);
                Ok(array)
            }
            Err(error) => {
                arrays.remove(handle);
                Err(error)
            }
        }
    }

    /// Destroys a mipmapped array with its levels.
    pub(crate) fn destroy_mipmapped_array(&self, mipmapped: CUmipmappedArray) -> CUresult {
        let mut arrays = self.arrays();
        let handle = arrays.mipmapped.decode(mipmapped.0)?;
        self.state().check_open()?;
        let whole = arrays.mipmapped.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
        for level in whole.levels.into_iter().flatten() {
            arrays.arrays.remove(level);
        }
        self.posting()?.push(&DestroyMipmappedArray { mipmapped })
    }

    /// Makes a texture object.
    pub(crate) fn create_texture(
        &self,
        context: u64,
        resource: CUDA_RESOURCE_DESC,
        texture: CUDA_TEXTURE_DESC,
        view: Option<CUDA_RESOURCE_VIEW_DESC>,
    ) -> Result<u64, CudaError> {
        let mut arrays = self.arrays();
        let wire = arrays.resource(&resource)?;
        let [handle] = self.call(&CreateTexture { resource: wire, texture, view })?;
        let object = Object { context, resource, texture: Some(texture), view };
        arrays.objects.insert((ObjectKind::Texture, handle), object);
        Ok(handle)
    }

    /// Makes a surface object.
    pub(crate) fn create_surface(
        &self,
        context: u64,
        resource: CUDA_RESOURCE_DESC,
    ) -> Result<u64, CudaError> {
        let mut arrays = self.arrays();
        let [handle] = self.call(&CreateSurface { resource: arrays.resource(&resource)? })?;
        let object = Object { context, resource, texture: None, view: None };
        arrays.objects.insert((ObjectKind::Surface, handle), object);
        Ok(handle)
    }

    /// Destroys an object; 0 stands for none, and nothing is done. CUDA_ERROR_INVALID_VALUE if it
    /// is no object.
    pub(crate) fn destroy_object(&self, kind: ObjectKind, handle: u64) -> CUresult {
        if handle == 0 {
            return Ok(());
        }
        let mut arrays = self.arrays();
        self.state().check_open()?;
        arrays.objects.remove(&(kind, handle)).ok_or(CudaError::INVALID_VALUE)?;
        match kind {
            ObjectKind::Texture => self.posting()?.push(&DestroyTexture { texture: handle }),
            ObjectKind::Surface => self.posting()?.push(&DestroySurface { surface: handle }),
        }
    }

    /// Destroys what belongs to a context.
    pub(crate) fn end_arrays_of(&self, context: u64) {
        let (objects, mipmapped, arrays) = {
            let all = self.arrays();
            let objects = all.objects.iter().filter(|(_, object)| object.context == context);
            let mipmapped = all.mipmapped.iter().filter(|(_, m)| m.context == context);
            let arrays = all.arrays.iter().filter(|(_, a)| a.context == context && !a.is_level);
            (
                objects.map(|(name, _)| *name).collect::<Vec<_>>(),
                mipmapped.map(|(handle, _)| handle).collect::<Vec<_>>(),
                arrays.map(|(handle, _)| handle).collect::<Vec<_>>(),
            )
        };
        // Errors mean that the server is gone, and the objects with it.
        for (kind, handle) in objects {
            let _ = self.destroy_object(kind, handle);
        }
        for handle in mipmapped {
            let _ = self.destroy_mipmapped_array(wire_mipmapped(handle));
        }
        for handle in arrays {
            let _ = self.destroy_array(wire_array(handle));
        }
    }

    /// Restores arrays at another server, whose contents are lost, and objects, which are lost if they have
    /// another handle now.
    pub(in crate::program) fn declare_arrays(&self, losses: &mut Losses) -> CUresult {
        let (arrays, mipmapped, objects) = {
            let all = self.arrays();
            let arrays = all.arrays.iter().filter(|(_, array)| !array.is_level);
            let arrays: Vec<_> = arrays.map(|(handle, a)| (handle, a.descriptor)).collect();
            let mipmapped = all.mipmapped.iter();
            let mipmapped: Vec<_> =
                mipmapped.map(|(handle, m)| (handle, m.descriptor, m.levels.clone())).collect();
            let mut objects = Vec::new();
            for ((kind, handle), object) in &all.objects {
                objects.push((*kind, *handle, all.resource(&object.resource)?, *object));
            }
            (arrays, mipmapped, objects)
        };
        losses.arrays += (arrays.len() + mipmapped.len()) as u32;
        for (handle, descriptor) in arrays {
            patiently(|| self.call(&CreateArray::new(wire_array(handle), &descriptor)))?;
        }
        for (handle, descriptor, levels) in mipmapped {
            let mipmapped = wire_mipmapped(handle);
            let count = levels.len() as u32;
            patiently(|| self.call(&CreateMipmappedArray::new(mipmapped, &descriptor, count)))?;
            for (level, array) in levels.into_iter().enumerate() {
                if let Some(array) = array.map(wire_array) {
                    self.call(&NameLevel { mipmapped, level: level as u32, array })?;
                }
            }
        }
        for (kind, handle, resource, object) in objects {
            let made = match object.texture {
                Some(texture) => {
                    self.call(&CreateTexture { resource, texture, view: object.view })?
                }
                None => self.call(&CreateSurface { resource })?,
            };
            if made != [handle] {
                losses.objects += 1;
                self.arrays().objects.remove(&(kind, handle));
            }
        }
        Ok(())
    }
}
