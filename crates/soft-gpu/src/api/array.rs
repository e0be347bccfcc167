//! CUDA arrays: memory whose elements have a format, for textures and surfaces to read.
//!
//! What a GPU lays out as it likes is here rows and slices of plain memory, which a texture unit
//! can read by the descriptor. An array's address is nobody's to know but ours.

use cuda_api::constants::{array_flags, array_format};
use cuda_api::*;

use super::copy::{End, Place};
use super::{Driver, devices, driver, exports, thread};
use crate::device::memory::AllocationKind;
use crate::device::tenant::TenantId;
use crate::error::{Error, Result};

/// What rows start at multiples of, bytes: what devices report for textures.
const ROW_ALIGN: u64 = 32;
/// Largest extent of an array along an axis, elements: beyond what any device's attributes allow.
const EXTENT_MAX: usize = 1 << 17;
/// Flags that an array may have.
const FLAGS: u32 = array_flags::LAYERED
    | array_flags::SURFACE_LDST
    | array_flags::CUBEMAP
    | array_flags::TEXTURE_GATHER;

/// An array.
pub(crate) struct Array {
    /// What the program asked for.
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    /// Address of the first element.
    pub(crate) address: u64,
    /// Bytes from one row to the next.
    pub(crate) pitch: u64,
    /// Bytes from one slice, or layer, to the next.
    pub(crate) slice: u64,
    pub(super) context: u64,
    tenant: TenantId,
}

/// Bytes of an element; INVALID_VALUE for what is no format.
fn element_bytes(format: u32, channels: u32) -> Result<u64> {
    use array_format::*;
    let channel = match format {
        UNSIGNED_INT8 | SIGNED_INT8 => 1,
        UNSIGNED_INT16 | SIGNED_INT16 | HALF => 2,
        UNSIGNED_INT32 | SIGNED_INT32 | FLOAT => 4,
        _ => return Err(Error::INVALID_VALUE),
    };
    match channels {
        1 | 2 | 4 => Ok(channel * u64::from(channels)),
        _ => Err(Error::INVALID_VALUE),
    }
}

impl Array {
    /// Bytes of a row's elements, rows of a slice, slices.
    fn extent(&self) -> [u64; 3] {
        let d = &self.descriptor;
        // Checked when the array was made.
        let element = element_bytes(d.Format, d.NumChannels).unwrap_or(0);
        [d.Width as u64 * element, d.Height.max(1) as u64, d.Depth.max(1) as u64]
    }

    /// The box at an offset, in bytes along rows, as one end of a copy. INVALID_VALUE if it
    /// reaches out of the array.
    fn end(&self, offset: [u64; 3], extent: [u64; 3]) -> Result<End> {
        let inside = |axis: usize| {
            offset[axis].checked_add(extent[axis]).is_some_and(|end| end <= self.extent()[axis])
        };
        if !(0..3).all(inside) {
            return Err(Error::INVALID_VALUE);
        }
        let [x, y, z] = offset;
        let address = self.address + z * self.slice + y * self.pitch + x;
        Ok(End { address, pitch: self.pitch, slice: self.slice, place: Place::Device })
    }
}

impl Driver {
    /// An array of this thread's tenant.
    pub(super) fn array(&self, array: CUarray) -> Result<std::sync::Arc<Array>> {
        self.arrays
            .get(array.0)
            .ok()
            .filter(|a| a.tenant == self.tenant().id)
            .ok_or(Error::INVALID_HANDLE)
    }

    /// A box of an array as one end of a copy, see [`Array::end`].
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
        let d = &descriptor;
        let element = element_bytes(d.Format, d.NumChannels)?;
        let layered = d.Flags & array_flags::LAYERED != 0;
        let cube = d.Flags & array_flags::CUBEMAP != 0;
        let extents = [d.Width, d.Height, d.Depth];
        let flat = d.Height == 0 && d.Depth != 0 && !layered;
        let cube_is_wrong = cube
            && (d.Width != d.Height
                || if layered { !d.Depth.is_multiple_of(6) } else { d.Depth != 6 });
        if d.Width == 0
            || extents.iter().any(|n| *n > EXTENT_MAX)
            || d.Flags & !FLAGS != 0
            || layered && d.Depth == 0
            || flat
            || cube_is_wrong
        {
            return Err(Error::INVALID_VALUE);
        }
        let pitch = (d.Width as u64 * element).next_multiple_of(ROW_ALIGN);
        // Extents are bounded, so a slice fits; all of them may not.
        let slice = pitch * d.Height.max(1) as u64;
        let bytes = slice.checked_mul(d.Depth.max(1) as u64).ok_or(Error::OUT_OF_MEMORY)?;
        let address = self.device.allocate(&tenant, context, bytes, 1, AllocationKind::Array)?;
        let array = Array { descriptor, address, pitch, slice, context, tenant: tenant.id };
        self.arrays.insert(array).map(CUarray)
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
        self.copy(stream.0, stream.1, synchronous, ends, [bytes as u64, 1, 1])
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
        let d = descriptor.get()?;
        let descriptor = CUDA_ARRAY3D_DESCRIPTOR {
            Width: d.Width,
            Height: d.Height,
            Depth: 0,
            Format: d.Format,
            NumChannels: d.NumChannels,
            Flags: 0,
        };
        array.set(driver.create_array(descriptor)?)
    }

    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) {
        let driver = driver()?;
        array.required()?;
        array.set(driver.create_array(descriptor.get()?)?)
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) {
        let driver = driver()?;
        thread::current()?;
        let d = driver.array(array)?.descriptor;
        descriptor.set(CUDA_ARRAY_DESCRIPTOR {
            Width: d.Width,
            Height: d.Height,
            Format: d.Format,
            NumChannels: d.NumChannels,
        })
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        let driver = driver()?;
        thread::current()?;
        descriptor.set(driver.array(array)?.descriptor)
    }

    fn cuArrayGetMemoryRequirements(
        requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: CUarray, device: CUdevice,
    ) {
        let driver = driver()?;
        devices::check(device)?;
        let array = driver.array(array)?;
        let size = (array.slice * array.extent()[2]) as usize;
        let alignment = crate::device::limits::CHUNK_BYTES as usize;
        requirements.set(CUDA_ARRAY_MEMORY_REQUIREMENTS {
            size: size.next_multiple_of(alignment),
            alignment,
            reserved: [0; 4],
        })
    }

    fn cuArrayDestroy(array: CUarray) {
        let driver = driver()?;
        let context = thread::current()?;
        driver.array(array)?;
        let removed = driver.arrays.remove(array.0)?;
        // As cuMemFree, it waits for what may still use the memory.
        let tenant = driver.tenant();
        let group = driver.device.group(context.number(), &tenant)?;
        let waited = driver.device.synchronize_group(group, &tenant);
        driver.device.free(removed.address, |kind| kind == AllocationKind::Array)?;
        waited
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
