//! Device attributes: what cuDeviceGetAttribute answers.
//!
//! Every number that a runtime may ask is answered; what a software GPU does not have is 0.

use cuda_api::attributes::*;

use super::limits::*;
use super::settings::Settings;
use crate::error::{Error, Result};

/// Largest attribute number that is answered; newer runtimes ask for more than cuda.h 13.0 names.
pub const ATTRIBUTE_MAX: u32 = 150;

/// CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK.
const RESERVED_SHARED_MEMORY_PER_BLOCK: u32 = 111;

/// Size of the constant banks of a module, bytes.
const CONSTANT_BYTES: i32 = 64 << 10;
/// Last-level cache that programs tile for, bytes.
const L2_BYTES: i32 = 4 << 20;
/// Clock rates in kHz and bus width in bits: for programs that print or divide by them.
const CLOCK_KHZ: i32 = 1_000_000;
const MEMORY_CLOCK_KHZ: i32 = 1_000_000;
const MEMORY_BUS_BITS: i32 = 128;

/// The value of an attribute; INVALID_VALUE for a number that is none.
pub fn attribute(settings: &Settings, number: u32) -> Result<i32> {
    if number == 0 || number > ATTRIBUTE_MAX {
        return Err(Error::INVALID_VALUE);
    }
    Ok(match number {
        MAX_THREADS_PER_BLOCK => THREADS_PER_BLOCK_MAX as i32,
        MAX_BLOCK_DIM_X => BLOCK_DIM_MAX[0] as i32,
        MAX_BLOCK_DIM_Y => BLOCK_DIM_MAX[1] as i32,
        MAX_BLOCK_DIM_Z => BLOCK_DIM_MAX[2] as i32,
        MAX_GRID_DIM_X => GRID_DIM_MAX[0] as i32,
        MAX_GRID_DIM_Y => GRID_DIM_MAX[1] as i32,
        MAX_GRID_DIM_Z => GRID_DIM_MAX[2] as i32,
        MAX_SHARED_MEMORY_PER_BLOCK => SHARED_PER_BLOCK as i32,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_PER_BLOCK_OPTIN as i32,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => SHARED_PER_SM as i32,
        RESERVED_SHARED_MEMORY_PER_BLOCK => SHARED_RESERVED_PER_BLOCK as i32,
        TOTAL_CONSTANT_MEMORY => CONSTANT_BYTES,
        WARP_SIZE => WARP_THREADS as i32,
        MAX_PITCH => PITCH_MAX as i32,
        MAX_REGISTERS_PER_BLOCK => REGISTERS_PER_BLOCK_MAX as i32,
        MAX_REGISTERS_PER_MULTIPROCESSOR => REGISTERS_PER_SM as i32,
        MAX_THREADS_PER_MULTIPROCESSOR => (WARPS_PER_SM_MAX * WARP_THREADS) as i32,
        MAX_BLOCKS_PER_MULTIPROCESSOR => BLOCKS_PER_SM_MAX as i32,
        MULTIPROCESSOR_COUNT => settings.sms as i32,
        COMPUTE_CAPABILITY_MAJOR => COMPUTE_MAJOR,
        COMPUTE_CAPABILITY_MINOR => COMPUTE_MINOR,
        CLOCK_RATE => CLOCK_KHZ,
        MEMORY_CLOCK_RATE => MEMORY_CLOCK_KHZ,
        GLOBAL_MEMORY_BUS_WIDTH => MEMORY_BUS_BITS,
        L2_CACHE_SIZE => L2_BYTES,
        SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        TEXTURE_ALIGNMENT | SURFACE_ALIGNMENT => 512,
        TEXTURE_PITCH_ALIGNMENT => 32,
        ASYNC_ENGINE_COUNT => 2,
        MEM_SYNC_DOMAIN_COUNT => 1,
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        MEMPOOL_SUPPORTED_HANDLE_TYPES => 1,
        // Where threads of any process may be: this host.
        HOST_NUMA_ID | NUMA_ID => -1,
        // A POSIX file descriptor is the one kind of handle that memory is shared by.
        HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        | VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED
        | GPU_OVERLAP
        | CAN_MAP_HOST_MEMORY
        | CONCURRENT_KERNELS
        | UNIFIED_ADDRESSING
        | STREAM_PRIORITIES_SUPPORTED
        | GLOBAL_L1_CACHE_SUPPORTED
        | LOCAL_L1_CACHE_SUPPORTED
        | MANAGED_MEMORY
        | CONCURRENT_MANAGED_ACCESS
        | DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        | HOST_NATIVE_ATOMIC_SUPPORTED
        | COMPUTE_PREEMPTION_SUPPORTED
        | CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        | CAN_USE_64_BIT_STREAM_MEM_OPS
        | CAN_USE_STREAM_WAIT_VALUE_NOR
        | COOPERATIVE_LAUNCH
        | CLUSTER_LAUNCH
        | HOST_REGISTER_SUPPORTED
        | READ_ONLY_HOST_REGISTER_SUPPORTED
        | IPC_EVENT_SUPPORTED
        | MEMORY_POOLS_SUPPORTED => 1,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_in_range_is_answered() {
        let settings = Settings::from_environment();
        for number in 1..=ATTRIBUTE_MAX {
            assert!(attribute(&settings, number).is_ok(), "{number}");
        }
        assert_eq!(attribute(&settings, 0), Err(Error::INVALID_VALUE));
        assert_eq!(attribute(&settings, ATTRIBUTE_MAX + 1), Err(Error::INVALID_VALUE));
        assert_eq!(attribute(&settings, COMPUTE_CAPABILITY_MAJOR), Ok(8));
        assert_eq!(attribute(&settings, MULTIPROCESSOR_COUNT), Ok(settings.sms as i32));
        assert_eq!(attribute(&settings, TCC_DRIVER), Ok(0));
    }
}
