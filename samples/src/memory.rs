//! Memory of the driver's, of the device and of the host, freed when dropped: plain allocations, without the events by which
//! cudarc keeps track of what uses them.

use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

use cudarc::driver::{CudaStream, DeviceRepr, DriverError, result, sys};

/// Memory of the device whose context was current.
#[derive(Debug)]
pub struct DeviceMemory {
    pub(crate) address: sys::CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// So many bytes of any content.
    pub fn new(bytes: usize) -> Result<Self, DriverError> {
        // SAFETY: freed when dropped; the device's memory has no invalid content.
        let address = unsafe { result::malloc_sync(bytes) }?;
        Ok(Self { address, bytes })
    }

    /// Where it is.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies to its beginning.
    pub fn write<T: DeviceRepr>(&self, from: &[T]) -> Result<(), DriverError> {
        assert!(size_of_val(from) <= self.bytes);
        // SAFETY: it has so many bytes, and the copy has ended before the return.
        unsafe { result::memcpy_htod_sync(self.address, from) }
    }

    /// Copies its beginning behind the work that is in a stream, and waits.
    pub fn read_behind<T: Number>(
        &self,
        stream: &CudaStream,
        to: &mut [T],
    ) -> Result<(), DriverError> {
        assert!(size_of_val(to) <= self.bytes);
        // SAFETY: as in `read`: what was copied has been waited for.
        unsafe {
            result::memcpy_dtoh_async(to, self.address, stream.cu_stream())?;
            result::stream::synchronize(stream.cu_stream())
        }
    }

    /// Copies its beginning.
    pub fn read<T: Number>(&self, to: &mut [T]) -> Result<(), DriverError> {
        assert!(size_of_val(to) <= self.bytes);
        // SAFETY: it has so many bytes, all of which make numbers; the copy has ended before the return.
        unsafe { result::memcpy_dtoh_sync(to, self.address) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: its own memory. An error cannot be reported from here.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// A number, for which any bytes are a value.
///
/// # Safety
/// Only for such types.
pub unsafe trait Number: DeviceRepr {}

// SAFETY: a number.
unsafe impl Number for u8 {}
// SAFETY: a number.
unsafe impl Number for u32 {}
// SAFETY: a number.
unsafe impl Number for f32 {}

/// Page-locked memory of the host.
#[derive(Debug)]
pub struct HostMemory(&'static mut [u8]);

impl HostMemory {
    /// So many bytes, all zero. Flags: `CU_MEMHOSTALLOC_*`.
    pub fn new(bytes: usize, flags: u32) -> Result<Self, DriverError> {
        // SAFETY: fresh memory of that size, freed when dropped.
        unsafe {
            let start = result::malloc_host(bytes, flags)?.cast::<u8>();
            start.write_bytes(0, bytes);
            Ok(Self(slice::from_raw_parts_mut(start, bytes)))
        }
    }
}

impl Deref for HostMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: its own memory. An error cannot be reported from here.
        let _ = unsafe { result::free_host(self.0.as_mut_ptr().cast()) };
    }
}

/// A word of page-locked host memory that the device sees too.
#[derive(Debug)]
pub struct SharedWord {
    word: NonNull<AtomicU32>,
    pub(crate) device: sys::CUdeviceptr,
    _memory: HostMemory,
}

impl SharedWord {
    /// A word that is 0.
    pub fn new() -> Result<Self, DriverError> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let mut memory = HostMemory::new(size_of::<AtomicU32>(), flags)?;
        let word = NonNull::from(&mut *memory).cast::<AtomicU32>();
        let mut device = 0;
        // SAFETY: a place for the address, and memory that was allocated with DEVICEMAP.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, word.as_ptr().cast(), 0) }
            .result()?;
        Ok(Self { word, device, _memory: memory })
    }

    /// Writes the word for the device to see.
    pub fn set(&self, value: u32) {
        // SAFETY: the memory is its own, of that size and page-aligned; the device only reads it.
        unsafe { self.word.as_ref() }.store(value, Ordering::SeqCst);
    }
}
