//! Limits of cgroups' device memory: protocol 3's memory accounting, by NVML.

use super::{Handle, functions};
use crate::device::memory_limits;
use crate::out::Text;
use crate::status::Failure;

/// `nvmlSetMemoryLimits_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SetMemoryLimits {
    /// The cgroup's directory.
    name_space: Text,
    /// Bytes; 0 for none.
    soft: u64,
    /// Bytes; NVML_DEVICE_MEMORY_LIMIT_MAX, all ones, for none.
    hard: u64,
}

/// `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct GetMemoryLimits {
    set: SetMemoryLimits,
    used: u64,
}

functions! {
    fn nvmlDeviceSetMemoryLimits_v1(handle: Handle, limits: *mut SetMemoryLimits) {
        let (device, limits) = (handle.device()?, limits.get()?);
        if limits.soft > limits.hard {
            return Err(Failure::INVALID_ARGUMENT);
        }
        let place = limits.name_space;
        memory_limits::set(&device.uuid_text(), &place.get()?, limits.soft, limits.hard)
    }

    fn nvmlDeviceGetMemoryLimits_v1(handle: Handle, limits: *mut GetMemoryLimits) {
        let (device, asked) = (handle.device()?, limits.get()?.set);
        let place = asked.name_space;
        let known = memory_limits::get((handle.index()?, &device.uuid_text()), &place.get()?)?;
        let set = SetMemoryLimits { soft: known.soft, hard: known.hard, ..asked };
        limits.set(GetMemoryLimits { set, used: known.used })
    }
}
