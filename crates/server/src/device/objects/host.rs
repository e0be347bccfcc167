//! Host memory that client, server and device share, registered with the provider.

use crate::device::safe_calls::{HostAddress, Owned};
use crate::device::share::{gone, made};
use crate::device::{ContextCall, Share};
use cuda_api::constants::host_flags;
use cuda_api::{CUdeviceptr, CudaError};
use rustix::mm::{Advice, madvise};
use std::ffi::c_void;
use std::rc::Rc;

/// Host memory that the provider has pinned and mapped for the device.
pub struct HostRegistration {
    share: Rc<Share>,
    memory: Owned<HostAddress>,
    device_address: u64,
}

impl HostRegistration {
    /// Registers a range of this process' memory.
    ///
    /// # Safety
    /// The range must stay mapped while the registration lives.
    pub unsafe fn new(share: &Rc<Share>, address: u64, bytes: u64) -> Result<Self, CudaError> {
        let t = share.device().table();
        let pointer = address as *mut c_void;
        // The driver pins pages under its lock, which all launches need; that they are there by then shortens
        // that. Where the kernel does not know this, or has no memory, the driver finds out.
        if !share.is_tenant() {
            // SAFETY: the caller vouches for the range; its contents stay.
            let _ = unsafe { madvise(pointer, bytes as usize, Advice::LinuxPopulateWrite) };
        }
        let flags = host_flags::PORTABLE | host_flags::DEVICE_MAP;
        // SAFETY: the caller vouches for the range, which has no other registration.
        let memory = unsafe {
            t.cuMemHostRegister_v2(pointer, bytes as usize, flags)?;
            Owned::new_unchecked(HostAddress(address))
        };
        made(&share.counts.registrations);
        let mut registration = Self { share: share.clone(), memory, device_address: 0 };
        let mut device = CUdeviceptr(0);
        share.device().calls().cuMemHostGetDevicePointer_v2(&mut device, address)?;
        registration.device_address = device.0;
        Ok(registration)
    }

    /// The address at which the device sees the first byte.
    pub fn device_address(&self) -> u64 {
        self.device_address
    }
}

impl Drop for HostRegistration {
    fn drop(&mut self) {
        let (calls, memory) = (self.share.device().calls(), self.memory.take());
        // Nothing that was given the range runs any more, as the owner of a registration makes sure before it drops it.
        let result = self
            .share
            .synchronising(ContextCall::UnregisterHost, || calls.cuMemHostUnregister(memory));
        gone(&self.share.counts.registrations, result);
    }
}
