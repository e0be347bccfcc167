//! Work in flight of a stream: which code is not known to be done, and how often the rarest of it was launched before.
//!
//! After a fault of the shared context that says how likely the client's kernels were to cause it (crate
//! `recovery`, `attribution.rs`). Of each span between two fences the least number of launches is kept, until the
//! device has passed the fence behind it. Whether it has is read from memory that the client can write: for
//! the watchdog, which runs while the device can be asked, the same is kept by events of the session's own.

use std::collections::VecDeque;

/// Spans that are kept apart. Of more that the device has not passed, the oldest two become one.
const BATCHES_MAX: usize = 8;

/// What was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The kernel of a function.
    Kernel(u64),
    /// A graph of so many kernels.
    Graph(u32),
}

/// The launches before a fence, back to the one before.
#[derive(Clone, Copy, Debug)]
struct Span {
    fence: u32,
    launched_before: u32,
}

/// What of a stream's code is in flight.
#[derive(Debug, Default)]
pub struct CodeInFlight {
    last: Option<Code>,
    /// Behind the last fence.
    open: Option<u32>,
    fenced: VecDeque<Span>,
    /// The least since the watchdog's last event.
    unwatched: Option<u32>,
}

impl CodeInFlight {
    /// Code was launched that had been launched so often before.
    #[inline]
    pub fn launched(&mut self, code: Code, before: u32) {
        self.last = Some(code);
        self.open = Some(self.open.map_or(before, |least| least.min(before)));
        self.unwatched = Some(self.unwatched.map_or(before, |least| least.min(before)));
    }

    /// A fence was posted; `passed` says whether the device has passed one.
    pub fn fence(&mut self, fence: u32, passed: impl Fn(u32) -> bool) {
        let Some(launched_before) = self.open.take() else { return };
        if self.fenced.len() == BATCHES_MAX {
            self.forget(passed);
        }
        if self.fenced.len() == BATCHES_MAX
            && let Some(oldest) = self.fenced.pop_front()
            && let Some(next) = self.fenced.front_mut()
        {
            next.launched_before = next.launched_before.min(oldest.launched_before);
        }
        self.fenced.push_back(Span { fence, launched_before });
    }

    /// Forgets what is before fences that the device has passed.
    fn forget(&mut self, passed: impl Fn(u32) -> bool) {
        while self.fenced.front().is_some_and(|span| passed(span.fence)) {
            self.fenced.pop_front();
        }
    }

    /// All of it is done.
    pub fn end(&mut self) {
        self.open = None;
        self.unwatched = None;
        self.fenced.clear();
    }

    /// An event of the session's is recorded: how often the rarest code since the one before it had been
    /// launched before.
    pub fn watch(&mut self) -> Option<u32> {
        self.unwatched.take()
    }

    /// The same of what comes behind the last event.
    pub fn unwatched(&self) -> Option<u32> {
        self.unwatched
    }

    /// The code that was launched last, and how often the rarest that is not known to be done had been launched
    /// before; `None` if all is done.
    pub fn rarest(&mut self, passed: impl Fn(u32) -> bool) -> Option<(Code, u32)> {
        self.forget(passed);
        let fenced = self.fenced.iter().map(|span| span.launched_before);
        let least = fenced.chain(self.open).min()?;
        Some((self.last?, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Code = Code::Kernel(1);

    #[test]
    fn the_rarest_code_counts_until_the_fence_behind_it_is_passed() {
        let mut work = CodeInFlight::default();
        let none = |_| false;
        assert_eq!(work.rarest(none), None);
        work.launched(Code::Graph(3), 0);
        work.launched(KERNEL, 70);
        assert_eq!(work.rarest(none), Some((KERNEL, 0)));
        work.fence(1, none);
        work.launched(KERNEL, 71);
        assert_eq!(work.rarest(none), Some((KERNEL, 0)));
        assert_eq!(work.rarest(|fence| fence <= 1), Some((KERNEL, 71)));
        work.fence(2, none);
        assert_eq!(work.rarest(|fence| fence <= 2), None);
        work.launched(KERNEL, 72);
        work.end();
        assert_eq!(work.rarest(none), None);
    }

    #[test]
    fn many_fences_take_no_more_memory_and_none_is_forgotten_too_early() {
        let mut work = CodeInFlight::default();
        let first = 20 * BATCHES_MAX as u32;
        for fence in 1..=first {
            work.launched(KERNEL, fence);
            work.fence(fence, |_| false);
            assert!(work.fenced.len() <= BATCHES_MAX);
        }
        assert_eq!(work.rarest(|_| false), Some((KERNEL, 1)));
        // What is kept of the oldest is passed with the last of them.
        let rarest = work.rarest(|fence| fence < first).map(|(_, before)| before);
        assert_eq!(rarest, Some(first));
        // What is passed makes room.
        for fence in first + 1..first + 100 {
            work.launched(KERNEL, fence);
            work.fence(fence, |other| other < fence - 2);
        }
        let rarest = work.rarest(|_| false).map(|(_, before)| before);
        assert!(rarest.is_some_and(|before| before > first + 80), "{rarest:?}");
    }
}
