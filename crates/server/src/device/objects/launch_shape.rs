//! Launch shape: grid, block and attributes of one launch.

use crate::device::safe_calls::{Description, Live};
use cuda_api::constants::launch_attribute;
use cuda_api::{CUlaunchAttribute, CUlaunchConfig, CUstream};
use std::marker::PhantomData;

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// All blocks are resident at once and may wait for each other.
    pub cooperative: bool,
    /// The kernel may begin before the one ahead of it has ended.
    pub programmatic: bool,
    /// It is of the remote memory synchronization domain.
    pub remote_domain: bool,
    /// Blocks of a cluster, if the launch says so.
    pub cluster: Option<[u32; 3]>,
    /// The provider's priority, if it is not the stream's.
    pub priority: Option<i32>,
}

impl LaunchShape {
    /// One block of so many threads.
    pub(in crate::device) const fn one_block(threads: u32) -> Self {
        Self {
            grid: [1; 3],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            programmatic: false,
            remote_domain: false,
            cluster: None,
            priority: None,
        }
    }
}

/// CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE.
const MEM_SYNC_DOMAIN_REMOTE: u32 = 1;

/// Kinds of attributes that a launch can have here.
const LAUNCH_ATTRIBUTES: usize = 5;

/// A launch's shape as the provider takes it, which leads to the launch's attributes.
pub(in crate::device) struct LaunchConfig<'a>(
    CUlaunchConfig,
    PhantomData<&'a mut CUlaunchAttribute>,
);

// SAFETY: it has the stream and the attributes for as long as it is there.
unsafe impl Description<CUlaunchConfig> for LaunchConfig<'_> {
    fn get(&self) -> *const CUlaunchConfig {
        &self.0
    }
}

impl LaunchShape {
    pub(in crate::device) fn is_plain(&self) -> bool {
        !self.cooperative
            && !self.programmatic
            && !self.remote_domain
            && self.cluster.is_none()
            && self.priority.is_none()
    }

    /// Its attributes as the provider wants them, and how many there are.
    pub(in crate::device) fn attributes(&self) -> ([CUlaunchAttribute; LAUNCH_ATTRIBUTES], u32) {
        const NONE: CUlaunchAttribute =
            CUlaunchAttribute { id: launch_attribute::IGNORE, pad: [0; 4], value: [0; 64] };
        let mut attributes = [NONE; LAUNCH_ATTRIBUTES];
        let mut count = 0;
        let mut add = |id: u32, words: [u32; 3]| {
            let attribute = &mut attributes[count];
            attribute.id = id;
            for (bytes, word) in attribute.value.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            count += 1;
        };
        if let Some(cluster) = self.cluster {
            add(launch_attribute::CLUSTER_DIMENSION, cluster);
        }
        if self.cooperative {
            add(launch_attribute::COOPERATIVE, [1, 0, 0]);
        }
        if self.programmatic {
            add(launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0, 0]);
        }
        if self.remote_domain {
            add(launch_attribute::MEM_SYNC_DOMAIN, [MEM_SYNC_DOMAIN_REMOTE, 0, 0]);
        }
        if let Some(priority) = self.priority {
            add(launch_attribute::PRIORITY, [priority as u32, 0, 0]);
        }
        (attributes, count as u32)
    }

    /// A launch of it in a stream, with its attributes.
    pub(in crate::device) fn config<'a>(
        &self,
        stream: Live<'a, CUstream>,
        (attributes, count): &'a mut ([CUlaunchAttribute; LAUNCH_ATTRIBUTES], u32),
    ) -> LaunchConfig<'a> {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        let config = CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: self.shared_bytes,
            stream: stream.raw(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: *count,
        };
        LaunchConfig(config, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_domain_is_an_attribute_of_the_launch() {
        let plain = LaunchShape::one_block(32);
        assert!(plain.is_plain());
        assert!(!LaunchShape { priority: Some(0), ..plain }.is_plain());
        let remote = LaunchShape { remote_domain: true, cluster: Some([4, 1, 1]), ..plain };
        assert!(!remote.is_plain());
        let (attributes, count) = remote.attributes();
        let ids = attributes[..count as usize].iter().map(|attribute| attribute.id);
        assert!(ids.eq([launch_attribute::CLUSTER_DIMENSION, launch_attribute::MEM_SYNC_DOMAIN]));
        assert_eq!(attributes[1].value[..4], MEM_SYNC_DOMAIN_REMOTE.to_le_bytes());
    }
}
