//! Help: threads of the program do work themselves, and workers are left asleep for it.
//!
//! Waking a worker costs the submitter a system call and an interrupt of another core, several
//! times what a short kernel takes. So a worker is not woken for work that its submitter is
//! expected to do: because it has waited for its last launches at once, or because it has said so
//! ([`Device::work_for`]). Should it do otherwise the next tick wakes one.

use std::cell::Cell;

use crate::device::Device;
use crate::device::clock::now_ns;
use crate::device::execution::core::Core;
use crate::device::execution::grid::Grid;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::tenant::TenantId;

/// After so many launches in a row that their submitter ran itself, the next one wakes no worker.
const HELPED_MIN: u32 = 4;
/// A thread that works for a tenant looks up after this long, ns, or when a block gives way.
const WORK_NS: u64 = 200_000;

thread_local! {
    /// This thread works for the tenant it submits for.
    static WORKS: Cell<bool> = const { Cell::new(false) };
}

impl Core {
    /// As [`Core::start_ready`] after the submitter of `key` pushed an operation: leaves the
    /// workers asleep if the submitter will do the work.
    pub(in crate::device) fn start_submitted(&mut self, key: Key<Stream>) {
        let stream = self.streams.get(key);
        let will_wait = stream.is_some_and(|s| s.helped >= HELPED_MIN && s.queued() == 1);
        let works = WORKS.try_with(Cell::get).unwrap_or(false);
        // The ticker catches up on it should the submitter do otherwise.
        self.wake_deferred = (will_wait || works) && self.ticker.is_none();
        self.start_ready();
        if std::mem::take(&mut self.wake_deferred) && !self.unannounced.contains(&key) {
            self.unannounced.push(key);
        }
    }

    /// The thread that waits for a stream took its grid's blocks.
    pub(in crate::device) fn note_helped(&mut self, key: Key<Stream>, grid: Key<Grid>) {
        let first = self.grids.get(grid).is_some_and(Grid::just_begun);
        if let Some(stream) = self.streams.get_mut(key)
            && first
        {
            stream.helped = (stream.helped + 1).min(2 * HELPED_MIN);
        }
    }

    /// Wakes a worker for work that no worker was woken for.
    pub(in crate::device) fn announce(&mut self) {
        if self.unannounced.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.unannounced) {
            if let Some(stream) = self.streams.get_mut(key) {
                stream.helped = 0;
            }
        }
        self.wake_workers();
    }
}

impl Device {
    /// Does work of a tenant in the calling thread for about [`WORK_NS`], or until there is none
    /// that it can do; true if it did some. A thread that has called this is taken to do so
    /// again before it sleeps: what it submits from then on wakes no worker.
    pub fn work_for(&self, tenant: TenantId) -> bool {
        WORKS.with(|works| works.set(true));
        let until = now_ns() + WORK_NS;
        let mut worked = false;
        let mut core = self.lock();
        while let Some(mut assignment) = core.assign_tenant(tenant) {
            worked = true;
            core.wake_workers();
            drop(core);
            let settled = self.execute(&mut assignment);
            core = self.lock();
            core.settle(assignment, settled);
            if now_ns() >= until {
                break;
            }
        }
        core.wake_workers();
        worked
    }
}
