//! Accounts: what was done for each tenant.
//!
//! Plain numbers: they change under the core's lock, which a thread that starts, runs or ends
//! blocks holds anyway. The device's own are in [`crate::device::execution::activity`], those of each kernel in
//! [`crate::device::profile`].

use crate::device::execution::activity::Resident;
use crate::device::execution::grid::SmMask;
use simt::kernel::Counters;

/// Work done for a tenant so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Kernels completed.
    pub kernels: u64,
    /// Blocks completed.
    pub blocks: u64,
    /// Time in which at least one of its kernels was in execution, ns.
    pub busy_ns: u64,
    /// Time worker threads spent on its blocks, ns, summed over threads.
    pub worker_ns: u64,
    /// Device memory it holds, bytes.
    pub memory_bytes: u64,
    /// What its blocks executed.
    pub counters: Counters,
    /// Sum over SMs of the time in which at least one of its blocks was there, ns.
    pub sm_ns: u64,
    /// Sum over its resident warps of the time in which they were, ns.
    pub warp_ns: u64,
    /// From the start of each kernel to its end, ns; kernels that overlap count each.
    pub kernel_ns: u64,
}

/// Keeps a tenant's [`Usage`], but for memory, which is counted where it is given out.
#[derive(Default)]
pub(in crate::device) struct Account {
    /// As far as kernels and workers have come.
    done: Usage,
    /// Kernels in execution, and since when there has been one, ns.
    running: u32,
    since_ns: u64,
    /// What its blocks have of the device.
    pub(in crate::device) resident: Resident,
    /// Threads' time that it has had, ns, by which tenants share the device: the next blocks are
    /// those of the tenant that has had the least. One that had no kernels begins level with those
    /// that had: what it did not use is not saved up.
    pub(in crate::device) share_ns: u64,
    /// SMs on which its blocks may be placed, regardless of what their streams say.
    pub(in crate::device) sms: SmMask,
    /// Added to the priority of its grids: above 0 they are less urgent.
    pub(in crate::device) priority: i32,
}

impl Account {
    /// A kernel's execution begins. Tenants that had kernels have had `level_ns`.
    pub(in crate::device) fn kernel_started(&mut self, now_ns: u64, level_ns: u64) {
        if self.running == 0 {
            self.since_ns = now_ns;
            self.share_ns = self.share_ns.max(level_ns);
        }
        self.running += 1;
    }

    /// A kernel's execution is over; `complete` unless it was ended before its time.
    pub(in crate::device) fn kernel_ended(&mut self, now_ns: u64, complete: bool) {
        self.done.kernels += u64::from(complete);
        self.running -= 1;
        if self.running == 0 {
            self.done.busy_ns += now_ns.saturating_sub(self.since_ns);
        }
    }

    /// A kernel was so long in execution.
    pub(in crate::device) fn spanned(&mut self, span_ns: u64) {
        self.done.kernel_ns += span_ns;
    }

    /// A worker was at its blocks for so long, `finished` of which have ended.
    pub(in crate::device) fn worked(&mut self, worker_ns: u64, counters: &Counters, finished: u64) {
        self.share_ns += worker_ns;
        let done = &mut self.done;
        done.worker_ns += worker_ns;
        done.blocks += finished;
        done.counters += *counters;
    }

    /// All of it so far, at a time that is also `clock_ns` on the clock of the device's residents.
    pub(in crate::device) fn usage(&mut self, now_ns: u64, clock_ns: u64) -> Usage {
        self.resident.advance(clock_ns);
        let running_ns = if self.running > 0 { now_ns.saturating_sub(self.since_ns) } else { 0 };
        Usage {
            busy_ns: self.done.busy_ns + running_ns,
            sm_ns: self.resident.sm_ns,
            warp_ns: self.resident.warp_ns,
            ..self.done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_overlap_are_busy_once_and_killed_ones_do_not_count() {
        let mut account = Account::default();
        account.kernel_started(10, 0);
        account.kernel_started(20, 0);
        account.kernel_ended(30, true);
        assert_eq!(account.usage(35, 0).busy_ns, 25);
        account.kernel_ended(50, false);
        let counters = Counters {
            warp_instructions: 3,
            thread_instructions: 90,
            global_bytes: 256,
            ..Counters::default()
        };
        account.worked(7, &counters, 2);
        account.worked(8, &counters, 1);
        let usage = account.usage(99, 0);
        assert_eq!((usage.kernels, usage.busy_ns), (1, 40));
        assert_eq!((usage.blocks, usage.worker_ns, usage.counters.global_bytes), (3, 15, 512));
    }

    #[test]
    fn who_comes_back_begins_level_and_who_had_more_stays_behind() {
        let (mut idle, mut greedy) = (Account::default(), Account::default());
        greedy.kernel_started(0, 0);
        greedy.worked(100, &Counters::default(), 1);
        idle.kernel_started(0, 70);
        assert_eq!((idle.share_ns, greedy.share_ns), (70, 100));
        greedy.kernel_ended(5, true);
        greedy.kernel_started(6, 80);
        idle.kernel_started(7, 90);
        assert_eq!((idle.share_ns, greedy.share_ns), (70, 100));
    }
}
