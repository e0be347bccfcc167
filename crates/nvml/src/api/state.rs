//! How the device is: memory, how busy it is, clocks, modes.

use super::{Handle, functions};
use crate::out::Out;
use crate::status::{Answer, Failure};
use cuda_api::environment::OPENMPS_SOFT_PEER;
use provider::compute_mode::ComputeMode;
use std::ffi::{c_int, c_uint};

/// NVML_FEATURE_DISABLED.
const DISABLED: c_uint = 0;
/// NVML_GPU_VIRTUALIZATION_MODE_NONE.
const NOT_VIRTUAL: c_uint = 0;
/// NVML_P2P_STATUS_NOT_SUPPORTED.
const NO_PEER: c_uint = 1;
/// NVML_P2P_STATUS_OK.
const PEER: c_uint = 0;
/// NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO.
const CLOCK_MEMORY: c_uint = 2;
const CLOCK_VIDEO: c_uint = 3;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency_us: i64,
    kind: c_uint,
    status: c_uint,
    value: u64,
}

functions! {
    fn nvmlDeviceGetMemoryInfo(handle: Handle, memory: *mut Memory) {
        let device = handle.device()?;
        let (total, used) = device.memory_seen();
        memory.set(Memory { total, free: total - used, used })
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, memory: *mut MemoryV2) {
        let device = handle.device()?;
        let version = memory.get()?.version;
        if version != (2 << 24 | size_of::<MemoryV2>() as c_uint) {
            return Err(Failure::ARGUMENT_VERSION_MISMATCH);
        }
        let (total, used) = device.memory_seen();
        memory.set(MemoryV2 { version, total, reserved: 0, free: total - used, used })
    }

    fn nvmlDeviceGetUtilizationRates(handle: Handle, rates: *mut Utilization) {
        // What part of the time memory was in use is not known of ordinary memory.
        rates.set(Utilization { gpu: handle.device()?.busy_percent(), memory: 0 })
    }

    fn nvmlDeviceGetMemoryBusWidth(handle: Handle, bits: *mut c_uint) {
        bits.set(handle.device()?.memory_bus_bits)
    }

    fn nvmlDeviceGetClockInfo(handle: Handle, kind: c_uint, mhz: *mut c_uint) {
        clock(handle, kind, mhz)
    }

    fn nvmlDeviceGetMaxClockInfo(handle: Handle, kind: c_uint, mhz: *mut c_uint) {
        clock(handle, kind, mhz)
    }

    fn nvmlDeviceGetPersistenceMode(handle: Handle, mode: *mut c_uint) {
        handle.device()?;
        mode.set(DISABLED)
    }

    fn nvmlDeviceGetDisplayMode(handle: Handle, mode: *mut c_uint) {
        handle.device()?;
        mode.set(DISABLED)
    }

    fn nvmlDeviceGetDisplayActive(handle: Handle, active: *mut c_uint) {
        handle.device()?;
        active.set(DISABLED)
    }

    fn nvmlDeviceGetComputeMode(handle: Handle, mode: *mut c_uint) {
        mode.set(handle.device()?.compute_mode().number() as c_uint)
    }

    fn nvmlDeviceSetComputeMode(handle: Handle, mode: c_uint) {
        let mode = ComputeMode::ALL.into_iter().find(|known| known.number() as c_uint == mode);
        handle.device()?.set_compute_mode(mode.ok_or(Failure::NOT_SUPPORTED)?)
    }

    fn nvmlDeviceGetVirtualizationMode(handle: Handle, mode: *mut c_uint) {
        handle.device()?;
        mode.set(NOT_VIRTUAL)
    }

    fn nvmlDeviceIsMigDeviceHandle(handle: Handle, is_mig: *mut c_uint) {
        handle.device()?;
        is_mig.set(0)
    }

    fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, count: *mut c_uint) {
        handle.device()?;
        count.set(0)
    }

    fn nvmlDeviceGetP2PStatus(
        one: Handle, other: Handle, _what: c_uint, status: *mut c_uint,
    ) {
        // A device is no peer of itself.
        let peers = one.index()? != other.index()? && peers_are_linked();
        status.set(if peers { PEER } else { NO_PEER })
    }

    // The call succeeds and says of each field that it is not there.
    fn nvmlDeviceGetFieldValues(handle: Handle, count: c_int, values: *mut FieldValue) {
        handle.device()?;
        let count = usize::try_from(count).map_err(|_| Failure::INVALID_ARGUMENT)?;
        (0..count).try_for_each(|index| {
            let value = values.at(index).get()?;
            values.set_at(index, FieldValue { status: Failure::NOT_SUPPORTED.0, ..value })
        })
    }
}

/// Whether devices reach each other's memory: as the software GPU reads its variable.
fn peers_are_linked() -> bool {
    std::env::var(OPENMPS_SOFT_PEER).map_or(true, |value| value.trim() != "0")
}

/// The clocks of the model that the device presents: they neither rise nor fall.
fn clock(handle: Handle, kind: c_uint, mhz: Out<c_uint>) -> Answer {
    let device = handle.device()?;
    match kind {
        CLOCK_MEMORY => mhz.set(device.memory_clock_khz / 1000),
        CLOCK_VIDEO => Err(Failure::NOT_SUPPORTED),
        0 | 1 => mhz.set(device.clock_khz / 1000),
        _ => Err(Failure::INVALID_ARGUMENT),
    }
}
