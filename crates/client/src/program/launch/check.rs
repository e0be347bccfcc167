//! Launch parameters: a launch as the program asks for it, and its check against limits.

use crate::boundary::Out;
use crate::program::Client;
use crate::stream::DefaultStream;
use channel::request::FUNCTION_ATTRIBUTES;
use core::ffi::{c_uint, c_void};
use cuda_api::attributes as attribute;
use cuda_api::constants::function_attribute;
use cuda_api::{CUfunction, CUlaunchConfig, CUresult, CUstream, CudaError};

/// What a launch asks for.
pub(crate) struct Geometry {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
}

impl Geometry {
    /// Of a configuration.
    pub(crate) fn of(config: &CUlaunchConfig) -> Self {
        Self {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
        }
    }
}

/// A kernel's launch as a program asks for it.
pub(crate) struct Launch<'g> {
    pub(crate) function: CUfunction,
    pub(crate) geometry: &'g Geometry,
    pub(crate) stream: CUstream,
    /// What stream NULL stands for.
    pub(crate) default: DefaultStream,
    /// See [`LaunchKernel`](channel::request::LaunchKernel).
    pub(crate) flags: u32,
    pub(crate) kernel_params: Out<*mut c_void>,
    pub(crate) extra: Out<*mut c_void>,
}

/// Checks a launch against the device's and the function's limits, as a driver does before it
/// accepts one; `own` are the function's attributes, by CUfunction_attribute.
#[inline]
pub(in crate::program) fn check(
    client: &Client,
    own: &[i32; FUNCTION_ATTRIBUTES],
    geometry: &Geometry,
) -> CUresult {
    let device = client.description();
    let limit = |number: u32| device.attributes[number as usize] as c_uint;
    let own = |number: u32| own[number as usize];
    let limits = [
        (geometry.grid[0], attribute::MAX_GRID_DIM_X),
        (geometry.grid[1], attribute::MAX_GRID_DIM_Y),
        (geometry.grid[2], attribute::MAX_GRID_DIM_Z),
        (geometry.block[0], attribute::MAX_BLOCK_DIM_X),
        (geometry.block[1], attribute::MAX_BLOCK_DIM_Y),
        (geometry.block[2], attribute::MAX_BLOCK_DIM_Z),
    ];
    if limits.into_iter().any(|(value, number)| value == 0 || value > limit(number)) {
        return Err(CudaError::INVALID_VALUE);
    }
    let threads = geometry.block.iter().map(|n| u64::from(*n)).product::<u64>();
    if threads > u64::from(limit(attribute::MAX_THREADS_PER_BLOCK)) {
        return Err(CudaError::INVALID_VALUE);
    }
    if threads > own(function_attribute::MAX_THREADS_PER_BLOCK).max(0) as u64 {
        // Either registers are short or the program itself said that fewer are the most.
        let registers = threads * own(function_attribute::NUM_REGS).max(0) as u64;
        return Err(match registers > u64::from(limit(attribute::MAX_REGISTERS_PER_BLOCK)) {
            true => CudaError::LAUNCH_OUT_OF_RESOURCES,
            false => CudaError::INVALID_VALUE,
        });
    }
    let shared_max = own(function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES).max(0) as c_uint;
    match geometry.shared_bytes <= shared_max {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
    }
}
