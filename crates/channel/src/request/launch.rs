//! The request that matters most: a kernel's launch. And one question about launches.

use super::payloads;
use crate::payload::{Malformed, Payload, Reader, Sink, words_of};
use crate::region::RECORD_BYTES_MAX;
use cuda_api::{CUfunction, CUstream};

pub use cuda_api::constants::PARAMETER_BYTES_MAX;

/// Flag of [`LaunchKernel`]: all blocks must be resident together.
pub const LAUNCH_COOPERATIVE: u32 = 1;
/// Flag of [`LaunchKernel`]: the kernel may begin before the one ahead of it in its stream has
/// ended, and waits for it itself.
pub const LAUNCH_PROGRAMMATIC: u32 = 2;

/// Flag of [`LaunchKernel`]: the kernel is of the remote memory synchronization domain, so that its fences, which wait
/// for memory of other devices, and those of other kernels do not wait for each other.
pub const LAUNCH_REMOTE_DOMAIN: u32 = 4;
/// Flag of [`LaunchKernel`]: the launch has a priority of its own, see [`priority_flags`].
pub const LAUNCH_PRIORITY: u32 = 8;
/// Bits of the flags that hold a launch's own priority.
const PRIORITY_SHIFT: u32 = 4;
const PRIORITY_MASK: u32 = 7;
/// All flags of [`LaunchKernel`] that say its priority.
pub const LAUNCH_PRIORITY_FLAGS: u32 = LAUNCH_PRIORITY | PRIORITY_MASK << PRIORITY_SHIFT;
/// Bits of the flags that hold the size of a cluster, eight for each dimension; 0 for none.
const CLUSTER_SHIFT: u32 = 8;
const CLUSTER_BITS: u32 = 8;
const CLUSTER_MASK: u32 = (1 << CLUSTER_BITS) - 1;
/// All flags of [`LaunchKernel`].
pub const LAUNCH_FLAGS: u32 = LAUNCH_COOPERATIVE
    | LAUNCH_PROGRAMMATIC
    | LAUNCH_REMOTE_DOMAIN
    | LAUNCH_PRIORITY_FLAGS
    | u32::MAX << CLUSTER_SHIFT;

/// A launch's own priority as bits of its flags: by how many levels it is above the device's least
/// priority. Devices have six levels; 7 stands for more.
pub const fn priority_flags(levels: u32) -> u32 {
    let levels = if levels > PRIORITY_MASK { PRIORITY_MASK } else { levels };
    LAUNCH_PRIORITY | levels << PRIORITY_SHIFT
}

/// By how many levels a launch's own priority is above the device's least one; `None` if it has its
/// stream's priority.
pub const fn priority_of(flags: u32) -> Option<u32> {
    match flags & LAUNCH_PRIORITY {
        0 => None,
        _ => Some(flags >> PRIORITY_SHIFT & PRIORITY_MASK),
    }
}

/// The size of a cluster in blocks as bits of a launch's flags. `None` if a dimension is 0 or
/// beyond what the bits hold. Devices' clusters have 16 blocks at most, but programs ask for more
/// to find that out.
pub const fn cluster_flags(blocks: [u32; 3]) -> Option<u32> {
    let [x, y, z] = blocks;
    if x == 0 || y == 0 || z == 0 || x > CLUSTER_MASK || y > CLUSTER_MASK || z > CLUSTER_MASK {
        return None;
    }
    Some((x | y << CLUSTER_BITS | z << (2 * CLUSTER_BITS)) << CLUSTER_SHIFT)
}

/// The size of a cluster that a launch's flags ask for; `None` if they ask for none.
pub const fn cluster_of(flags: u32) -> Option<[u32; 3]> {
    let bits = flags >> CLUSTER_SHIFT;
    let (y, z) = (bits >> CLUSTER_BITS & CLUSTER_MASK, bits >> (2 * CLUSTER_BITS) & CLUSTER_MASK);
    match [bits & CLUSTER_MASK, y, z] {
        [0, _, _] | [_, 0, _] | [_, _, 0] => None,
        cluster => Some(cluster),
    }
}

/// cuLaunchKernel and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchKernel<'a> {
    /// The kernel.
    pub function: CUfunction,
    /// The stream.
    pub stream: CUstream,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// [`LAUNCH_COOPERATIVE`], [`LAUNCH_PROGRAMMATIC`], [`LAUNCH_REMOTE_DOMAIN`], [`priority_flags`]
    /// and [`cluster_flags`].
    pub flags: u32,
    /// The parameters, each at its offset: at most [`PARAMETER_BYTES_MAX`].
    pub parameters: &'a [u8],
}

/// Words before the parameters.
const FIXED_WORDS: usize = 7;

const _: () =
    assert!(8 * (1 + FIXED_WORDS + words_of(PARAMETER_BYTES_MAX)) as u64 <= RECORD_BYTES_MAX);

impl<'a> Payload<'a> for LaunchKernel<'a> {
    #[inline(always)]
    fn words(&self) -> usize {
        FIXED_WORDS + words_of(self.parameters.len())
    }

    #[inline(always)]
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.function.0 as u64);
        sink.word(self.stream.0 as u64);
        sink.pair(self.grid[0], self.grid[1]);
        sink.pair(self.grid[2], self.block[0]);
        sink.pair(self.block[1], self.block[2]);
        sink.pair(self.shared_bytes, self.flags);
        sink.word(self.parameters.len() as u64);
        sink.bytes(self.parameters);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let function = reader.value()?;
        let stream = reader.value()?;
        let (grid_x, grid_y) = reader.pair()?;
        let (grid_z, block_x) = reader.pair()?;
        let (block_y, block_z) = reader.pair()?;
        let (shared_bytes, flags) = reader.pair()?;
        let length = reader.length(PARAMETER_BYTES_MAX)?;
        Ok(Self {
            function,
            stream,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            flags,
            parameters: reader.bytes(length)?,
        })
    }
}

payloads! {
    /// How many clusters of a launch the device holds at a time.
    CountClusters {
        /// The kernel.
        function: CUfunction,
        /// Blocks in x.
        grid_x: u32,
        /// Blocks in y.
        grid_y: u32,
        /// Blocks in z.
        grid_z: u32,
        /// Threads of a block in x.
        block_x: u32,
        /// Threads of a block in y.
        block_y: u32,
        /// Threads of a block in z.
        block_z: u32,
        /// Dynamic shared memory of a block, bytes.
        shared_bytes: u32,
        /// As [`LaunchKernel::flags`].
        flags: u32,
    }

    /// Reply to [`CountClusters`].
    ClusterCount {
        /// How many.
        clusters: i32,
    }
}

/// How large the clusters of a launch could be; it is described as in [`CountClusters`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargestCluster(pub CountClusters);

impl Payload<'_> for LargestCluster {
    fn words(&self) -> usize {
        self.0.words()
    }
    fn write(&self, sink: &mut impl Sink) {
        self.0.write(sink);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        CountClusters::read(reader).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_kept_in_the_flags() {
        for cluster in [[1, 1, 1], [2, 1, 1], [4, 2, 2], [16, 1, 1], [32, 1, 1], [255, 255, 255]] {
            let flags = cluster_flags(cluster).unwrap();
            assert_eq!(flags & !LAUNCH_FLAGS, 0);
            assert_eq!(flags & (LAUNCH_COOPERATIVE | LAUNCH_PROGRAMMATIC), 0);
            assert_eq!(cluster_of(flags | LAUNCH_COOPERATIVE), Some(cluster));
        }
        for wrong in [[0, 1, 1], [1, 256, 1], [1, 1, u32::MAX]] {
            assert_eq!(cluster_flags(wrong), None);
        }
        assert_eq!(cluster_of(LAUNCH_COOPERATIVE | LAUNCH_PROGRAMMATIC), None);
    }

    #[test]
    fn a_priority_is_kept_in_the_flags() {
        for (levels, kept) in [(0, 0), (5, 5), (7, 7), (8, 7), (u32::MAX, 7)] {
            let flags = priority_flags(levels);
            assert_eq!(flags & !LAUNCH_FLAGS, 0);
            assert_eq!(priority_of(flags | LAUNCH_COOPERATIVE), Some(kept));
            assert_eq!(cluster_of(flags), None);
            let cluster = cluster_flags([255, 255, 255]).unwrap();
            assert_eq!(cluster_of(flags | cluster), Some([255, 255, 255]));
        }
        assert_eq!(priority_of(LAUNCH_REMOTE_DOMAIN | 255 << CLUSTER_SHIFT), None);
    }
}
