//! CUDA arrays: memory whose elements have a format, for textures and surfaces to read.
//!
//! What a GPU lays out as it likes is here rows and slices of plain memory, which a texture unit
//! can read by the descriptor. No program knows an array's address.

use std::sync::Arc;

use cuda_api::array::{ArrayShape, level_of, levels_max};
use cuda_api::*;
use simt::runtime::texture::row_bytes;

use super::copy::{Done, End, Place};
use super::{Driver, devices, driver, exports, thread};
use crate::device::limits::CHUNK_BYTES;
use crate::device::memory::AllocationKind;
use crate::device::tenant::TenantId;
use crate::error::{Error, Result};

/// An array, or a level of a mipmapped one.
pub(crate) struct Array {
    /// What the program asked for.
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    shape: ArrayShape,
    /// Address of the first element.
    pub(crate) address: u64,
    /// Bytes from one row to the next.
    pub(crate) pitch: u64,
    /// Bytes from one slice, or layer, to the next.
    pub(crate) slice: u64,
    pub(super) context: u64,
    tenant: TenantId,
    /// It is a level of a mipmapped array, which has the memory.
    is_level: bool,
}

/// A mipmapped array: its levels lie one behind the other.
pub(crate) struct MipmappedArray {
    /// The handle of each level.
    levels: Vec<CUarray>,
    /// The first level.
    pub(crate) first: Arc<Array>,
    /// Bytes of all levels.
    bytes: u64,
    pub(super) context: u64,
}

impl MipmappedArray {
    /// How many levels there are.
    pub(crate) fn levels(&self) -> u32 {
        self.levels.len() as u32
    }
}

/// Bytes of an array's memory, from row to row, and from slice to slice.
fn layout(shape: &ArrayShape) -> Result<[u64; 3]> {
    let pitch = row_bytes(shape.width_bytes / shape.element_bytes, shape.element_bytes);
    // Extents are bounded, so a slice fits; all of them may not.
    let slice = pitch * shape.rows;
    Ok([slice.checked_mul(shape.slices).ok_or(Error::OUT_OF_MEMORY)?, pitch, slice])
}

impl Array {
    /// The extent at an offset, in bytes along rows, as one end of a copy. INVALID_VALUE if it
    /// reaches out of the array.
    fn end(&self, offset: [u64; 3], extent: [u64; 3]) -> Result<End> {
        if !self.shape.holds(offset, extent) {
            return Err(Error::INVALID_VALUE);
        }
        let [x, y, z] = offset;
        let address = self.address + z * self.slice + y * self.pitch + x;
        Ok(End { address, pitch: self.pitch, slice: self.slice, place: Place::Device })
    }

    fn bytes(&self) -> u64 {
        self.slice * self.shape.slices
    }
}

/// What memory of that length is said to take.
fn requirements(bytes: u64) -> CUDA_ARRAY_MEMORY_REQUIREMENTS {
    let alignment = CHUNK_BYTES as usize;
    let size = (bytes as usize).next_multiple_of(alignment);
    CUDA_ARRAY_MEMORY_REQUIREMENTS { size, alignment, reserved: [0; 4] }
}

impl Driver {
    /// An array of this thread's tenant.
    pub(super) fn array(&self, array: CUarray) -> Result<Arc<Array>> {
        self.arrays
            .get(array.0)
            .ok()
            .filter(|a| a.tenant == self.tenant().id)
            .ok_or(Error::INVALID_HANDLE)
    }

    /// A mipmapped array of this thread's tenant.
    pub(super) fn mipmapped(&self, mipmapped: CUmipmappedArray) -> Result<Arc<MipmappedArray>> {
        self.mipmapped
            .get(mipmapped.0)
            .ok()
            .filter(|m| m.first.tenant == self.tenant().id)
            .ok_or(Error::INVALID_HANDLE)
    }

    /// A part of an array as one end of a copy, see [`Array::end`].
    pub(super) fn array_end(
        &self,
        array: CUarray,
        offset: [u64; 3],
        extent: [u64; 3],
    ) -> Result<End> {
        self.array(array)?.end(offset, extent)
    }

    fn create_array(&self, descriptor: CUDA_ARRAY3D_DESCRIPTOR) -> Result<CUarray> {
        let context = thread::current()?.number();
        let tenant = self.working_tenant()?;
        let shape = ArrayShape::of(&descriptor)?;
        let [bytes, pitch, slice] = layout(&shape)?;
        let address = self.device.allocate(&tenant, context, bytes, 1, AllocationKind::Array)?;
        let (tenant, is_level) = (tenant.id, false);
        let array = Array { descriptor, shape, address, pitch, slice, context, tenant, is_level };
        self.arrays.insert(array).map(CUarray)
    }

    fn create_mipmapped(
        &self,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
        levels: u32,
    ) -> Result<CUmipmappedArray> {
        let context = thread::current()?.number();
        let tenant = self.working_tenant()?;
        ArrayShape::of(&descriptor)?;
        let mut planned = Vec::new();
        let mut bytes = 0u64;
        for level in 0..levels.clamp(1, levels_max(&descriptor)) {
            let descriptor = level_of(&descriptor, level);
            let shape = ArrayShape::of(&descriptor)?;
            let [own, pitch, slice] = layout(&shape)?;
            planned.push((descriptor, shape, bytes, pitch, slice));
            bytes = bytes.checked_add(own).ok_or(Error::OUT_OF_MEMORY)?;
        }
        let base = self.device.allocate(&tenant, context, bytes, 1, AllocationKind::Array)?;
        let (tenant, is_level) = (tenant.id, true);
        let mut levels = Vec::new();
        for (descriptor, shape, offset, pitch, slice) in planned {
            let address = base + offset;
            let array =
                Array { descriptor, shape, address, pitch, slice, context, tenant, is_level };
            levels.push(CUarray(self.arrays.insert(array)?));
        }
        let first = self.arrays.get(levels[0].0)?;
        let whole = MipmappedArray { levels, first, bytes, context };
        self.mipmapped.insert(whole).map(CUmipmappedArray)
    }

    /// Waits for what may still use an array or an object of this thread's context, then frees its
    /// memory, as cuMemFree does. An error of that work is no error of this.
    pub(super) fn free_image(&self, address: u64, kind: AllocationKind) -> Result {
        let tenant = self.tenant();
        let group = self.device.group(thread::current()?.number(), &tenant)?;
        let _ = self.device.synchronize_group(group, &tenant);
        self.device.free(address, |found| found == kind)
    }

    /// Copies bytes of one row between an array and something else.
    fn copy_row(
        &self,
        stream: (CUstream, bool),
        synchronous: bool,
        dst: Row,
        src: Row,
        bytes: usize,
    ) -> Result {
        thread::current()?;
        let end = |row: Row| match row {
            Row::Array(array, offset) => {
                self.array_end(array, [offset as u64, 0, 0], [bytes as u64, 1, 1])
            }
            Row::Device(pointer) => Ok(End::linear(pointer.0, Place::Device)),
            Row::Host(address) => Ok(End::linear(address, Place::Host)),
        };
        let ends = (end(dst)?, end(src)?);
        self.copy(stream.0, stream.1, Done::of(synchronous), ends, [bytes as u64, 1, 1])
    }
}

/// One end of a copy of bytes of one row.
#[derive(Clone, Copy)]
enum Row {
    Array(CUarray, usize),
    Device(CUdeviceptr),
    Host(u64),
}

exports! {
    fn cuArrayCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR) {
        let driver = driver()?;
        array.required()?;
        array.set(driver.create_array(descriptor.get()?.into())?)
    }

    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) {
        let driver = driver()?;
        array.required()?;
        array.set(driver.create_array(descriptor.get()?)?)
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) {
        let driver = driver()?;
        thread::current()?;
        descriptor.set(driver.array(array)?.descriptor.into())
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        let driver = driver()?;
        thread::current()?;
        descriptor.set(driver.array(array)?.descriptor)
    }

    fn cuArrayGetMemoryRequirements(
        place: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: CUarray, device: CUdevice,
    ) {
        let driver = driver()?;
        devices::check(device)?;
        place.set(requirements(driver.array(array)?.bytes()))
    }

    fn cuArrayDestroy(array: CUarray) {
        let driver = driver()?;
        thread::current()?;
        if driver.array(array)?.is_level {
            return Err(Error::INVALID_HANDLE);
        }
        let removed = driver.arrays.remove(array.0)?;
        driver.free_image(removed.address, AllocationKind::Array)
    }

    fn cuMipmappedArrayCreate(
        mipmapped: *mut CUmipmappedArray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR,
        levels: c_uint,
    ) {
        let driver = driver()?;
        mipmapped.required()?;
        mipmapped.set(driver.create_mipmapped(descriptor.get()?, levels)?)
    }

    fn cuMipmappedArrayGetLevel(
        array: *mut CUarray, mipmapped: CUmipmappedArray, level: c_uint,
    ) {
        let driver = driver()?;
        thread::current()?;
        let mipmapped = driver.mipmapped(mipmapped)?;
        array.set(*mipmapped.levels.get(level as usize).ok_or(Error::INVALID_VALUE)?)
    }

    fn cuMipmappedArrayDestroy(mipmapped: CUmipmappedArray) {
        let driver = driver()?;
        thread::current()?;
        driver.mipmapped(mipmapped)?;
        let removed = driver.mipmapped.remove(mipmapped.0)?;
        for level in &removed.levels {
            driver.arrays.remove(level.0)?;
        }
        driver.free_image(removed.first.address, AllocationKind::Array)
    }

    fn cuMipmappedArrayGetMemoryRequirements(
        place: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, mipmapped: CUmipmappedArray,
        device: CUdevice,
    ) {
        let driver = driver()?;
        devices::check(device)?;
        place.set(requirements(driver.mipmapped(mipmapped)?.bytes))
    }

    fn cuMemcpyDtoA_v2(
        dst: CUarray, dst_offset: usize, src: CUdeviceptr, byte_count: usize,
    ) | cuMemcpyDtoA_v2_ptds per_thread {
        let (dst, src) = (Row::Array(dst, dst_offset), Row::Device(src));
        driver()?.copy_row((CUstream::NULL, per_thread), true, dst, src, byte_count)
    }

    fn cuMemcpyAtoD_v2(
        dst: CUdeviceptr, src: CUarray, src_offset: usize, byte_count: usize,
    ) | cuMemcpyAtoD_v2_ptds per_thread {
        let (dst, src) = (Row::Device(dst), Row::Array(src, src_offset));
        driver()?.copy_row((CUstream::NULL, per_thread), true, dst, src, byte_count)
    }

    fn cuMemcpyHtoA_v2(
        dst: CUarray, dst_offset: usize, src: *const c_void, byte_count: usize,
    ) | cuMemcpyHtoA_v2_ptds per_thread {
        let (dst, src) = (Row::Array(dst, dst_offset), Row::Host(src.cast::<u8>().address()));
        driver()?.copy_row((CUstream::NULL, per_thread), true, dst, src, byte_count)
    }

    fn cuMemcpyAtoH_v2(
        dst: *mut c_void, src: CUarray, src_offset: usize, byte_count: usize,
    ) | cuMemcpyAtoH_v2_ptds per_thread {
        let (dst, src) = (Row::Host(dst.address()), Row::Array(src, src_offset));
        driver()?.copy_row((CUstream::NULL, per_thread), true, dst, src, byte_count)
    }

    fn cuMemcpyAtoA_v2(
        dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, byte_count: usize,
    ) | cuMemcpyAtoA_v2_ptds per_thread {
        let (dst, src) = (Row::Array(dst, dst_offset), Row::Array(src, src_offset));
        driver()?.copy_row((CUstream::NULL, per_thread), true, dst, src, byte_count)
    }

    fn cuMemcpyHtoAAsync_v2(
        dst: CUarray, dst_offset: usize, src: *const c_void, byte_count: usize, stream: CUstream,
    ) | cuMemcpyHtoAAsync_v2_ptsz per_thread {
        let (dst, src) = (Row::Array(dst, dst_offset), Row::Host(src.cast::<u8>().address()));
        driver()?.copy_row((stream, per_thread), false, dst, src, byte_count)
    }

    fn cuMemcpyAtoHAsync_v2(
        dst: *mut c_void, src: CUarray, src_offset: usize, byte_count: usize, stream: CUstream,
    ) | cuMemcpyAtoHAsync_v2_ptsz per_thread {
        let (dst, src) = (Row::Host(dst.address()), Row::Array(src, src_offset));
        driver()?.copy_row((stream, per_thread), false, dst, src, byte_count)
    }
}
