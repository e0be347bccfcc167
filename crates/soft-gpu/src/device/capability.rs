//! What an SM is on devices of each compute capability: one row each.
//!
//! The numbers are those of NVIDIA's programming guide ("Technical Specifications per Compute
//! Capability") and of the toolkit's occupancy calculator. Device attributes, occupancy, launch
//! checks, block placement and the choice of images all read them from the row that the device was
//! made with. What does not differ from one capability to another is in `limits`; how large and how
//! fast the device is does not depend on what it is like, and is no part of this.

/// A compute capability and what an SM has there.
#[derive(Debug, PartialEq, Eq)]
pub struct Capability {
    /// Compute capability, major.
    pub major: u32,
    /// Compute capability, minor.
    pub minor: u32,
    /// Warps resident on an SM.
    pub warps: u32,
    /// Blocks resident on an SM.
    pub blocks: u32,
    /// 32-bit registers that a block may use; an SM has [`REGISTERS_PER_SM`].
    pub registers_per_block: u32,
    /// Parts of an SM among which warps and registers are divided.
    pub partitions: u32,
    /// Shared memory of an SM, bytes.
    pub shared_bytes: u32,
    /// Shared memory that a block may have after cuFuncSetAttribute, bytes.
    pub shared_per_block_optin: u32,
    /// Shared memory that the system keeps of every block's, bytes.
    pub shared_reserved_per_block: u32,
    /// Shared memory is given to blocks in units of this many bytes.
    pub shared_unit: u32,
    /// How much of an SM's memory can be shared memory, KiB, ascending: the rest is cache. Empty
    /// where it is always all of it.
    pub shared_configurations_kib: &'static [u32],
    /// Barriers of an SM, which its blocks divide; `None` where they limit nothing.
    pub barriers: Option<u32>,
    /// Most blocks of a cluster of a function that allows any size; 0 where there are no clusters.
    pub cluster_blocks_max: u32,
}

/// 32-bit registers of an SM, of every compute capability.
pub const REGISTERS_PER_SM: u32 = 65_536;
/// Registers are given to warps in units of this many.
pub const REGISTER_UNIT: u32 = 256;
/// Most blocks of a cluster of any device.
pub const CLUSTER_BLOCKS_MAX: u32 = 16;
/// Blocks of a cluster that every device with clusters allows.
pub const CLUSTER_BLOCKS_PORTABLE: u32 = 8;

const VOLTA: &[u32] = &[0, 8, 16, 32, 64, 96];
const TURING: &[u32] = &[32, 64];
const AMPERE: &[u32] = &[0, 8, 16, 32, 64, 100, 132, 164];
const AMPERE_SMALL: &[u32] = &[0, 8, 16, 32, 64, 100];
const HOPPER: &[u32] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

macro_rules! capabilities {
    ($($major:literal . $minor:literal: $warps:literal warps, $blocks:literal blocks,
       $registers:literal Ki registers a block, $partitions:literal parts,
       $shared:literal KiB shared, $optin:literal a block, $reserved:literal kept,
       in $unit:literal of $configurations:expr, barriers $barriers:expr, clusters $cluster:literal;)*) => {
        /// All that are known, ascending.
        pub const CAPABILITIES: &[Capability] = &[$(Capability {
            major: $major,
            minor: $minor,
            warps: $warps,
            blocks: $blocks,
            registers_per_block: $registers << 10,
            partitions: $partitions,
            shared_bytes: $shared << 10,
            shared_per_block_optin: $optin << 10,
            shared_reserved_per_block: $reserved << 10,
            shared_unit: $unit,
            shared_configurations_kib: $configurations,
            barriers: $barriers,
            cluster_blocks_max: $cluster,
        }),*];
    };
}

#[rustfmt::skip]
capabilities! {
     5 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts,  64 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     5 . 2: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts,  96 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     5 . 3: 64 warps, 32 blocks, 32 Ki registers a block, 4 parts,  64 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     6 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 2 parts,  64 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     6 . 1: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts,  96 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     6 . 2: 64 warps, 32 blocks, 32 Ki registers a block, 4 parts,  64 KiB shared,  48 a block, 0 kept, in 256 of &[], barriers None, clusters 0;
     7 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts,  96 KiB shared,  96 a block, 0 kept, in 256 of VOLTA, barriers None, clusters 0;
     7 . 2: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts,  96 KiB shared,  96 a block, 0 kept, in 256 of VOLTA, barriers None, clusters 0;
     7 . 5: 32 warps, 16 blocks, 64 Ki registers a block, 4 parts,  64 KiB shared,  64 a block, 0 kept, in 256 of TURING, barriers None, clusters 0;
     8 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts, 164 KiB shared, 163 a block, 1 kept, in 128 of AMPERE, barriers None, clusters 0;
     8 . 6: 48 warps, 16 blocks, 64 Ki registers a block, 4 parts, 100 KiB shared,  99 a block, 1 kept, in 128 of AMPERE_SMALL, barriers None, clusters 0;
     8 . 7: 48 warps, 16 blocks, 64 Ki registers a block, 4 parts, 164 KiB shared, 163 a block, 1 kept, in 128 of AMPERE, barriers None, clusters 0;
     8 . 9: 48 warps, 24 blocks, 64 Ki registers a block, 4 parts, 100 KiB shared,  99 a block, 1 kept, in 128 of AMPERE_SMALL, barriers None, clusters 0;
     9 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts, 228 KiB shared, 227 a block, 1 kept, in 128 of HOPPER, barriers Some(64), clusters 16;
    10 . 0: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts, 228 KiB shared, 227 a block, 1 kept, in 128 of HOPPER, barriers Some(64), clusters 16;
    10 . 3: 64 warps, 32 blocks, 64 Ki registers a block, 4 parts, 228 KiB shared, 227 a block, 1 kept, in 128 of HOPPER, barriers Some(32), clusters 16;
    11 . 0: 48 warps, 24 blocks, 64 Ki registers a block, 4 parts, 228 KiB shared, 227 a block, 1 kept, in 128 of HOPPER, barriers Some(24), clusters 16;
    12 . 0: 48 warps, 24 blocks, 64 Ki registers a block, 4 parts, 100 KiB shared,  99 a block, 1 kept, in 128 of AMPERE_SMALL, barriers Some(24), clusters 8;
    12 . 1: 48 warps, 24 blocks, 64 Ki registers a block, 4 parts, 100 KiB shared,  99 a block, 1 kept, in 128 of AMPERE_SMALL, barriers Some(24), clusters 8;
}

impl Capability {
    /// The one of that number; `None` if it is not known.
    pub fn find(major: u32, minor: u32) -> Option<&'static Self> {
        CAPABILITIES.iter().find(|row| (row.major, row.minor) == (major, minor))
    }

    /// The one that a person writes as `9.0`.
    pub fn parse(text: &str) -> Option<&'static Self> {
        let (major, minor) = text.trim().split_once('.')?;
        Self::find(major.parse().ok()?, minor.parse().ok()?)
    }

    /// As `.target` has it: 80 for 8.0.
    pub fn number(&self) -> u32 {
        self.major * 10 + self.minor
    }

    /// Threads resident on an SM.
    pub fn threads(&self) -> u32 {
        self.warps * crate::device::limits::WARP_THREADS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::limits::{SHARED_PER_BLOCK, THREADS_PER_BLOCK_MAX};
    use cuda_api::environment::{VARIABLES, Values};

    #[test]
    fn rows_hold_together() {
        assert!(CAPABILITIES.is_sorted_by_key(|row| (row.major, row.minor)));
        for row in CAPABILITIES {
            let kib = row.shared_configurations_kib;
            assert!(kib.is_sorted(), "{row:?}");
            assert!(kib.last().is_none_or(|kib| kib << 10 == row.shared_bytes), "{row:?}");
            assert!(row.shared_per_block_optin >= SHARED_PER_BLOCK, "{row:?}");
            let block = row.shared_per_block_optin + row.shared_reserved_per_block;
            assert!(block <= row.shared_bytes && block.is_multiple_of(row.shared_unit), "{row:?}");
            assert!(row.threads() >= THREADS_PER_BLOCK_MAX, "{row:?}");
            assert!(row.registers_per_block <= REGISTERS_PER_SM, "{row:?}");
            assert_eq!(Capability::parse(&format!("{}.{}", row.major, row.minor)), Some(row));
        }
    }

    #[test]
    fn all_can_be_asked_for_and_no_others() {
        let variable = VARIABLES.iter().find(|v| v.name == "OPENMPS_SOFT_CC").unwrap();
        let Values::OneOf(words) = variable.values else { panic!("of any form") };
        let all: Vec<_> = words.iter().filter_map(|word| Capability::parse(word)).collect();
        assert_eq!(all, CAPABILITIES.iter().collect::<Vec<_>>());
        assert_eq!(["", "9", "9.1", "9.0.0", "-9.0", "hopper"].map(Capability::parse), [None; 6]);
    }
}
