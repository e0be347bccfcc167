//! What each kernel did: counted always, written where OPENMPS_SOFT_PROFILE says.
//!
//! Counts are added once a launch, under the core's lock; kernels of one name count together,
//! whatever module or client they come from. Tenants have accounts of their own (`tenant`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use simt::kernel::{Counters, WARP_LANES};

use super::{Device, say};

/// Names that are kept apart: a program that makes kernels for ever shall not eat memory for ever.
/// What comes later counts under [`OTHERS`].
const KERNELS_MAX: usize = 4096;
const OTHERS: &str = "(others)";

/// Sums over launches of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTotals {
    /// Launches that ended.
    pub launches: u64,
    /// Blocks that finished.
    pub blocks: u64,
    /// From the start of a launch to its end, ns; launches that overlap count each.
    pub span_ns: u64,
    /// Time that threads spent in its blocks, ns.
    pub worker_ns: u64,
    /// As in [`Counters`].
    pub warp_instructions: u64,
    /// As in [`Counters`].
    pub thread_instructions: u64,
    /// As in [`Counters`].
    pub global_bytes: u64,
}

impl KernelTotals {
    /// A worker's stretch of time in its blocks.
    pub(super) fn add_work(&mut self, worker_ns: u64, counters: &Counters, blocks: u64) {
        self.blocks += blocks;
        self.worker_ns += worker_ns;
        self.warp_instructions += counters.warp_instructions;
        self.thread_instructions += counters.thread_instructions;
        self.global_bytes += counters.global_bytes;
    }

    fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.blocks += other.blocks;
        self.span_ns += other.span_ns;
        self.worker_ns += other.worker_ns;
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.global_bytes += other.global_bytes;
    }

    /// Share of a warp's lanes that took part in its instructions, 0 to 1: less than 1 where lanes
    /// diverge or blocks are no whole warps.
    fn lanes_active(&self) -> f64 {
        let most = self.warp_instructions * WARP_LANES as u64;
        if most == 0 { 0.0 } else { self.thread_instructions as f64 / most as f64 }
    }
}

/// Totals by kernel name.
#[derive(Default)]
pub(super) struct Profile(HashMap<String, KernelTotals>);

impl Profile {
    pub(super) fn add(&mut self, kernel: &str, totals: &KernelTotals) {
        if let Some(sum) = self.0.get_mut(kernel) {
            return sum.add(totals);
        }
        let name = if self.0.len() < KERNELS_MAX { kernel } else { OTHERS };
        self.0.entry(name.to_owned()).or_default().add(totals);
    }
}

impl Device {
    /// What each kernel did so far, those that took most time first.
    pub fn kernel_totals(&self) -> Vec<(String, KernelTotals)> {
        let mut all: Vec<_> =
            self.lock().profile.0.iter().map(|(name, totals)| (name.clone(), *totals)).collect();
        all.sort_by(|a, b| b.1.worker_ns.cmp(&a.1.worker_ns).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Writes the table that OPENMPS_SOFT_PROFILE asks for, or says why it cannot.
    pub fn write_profile(&self) {
        let Some(path) = &self.settings.profile else { return };
        let table = table(&self.kernel_totals());
        let fits = channel::system::may_reach(table.len() as u64);
        if let Err(error) = fits.and_then(|()| std::fs::write(path, table)) {
            say(format_args!("OPENMPS_SOFT_PROFILE={}: {error}", path.display()));
        }
    }
}

/// The path with `%p` replaced by the process's number, as NVIDIA's profilers have it.
pub(super) fn path_of_process(path: &str) -> PathBuf {
    Path::new(&path.replace("%p", &std::process::id().to_string())).to_path_buf()
}

/// Tab-separated, a row a kernel, with a head.
fn table(rows: &[(String, KernelTotals)]) -> String {
    let mut text = String::from(
        "kernel\tlaunches\tblocks\tspan_ns\tworker_ns\twarp_instructions\tthread_instructions\t\
         lanes_active\tglobal_bytes\n",
    );
    for (name, t) in rows {
        let _ = writeln!(
            text,
            "{name}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.4}\t{}",
            t.launches,
            t.blocks,
            t.span_ns,
            t.worker_ns,
            t.warp_instructions,
            t.thread_instructions,
            t.lanes_active(),
            t.global_bytes
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_of_one_kernel_add_up_and_names_are_bounded() {
        let mut profile = Profile::default();
        let mut totals = KernelTotals { launches: 1, span_ns: 5, ..Default::default() };
        let counters =
            Counters { warp_instructions: 10, thread_instructions: 160, global_bytes: 64 };
        totals.add_work(7, &counters, 2);
        profile.add("k", &totals);
        profile.add("k", &totals);
        let sum = profile.0["k"];
        assert_eq!((sum.launches, sum.blocks, sum.worker_ns, sum.global_bytes), (2, 4, 14, 128));
        assert_eq!(sum.lanes_active(), 0.5);
        for n in 0..KERNELS_MAX + 10 {
            profile.add(&format!("n{n}"), &totals);
        }
        assert_eq!(profile.0.len(), KERNELS_MAX + 1);
        assert_eq!(profile.0[OTHERS].launches, 11);
    }
}
