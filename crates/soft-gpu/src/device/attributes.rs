//! Device attributes: what cuDeviceGetAttribute answers.
//!
//! Every number that a runtime may ask is answered; what a software GPU does not have is 0.

use cuda_api::attributes::*;

use crate::device::capability::REGISTERS_PER_SM;
use crate::device::limits::*;
use crate::device::settings::Settings;
use crate::error::{Error, Result};

/// Largest attribute number that is answered; newer runtimes ask for more than cuda.h 13.0 names.
pub const ATTRIBUTE_MAX: u32 = 150;

/// Size of the constant banks of a module, bytes.
const CONSTANT_BYTES: i32 = 64 << 10;
/// Last-level cache that programs tile for, bytes.
const L2_BYTES: i32 = 4 << 20;
/// Clock rates in kHz and bus width in bits: for programs that print or divide by them.
const CLOCK_KHZ: i32 = 1_000_000;
const MEMORY_CLOCK_KHZ: i32 = 1_000_000;
const MEMORY_BUS_BITS: i32 = 128;

/// Largest extents of textures and surfaces, before compute capability 6.0 and since. There are no
/// surfaces of cubes here.
const TEXTURE_LIMITS: &[(&[u32], i32, i32)] = &[
    (&[MAXIMUM_TEXTURE1D_WIDTH, MAXIMUM_TEXTURE2D_WIDTH], 65_536, 131_072),
    (&[MAXIMUM_TEXTURE2D_HEIGHT, MAXIMUM_SURFACE2D_HEIGHT], 65_536, 65_536),
    (&[MAXIMUM_SURFACE2D_WIDTH], 65_536, 131_072),
    (&[MAXIMUM_TEXTURE1D_LINEAR_WIDTH], 1 << 27, 1 << 28),
    (&[MAXIMUM_TEXTURE2D_LINEAR_WIDTH], 65_000, 131_072),
    (&[MAXIMUM_TEXTURE2D_LINEAR_HEIGHT], 65_000, 65_000),
    (&[MAXIMUM_TEXTURE2D_LINEAR_PITCH], 2_097_120, 2_097_120),
    (&[MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH], 16_384, 32_768),
    (&[MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT], 16_384, 32_768),
    (&[MAXIMUM_TEXTURE2D_GATHER_WIDTH, MAXIMUM_TEXTURE2D_GATHER_HEIGHT], 16_384, 32_768),
    (&[MAXIMUM_TEXTURE1D_LAYERED_WIDTH, MAXIMUM_SURFACE1D_LAYERED_WIDTH], 16_384, 32_768),
    (&[MAXIMUM_TEXTURE2D_LAYERED_WIDTH, MAXIMUM_TEXTURE2D_LAYERED_HEIGHT], 16_384, 32_768),
    (&[MAXIMUM_SURFACE2D_LAYERED_WIDTH, MAXIMUM_SURFACE2D_LAYERED_HEIGHT], 16_384, 32_768),
    (&[MAXIMUM_SURFACE1D_WIDTH], 16_384, 32_768),
    (&[MAXIMUM_TEXTURE1D_LAYERED_LAYERS, MAXIMUM_TEXTURE2D_LAYERED_LAYERS], 2048, 2048),
    (&[MAXIMUM_SURFACE1D_LAYERED_LAYERS, MAXIMUM_SURFACE2D_LAYERED_LAYERS], 2048, 2048),
    (&[MAXIMUM_TEXTURE3D_WIDTH, MAXIMUM_TEXTURE3D_HEIGHT], 4096, 16_384),
    (&[MAXIMUM_TEXTURE3D_DEPTH, MAXIMUM_SURFACE3D_DEPTH], 4096, 16_384),
    (&[MAXIMUM_SURFACE3D_WIDTH, MAXIMUM_SURFACE3D_HEIGHT], 4096, 16_384),
    (&[MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE], 2048, 8192),
    (&[MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE], 16_384, 32_768),
    (&[MAXIMUM_TEXTURECUBEMAP_WIDTH, MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH], 16_384, 32_768),
    (&[MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS], 2046, 2046),
];

/// The value of an attribute; INVALID_VALUE for a number that is none.
pub fn attribute(settings: &Settings, number: u32) -> Result<i32> {
    if number == 0 || number > ATTRIBUTE_MAX {
        return Err(Error::INVALID_VALUE);
    }
    let capability = settings.capability;
    let texels = |number| {
        let row = TEXTURE_LIMITS.iter().find(|row| row.0.contains(&number));
        row.map(|(_, before, since)| if capability.major < 6 { *before } else { *since })
    };
    Ok(match number {
        MAX_THREADS_PER_BLOCK => THREADS_PER_BLOCK_MAX as i32,
        MAX_BLOCK_DIM_X => BLOCK_DIM_MAX[0] as i32,
        MAX_BLOCK_DIM_Y => BLOCK_DIM_MAX[1] as i32,
        MAX_BLOCK_DIM_Z => BLOCK_DIM_MAX[2] as i32,
        MAX_GRID_DIM_X => GRID_DIM_MAX[0] as i32,
        MAX_GRID_DIM_Y => GRID_DIM_MAX[1] as i32,
        MAX_GRID_DIM_Z => GRID_DIM_MAX[2] as i32,
        MAX_SHARED_MEMORY_PER_BLOCK => SHARED_PER_BLOCK as i32,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => capability.shared_per_block_optin as i32,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => capability.shared_bytes as i32,
        RESERVED_SHARED_MEMORY_PER_BLOCK => capability.shared_reserved_per_block as i32,
        TOTAL_CONSTANT_MEMORY => CONSTANT_BYTES,
        WARP_SIZE => WARP_THREADS as i32,
        MAX_PITCH => PITCH_MAX as i32,
        MAX_REGISTERS_PER_BLOCK => capability.registers_per_block as i32,
        MAX_REGISTERS_PER_MULTIPROCESSOR => REGISTERS_PER_SM as i32,
        MAX_THREADS_PER_MULTIPROCESSOR => capability.threads() as i32,
        MAX_BLOCKS_PER_MULTIPROCESSOR => capability.blocks as i32,
        MULTIPROCESSOR_COUNT => settings.sms as i32,
        COMPUTE_CAPABILITY_MAJOR => capability.major as i32,
        COMPUTE_CAPABILITY_MINOR => capability.minor as i32,
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
        CLUSTER_LAUNCH => (settings.cluster_blocks_max() > 0).into(),
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
        | HOST_REGISTER_SUPPORTED
        | READ_ONLY_HOST_REGISTER_SUPPORTED
        | IPC_EVENT_SUPPORTED
        | CAN_TEX2D_GATHER
        | MEMORY_POOLS_SUPPORTED => 1,
        _ => texels(number).unwrap_or(0),
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
