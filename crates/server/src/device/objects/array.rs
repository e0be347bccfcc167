//! Arrays of the provider, and the objects by which kernels read and write them.
//!
//! Where an array lies is the provider's alone: nothing here has an address.

use crate::device::safe_calls::{Description, Owned};
use crate::device::share::{gone, made};
use crate::device::{ContextCall, Share};
use cuda_api::array::{self, ArrayShape};
use cuda_api::constants::memory_type;
use cuda_api::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUmipmappedArray, CUresult, CopyEnd,
    CudaError, Memcpy3D,
};
use std::marker::PhantomData;
use std::rc::Rc;

/// Zeros written to an array at a time, bytes.
const ZEROS_BYTES_MAX: u64 = 4 << 20;

/// An array, or a level of a mipmapped one.
pub struct Array {
    share: Rc<Share>,
    raw: Owned<CUarray>,
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
        let mut raw = Owned::default();
        share.device().calls().cuArray3DCreate_v2(&mut raw, descriptor)?;
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
        let calls = self.share.device().calls();
        for (slice, row) in (0..slices)
            .flat_map(|slice| (0..rows).step_by(rows_max as usize).map(move |row| (slice, row)))
        {
            let (to, rows) = ([0, row, slice], rows_max.min(rows - row));
            let zeros = &zeros[..(width_bytes * rows) as usize];
            calls.cuMemcpy3D_v2(&Rows::new(self, to, zeros, width_bytes))?;
        }
        Ok(())
    }

    /// An end of a copy that begins at an offset: bytes of a row, rows, slices.
    pub(in crate::device) fn end(&self, offset: [u64; 3]) -> CopyEnd {
        CopyEnd {
            memory_type: memory_type::ARRAY,
            array: self.raw.live().raw(),
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
        let (calls, array) = (device.calls(), self.raw.live());
        calls.cuArrayGetMemoryRequirements(&mut answer, array, device.ordinal())?;
        Ok((answer.size as u64, answer.alignment as u64))
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if self.whole.is_none() {
            let (calls, raw) = (self.share.device().calls(), self.raw.take());
            let result =
                self.share.synchronising(ContextCall::DestroyArray, || calls.cuArrayDestroy(raw));
            gone(&self.share.counts.arrays, result);
        }
    }
}

/// A copy of whole rows of a slice to an array, which has them, from bytes of this process.
struct Rows<'a>(CUDA_MEMCPY3D, PhantomData<(&'a Array, &'a [u8])>);

impl<'a> Rows<'a> {
    fn new(to: &'a Array, at: [u64; 3], rows: &'a [u8], row_bytes: u64) -> Self {
        let (row_bytes, all) = (row_bytes as usize, rows.len());
        let source = CopyEnd {
            memory_type: memory_type::HOST,
            host: rows.as_ptr().addr() as u64,
            pitch: row_bytes,
            height: all / row_bytes,
            ..CopyEnd::default()
        };
        let extent = [row_bytes, all / row_bytes, 1];
        let copy = Memcpy3D { destination: to.end(at), source, extent };
        Self(CUDA_MEMCPY3D::from(&copy), PhantomData)
    }
}

// SAFETY: array and bytes are there for as long as it.
unsafe impl Description<CUDA_MEMCPY3D> for Rows<'_> {
    fn get(&self) -> *const CUDA_MEMCPY3D {
        &self.0
    }
}

/// A mipmapped array.
pub struct MipmappedArray {
    share: Rc<Share>,
    raw: Owned<CUmipmappedArray>,
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
        let mut raw = Owned::default();
        share.device().calls().cuMipmappedArrayCreate(&mut raw, descriptor, levels)?;
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
        let whole = self.raw.live().raw();
        // SAFETY: the local is written, the array is alive; the level keeps it, with which it goes.
        let raw = unsafe {
            self.share.device().table().cuMipmappedArrayGetLevel(&mut raw, whole, level)?;
            Owned::new_unchecked(raw)
        };
        let (share, whole) = (self.share.clone(), Some(self.clone()));
        Ok(Array { share, raw, shape, descriptor, whole })
    }

    /// Length and alignment of its memory, bytes.
    pub fn requirements(&self) -> Result<(u64, u64), CudaError> {
        let mut answer = CUDA_ARRAY_MEMORY_REQUIREMENTS::default();
        let device = self.share.device();
        let (calls, array) = (device.calls(), self.raw.live());
        calls.cuMipmappedArrayGetMemoryRequirements(&mut answer, array, device.ordinal())?;
        Ok((answer.size as u64, answer.alignment as u64))
    }
}

impl Drop for MipmappedArray {
    fn drop(&mut self) {
        let (calls, raw) = (self.share.device().calls(), self.raw.take());
        let result = self
            .share
            .synchronising(ContextCall::DestroyArray, || calls.cuMipmappedArrayDestroy(raw));
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

/// What an object shows, as the provider takes it.
struct CheckedResource<'a>(CUDA_RESOURCE_DESC, PhantomData<&'a Array>);

// SAFETY: arrays are there for as long as it; memory was checked to be the session's.
unsafe impl Description<CUDA_RESOURCE_DESC> for CheckedResource<'_> {
    fn get(&self) -> *const CUDA_RESOURCE_DESC {
        &self.0
    }
}

impl<'a> Shown<'a> {
    fn describe(&self) -> CheckedResource<'a> {
        use cuda_api::constants::resource_type::{ARRAY, MIPMAPPED_ARRAY};
        let of_handle = |kind, handle: usize| {
            let mut described = CUDA_RESOURCE_DESC { resType: kind, ..Default::default() };
            described.resource[0] = handle as u64;
            described
        };
        let described = match self {
            Self::Array(array) => of_handle(ARRAY, array.raw.live().raw().0),
            Self::Mipmapped(mipmapped) => of_handle(MIPMAPPED_ARRAY, mipmapped.raw.live().raw().0),
            Self::Memory(described) => *described,
        };
        CheckedResource(described, PhantomData)
    }
}

/// A texture or a surface object. What it shows may go before it: then a kernel that still reads
/// it reads what it must not rely on, as with a pointer.
pub struct ImageObject {
    share: Rc<Share>,
    handle: Owned<u64>,
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
        let (calls, resource) = (share.device().calls(), shown.describe());
        Self::made_by(share, false, |handle| {
            calls.cuTexObjectCreate(handle, &resource, texture, view)
        })
    }

    /// Makes a surface object.
    pub fn surface(share: &Rc<Share>, shown: Shown<'_>) -> Result<Self, CudaError> {
        let (calls, resource) = (share.device().calls(), shown.describe());
        Self::made_by(share, true, |handle| calls.cuSurfObjectCreate(handle, &resource))
    }

    fn made_by(
        share: &Rc<Share>,
        is_surface: bool,
        make: impl FnOnce(&mut Owned<u64>) -> CUresult,
    ) -> Result<Self, CudaError> {
        let mut handle = Owned::default();
        make(&mut handle)?;
        made(&share.counts.objects);
        Ok(Self { share: share.clone(), handle, is_surface })
    }

    /// The provider's handle, which kernels know it by.
    pub fn handle(&self) -> u64 {
        self.handle.live().raw()
    }

    /// True for a surface object.
    pub fn is_surface(&self) -> bool {
        self.is_surface
    }
}

impl Drop for ImageObject {
    fn drop(&mut self) {
        let (calls, handle) = (self.share.device().calls(), self.handle.take());
        let result = match self.is_surface {
            true => calls.cuSurfObjectDestroy(handle),
            false => calls.cuTexObjectDestroy(handle),
        };
        gone(&self.share.counts.objects, result);
    }
}
