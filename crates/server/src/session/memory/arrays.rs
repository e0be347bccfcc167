//! A client's arrays, and its texture and surface objects.
//!
//! The client numbers its arrays; objects have the provider's handles, because kernels take them as
//! parameters. A session only finds what its client has made. An array takes the graphs with it
//! that copy from or to it, since the provider would follow its own handle in them.

use crate::account::Charge;
use crate::device::{Array, ImageObject, MipmappedArray, Shown};
use crate::session::handles::Table;
use crate::session::memory::Memory;
use channel::request::{
    ArrayRequirements, CreateArray, CreateMipmappedArray, CreateSurface, CreateTexture,
    DestroyArray, DestroyMipmappedArray, MemoryRequirements, MipmappedRequirements, NameLevel,
    Resource,
};
use cuda_api::array::element_bytes;
use cuda_api::constants::resource_type;
use cuda_api::handle::HandleKind;
use cuda_api::{CUDA_RESOURCE_DESC, CUarray, CUmipmappedArray, CUresult, CudaError, Word};
use std::collections::HashMap;
use std::rc::Rc;

/// Most arrays of a client, levels that it has asked for among them: programs have one for each
/// image that they work on.
pub const ARRAYS_MAX: usize = channel::limits::ARRAYS_MAX as usize;
/// Most texture and surface objects of a client: devices have room for about a million textures,
/// which all clients share.
pub const OBJECTS_MAX: usize = 65_536;

/// A texture's or surface's name: the provider's handle, and whether it is a surface.
pub(in crate::session) type ObjectName = (u64, bool);

/// What a client has. Fields are dropped in their order: objects before what they show, levels
/// before what they are of.
pub struct Arrays {
    objects: HashMap<ObjectName, ImageObject>,
    /// With what is charged for them: levels of mipmapped arrays are part of those.
    arrays: Table<(Array, Option<Charge>)>,
    mipmapped: Table<(Rc<MipmappedArray>, Charge)>,
}

impl Arrays {
    /// None.
    pub fn new() -> Self {
        Self {
            objects: HashMap::new(),
            arrays: Table::new(HandleKind::Array, ARRAYS_MAX),
            mipmapped: Table::new(HandleKind::MipmappedArray, ARRAYS_MAX),
        }
    }

    /// The array of a handle.
    pub fn array(&self, array: CUarray) -> Result<&Array, CudaError> {
        self.arrays.get(array.to_word()).map(|(array, _)| array)
    }

    pub(in crate::session) fn mipmapped(
        &self,
        mipmapped: CUmipmappedArray,
    ) -> Result<&Rc<MipmappedArray>, CudaError> {
        self.mipmapped.get(mipmapped.to_word()).map(|(mipmapped, _)| mipmapped)
    }

    /// What a resource stands for, checked.
    fn shown(&self, memory: &Memory, resource: &Resource) -> Result<Shown<'_>, CudaError> {
        if resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let [handle, format, third, height, pitch] = resource.words;
        let element = || element_bytes(format as u32, (format >> 32) as u32);
        let bytes = match resource.kind {
            resource_type::ARRAY => {
                return self.arrays.get(handle).map(|(array, _)| Shown::Array(array));
            }
            resource_type::MIPMAPPED_ARRAY => {
                return self
                    .mipmapped
                    .get(handle)
                    .map(|(mipmapped, _)| Shown::Mipmapped(mipmapped));
            }
            // What is said to be longer than the memory shows what there is: nothing of others.
            resource_type::LINEAR => {
                let mut part = CUDA_RESOURCE_DESC::from(resource);
                part.resource[2] = memory.covered(handle, third);
                return match part.resource[2] {
                    0 => Err(CudaError::INVALID_VALUE),
                    _ => Ok(Shown::Memory(part)),
                };
            }
            resource_type::PITCH2D => {
                let row = third.checked_mul(element()?);
                let last = height.checked_sub(1).and_then(|rows| rows.checked_mul(pitch));
                row.zip(last).and_then(|(row, last)| last.checked_add(row))
            }
            _ => None,
        };
        memory.device_range(handle, bytes.ok_or(CudaError::INVALID_VALUE)?)?;
        Ok(Shown::Memory(CUDA_RESOURCE_DESC::from(resource)))
    }

    fn keep(&mut self, object: ImageObject) -> Result<[u64; 1], CudaError> {
        if self.objects.len() >= OBJECTS_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = object.handle();
        self.objects.insert((handle, object.is_surface()), object);
        Ok([handle])
    }

    pub(in crate::session) fn create(
        &mut self,
        request: CreateArray,
        memory: &mut Memory,
    ) -> CUresult {
        let handle = self.arrays.vacant(request.array.to_word())?;
        let descriptor = request.descriptor();
        let array = memory.with_room(|memory| match memory.retired.take_array(&descriptor) {
            Some(array) => Ok(array),
            None => memory.account.with_room(|| Array::new(&memory.share, &descriptor)),
        })?;
        let charge = memory.account.charge(array.shape().bytes())?;
        self.arrays.put(handle, (array, Some(charge)));
        Ok(())
    }

    /// CUDA_ERROR_INVALID_HANDLE for what is no array that can be destroyed by itself.
    pub(in crate::session) fn check_whole(&self, array: CUarray) -> CUresult {
        match self.array(array)?.is_level() {
            true => Err(CudaError::INVALID_HANDLE),
            false => Ok(()),
        }
    }

    /// Destroys an array that nothing uses any more.
    pub(in crate::session) fn destroy(
        &mut self,
        request: DestroyArray,
        memory: &mut Memory,
    ) -> CUresult {
        let (array, _) = self.arrays.take(request.array.to_word())?;
        memory.retired.array(array);
        Ok(())
    }

    pub(in crate::session) fn create_mipmapped(
        &mut self,
        request: CreateMipmappedArray,
        memory: &mut Memory,
    ) -> CUresult {
        let handle = self.mipmapped.vacant(request.mipmapped.to_word())?;
        let (descriptor, levels) = (request.descriptor(), request.levels);
        let array = memory.with_room(|Memory { account, share, .. }| {
            account.with_room(|| MipmappedArray::new(share, &descriptor, levels))
        })?;
        let charge = memory.account.charge(array.bytes())?;
        self.mipmapped.put(handle, (array, charge));
        Ok(())
    }

    pub(in crate::session) fn name_level(&mut self, request: NameLevel) -> CUresult {
        let level = self.mipmapped(request.mipmapped)?.level(request.level)?;
        let handle = self.arrays.vacant(request.array.to_word())?;
        self.arrays.put(handle, (level, None));
        Ok(())
    }

    /// Destroys an array with its levels, which nothing uses any more. `is_gone` hears of each level.
    pub(in crate::session) fn destroy_mipmapped(
        &mut self,
        request: DestroyMipmappedArray,
        memory: &mut Memory,
        mut is_gone: impl FnMut(u64),
    ) -> CUresult {
        let (mipmapped, charge) = self.mipmapped.take(request.mipmapped.to_word())?;
        self.arrays.retain_named(|name, (array, _)| {
            let goes = array.is_level_of(&mipmapped);
            if goes {
                is_gone(name);
            }
            !goes
        });
        drop(charge);
        memory.retired.mipmapped(mipmapped);
        Ok(())
    }

    pub(in crate::session) fn requirements(
        &self,
        request: ArrayRequirements,
    ) -> Result<MemoryRequirements, CudaError> {
        let (bytes, alignment_bytes) = self.array(request.array)?.requirements()?;
        Ok(MemoryRequirements { bytes, alignment_bytes })
    }

    pub(in crate::session) fn mipmapped_requirements(
        &self,
        request: MipmappedRequirements,
    ) -> Result<MemoryRequirements, CudaError> {
        let (bytes, alignment_bytes) = self.mipmapped(request.mipmapped)?.requirements()?;
        Ok(MemoryRequirements { bytes, alignment_bytes })
    }

    pub(in crate::session) fn create_texture(
        &mut self,
        request: CreateTexture,
        memory: &Memory,
    ) -> Result<[u64; 1], CudaError> {
        let shown = self.shown(memory, &request.resource)?;
        let (texture, view) = (&request.texture, request.view.as_ref());
        let object = ImageObject::texture(&memory.share, shown, texture, view)?;
        self.keep(object)
    }

    pub(in crate::session) fn create_surface(
        &mut self,
        request: CreateSurface,
        memory: &Memory,
    ) -> Result<[u64; 1], CudaError> {
        let shown = self.shown(memory, &request.resource)?;
        let object = ImageObject::surface(&memory.share, shown)?;
        self.keep(object)
    }

    /// CUDA_ERROR_INVALID_HANDLE if there is no such texture or surface.
    pub(in crate::session) fn check_object(&self, object: ObjectName) -> CUresult {
        self.objects.contains_key(&object).then_some(()).ok_or(CudaError::INVALID_HANDLE)
    }

    /// Destroys a texture or surface that no kernel reads by any more.
    pub(in crate::session) fn destroy_object(&mut self, object: ObjectName) {
        self.objects.remove(&object);
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.arrays.clear();
        self.mipmapped.clear();
    }
}
