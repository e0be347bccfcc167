//! Calls that wait for the context: made one way, at a quiet moment, timed and reported.
//!
//! While such a call waits, no client can launch ([`calls`](super::calls)). So it is made when few
//! kernels are in flight: for up to [`QUIET_WAIT_MAX`] before it, sessions keep their submission
//! shallow, so that what the call waits for is short. A kernel that runs for long cannot be cut
//! short; the report then says who waited for how long.
//!
//! A provider with tenants has none of this: its calls wait for nothing of other clients.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [
        Self::LoadModule,
        Self::UnloadModule,
        Self::UnregisterHost,
        Self::DestroyArray,
        Self::CreateGreenContext,
    ];

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
    /// Other clients that had kernels in flight when it was made.
    pub others: Vec<String>,
}

/// What the calls of one kind cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTotals {
    /// Calls made.
    pub calls: u64,
    /// Those of them that were made while other clients had kernels in flight, which is what they
    /// waited for.
    pub beside_others: u64,
    /// For how long they waited for a quiet moment before they were made, ns.
    pub waited_ns: u64,
    /// Time in them, ns.
    pub total_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// A call that is being made, or waits for a quiet moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub call: ContextCall,
    /// For which client, as the log names it.
    pub client: String,
    /// Since when, as a duration.
    pub since: Duration,
    /// Other clients that have kernels in flight: what it waits for.
    pub others: Vec<String>,
}

/// Kernels that one session has in flight, readable by others.
pub type InFlight = Arc<AtomicU32>;

/// A session's count, and its client as the log names it.
struct Session {
    in_flight: InFlight,
    client: String,
}

/// A call under way.
struct UnderWay {
    number: u64,
    call: ContextCall,
    client: String,
    own: Option<InFlight>,
    since: Instant,
}

type Reporter = Box<dyn Fn(&SyncReport) + Send + Sync>;

/// The door for calls that wait for the context; one a device.
#[derive(Default)]
pub struct ContextSync {
    sessions: Mutex<Vec<Session>>,
    /// Calls that wait for a quiet moment, or are under way.
    pending: AtomicUsize,
    under_way: Mutex<Vec<UnderWay>>,
    numbers: AtomicU64,
    totals: Mutex<[SyncTotals; ContextCall::ALL.len()]>,
    reporter: OnceLock<Reporter>,
}

impl ContextSync {
    /// Says what becomes of reports. Only the first is heard.
    pub fn report_to(&self, reporter: impl Fn(&SyncReport) + Send + Sync + 'static) {
        let _ = self.reporter.set(Box::new(reporter));
    }

    /// The count of kernels in flight of a new session, which keeps it up to date; the log names its
    /// client like that.
    pub fn join(&self, client: &str) -> InFlight {
        let in_flight = InFlight::default();
        let session = Session { in_flight: in_flight.clone(), client: client.to_owned() };
        locked(&self.sessions).push(session);
        in_flight
    }

    /// The session's end.
    pub fn leave(&self, count: &InFlight) {
        locked(&self.sessions).retain(|session| !Arc::ptr_eq(&session.in_flight, count));
    }

    /// Sessions but `own` with more than so many kernels in flight.
    fn sessions_above(&self, kernels: u32, own: Option<&InFlight>) -> usize {
        let sessions = locked(&self.sessions);
        sessions.iter().filter(|session| session.is_above(kernels, own)).count()
    }

    /// The clients of sessions but `own` that have kernels in flight.
    fn others(&self, own: Option<&InFlight>) -> Vec<String> {
        let sessions = locked(&self.sessions);
        let others = sessions.iter().filter(|session| session.is_above(0, own));
        others.map(|session| session.client.clone()).collect()
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

    /// What such calls cost so far, by kind.
    pub fn totals(&self) -> impl Iterator<Item = (ContextCall, SyncTotals)> {
        let totals = *locked(&self.totals);
        ContextCall::ALL.into_iter().zip(totals)
    }

    /// The calls that are being made or wait now, the oldest first.
    pub fn waiting(&self) -> Vec<Waiting> {
        let under_way = locked(&self.under_way);
        let waiting = under_way.iter().map(|of| Waiting {
            call: of.call,
            client: of.client.clone(),
            since: of.since.elapsed(),
            others: self.others(of.own.as_ref()),
        });
        waiting.collect()
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
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        locked(&self.under_way).push(UnderWay {
            number,
            call,
            client: client.to_owned(),
            own: own.cloned(),
            since: began,
        });
        // Taken back if the call unwinds too.
        let _pending = Pending { sync: self, number };
        while self.sessions_above(SHALLOW_KERNELS, own) > 0 && began.elapsed() < QUIET_WAIT_MAX {
            std::thread::sleep(PAUSE);
        }
        let waited = began.elapsed();
        let others = self.others(own);
        let start = Instant::now();
        let result = f();
        let took = start.elapsed();
        self.count(call, waited, took, !others.is_empty());
        if took >= REPORT_MIN
            && let Some(report) = self.reporter.get()
        {
            report(&SyncReport { call, client: client.to_owned(), waited, took, others });
        }
        result
    }
}

impl ContextSync {
    fn count(&self, call: ContextCall, waited: Duration, took: Duration, beside_others: bool) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(totals) = locked(&self.totals).get_mut(call as usize) {
            totals.calls += 1;
            totals.beside_others += u64::from(beside_others);
            totals.waited_ns = totals.waited_ns.saturating_add(ns(waited));
            totals.total_ns = totals.total_ns.saturating_add(ns(took));
            totals.longest_ns = totals.longest_ns.max(ns(took));
        }
    }
}

impl Session {
    fn is_above(&self, kernels: u32, own: Option<&InFlight>) -> bool {
        own.is_none_or(|own| !Arc::ptr_eq(&self.in_flight, own))
            && self.in_flight.load(Ordering::Relaxed) > kernels
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pending<'a> {
    sync: &'a ContextSync,
    number: u64,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.sync.pending.fetch_sub(1, Ordering::Relaxed);
        locked(&self.sync.under_way).retain(|of| of.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_a_quiet_moment_and_is_counted() {
        let sync = Arc::new(ContextSync::default());
        let busy = sync.join("3");
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
            let [waiting] = &sync.waiting()[..] else { panic!("one call is under way") };
            let (call, client) = (waiting.call, waiting.client.as_str());
            assert_eq!((call, client), (ContextCall::LoadModule, "a client"));
            assert_eq!(waiting.others, ["3"], "it waits for them");
            busy.load(Ordering::Relaxed)
        });
        session.join().expect("the session");
        assert_eq!((seen, sync.is_pending(), sync.waiting()), (SHALLOW_KERNELS, false, vec![]));
        for (call, totals) in sync.totals() {
            let count = u64::from(call == ContextCall::LoadModule);
            assert_eq!((totals.calls, totals.beside_others), (count, count), "{call:?}");
            assert!(totals.longest_ns <= totals.total_ns);
        }
        sync.leave(&busy);
        assert!(sync.is_idle());
    }

    #[test]
    fn a_session_does_not_wait_for_its_own_kernels() {
        let sync = ContextSync::default();
        let own = sync.join("7");
        own.store(100, Ordering::Relaxed);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, Some(&own)), 0);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, None), 1);
        let other = sync.join("9");
        other.store(100, Ordering::Relaxed);
        assert_eq!(sync.sessions_above(SHALLOW_KERNELS, Some(&own)), 1);
    }

    #[test]
    fn a_context_that_never_is_quiet_does_not_hold_a_call_up_for_ever() {
        let sync = ContextSync::default();
        let busy = sync.join("3");
        busy.store(100, Ordering::Relaxed);
        let (reports, reported) = std::sync::mpsc::channel();
        let reports = Mutex::new(reports);
        sync.report_to(move |report| {
            let _ = reports.lock().expect("the channel").send(report.clone());
        });
        let own = sync.join("7");
        own.store(100, Ordering::Relaxed);
        sync.make(ContextCall::UnregisterHost, "7", Some(&own), || {
            std::thread::sleep(2 * REPORT_MIN)
        });
        let report = reported.try_recv().expect("a report of a long call");
        assert_eq!(
            (report.call, report.others),
            (ContextCall::UnregisterHost, vec!["3".to_owned()])
        );
        assert_eq!(report.client, "7");
        assert!(report.waited >= QUIET_WAIT_MAX && report.took >= REPORT_MIN);
        sync.make(ContextCall::UnloadModule, "7", None, || ());
        assert!(reported.try_recv().is_err(), "a short call is not worth a line");
    }
}
