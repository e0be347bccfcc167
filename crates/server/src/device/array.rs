//! Arrays of the provider, and the objects by which kernels read and write them.
//!
//! Where an array lies is the provider's alone: nothing here has an address.

use super::share::{gone, made};
use super::{ContextCall, Share};
use cuda_api::array::{self, ArrayShape};
use cuda_api::constants::memory_type;
use cuda_api::{
    BoxCopy, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D,
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUmipmappedArray,
    CUresult, CopyEnd, CudaError,
};
use std::ptr;
use std::rc::Rc;

/// Zeros written to an array at a time, bytes.
const ZEROS_BYTES_MAX: u64 = 4 << 20;

/// An array, or a level of a mipmapped one.
pub struct Array {
    share: Rc<Share>,
    raw: CUarray,
    shape: ArrayShape,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    /// What a level is of, which is there as long as it.
    whole: Option<Rc<MipmappedArray>>,
}

impl Array {
    /// Makes one, in which nothing is left of another client's.
    ///
    /// # Errors
    /// Those of [`ArrayShape::of`] and of the provider.
    pub fn new(share: &Rc<Share>, descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<Self, CudaError> {
        let shape = ArrayShape::of(descriptor)?;
        let mut raw = CUarray::NULL;
        // SAFETY: the local is written, the descriptor is read during the call.
        unsafe { share.device().table().cuArray3DCreate_v2(&mut raw, descriptor)? };
        made(&share.counts.arrays);
        let descriptor = *descriptor;
        let array = Self { share: share.clone(), raw, shape, descriptor, whole: None };
        array.scrub()?;
        Ok(array)
    }

    /// Overwrites what may be in it. Tenants have memory of their own, so nothing of another is.
    fn scrub(&self) -> CUresult {
        if self.share.is_tenant() {
            return Ok(());
        }
        let ArrayShape { width_bytes, rows, slices, .. } = self.shape;
        let rows_max = (ZEROS_BYTES_MAX / width_bytes).clamp(1, rows);
        let zeros = vec![0u8; (width_bytes * rows_max) as usize];
        let t = self.share.device().table();
        for (slice, row) in (0..slices)
            .flat_map(|slice| (0..rows).step_by(rows_max as usize).map(move |row| (slice, row)))
        {
            let (to, extent) = ([0, row, slice], [width_bytes, rows_max.min(rows - row), 1]);
            let source = CopyEnd {
                memory_type: memory_type::HOST,
                host: zeros.as_ptr().addr() as u64,
                pitch: width_bytes as usize,
                height: extent[1] as usize,
                ..CopyEnd::default()
            };
            let extent = extent.map(|n: u64| n as usize);
            let copy = BoxCopy { destination: self.end(to), source, extent };
            let copy = CUDA_MEMCPY3D::from(&copy);
            // SAFETY: the array is alive and holds the box; as many zeros are there, and the copy
            // is done when the call returns.
            unsafe { t.cuMemcpy3D_v2(&copy)? };
        }
        Ok(())
    }

    /// An end of a copy that begins at an offset: bytes of a row, rows, slices.
    pub(super) fn end(&self, offset: [u64; 3]) -> CopyEnd {
        CopyEnd {
            memory_type: memory_type::ARRAY,
            array: self.raw,
            offset: offset.map(|n| n as usize),
            ..CopyEnd::default()
        }
    }

    /// What it was made of.
    pub fn descriptor(&self) -> &CUDA_ARRAY3D_DESCRIPTOR {
        &self.descriptor
    }

    /// Its extents.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// True if it is a level of a mipmapped array.
    pub fn is_level_of(&self, mipmapped: &Rc<MipmappedArray>) -> bool {
        self.whole.as_ref().is_some_and(|whole| Rc::ptr_eq(whole, mipmapped))
    }

    /// True if it is a level of any mipmapped array.
    pub fn is_level(&self) -> bool {
        self.whole.is_some()
    }

    /// Length and alignment of its memory, bytes.
    pub fn requirements(&self) -> Result<(u64, u64), CudaError> {
        let mut answer = CUDA_ARRAY_MEMORY_REQUIREMENTS::default();
        let device = self.share.device();
        // SAFETY: the local is written, the array is alive.
        unsafe {
            let t = device.table();
            t.cuArrayGetMemoryRequirements(&mut answer, self.raw, device.ordinal())?;
        }
        Ok((answer.size as u64, answer.alignment as u64))
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if self.whole.is_none() {
            // SAFETY: the array is alive and this is its last use.
            let result = self.share.synchronising(ContextCall::DestroyArray, || unsafe {
                self.share.device().table().cuArrayDestroy(self.raw)
            });
            gone(&self.share.counts.arrays, result);
        }
    }
}

/// A mipmapped array.
pub struct MipmappedArray {
    share: Rc<Share>,
    raw: CUmipmappedArray,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    levels: u32,
}

impl MipmappedArray {
    /// Makes one of so many levels, as far as they can be halved; nothing is left of another
    /// client's in it.
    ///
    /// # Errors
    /// Those of [`ArrayShape::of`] and of the provider.
    pub fn new(
        share: &Rc<Share>,
        descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
        levels: u32,
    ) -> Result<Rc<Self>, CudaError> {
        ArrayShape::of(descriptor)?;
        let levels = levels.clamp(1, array::levels_max(descriptor));
        let mut raw = CUmipmappedArray::NULL;
        let t = share.device().table();
        // SAFETY: the local is written, the descriptor is read during the call.
        unsafe { t.cuMipmappedArrayCreate(&mut raw, descriptor, levels)? };
        made(&share.counts.arrays);
        let mipmapped =
            Rc::new(Self { share: share.clone(), raw, descriptor: *descriptor, levels });
        for level in 0..levels {
            mipmapped.level(level)?.scrub()?;
        }
        Ok(mipmapped)
    }

    /// Bytes of all levels' elements.
    pub fn bytes(&self) -> u64 {
        let level = |n| ArrayShape::of(&array::level_of(&self.descriptor, n));
        (0..self.levels).filter_map(|n| level(n).ok()).map(|shape| shape.bytes()).sum()
    }

    /// One of its levels. CUDA_ERROR_INVALID_VALUE if there are fewer.
    pub fn level(self: &Rc<Self>, level: u32) -> Result<Array, CudaError> {
        if level >= self.levels {
            return Err(CudaError::INVALID_VALUE);
        }
        let descriptor = array::level_of(&self.descriptor, level);
        let shape = ArrayShape::of(&descriptor)?;
        let mut raw = CUarray::NULL;
        // SAFETY: the local is written, the array is alive.
        unsafe { self.share.device().table().cuMipmappedArrayGetLevel(&mut raw, self.raw, level)? };
        let (share, whole) = (self.share.clone(), Some(self.clone()));
        Ok(Array { share, raw, shape, descriptor, whole })
    }

    /// Length and alignment of its memory, bytes.
    pub fn requirements(&self) -> Result<(u64, u64), CudaError> {
        let mut answer = CUDA_ARRAY_MEMORY_REQUIREMENTS::default();
        let device = self.share.device();
        // SAFETY: the local is written, the array is alive.
        unsafe {
            let t = device.table();
            t.cuMipmappedArrayGetMemoryRequirements(&mut answer, self.raw, device.ordinal())?;
        }
        Ok((answer.size as u64, answer.alignment as u64))
    }
}

impl Drop for MipmappedArray {
    fn drop(&mut self) {
        // SAFETY: the array is alive and this is its last use: its levels hold it.
        let result = self.share.synchronising(ContextCall::DestroyArray, || unsafe {
            self.share.device().table().cuMipmappedArrayDestroy(self.raw)
        });
        gone(&self.share.counts.arrays, result);
    }
}

/// What an object shows, checked.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// An array.
    Array(&'a Array),
    /// A mipmapped array.
    Mipmapped(&'a MipmappedArray),
    /// Memory, whose range was checked to be the session's.
    Memory(CUDA_RESOURCE_DESC),
}

impl Shown<'_> {
    fn describe(&self) -> CUDA_RESOURCE_DESC {
        use cuda_api::constants::resource_type::{ARRAY, MIPMAPPED_ARRAY};
        let of_handle = |kind, handle: usize| {
            let mut described = CUDA_RESOURCE_DESC { resType: kind, ..Default::default() };
            described.resource[0] = handle as u64;
            described
        };
        match self {
            Self::Array(array) => of_handle(ARRAY, array.raw.0),
            Self::Mipmapped(mipmapped) => of_handle(MIPMAPPED_ARRAY, mipmapped.raw.0),
            Self::Memory(described) => *described,
        }
    }
}

/// A texture or a surface object. What it shows may go before it: then a kernel that still reads
/// it reads what it must not rely on, as with a pointer.
pub struct ImageObject {
    share: Rc<Share>,
    handle: u64,
    is_surface: bool,
}

impl ImageObject {
    /// Makes a texture object.
    pub fn texture(
        share: &Rc<Share>,
        shown: Shown<'_>,
        texture: &CUDA_TEXTURE_DESC,
        view: Option<&CUDA_RESOURCE_VIEW_DESC>,
    ) -> Result<Self, CudaError> {
        let (resource, view) = (shown.describe(), view.map_or(ptr::null(), ptr::from_ref));
        Self::made_by(share, false, |handle| {
            // SAFETY: the local is written; the descriptions are read during the call, of which
            // the view may be NULL; arrays are alive, memory is the session's.
            unsafe { share.device().table().cuTexObjectCreate(handle, &resource, texture, view) }
        })
    }

    /// Makes a surface object.
    pub fn surface(share: &Rc<Share>, shown: Shown<'_>) -> Result<Self, CudaError> {
        let resource = shown.describe();
        Self::made_by(share, true, |handle| {
            // SAFETY: the local is written; the description is read during the call; an array in
            // it is alive.
            unsafe { share.device().table().cuSurfObjectCreate(handle, &resource) }
        })
    }

    fn made_by(
        share: &Rc<Share>,
        is_surface: bool,
        make: impl FnOnce(&mut u64) -> CUresult,
    ) -> Result<Self, CudaError> {
        let mut handle = 0;
        make(&mut handle)?;
        made(&share.counts.objects);
        Ok(Self { share: share.clone(), handle, is_surface })
    }

    /// The provider's handle, which kernels know it by.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// True for a surface object.
    pub fn is_surface(&self) -> bool {
        self.is_surface
    }
}

impl Drop for ImageObject {
    fn drop(&mut self) {
        let t = self.share.device().table();
        let result = match self.is_surface {
            // SAFETY: the object is alive and this is its last use.
            true => unsafe { t.cuSurfObjectDestroy(self.handle) },
            // SAFETY: as above.
            false => unsafe { t.cuTexObjectDestroy(self.handle) },
        };
        gone(&self.share.counts.objects, result);
    }
}
