//! Occupancy: how much of an SM a launch would fill.

use cuda_api::pointer::Out;
use cuda_api::*;

use super::prepare::{clusters_resident, largest_cluster};
use super::{driver, exports};
use crate::error::{Error, Result};

exports! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        num_blocks: *mut c_int, function: CUfunction, block_size: c_int, dynamic_smem_size: usize,
    ) {
        active_blocks(num_blocks, function, block_size, dynamic_smem_size)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        num_blocks: *mut c_int, function: CUfunction, block_size: c_int, dynamic_smem_size: usize,
        flags: c_uint,
    ) {
        // CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE changes nothing here.
        if flags > 1 {
            return Err(Error::INVALID_VALUE);
        }
        active_blocks(num_blocks, function, block_size, dynamic_smem_size)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        min_grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction,
        dynamic_shared: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int,
    ) {
        let found = potential(function, dynamic_shared, dynamic_smem_size, block_size_limit)?;
        block_size.set(found.0)?;
        min_grid_size.set(found.1)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        min_grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction,
        dynamic_shared: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Error::INVALID_VALUE);
        }
        let found = potential(function, dynamic_shared, dynamic_smem_size, block_size_limit)?;
        block_size.set(found.0)?;
        min_grid_size.set(found.1)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        dynamic_smem_size: *mut usize, function: CUfunction, num_blocks: c_int, block_size: c_int,
    ) {
        let driver = driver()?;
        let function = driver.function(function)?;
        let (blocks, threads) = (positive(num_blocks)?, positive(block_size)?);
        let capability = driver.device.settings.capability;
        let bytes = capability.dynamic_available(&function.need_for(threads), threads, blocks);
        dynamic_smem_size.set(bytes.ok_or(Error::INVALID_VALUE)? as usize)
    }

    fn cuOccupancyMaxActiveClusters(
        num_clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) {
        let driver = driver()?;
        let function = driver.function(function)?;
        num_clusters.set(clusters_resident(driver, &function, &config.get()?)? as i32)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        cluster_size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) {
        let driver = driver()?;
        let function = driver.function(function)?;
        cluster_size.set(largest_cluster(driver, &function, &config.get()?)? as i32)
    }
}

fn positive(value: i32) -> Result<u32> {
    u32::try_from(value).ok().filter(|n| *n > 0).ok_or(Error::INVALID_VALUE)
}

fn active_blocks(
    num_blocks: Out<i32>,
    function: CUfunction,
    block_size: i32,
    dynamic_bytes: usize,
) -> Result {
    let driver = driver()?;
    let function = driver.function(function)?;
    let threads = positive(block_size)?;
    let dynamic = u32::try_from(dynamic_bytes).unwrap_or(u32::MAX);
    let capability = driver.device.settings.capability;
    // What the kernel itself says of its blocks' size is not asked here.
    num_blocks.set(capability.resident(&function.need_for(threads), threads, dynamic).0 as i32)
}

/// The best block size and the smallest grid that fills the device with it.
fn potential(
    function: CUfunction,
    dynamic_shared: CUoccupancyB2DSize,
    dynamic_bytes: usize,
    limit: i32,
) -> Result<(i32, i32)> {
    let driver = driver()?;
    let function = driver.function(function)?;
    let all = function.info().max_threads_per_block;
    let most = match u32::try_from(limit).map_err(|_| Error::INVALID_VALUE)? {
        0 => all,
        limit => limit.min(all),
    };
    let settings = &driver.device.settings;
    let (threads, blocks) = settings.capability.best_block(&function.need(), most, |threads| {
        let bytes = match dynamic_shared {
            // SAFETY: the program gave this function to be called with a block size.
            Some(of) => unsafe { of(threads as i32) },
            None => dynamic_bytes,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    });
    Ok((threads as i32, (blocks * settings.sms) as i32))
}
