//! Occupancy: how many blocks of a kernel fit on one SM.
//!
//! The arithmetic of the CUDA toolkit's occupancy calculator, for any compute capability.
//!
//! Invariant: block placement ([`BlockNeed`]) never fits fewer blocks of one kernel on an SM than
//! [`Capability::resident`] promises, or a cooperative grid would wait for a place for ever.

use crate::device::capability::{Capability, REGISTER_UNIT, REGISTERS_PER_SM};
use crate::device::limits::{
    REGISTERS_PER_THREAD_MAX, SHARED_PER_BLOCK, THREADS_PER_BLOCK_MAX, WARP_THREADS,
};

/// Blocks of clusters that an SM holds.
const CLUSTER_BLOCKS_PER_SM: u32 = 8;

/// What a kernel takes, and what was set for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelNeed {
    /// 32-bit registers a thread.
    pub registers: u32,
    /// Static shared memory, bytes a block.
    pub static_bytes: u32,
    /// Most dynamic shared memory that a launch may ask for, bytes a block.
    pub dynamic_bytes_max: u32,
    /// Barriers a block.
    pub barriers: u32,
    /// Share of an SM's memory that is wanted as shared memory, percent; `None` if no share is.
    pub carveout_percent: Option<u32>,
}

/// What one resident block takes from its SM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockNeed {
    /// Warps.
    pub warps: u32,
    /// 32-bit registers, in allocation units.
    pub registers: u32,
    /// Bytes of shared memory, in allocation units, the system's part included.
    pub shared_bytes: u32,
    /// Barriers.
    pub barriers: u32,
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
    /// Barriers.
    Barriers,
}

/// 32-bit registers that a warp gets.
fn registers_of_warp(registers: u32) -> u32 {
    (registers * WARP_THREADS).next_multiple_of(REGISTER_UNIT)
}

fn warps_of(threads: u32) -> u32 {
    threads.div_ceil(WARP_THREADS).max(1)
}

/// Clusters of so many blocks that are resident on a GPC of `sms` SMs, on each of which `resident`
/// of the blocks are: as hardware of compute capability 9.0 has it.
pub fn clusters_of_gpc(sms: u32, resident: u32, blocks: u32) -> u32 {
    match sms < blocks {
        true => 0,
        false => (sms * resident.min(CLUSTER_BLOCKS_PER_SM)).checked_div(blocks).unwrap_or(0),
    }
}

impl Capability {
    /// What a block of `threads` threads with so much dynamic shared memory takes.
    pub fn block(&self, kernel: &KernelNeed, threads: u32, dynamic_bytes: u32) -> BlockNeed {
        let warps = warps_of(threads);
        BlockNeed {
            warps,
            registers: warps * registers_of_warp(kernel.registers),
            shared_bytes: self.shared_of_block(kernel, dynamic_bytes),
            barriers: if self.barriers.is_some() { kernel.barriers } else { 0 },
        }
    }

    /// Blocks of `threads` threads that fit on an empty SM, and what limits them; 0 blocks if not
    /// even one fits.
    pub fn resident(
        &self,
        kernel: &KernelNeed,
        threads: u32,
        dynamic_bytes: u32,
    ) -> (u32, Limiter) {
        let by_warps = match threads <= THREADS_PER_BLOCK_MAX {
            true => self.warps / warps_of(threads),
            false => 0,
        };
        let by_barriers = self.barriers.and_then(|all| all.checked_div(kernel.barriers));
        [
            (by_warps, Limiter::Warps),
            (self.resident_by_registers(kernel.registers, threads), Limiter::Registers),
            (self.resident_by_shared(kernel, dynamic_bytes), Limiter::Shared),
            (by_barriers.unwrap_or(u32::MAX), Limiter::Barriers),
            (self.blocks, Limiter::Blocks),
        ]
        .into_iter()
        .min_by_key(|(blocks, _)| *blocks)
        .unwrap_or((0, Limiter::Blocks))
    }

    /// True if a block of `threads` threads fits with `registers` a thread.
    pub fn fits_by_registers(&self, registers: u32, threads: u32) -> bool {
        self.resident_by_registers(registers, threads) > 0
    }

    /// Threads of the largest block with `registers` a thread.
    pub fn threads_by_registers(&self, registers: u32) -> u32 {
        let most = THREADS_PER_BLOCK_MAX / WARP_THREADS;
        let fits = |warps: &u32| self.resident_by_registers(registers, warps * WARP_THREADS) > 0;
        (1..=most).rev().find(fits).unwrap_or(0) * WARP_THREADS
    }

    /// Most dynamic shared memory a block of `threads` threads may use so that `blocks` of them are
    /// resident, bytes; `None` if that many never are.
    pub fn dynamic_available(&self, kernel: &KernelNeed, threads: u32, blocks: u32) -> Option<u32> {
        if blocks == 0 || self.resident(kernel, threads, 0).0 < blocks {
            return None;
        }
        let most = self.shared_per_block_optin + self.shared_reserved_per_block;
        let shared = match (blocks, self.shared_preferred(kernel)) {
            // One block may have what it wants, regardless of the preference.
            (1, _) => most,
            (_, 0) => self.shared_configuration(1).unwrap_or(0),
            (_, preferred) => preferred,
        };
        let share = (shared / blocks / self.shared_unit * self.shared_unit).min(most);
        let taken = kernel.static_bytes + self.shared_reserved_per_block;
        // What the kernel itself has may be more than a share of little: then nothing is said
        // against as much as it may ask for.
        Some(share.checked_sub(taken).unwrap_or(u32::MAX).min(kernel.dynamic_bytes_max))
    }

    /// The block size of at most `threads_max` with the most resident threads, the largest of
    /// several, and how many of its blocks are resident. `dynamic_bytes` says what a block of a
    /// size needs.
    pub fn best_block(
        &self,
        kernel: &KernelNeed,
        threads_max: u32,
        mut dynamic_bytes: impl FnMut(u32) -> u32,
    ) -> (u32, u32) {
        let (mut best_threads, mut best_blocks) = (0, 0);
        let mut threads = threads_max.min(THREADS_PER_BLOCK_MAX);
        while threads > 0 && best_blocks * best_threads < self.threads() {
            let (blocks, _) = self.resident(kernel, threads, dynamic_bytes(threads));
            if blocks * threads > best_blocks * best_threads {
                (best_threads, best_blocks) = (threads, blocks);
            }
            // Whole warps only; a limit that is none is tried first as it stands.
            threads = (threads - 1) / WARP_THREADS * WARP_THREADS;
        }
        (best_threads, best_blocks)
    }

    fn resident_by_registers(&self, registers: u32, threads: u32) -> u32 {
        let by_parts = |parts: u32| {
            let (warps, of_warp) = (warps_of(threads), registers_of_warp(registers));
            // A block is admitted as if each part had as many of its warps as any.
            if registers > REGISTERS_PER_THREAD_MAX
                || of_warp * warps.next_multiple_of(parts) > self.registers_per_block
            {
                return 0;
            }
            match of_warp {
                0 => u32::MAX,
                _ => REGISTERS_PER_SM / parts / of_warp * parts / warps,
            }
        };
        // What would not run on its successors does not run on 6.0, which has fewer parts.
        match (self.major, by_parts(self.partitions)) {
            (6, _) if by_parts(4) == 0 => 0,
            (_, blocks) => blocks,
        }
    }

    fn resident_by_shared(&self, kernel: &KernelNeed, dynamic_bytes: u32) -> u32 {
        let of_block = self.shared_of_block(kernel, dynamic_bytes);
        // More than what every block may have is for kernels of which more was asked for.
        let asked = kernel.static_bytes.saturating_add(kernel.dynamic_bytes_max);
        let opted_in = asked.saturating_add(self.shared_reserved_per_block) > SHARED_PER_BLOCK;
        let most = if opted_in { self.shared_per_block_optin } else { SHARED_PER_BLOCK };
        if dynamic_bytes > kernel.dynamic_bytes_max
            || of_block > most + self.shared_reserved_per_block
        {
            return 0;
        }
        // A preference holds as long as a block fits.
        let shared = match self.shared_preferred(kernel) {
            preferred if preferred >= of_block => preferred,
            _ => self.shared_configuration(of_block).unwrap_or(0),
        };
        shared.checked_div(of_block).unwrap_or(u32::MAX)
    }

    fn shared_of_block(&self, kernel: &KernelNeed, dynamic_bytes: u32) -> u32 {
        let bytes = kernel.static_bytes.saturating_add(dynamic_bytes);
        bytes
            .saturating_add(self.shared_reserved_per_block)
            .checked_next_multiple_of(self.shared_unit)
            .unwrap_or(u32::MAX)
    }

    /// Shared memory of an SM as a kernel prefers it, bytes.
    fn shared_preferred(&self, kernel: &KernelNeed) -> u32 {
        match kernel.carveout_percent {
            None => self.shared_bytes,
            Some(percent) => {
                let bytes = u64::from(self.shared_bytes) * u64::from(percent.min(100)) / 100;
                self.shared_configuration(bytes as u32).unwrap_or(self.shared_bytes)
            }
        }
    }

    /// The smallest division of an SM's memory with that much shared memory, bytes.
    fn shared_configuration(&self, bytes: u32) -> Option<u32> {
        match self.shared_configurations_kib {
            [] => (bytes <= self.shared_bytes).then_some(self.shared_bytes),
            kib => kib.iter().map(|kib| kib << 10).find(|size| *size >= bytes),
        }
    }
}

#[cfg(test)]
mod recorded;

#[cfg(test)]
mod tests;
