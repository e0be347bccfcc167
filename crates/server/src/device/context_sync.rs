//! Calls that wait for the context: made one way, at a quiet moment, timed and reported.
//!
//! While such a call waits, no client can launch ([`calls`](super::calls)). So it is made when few
//! kernels are in flight: for up to [`QUIET_WAIT_MAX`] before it, sessions keep their submission
//! shallow, so that what the call waits for is short. A kernel that runs for long cannot be cut
//! short; the report then says who waited for how long.
//!
//! A provider with tenants has none of this: its calls wait for nothing of other clients.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits for a quiet moment before it is made all the same.
pub const QUIET_WAIT_MAX: Duration = Duration::from_millis(10);

/// Kernels that each session may have in flight while a call waits for a quiet moment.
pub const SHALLOW_KERNELS: u32 = 4;

/// A call that took longer is reported.
const REPORT_MIN: Duration = Duration::from_millis(10);

/// Pause between two looks at what is in flight.
const PAUSE: Duration = Duration::from_micros(200);

/// A call that waits for the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextCall {
    /// Loading code.
    LoadModule,
    /// Unloading it.
    UnloadModule,
    /// Unregistering host memory.
    UnregisterHost,
    /// Destroying an array.
    DestroyArray,
    /// Making a green context.
    CreateGreenContext,
}

impl ContextCall {
    /// What a report calls it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::LoadModule => "loading code",
            Self::UnloadModule => "unloading code",
            Self::UnregisterHost => "unregistering host memory",
            Self::DestroyArray => "destroying an array",
            Self::CreateGreenContext => "making a green context",
        }
    }
}

/// A call that took long.
#[derive(Clone, Debug)]
pub struct SyncReport {
    /// Which.
    pub call: ContextCall,
    /// For which client, as the log names it.
    pub client: String,
    /// How long it waited for a quiet moment.
    pub waited: Duration,
    /// How long the call itself took.
    pub took: Duration,
    /// Other sessions that had kernels in flight when it was made.
    pub others: usize,
}

/// What these calls cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTotals {
    /// Calls made.
    pub calls: u64,
    /// Time in them, nanoseconds.
    pub total_ns: u64,
    /// The longest of them, nanoseconds.
    pub longest_ns: u64,
}

/// Kernels that one session has in flight, readable by others.
pub type InFlight = Arc<AtomicU32>;

type Reporter = Box<dyn Fn(&SyncReport) + Send + Sync>;

/// The door for calls that wait for the context; one a device.
#[derive(Default)]
pub struct ContextSync {
    in_flight: Mutex<Vec<InFlight>>,
    /// Calls that wait for a quiet moment, or are under way.
    pending: AtomicUsize,
    calls: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
    reporter: OnceLock<Reporter>,
}

impl ContextSync {
    /// Says what becomes of reports. Only the first is heard.
    pub fn report_to(&self, reporter: impl Fn(&SyncReport) + Send + Sync + 'static) {
        let _ = self.reporter.set(Box::new(reporter));
    }

    /// The count of a new session's kernels in flight, which that session keeps up to date.
    pub fn join(&self) -> InFlight {
        let count = InFlight::default();
        self.counts().push(count.clone());
        count
    }

    /// The session's end.
    pub fn leave(&self, count: &InFlight) {
        self.counts().retain(|other| !Arc::ptr_eq(other, count));
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Vec<InFlight>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions but `own` with more than so many kernels in flight.
    fn sessions_above(&self, kernels: u32, own: Option<&InFlight>) -> usize {
        let is_other = |count: &&InFlight| own.is_none_or(|own| !Arc::ptr_eq(count, own));
        let counts = self.counts();
        let others = counts.iter().filter(is_other);
        others.filter(|count| count.load(Ordering::Relaxed) > kernels).count()
    }

    /// True if no session has kernels in flight.
    pub fn is_idle(&self) -> bool {
        self.sessions_above(0, None) == 0
    }

    /// True while submission is to be kept shallow.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// What such calls cost so far.
    pub fn totals(&self) -> SyncTotals {
        SyncTotals {
            calls: self.calls.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }

    /// Makes a call that waits for the context, for `client`. A session waits for the others only: it
    /// takes no notice of its own kernels' ends meanwhile.
    pub(super) fn make<R>(
        &self,
        call: ContextCall,
        client: &str,
        own: Option<&InFlight>,
        f: impl FnOnce() -> R,
    ) -> R {
        let began = Instant::now();
        self.pending.fetch_add(1, Ordering::Relaxed);
        // Counted down again if the call unwinds too.
        let _pending = Pending(&self.pending);
        while self.sessions_above(SHALLOW_KERNELS, own) > 0 && began.elapsed() < QUIET_WAIT_MAX {
            std::thread::sleep(PAUSE);
        }
        let waited = began.elapsed();
        let others = self.sessions_above(0, own);
        let start = Instant::now();
        let result = f();
        let took = start.elapsed();
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
        if took >= REPORT_MIN
            && let Some(report) = self.reporter.get()
        {
            report(&SyncReport { call, client: client.to_owned(), waited, took, others });
        }
        result
    }
}

struct Pending<'a>(&'a AtomicUsize);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_a_quiet_moment_and_is_counted() {
        let sync = Arc::new(ContextSync::default());
        let busy = sync.join();
        busy.store(100, Ordering::Relaxed);
        assert!(!sync.is_idle());
        // The session drains when it sees that a call is pending; the call is made after that.
        let session = std::thread::spawn({
            let (sync, busy) = (sync.clone(), busy.clone());
            move || {
                while !sync.is_pending() {
                    std::thread::yield_now();
                }
                busy.store(SHALLOW_KERNELS, Ordering::Relaxed);
            }
        });
        let seen = sync.make(ContextCall::LoadModule, "a client", None, || {
            assert!(sync.is_pending());
            busy.load(Ordering::Relaxed)
        });
        session.join().expect("the session");
        assert_eq!((seen, sync.is_pending(), sync.totals().calls), (SHALLOW_KERNELS, false, 1));
        sync.leave(&busy);
        assert!(sync.is_idle());
    }

    #[test]
    fn a_session_does_not_wait_for_its_own_kernels() {
        let sync = ContextSync::default();
        let own = sync.join();
        own.store(100, Ordering::Relaxed);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, Some(&own)), 0);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, None), 1);
        let other = sync.join();
        other.store(100, Ordering::Relaxed);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, Some(&own)), 1);
    }

    #[test]
    fn a_context_that_never_is_quiet_does_not_hold_a_call_up_for_ever() {
        let sync = ContextSync::default();
        let busy = sync.join();
        busy.store(100, Ordering::Relaxed);
        let (reports, reported) = std::sync::mpsc::channel();
        let reports = Mutex::new(reports);
        sync.report_to(move |report| {
            let _ = reports.lock().expect("the channel").send(report.clone());
        });
        let own = sync.join();
        own.store(100, Ordering::Relaxed);
        sync.make(ContextCall::UnregisterHost, "7", Some(&own), || {
            std::thread::sleep(2 * REPORT_MIN)
        });
        let report = reported.try_recv().expect("a report of a long call");
        assert_eq!((report.call, report.others), (ContextCall::UnregisterHost, 1));
        assert_eq!(report.client, "7");
        assert!(report.waited >= QUIET_WAIT_MAX && report.took >= REPORT_MIN);
        sync.make(ContextCall::UnloadModule, "7", None, || ());
        assert!(reported.try_recv().is_err(), "a short call is not worth a line");
    }
}
