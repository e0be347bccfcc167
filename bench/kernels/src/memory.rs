//! Memory on the device.

use anyhow::{Context, Result};
use cuda_api::{CUdeviceptr, DriverTable};

/// Memory on the device, given back when dropped.
pub(crate) struct Memory<'a> {
    table: &'a DriverTable,
    pub(crate) address: CUdeviceptr,
    bytes: usize,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(table: &'a DriverTable, contents: &[u8]) -> Result<Self> {
        let mut memory = Self { table, address: CUdeviceptr(0), bytes: contents.len() };
        // SAFETY: a provider's functions have cuda.h's signatures; the memory is as large as `contents`.
        unsafe {
            (table.cuMemAlloc_v2)(&mut memory.address, memory.bytes).context("device memory")?;
            (table.cuMemcpyHtoD_v2)(memory.address, contents.as_ptr().cast(), memory.bytes)
                .context("a copy to the device")?;
        }
        Ok(memory)
    }

    /// What it has now.
    pub(crate) fn contents(&self) -> Result<Vec<u8>> {
        let mut contents = vec![0; self.bytes];
        // SAFETY: as in `new`; both sides have as many bytes.
        unsafe {
            (self.table.cuMemcpyDtoH_v2)(contents.as_mut_ptr().cast(), self.address, self.bytes)
        }
        .context("a copy from the device")?;
        Ok(contents)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is this value's own; all work on it was waited for. None is refused.
        let _ = unsafe { (self.table.cuMemFree_v2)(self.address) };
    }
}
