//! Host memory that the device may touch.

use cuda_api::constants::host_flags;
use cuda_api::*;

use super::{driver, exports, thread};
use crate::device::memory::PointerKind;
use crate::error::{Error, Result};

exports! {
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytesize: usize) {
        pointer.required()?;
        pointer.set(allocate(bytesize, host_flags::PORTABLE | host_flags::DEVICE_MAP)?)
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytesize: usize, flags: c_uint) {
        pointer.required()?;
        let known =
            host_flags::PORTABLE | host_flags::DEVICE_MAP | host_flags::WRITE_COMBINED;
        if flags & !known != 0 {
            return Err(Error::INVALID_VALUE);
        }
        pointer.set(allocate(bytesize, flags)?)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let driver = driver()?;
        // Nothing to free.
        if pointer.is_null() {
            return Ok(());
        }
        let context = thread::current()?;
        driver.graphs.unsafe_call()?;
        // As cuMemFree, it waits for what may still use the memory.
        let tenant = driver.tenant();
        let group = driver.device.group(context.number(), &tenant)?;
        let waited = driver.device.synchronize_group(group, &tenant);
        driver.device.free_host(pointer.address())?;
        waited
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytesize: usize, flags: c_uint) {
        let driver = driver()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        driver.graphs.unsafe_call()?;
        let known = host_flags::PORTABLE | host_flags::DEVICE_MAP | host_flags::READ_ONLY;
        if flags & !known != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let writable = flags & host_flags::READ_ONLY == 0;
        let (number, address, bytes) = (context.number(), pointer.address(), bytesize as u64);
        driver.device.register_host(&tenant, number, address, bytes, flags, writable)
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        let driver = driver()?;
        driver.device.unregister_host(pointer.address())
    }

    fn cuMemHostGetDevicePointer_v2(
        pdptr: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint,
    ) {
        let driver = driver()?;
        thread::current()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let address = pointer.address();
        match driver.device.memory.pointer(address).map(|p| p.kind) {
            Some(PointerKind::Host { .. }) => pdptr.set(CUdeviceptr(address)),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn cuMemHostGetFlags(p_flags: *mut c_uint, pointer: *mut c_void) {
        let driver = driver()?;
        thread::current()?;
        match driver.device.memory.pointer(pointer.address()).map(|p| p.kind) {
            // Unified addressing maps all of it for every context.
            Some(PointerKind::Host { flags, registered }) => {
                let shown = if registered { host_flags::PORTABLE } else { !host_flags::PORTABLE };
                p_flags.set(flags & shown | host_flags::DEVICE_MAP)
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }
}

fn allocate(bytes: usize, flags: u32) -> Result<*mut std::ffi::c_void> {
    let driver = driver()?;
    let context = thread::current()?;
    let tenant = driver.working_tenant()?;
    driver.graphs.unsafe_call()?;
    // Nothing is allocated, and that is no error.
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let address = driver.device.allocate_host(&tenant, context.number(), bytes as u64, flags)?;
    Ok(address as *mut _)
}
