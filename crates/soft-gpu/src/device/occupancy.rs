//! How many blocks of a kernel fit on one SM.
//!
//! The arithmetic of the CUDA toolkit's occupancy calculator for compute capability 8.0.
//!
//! Invariant: block placement ([`BlockNeed`]) never fits fewer blocks of one kernel on an SM than
//! [`blocks_per_sm`] promises, or a cooperative grid would wait for a place for ever.

use super::limits::*;

/// What one resident block takes from its SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeed {
    /// Warps.
    pub warps: u32,
    /// 32-bit registers, in allocation units.
    pub registers: u32,
    /// Bytes of shared memory, in allocation units, the system's part included.
    pub shared_bytes: u32,
}

impl BlockNeed {
    /// Of a block of `threads` threads of a kernel with `registers` a thread and `shared_bytes`
    /// of static and dynamic shared memory.
    pub fn new(threads: u32, registers: u32, shared_bytes: u32) -> Self {
        let warps = threads.div_ceil(WARP_THREADS).max(1);
        let warp_registers = (registers * WARP_THREADS).next_multiple_of(REGISTER_UNIT);
        Self {
            warps,
            registers: warps * warp_registers,
            shared_bytes: (shared_bytes + SHARED_RESERVED_PER_BLOCK).next_multiple_of(SHARED_UNIT),
        }
    }
}

impl BlockNeed {
    /// Of a cluster of so many such blocks, all on one SM: what does not fit there takes all that
    /// the SM has.
    pub fn of_cluster(self, blocks: u32) -> Self {
        let all = |each: u32, most: u32| each.saturating_mul(blocks).min(most);
        Self {
            warps: all(self.warps, WARPS_PER_SM_MAX),
            registers: all(self.registers, REGISTERS_PER_SM),
            shared_bytes: all(self.shared_bytes, SHARED_PER_SM),
        }
    }

    /// How many of them an empty SM has room for.
    pub fn fitting(self) -> u32 {
        [
            BLOCKS_PER_SM_MAX,
            WARPS_PER_SM_MAX / self.warps.max(1),
            REGISTERS_PER_SM / self.registers.max(1),
            SHARED_PER_SM / self.shared_bytes.max(1),
        ]
        .into_iter()
        .min()
        .unwrap_or(0)
    }
}

/// What limits the number of resident blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Block slots.
    Blocks,
    /// Warp slots.
    Warps,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
}

/// Largest block of a kernel with `registers` a thread that fits on an SM.
pub fn threads_by_registers(registers: u32) -> u32 {
    warps_by_registers(registers).saturating_mul(WARP_THREADS).min(THREADS_PER_BLOCK_MAX)
}

/// Warps with `registers` a thread for which an SM has registers.
fn warps_by_registers(registers: u32) -> u32 {
    let warp_registers = (registers * WARP_THREADS).next_multiple_of(REGISTER_UNIT);
    match warp_registers {
        0 => u32::MAX,
        _ => REGISTERS_PER_SM / PARTITIONS_PER_SM / warp_registers * PARTITIONS_PER_SM,
    }
}

/// Blocks of `threads` threads that fit on an empty SM, and what limits them; 0 blocks if not
/// even one fits.
pub fn blocks_per_sm(threads: u32, registers: u32, shared_bytes: u32) -> (u32, Limiter) {
    let warps = threads.div_ceil(WARP_THREADS).max(1);
    let by_warps = WARPS_PER_SM_MAX / warps;
    let by_registers = warps_by_registers(registers) / warps;
    let shared =
        shared_bytes.saturating_add(SHARED_RESERVED_PER_BLOCK).next_multiple_of(SHARED_UNIT);
    let by_shared = SHARED_PER_SM / shared;
    [
        (BLOCKS_PER_SM_MAX, Limiter::Blocks),
        (by_warps, Limiter::Warps),
        (by_registers, Limiter::Registers),
        (by_shared, Limiter::Shared),
    ]
    .into_iter()
    .min_by_key(|(blocks, _)| *blocks)
    .unwrap_or((0, Limiter::Blocks))
}

/// Most dynamic shared memory a block may use so that `blocks` blocks stay resident, bytes.
pub fn dynamic_shared_available(blocks: u32, static_bytes: u32) -> u32 {
    let share = SHARED_PER_SM / blocks.max(1) / SHARED_UNIT * SHARED_UNIT;
    share
        .saturating_sub(SHARED_RESERVED_PER_BLOCK)
        .min(SHARED_PER_BLOCK_OPTIN)
        .saturating_sub(static_bytes)
}

/// The block size with the most resident threads, largest first among equals, and the grid that
/// fills a device of `sms` SMs with it. `dynamic_shared` says what a block of a size needs.
pub fn best_block_size(
    registers: u32,
    static_shared: u32,
    threads_max: u32,
    sms: u32,
    mut dynamic_shared: impl FnMut(u32) -> u32,
) -> (u32, u32) {
    let mut best = (0, 0, 0); // resident threads, block size, blocks an SM
    let mut threads = threads_max.min(THREADS_PER_BLOCK_MAX);
    while threads > 0 {
        let shared = static_shared.saturating_add(dynamic_shared(threads));
        let (blocks, _) = blocks_per_sm(threads, registers, shared);
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
        // Whole warps only; a limit that is none is tried first as it stands.
        threads = (threads - 1) / WARP_THREADS * WARP_THREADS;
    }
    (best.1, best.2 * sms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cases_of_compute_capability_8_0() {
        assert_eq!(blocks_per_sm(256, 32, 0), (8, Limiter::Warps));
        assert_eq!(blocks_per_sm(256, 64, 16 << 10), (4, Limiter::Registers));
        assert_eq!(blocks_per_sm(32, 16, 0), (32, Limiter::Blocks));
        assert_eq!([0, 64, 78, 255].map(threads_by_registers), [1024, 1024, 768, 256]);
        assert_eq!(blocks_per_sm(128, 32, 48 << 10), (3, Limiter::Shared));
        assert_eq!(blocks_per_sm(1024, 64, 0), (1, Limiter::Registers));
        assert_eq!(blocks_per_sm(1024, 255, 0).0, 0);
        assert_eq!(blocks_per_sm(64, 32, SHARED_PER_BLOCK_OPTIN).0, 1);
        assert_eq!(blocks_per_sm(64, 32, SHARED_PER_BLOCK_OPTIN + 1).0, 0);
    }

    #[test]
    fn placement_fits_what_the_calculator_promises() {
        for threads in (1..=1024).step_by(31) {
            for registers in [16, 32, 40, 64, 128, 168, 255] {
                for shared in [0, 100, 4096, 30_000] {
                    let need = BlockNeed::new(threads, registers, shared);
                    let fits = (BLOCKS_PER_SM_MAX)
                        .min(WARPS_PER_SM_MAX / need.warps)
                        .min(REGISTERS_PER_SM / need.registers)
                        .min(SHARED_PER_SM / need.shared_bytes);
                    let (blocks, _) = blocks_per_sm(threads, registers, shared);
                    assert!(
                        fits >= blocks,
                        "{threads} threads, {registers} registers, {shared} B: {fits} {blocks}"
                    );
                }
            }
        }
    }

    #[test]
    fn available_dynamic_shared_memory_keeps_the_blocks_resident() {
        for blocks in 1..=32 {
            for fixed in [0, 1000, 4096] {
                let bytes = dynamic_shared_available(blocks, fixed);
                if bytes > 0 {
                    assert!(blocks_per_sm(32, 16, fixed + bytes).0 >= blocks);
                }
            }
        }
    }

    #[test]
    fn the_best_block_size_fills_the_sm() {
        assert_eq!(best_block_size(32, 0, 1024, 8, |_| 0), (1024, 16));
        let (threads, blocks) = best_block_size(255, 0, 1024, 8, |_| 0);
        assert!(threads > 0 && blocks >= 8);
    }
}
