//! Checks of launches: against the device's and the function's limits, and what attributes ask for.

pub(in crate::program) mod check;
pub(crate) mod occupancy;
pub(crate) mod posting;
pub(crate) mod submission;

use crate::program::Client;
use crate::program::launch::check::check;
use crate::program::launch::occupancy::blocks_per_sm;
use crate::program::launch::submission::Launched;

pub(crate) use crate::program::launch::check::{Geometry, Launch};

use crate::memory::known_variables::KnownVariables;
use channel::request::{
    LAUNCH_COOPERATIVE, LAUNCH_PROGRAMMATIC, LAUNCH_REMOTE_DOMAIN, cluster_flags, cluster_of,
    priority_flags,
};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use cuda_api::attributes as attribute;
use cuda_api::constants::launch_attribute;
use cuda_api::handle::Handle;
use cuda_api::{
    CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUevent, CUfunction, CUlaunchConfig, CUresult,
    CUstream, CudaError,
};

impl Client {
    /// Launches a kernel: from here each folder below is entered once, and none calls back.
    #[inline(always)]
    pub(crate) fn launch(&self, launch: &Launch<'_>) -> CUresult {
        let function = self.function_here(launch.function)?;
        // A thread's own stream is made here if need be, which must not happen under the lock; a
        // stream of the program's is looked up under the lock that the launch takes anyway.
        let literal = match launch.stream {
            CUstream::NULL | CU_STREAM_LEGACY | CU_STREAM_PER_THREAD => {
                Some(self.stream(launch.stream, launch.default)?)
            }
            _ => None,
        };
        match self.has_foreign_variables.load(Ordering::Relaxed) {
            false => loop {
                let launched = self.posting()?.launch(function, launch, literal, None)?;
                match launched {
                    Launched::In(_) => return Ok(()),
                    Launched::Behind(mark) => self.wait_to_launch(mark)?,
                }
            },
            true => self.launch_beside(function, launch, literal),
        }
    }

    /// As [`Self::launch`], for a program that knows addresses of variables that are the provider's: the
    /// kernel gets those of the present server, and what it may write there goes to the copies.
    #[cold]
    fn launch_beside(
        &self,
        function: CUfunction,
        launch: &Launch<'_>,
        literal: Option<Handle>,
    ) -> CUresult {
        let (stream, known) = loop {
            let connection = {
                let state = self.state();
                state.check_open()?;
                state.connection()
            };
            let mut known = KnownVariables::of(&self.memory());
            // Another server may have the variables elsewhere.
            let mut posting = self.posting_of(connection)?;
            let launched = posting.launch(function, launch, literal, Some(&mut known))?;
            drop(posting);
            match launched {
                Launched::In(stream) => break (stream, known),
                Launched::Behind(mark) => self.wait_to_launch(mark)?,
            }
        };
        // The launch is in flight, and must not be made again if a copy cannot be posted.
        for (address, bytes) in known.found() {
            if self.copy_back(address, bytes, stream).is_err() {
                self.write_unseen(address);
            }
        }
        Ok(())
    }
}

/// All blocks of a cooperative launch must be resident at once. CUDA_ERROR_NOT_SUPPORTED if the
/// device has no such launches, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if there is no room.
pub(crate) fn check_cooperative(
    client: &Client,
    function: CUfunction,
    geometry: &Geometry,
) -> CUresult {
    let device = client.description();
    if device.attributes[attribute::COOPERATIVE_LAUNCH as usize] == 0 {
        return Err(CudaError::NOT_SUPPORTED);
    }
    check(client, &client.state().function(function.0)?.1.attributes, geometry)?;
    let threads = geometry.block.iter().product::<c_uint>() as c_int;
    let shared = geometry.shared_bytes as usize;
    let fitting = blocks_per_sm(client, function, threads, shared, 0)?;
    let room = i64::from(fitting) * i64::from(client.sms_here());
    let blocks = geometry.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    match blocks <= room.max(0) as u64 {
        true => Ok(()),
        false => Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE),
    }
}

/// Events that a launch's attributes want recorded.
pub(crate) fn events_of(config: &CUlaunchConfig) -> Result<Vec<CUevent>, CudaError> {
    config.attributes()?.filter_map(|a| a.map(|a| a.event()).transpose()).collect()
}

/// Checks what a launch's flags ask for. A cluster's blocks are the device's to count.
pub(crate) fn check_flags(
    client: &Client,
    function: CUfunction,
    geometry: &Geometry,
    flags: u32,
) -> CUresult {
    match flags & LAUNCH_COOPERATIVE != 0 && cluster_of(flags).is_none() {
        true => check_cooperative(client, function, geometry),
        false => Ok(()),
    }
}

/// Checks a launch as a driver does before it accepts one.
pub(crate) fn check_launch(
    client: &Client,
    function: CUfunction,
    config: &CUlaunchConfig,
) -> CUresult {
    let (flags, geometry) = (launch_flags(client, config)?, Geometry::of(config));
    check(client, &client.state().function(function.0)?.1.attributes, &geometry)?;
    check_flags(client, function, &geometry, flags)
}

/// What a launch's attributes ask for. Hints about caches, clusters' sizes and links are ignored, as
/// they may be; CUDA_ERROR_NOT_SUPPORTED for what would change the result, CUDA_ERROR_INVALID_VALUE
/// for what no launch has.
pub(crate) fn launch_flags(client: &Client, config: &CUlaunchConfig) -> Result<u32, CudaError> {
    flags_within(client.priority_range(), config)
}

/// As [`launch_flags`], for a device with these priorities, the least and the greatest.
fn flags_within(
    (least, greatest): (c_int, c_int),
    config: &CUlaunchConfig,
) -> Result<u32, CudaError> {
    use launch_attribute::*;
    const CLUSTER_SCHEDULING_LAST: u32 = 2;
    let mut flags = 0;
    // The domain of memory synchronization, and where the launch maps each of the two.
    let (mut domain, mut domain_map) = (0, [0, 1]);
    for attribute in config.attributes()? {
        let attribute = attribute?;
        let word = |i: usize| {
            let bytes = &attribute.value[4 * i..4 * i + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        match attribute.id {
            IGNORE
            | ACCESS_POLICY_WINDOW
            | PREFERRED_CLUSTER_DIMENSION
            | PREFERRED_SHARED_MEMORY_CARVEOUT
            // Recorded by the call itself.
            | PROGRAMMATIC_EVENT
            | LAUNCH_COMPLETION_EVENT
            | NVLINK_UTIL_CENTRIC_SCHEDULING => {}
            CLUSTER_SCHEDULING_POLICY_PREFERENCE if word(0) <= CLUSTER_SCHEDULING_LAST => {}
            // Beyond the range, the nearest priority is meant, as for streams.
            PRIORITY => {
                let priority = (word(0) as c_int).min(least).max(greatest);
                flags |= priority_flags(least.abs_diff(priority));
            }
            MEM_SYNC_DOMAIN if word(0) <= 1 => domain = word(0) as usize,
            MEM_SYNC_DOMAIN_MAP => domain_map = [attribute.value[0], attribute.value[1]],
            COOPERATIVE if word(0) == 0 => {}
            COOPERATIVE => flags |= LAUNCH_COOPERATIVE,
            PROGRAMMATIC_STREAM_SERIALIZATION if word(0) == 0 => {}
            PROGRAMMATIC_STREAM_SERIALIZATION => flags |= LAUNCH_PROGRAMMATIC,
            CLUSTER_DIMENSION => {
                let cluster = [word(0), word(1), word(2)];
                flags |= cluster_flags(cluster).ok_or(CudaError::INVALID_CLUSTER_SIZE)?;
            }
            DEVICE_UPDATABLE_KERNEL_NODE => return Err(CudaError::NOT_SUPPORTED),
            // What no launch has, such as a stream's synchronization policy, and values that are none.
            _ => return Err(CudaError::INVALID_VALUE),
        }
    }
    // All domains but the first are one here: kernels that share a domain are ordered more strictly.
    if domain_map[domain] != 0 {
        flags |= LAUNCH_REMOTE_DOMAIN;
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::CUlaunchAttribute;

    #[test]
    fn the_domain_that_collective_libraries_ask_for_is_kept() {
        let mut config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
        for (domain, flags) in [(0, 0), (1, LAUNCH_REMOTE_DOMAIN)] {
            let mut attribute =
                CUlaunchAttribute::number(launch_attribute::MEM_SYNC_DOMAIN, domain);
            (config.attrs, config.numAttrs) = (&mut attribute, 1);
            assert_eq!(flags_within((0, -5), &config), Ok(flags));
        }
    }

    #[test]
    fn a_domain_is_the_one_that_the_launch_maps_it_to() {
        let mut config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
        let map = |default: u8, remote: u8| c_int::from_le_bytes([default, remote, 0, 0]);
        let cases = [(0, map(0, 1), false), (1, map(0, 0), false), (0, map(2, 0), true)];
        for (domain, map, is_remote) in cases {
            let mut attributes = [
                CUlaunchAttribute::number(launch_attribute::MEM_SYNC_DOMAIN_MAP, map),
                CUlaunchAttribute::number(launch_attribute::MEM_SYNC_DOMAIN, domain),
            ];
            (config.attrs, config.numAttrs) = (attributes.as_mut_ptr(), 2);
            let flags = if is_remote { LAUNCH_REMOTE_DOMAIN } else { 0 };
            assert_eq!(flags_within((0, -5), &config), Ok(flags), "{domain} {map:x}");
        }
    }

    #[test]
    fn a_launch_has_its_own_priority_within_the_devices_range() {
        let mut config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
        assert_eq!(flags_within((0, -5), &config), Ok(0));
        for (asked, levels) in [(0_i32, 0), (-3, 3), (-5, 5), (-9, 5), (7, 0)] {
            let mut attribute = CUlaunchAttribute::number(launch_attribute::PRIORITY, asked);
            (config.attrs, config.numAttrs) = (&mut attribute, 1);
            assert_eq!(flags_within((0, -5), &config), Ok(priority_flags(levels)), "{asked}");
        }
    }
}
