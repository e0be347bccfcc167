//! Occupancy (the manual's "Occupancy"): asked of the server once for each function and launch; the
//! best block size is found by asking for each.

use crate::boundary::Out;
use crate::program::launch::occupancy::blocks_per_sm;
use crate::program::mode;
use core::ffi::{c_int, c_uint};
use cuda_api::attributes as attribute;
use cuda_api::constants::function_attribute;
use cuda_api::{CUfunction, CUoccupancyB2DSize, CUresult};

/// No device's blocks are larger: what a server says is not believed beyond that.
const BLOCK_SIZE_MAX: c_int = 1 << 16;

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<c_int>,
    function: CUfunction,
    block_size: c_int,
    shared_bytes: usize,
) -> CUresult {
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks,
        function,
        block_size,
        shared_bytes,
        0,
    )
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: Out<c_int>,
    function: CUfunction,
    block_size: c_int,
    shared_bytes: usize,
    flags: c_uint,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let function = client.function_here(function)?;
    blocks.required()?;
    blocks.set(blocks_per_sm(client, function, block_size, shared_bytes, flags)?)
}

pub(crate) fn cuOccupancyMaxPotentialBlockSize(
    min_grid_size: Out<c_int>,
    block_size: Out<c_int>,
    function: CUfunction,
    shared_of_block: CUoccupancyB2DSize,
    shared_bytes: usize,
    limit: c_int,
) -> CUresult {
    cuOccupancyMaxPotentialBlockSizeWithFlags(
        min_grid_size,
        block_size,
        function,
        shared_of_block,
        shared_bytes,
        limit,
        0,
    )
}

pub(crate) fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    min_grid_size: Out<c_int>,
    block_size: Out<c_int>,
    function: CUfunction,
    shared_of_block: CUoccupancyB2DSize,
    shared_bytes: usize,
    limit: c_int,
    flags: c_uint,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let function = client.function_here(function)?;
    min_grid_size.required()?;
    block_size.required()?;
    let device = client.description();
    let of_device = |number: u32| device.attributes[number as usize];
    let of_function = {
        let state = client.state();
        state.function(function.0)?.1.attributes[function_attribute::MAX_THREADS_PER_BLOCK as usize]
    };
    let warp = of_device(attribute::WARP_SIZE).clamp(1, BLOCK_SIZE_MAX);
    let mut largest = of_function.min(of_device(attribute::MAX_THREADS_PER_BLOCK));
    if limit > 0 {
        largest = largest.min(limit);
    }
    let threads_of_sm = of_device(attribute::MAX_THREADS_PER_MULTIPROCESSOR);
    let (mut best_size, mut best_blocks) = (0, 0);
    // Downwards from the largest, so that of equally good sizes the largest is found.
    let largest = largest.clamp(0, BLOCK_SIZE_MAX);
    let mut size = (largest + warp - 1) / warp * warp;
    while size > 0 {
        let candidate = size.min(largest);
        let shared = match shared_of_block {
            // SAFETY: the program gave the function to be called with block sizes.
            Some(shared_of_block) => unsafe { shared_of_block(candidate) },
            None => shared_bytes,
        };
        let blocks = blocks_per_sm(client, function, candidate, shared, flags)?;
        let threads = |blocks: c_int, size: c_int| i64::from(blocks) * i64::from(size);
        if threads(blocks, candidate) > threads(best_blocks, best_size) {
            (best_size, best_blocks) = (candidate, blocks);
        }
        if threads(best_blocks, best_size) >= i64::from(threads_of_sm) {
            break;
        }
        size -= warp;
    }
    min_grid_size.set(best_blocks.saturating_mul(client.sms_here()))?;
    block_size.set(best_size)
}
