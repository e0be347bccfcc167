//! A client's arrays, and its texture and surface objects.
//!
//! The client numbers its arrays; objects have the provider's handles, because kernels take them as
//! parameters. A session only finds what its client has made. An array takes the graphs with it
//! that copy from or to it, since the provider would follow its own handle in them.

use crate::account::Charge;
use crate::device::{Array, ImageObject, MipmappedArray, Shown};
use crate::session::Session;
use crate::session::handles::Table;
use crate::session::memory::Memory;
use channel::request::{
    ArrayRequirements, CreateArray, CreateMipmappedArray, CreateSurface, CreateTexture,
    DestroyArray, DestroyMipmappedArray, DestroySurface, DestroyTexture, MemoryRequirements,
    MipmappedRequirements, NameLevel, Resource,
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

/// What a client has. Fields are dropped in their order: objects before what they show, levels
/// before what they are of.
pub struct Arrays {
    /// By the provider's handle, and whether it is a surface.
    objects: HashMap<(u64, bool), ImageObject>,
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

    fn mipmapped(&self, mipmapped: CUmipmappedArray) -> Result<&Rc<MipmappedArray>, CudaError> {
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

    /// Drops everything.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.arrays.clear();
        self.mipmapped.clear();
    }
}

impl Session {
    pub(in crate::session) fn create_array(
        &mut self,
        request: CreateArray,
    ) -> Result<(), CudaError> {
        let handle = self.arrays.arrays.vacant(request.array.to_word())?;
        let (share, retired, descriptor) = (&self.share, &mut self.retired, request.descriptor());
        let mut make = || match retired.take_array(&descriptor) {
            Some(array) => Ok(array),
            None => Array::new(share, &descriptor),
        };
        let array = match self.memory.account.with_room(&mut make) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => {
                self.memory.account.with_room(|| Array::new(&self.share, &descriptor))?
            }
            array => array?,
        };
        let charge = self.memory.account.charge(array.shape().bytes())?;
        self.arrays.arrays.put(handle, (array, Some(charge)));
        Ok(())
    }

    pub(in crate::session) fn destroy_array(&mut self, request: DestroyArray) -> CUresult {
        let word = request.array.to_word();
        if self.arrays.array(request.array)?.is_level() {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.wait_idle()?;
        self.graphs.forget_array(word);
        let (array, _) = self.arrays.arrays.take(word)?;
        self.retired.array(array);
        Ok(())
    }

    pub(in crate::session) fn create_mipmapped_array(
        &mut self,
        request: CreateMipmappedArray,
    ) -> Result<(), CudaError> {
        let handle = self.arrays.mipmapped.vacant(request.mipmapped.to_word())?;
        let make = || MipmappedArray::new(&self.share, &request.descriptor(), request.levels);
        let array = match self.memory.account.with_room(make) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => {
                self.memory.account.with_room(make)?
            }
            array => array?,
        };
        let charge = self.memory.account.charge(array.bytes())?;
        self.arrays.mipmapped.put(handle, (array, charge));
        Ok(())
    }

    pub(in crate::session) fn name_level(&mut self, request: NameLevel) -> Result<(), CudaError> {
        let level = self.arrays.mipmapped(request.mipmapped)?.level(request.level)?;
        let handle = self.arrays.arrays.vacant(request.array.to_word())?;
        self.arrays.arrays.put(handle, (level, None));
        Ok(())
    }

    pub(in crate::session) fn destroy_mipmapped_array(
        &mut self,
        request: DestroyMipmappedArray,
    ) -> CUresult {
        let word = request.mipmapped.to_word();
        self.arrays.mipmapped.get(word)?;
        self.wait_idle()?;
        let (mipmapped, charge) = self.arrays.mipmapped.take(word)?;
        let graphs = &mut self.graphs;
        self.arrays.arrays.retain_named(|name, (array, _)| {
            let goes = array.is_level_of(&mipmapped);
            if goes {
                graphs.forget_array(name);
            }
            !goes
        });
        drop(charge);
        self.retired.mipmapped(mipmapped);
        Ok(())
    }

    pub(in crate::session) fn array_requirements(
        &mut self,
        request: ArrayRequirements,
    ) -> Result<MemoryRequirements, CudaError> {
        let (bytes, alignment_bytes) = self.arrays.array(request.array)?.requirements()?;
        Ok(MemoryRequirements { bytes, alignment_bytes })
    }

    pub(in crate::session) fn mipmapped_requirements(
        &mut self,
        request: MipmappedRequirements,
    ) -> Result<MemoryRequirements, CudaError> {
        let (bytes, alignment_bytes) = self.arrays.mipmapped(request.mipmapped)?.requirements()?;
        Ok(MemoryRequirements { bytes, alignment_bytes })
    }

    pub(in crate::session) fn create_texture(
        &mut self,
        request: CreateTexture,
    ) -> Result<[u64; 1], CudaError> {
        let shown = self.arrays.shown(&self.memory, &request.resource)?;
        let (texture, view) = (&request.texture, request.view.as_ref());
        let object = ImageObject::texture(&self.share, shown, texture, view)?;
        self.arrays.keep(object)
    }

    pub(in crate::session) fn create_surface(
        &mut self,
        request: CreateSurface,
    ) -> Result<[u64; 1], CudaError> {
        let shown = self.arrays.shown(&self.memory, &request.resource)?;
        let object = ImageObject::surface(&self.share, shown)?;
        self.arrays.keep(object)
    }

    pub(in crate::session) fn destroy_texture(&mut self, request: DestroyTexture) -> CUresult {
        self.destroy_object((request.texture, false))
    }

    pub(in crate::session) fn destroy_surface(&mut self, request: DestroySurface) -> CUresult {
        self.destroy_object((request.surface, true))
    }

    /// Kernels that were launched before may still read by the object.
    fn destroy_object(&mut self, name: (u64, bool)) -> CUresult {
        if !self.arrays.objects.contains_key(&name) {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.wait_idle()?;
        self.arrays.objects.remove(&name);
        Ok(())
    }
}
