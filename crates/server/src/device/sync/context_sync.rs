//! Calls that wait for the context: made one way, while the context has no work, timed and reported.
//!
//! While such a call waits, no client can launch ([`calls`](crate::device::sync::calls)), and what it waits for may need
//! a launch: a kernel that waits for a kernel on another device (as those of collectives do) ends when
//! that one is submitted, which another server's call of this kind may hold up, and that call may wait for
//! kernels that wait for this device's. So a call is made only when nothing is in flight: by the provider's
//! word of every session's streams, the caller's own too.
//!
//! To get there, the caller's own work ends first, while the others go on (if it does in [`FORCE_AFTER`]). Then
//! sessions keep their submission shallow, until none has more than [`SHALLOW_KERNELS`] launches in flight (of a
//! program's graph nothing can be put off); then they submit nothing while what they have ends, for the bound on
//! holds ([`HOLD_MAX`] by default). If something does not end in that time, all go on for as long, and so on. After
//! [`FORCE_AFTER`] the call is made all the same if all that is in flight makes progress and is shallow: it waits for a few
//! kernels then. Work that makes no progress may wait for what others submit, or for nothing at all: while there is
//! some, sessions are kept shallow for no longer than the bound, and holds take [`HELD_PERCENT_MAX`] of the time at
//! most. Of several calls that wait one asks the provider and has the others held; the quiescent point serves all that
//! waited then, be it for their own work. Behind it those that were held go on for as long as they were ([`turns`]). A call whose client ends
//! meanwhile is not made.
//!
//! A provider with tenants has none of this: its calls wait for nothing of other clients.

mod turns;

use crate::device::sync::in_flight::{STALLED_AFTER, SessionInFlight, Submissions};
use cuda_api::CUstream;
use locks::{Mutex, MutexGuard};
use rustix::thread::{MembarrierCommand, membarrier};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use turns::{Making, Turns};

/// How long sessions submit nothing at a time where nothing else is set: between half of it and all. Beside
/// work that makes no progress they are kept shallow for as long before.
pub const HOLD_MAX: Duration = Duration::from_millis(10);

/// After so long a call is made beside work that makes progress.
const FORCE_AFTER: Duration = STALLED_AFTER;

/// Of the time beside work that makes no progress, how much others are held or kept shallow, in percent.
pub const HELD_PERCENT_MAX: u32 = 5;

/// Kernels that each session may have in flight while a call waits for a quiescent point, or one graph. The call
/// waits for so many launches of each at the most.
pub const SHALLOW_KERNELS: u32 = 4;

/// A call that took longer, or waited longer, is reported.
const REPORT_MIN: Duration = Duration::from_millis(10);
const REPORT_WAIT_MIN: Duration = Duration::from_millis(200);

/// A call that waits is reported after so long, and again whenever it has waited twice as long.
const REPORTED_AFTER: Duration = Duration::from_secs(1);

/// Shortest and longest pause between two looks at what is in flight; longest between two holds.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_micros(200);
const REST_PAUSE_MAX: Duration = Duration::from_millis(2);
/// How often a call that waits for another one's quiescent point looks whether its client ends.
const SHARE_PAUSE: Duration = Duration::from_millis(10);

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
    /// The first launch of a kernel that needs more local memory than any before.
    GrowLocalMemory,
}

impl ContextCall {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::LoadModule,
        Self::UnloadModule,
        Self::UnregisterHost,
        Self::DestroyArray,
        Self::CreateGreenContext,
        Self::GrowLocalMemory,
    ];

    /// What a report calls it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::LoadModule => "loading code",
            Self::UnloadModule => "unloading code",
            Self::UnregisterHost => "unregistering host memory",
            Self::DestroyArray => "destroying an array",
            Self::CreateGreenContext => "making a green context",
            Self::GrowLocalMemory => "taking local memory",
        }
    }
}

/// How far a call is that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// It waits for a quiescent point.
    Waits,
    /// It was made, and took so long.
    Made(Duration),
    /// Its client has ended before there was a quiescent point.
    GivenUp,
}

/// A call that took long, or waits for long.
#[derive(Clone, Debug)]
pub struct SyncReport {
    /// Which.
    pub call: ContextCall,
    /// For which client, as the log names it.
    pub client: String,
    /// How long it waited for a quiescent point.
    pub waited: Duration,
    /// How far it is.
    pub progress: CallProgress,
    /// Other clients that had kernels in flight when it began to wait.
    pub others: Vec<String>,
    /// Clients with work that makes no progress, and for how long it has not.
    pub stalled: Vec<(String, Duration)>,
}

/// What the calls of one kind cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTotals {
    /// Calls made.
    pub calls: u64,
    /// Those of them that had to wait for other clients' kernels.
    pub beside_others: u64,
    /// For how long they waited for a quiescent point before they were made, ns.
    pub waited_ns: u64,
    /// Time in them, ns.
    pub total_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// A call that is being made, or waits for a quiescent point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Which.
    pub call: ContextCall,
    /// For which client, as the log names it.
    pub client: String,
    /// Since when, as a duration.
    pub since: Duration,
    /// Other clients that have kernels in flight, or those whose work made no progress when it was looked at
    /// last, if there are any: what it waits for.
    pub others: Vec<String>,
}

/// A session's count, and its client as the log names it.
#[derive(Clone)]
struct Session {
    in_flight: SessionInFlight,
    client: String,
}

/// A call in flight.
struct CallInFlight {
    number: u64,
    call: ContextCall,
    client: String,
    own: Option<SessionInFlight>,
    since: Instant,
    /// Clients whose work made no progress when it was looked at last.
    stalled: Vec<String>,
}

/// What asks for a call.
struct Request<'a> {
    call: ContextCall,
    client: &'a str,
    own: Option<&'a SessionInFlight>,
    number: u64,
    began: Instant,
    /// Other clients that had kernels in flight then.
    others: Vec<String>,
    /// What the provider says of a stream.
    is_done: &'a dyn Fn(CUstream) -> bool,
    /// Its client ends: the call is not made any more.
    ends: &'a dyn Fn() -> bool,
}

/// Holds so far.
#[derive(Debug, Default)]
struct Rounds {
    /// No hold begins before, unless the work makes progress that the last one waited for.
    rest_until: Option<Instant>,
    stalled: bool,
    count: u64,
}

/// How long others go on after they were held or kept shallow for so long: `stalled` is work that makes no progress.
fn rest_after(took: Duration, stalled: bool) -> Duration {
    if stalled { took * (100 / HELD_PERCENT_MAX - 1) } else { took }
}

/// Sessions submit nothing for so long at a time: between half of the bound and all of it, by a random
/// number. Two servers whose holds are in step would wait for each other's for ever.
fn hold_length(bound: Duration, random: u64) -> Duration {
    bound / 2 + bound / 2 * (random % 1000) as u32 / 1000
}

/// Nothing is in flight, and nothing is submitted, as long as it lives; or the call is made all the same.
/// Dropped in this order.
struct Quiet<'a> {
    _making: Making<'a>,
    _held: Held<'a>,
    _shallow: Option<Shallow<'a>>,
    _owner: Option<Owner<'a>>,
}

/// Who brings about quiescent points. Others may from its end on.
struct Owner<'a> {
    rounds: Option<MutexGuard<'a, Rounds>>,
    turns: &'a Turns,
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        self.rounds = None;
        self.turns.owner_is_gone();
    }
}

type Reporter = Box<dyn Fn(&SyncReport) + Send + Sync>;

/// The door for calls that wait for the context; one a device.
#[derive(Default)]
pub struct ContextSync {
    /// Copied by those who ask the provider about them.
    sessions: Mutex<Arc<Vec<Session>>>,
    /// Calls for which submission is kept shallow now.
    pending: AtomicUsize,
    /// Who makes a call, and what follows it.
    turns: Turns,
    /// Of the calls that wait, the one that has this asks the provider and has others held.
    rounds: Mutex<Rounds>,
    /// Bound on holds; [`HOLD_MAX`] where none was set.
    hold_max: OnceLock<Duration>,
    /// Calls for which nothing may be submitted now.
    holding: AtomicUsize,
    /// All sessions are to end: calls wait for no quiescent point any more.
    hurries: AtomicBool,
    calls_in_flight: Mutex<Vec<CallInFlight>>,
    numbers: AtomicU64,
    totals: Mutex<[SyncTotals; ContextCall::ALL.len()]>,
    reporter: OnceLock<Reporter>,
}

impl ContextSync {
    /// Says what becomes of reports. Only the first is heard.
    pub fn report_to(&self, reporter: impl Fn(&SyncReport) + Send + Sync + 'static) {
        let _ = self.reporter.set(Box::new(reporter));
    }

    /// Bounds for how long sessions submit nothing at a time. Only the first is heard.
    pub fn set_hold_max(&self, bound: Duration) {
        let _ = self.hold_max.set(bound);
    }

    fn hold_max(&self) -> Duration {
        self.hold_max.get().copied().unwrap_or(HOLD_MAX)
    }

    /// The count of kernels in flight of a new session, which keeps it up to date; the log names its
    /// client like that.
    pub fn join(&self, client: &str) -> SessionInFlight {
        let in_flight = SessionInFlight::default();
        let session = Session { in_flight: in_flight.clone(), client: client.to_owned() };
        let mut sessions = self.sessions.lock();
        Arc::make_mut(&mut sessions).push(session);
        in_flight
    }

    /// The sessions as they are now. No lock is held while the provider is asked about their streams: it
    /// may not answer for as long as a call is made.
    fn sessions(&self) -> Arc<Vec<Session>> {
        self.sessions.lock().clone()
    }

    /// The session's end.
    pub fn leave(&self, count: &SessionInFlight) {
        let mut sessions = self.sessions.lock();
        Arc::make_mut(&mut sessions).retain(|session| !Arc::ptr_eq(&session.in_flight, count));
    }

    /// All sessions are to end: no call waits for a quiescent point any more, which an endless kernel keeps away.
    pub fn hurry(&self) {
        self.hurries.store(true, Ordering::Relaxed);
    }

    fn hurries(&self) -> bool {
        self.hurries.load(Ordering::Relaxed)
    }

    /// True if no session but `own` has more than [`SHALLOW_KERNELS`] launches in flight. One that waits here
    /// itself does not count down: the provider says when its work has ended.
    fn is_shallow(
        &self,
        own: Option<&SessionInFlight>,
        is_done: &dyn Fn(CUstream) -> bool,
    ) -> bool {
        let sessions = self.sessions();
        let mut deep =
            sessions.iter().filter(|of| !of.is(own) && of.in_flight.launches() > SHALLOW_KERNELS);
        deep.all(|session| !session.in_flight.has_work(is_done))
    }

    /// True if nothing is in flight, by what the provider says of a stream.
    pub(in crate::device) fn is_quiet(&self, is_done: &dyn Fn(CUstream) -> bool) -> bool {
        self.sessions().iter().all(|session| session.in_flight.is_done(is_done))
    }

    /// Clients with work that makes no progress, and for how long it has not.
    fn stalled(&self, is_done: &dyn Fn(CUstream) -> bool) -> Vec<(String, Duration)> {
        let sessions = self.sessions();
        let stalled = |of: &Session| Some((of.client.clone(), of.in_flight.stalled(is_done)?));
        sessions.iter().filter_map(stalled).collect()
    }

    /// True if a session has work that makes no progress.
    fn is_stalled(&self, is_done: &dyn Fn(CUstream) -> bool) -> bool {
        self.sessions().iter().any(|of| of.in_flight.stalled(is_done).is_some())
    }

    /// True if there is no session but `own`.
    fn is_alone(&self, own: Option<&SessionInFlight>) -> bool {
        self.sessions().iter().all(|session| session.is(own))
    }

    /// The clients of sessions but `own` that have kernels in flight.
    fn others(&self, own: Option<&SessionInFlight>) -> Vec<String> {
        let sessions = self.sessions();
        let others = sessions.iter().filter(|of| !of.is(own) && of.in_flight.kernels() > 0);
        others.map(|session| session.client.clone()).collect()
    }

    /// Streams of all sessions with launches in flight, as far as the sessions know.
    pub fn streams_with_launches(&self) -> u32 {
        let of_each = self.sessions();
        of_each.iter().map(|session| session.in_flight.streams_with_launches()).sum()
    }

    /// True if no session is known to have work in flight.
    pub fn is_idle(&self) -> bool {
        self.sessions().iter().all(|session| !session.in_flight.may_be_busy())
    }

    /// True while nothing is to be submitted.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.holding.load(Ordering::Relaxed) > 0
    }

    /// True if a session may submit something now, until it says that it does not
    /// ([`Submissions::end_submitting`]).
    #[inline]
    pub fn may_submit(&self, own: &Submissions) -> bool {
        own.begin_submitting();
        // The other half is in `Held::begin`: a barrier in this thread too, on the side that is rare.
        compiler_fence(Ordering::SeqCst);
        let may = !self.is_held();
        if !may {
            own.end_submitting();
        }
        may
    }

    /// True while a call is being made: the provider may let no other thread in until it is over.
    pub fn is_making(&self) -> bool {
        self.turns.is_making()
    }

    /// Waits until something may be submitted again, or for so long, as a session that has something to
    /// submit: behind a call it gets its turn before the next hold.
    pub fn wait_while_held(&self, longest: Duration) {
        self.turns.wait_for_release(longest, || !self.is_held());
    }

    /// A session has something to submit and waits until it may, as long as the result lives.
    pub fn begin_waiting(&self) -> impl Drop + '_ {
        self.turns.begin_waiting()
    }

    /// True while submission is to be kept shallow.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// What such calls cost so far, by kind.
    pub fn totals(&self) -> impl Iterator<Item = (ContextCall, SyncTotals)> {
        let totals = *self.totals.lock();
        ContextCall::ALL.into_iter().zip(totals)
    }

    /// The calls that are being made or wait now, the oldest first.
    pub fn waiting(&self) -> Vec<OpenCall> {
        let calls_in_flight = self.calls_in_flight.lock();
        let waiting = calls_in_flight.iter().map(|of| OpenCall {
            call: of.call,
            client: of.client.clone(),
            since: of.since.elapsed(),
            others: match of.stalled.is_empty() {
                true => self.others(of.own.as_ref()),
                false => of.stalled.clone(),
            },
        });
        waiting.collect()
    }

    /// A call that has waited for so long for work that makes no progress, none of it its own client's: that
    /// client, and those whose work it is.
    pub fn waits_behind_stalled(&self, longest: Duration) -> Option<(String, Vec<String>)> {
        let calls_in_flight = self.calls_in_flight.lock();
        let mut late =
            calls_in_flight.iter().filter(|of| of.own.is_some() && of.since.elapsed() >= longest);
        let of = late.find(|of| !of.stalled.is_empty() && !of.stalled.contains(&of.client))?;
        Some((of.client.clone(), of.stalled.clone()))
    }

    /// Lists a call that waits for what another client does, until the result is dropped.
    pub(in crate::device) fn list(
        &self,
        call: ContextCall,
        client: &str,
        own: Option<&SessionInFlight>,
    ) -> Listed<'_> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.calls_in_flight.lock().push(CallInFlight {
            number,
            call,
            client: client.to_owned(),
            own: own.cloned(),
            since: Instant::now(),
            stalled: Vec::new(),
        });
        Listed { sync: self, number }
    }

    /// Makes a call that waits for the context, for `client`, when nothing is in flight: `is_done` is what
    /// the provider says of a stream. A client that is alone waits within the call. `None` if `ends` said
    /// that the client ends before it was made.
    pub(in crate::device) fn make<R>(
        &self,
        call: ContextCall,
        (client, own): (&str, Option<&SessionInFlight>),
        is_done: &dyn Fn(CUstream) -> bool,
        ends: &dyn Fn() -> bool,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        // Taken back if the call unwinds too.
        let listed = self.list(call, client, own);
        let (number, began, others) = (listed.number, Instant::now(), self.others(own));
        let request = Request { call, client, own, number, began, others, is_done, ends };
        // A session that waits here submits nothing meanwhile.
        let submits = own.is_some_and(|own| own.pause_submitting());
        let made = self.make_in_turn(&request, f);
        if let Some(own) = own.filter(|_| submits) {
            own.resume_submitting();
        }
        made
    }

    /// Makes a call that waits for the context, for the server itself, if nothing is in flight now: others are
    /// held for the call's own time at most. `None` if something is.
    pub(in crate::device) fn make_if_quiet<R>(
        &self,
        call: ContextCall,
        is_done: &dyn Fn(CUstream) -> bool,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let began = Instant::now();
        if self.turns.rests() {
            return None;
        }
        let _making = self.turns.try_make(began)?;
        if !self.is_quiet(is_done) {
            return None;
        }
        let _held = Held::begin(self);
        // Sessions may have submitted something until then.
        if !self.is_quiet(is_done) {
            return None;
        }
        let (waited, start) = (began.elapsed(), Instant::now());
        let result = f();
        self.count(call, waited, start.elapsed(), false);
        Some(result)
    }

    fn make_in_turn<R>(&self, request: &Request<'_>, f: impl FnOnce() -> R) -> Option<R> {
        let quiet = match self.is_alone(request.own) {
            true => None,
            false => match self.wait_for_quiet(request) {
                None => {
                    self.report(request, CallProgress::GivenUp, Vec::new());
                    return None;
                }
                quiet => quiet,
            },
        };
        let (waited, start) = (request.began.elapsed(), Instant::now());
        let result = f();
        let took = start.elapsed();
        drop(quiet);
        self.count(request.call, waited, took, !request.others.is_empty());
        if took >= REPORT_MIN || waited >= REPORT_WAIT_MIN {
            self.report(request, CallProgress::Made(took), Vec::new());
        }
        Some(result)
    }

    fn report(&self, of: &Request<'_>, progress: CallProgress, stalled: Vec<(String, Duration)>) {
        let Some(report) = self.reporter.get() else { return };
        let mut waited = of.began.elapsed();
        if let CallProgress::Made(took) = progress {
            waited = waited.saturating_sub(took);
        }
        let (client, others) = (of.client.to_owned(), of.others.clone());
        report(&SyncReport { call: of.call, client, waited, progress, others, stalled });
    }

    /// Tells of a call that waits, when it has waited for so long.
    fn report_if_due(&self, of: &Request<'_>, after: &mut Duration) {
        if of.began.elapsed() >= *after {
            *after *= 2;
            self.report(of, CallProgress::Waits, self.turns.stalled());
        }
    }

    /// Waits until nothing is in flight and nothing is submitted, which stays so as long as the result
    /// lives; or until that has taken long enough. `None` if the client ends meanwhile.
    fn wait_for_quiet(&self, of: &Request<'_>) -> Option<Quiet<'_>> {
        let mut after = REPORTED_AFTER;
        while !(of.ends)() {
            if self.wait_for_own_work(of)
                && let Some(rounds) = self.rounds.try_lock()
            {
                self.turns.owner_is_there();
                return self.bring_about(rounds, of, &mut after);
            }
            // Another call has the others held.
            if let Some(quiet) = self.share_quiet(of) {
                return Some(quiet);
            }
            self.report_if_due(of, &mut after);
        }
        None
    }

    /// Waits a while for the caller's own work to end: no hold of the others brings about a quiescent point before.
    /// What takes longer may need the device to itself. False if another call has the others held, whose quiescent point
    /// may come before.
    fn wait_for_own_work(&self, of: &Request<'_>) -> bool {
        let mut is_over = false;
        wait(FORCE_AFTER, PAUSE_MAX, || {
            is_over = of.began.elapsed() >= FORCE_AFTER
                || !of.own.is_some_and(|own| own.has_work(of.is_done))
                || self.hurries();
            is_over || self.turns.has_owner() || (of.ends)()
        });
        is_over
    }

    /// Has the others held again and again, until there is a quiescent point. `None` if the client ends
    /// meanwhile.
    fn bring_about<'a>(
        &'a self,
        rounds: MutexGuard<'a, Rounds>,
        of: &Request<'_>,
        after: &mut Duration,
    ) -> Option<Quiet<'a>> {
        let mut owner = Owner { rounds: Some(rounds), turns: &self.turns };
        while !(of.ends)() {
            let quiet = owner.rounds.as_mut().and_then(|rounds| self.round(rounds, of));
            if let Some(quiet) = quiet {
                return Some(Quiet { _owner: Some(owner), ..quiet });
            }
            let stalled = self.stalled(of.is_done);
            let names: Vec<String> = stalled.iter().map(|(client, _)| client.clone()).collect();
            self.calls_in_flight.lock().iter_mut().for_each(|of| of.stalled.clone_from(&names));
            self.turns.set_stalled(stalled);
            self.report_if_due(of, after);
        }
        None
    }

    /// Waits a little for a quiescent point that another call brings about.
    fn share_quiet(&self, of: &Request<'_>) -> Option<Quiet<'_>> {
        let making = self.turns.wait_for_quiescent_point(of.number, SHARE_PAUSE, of.ends)?;
        // They stay held after that call. It may have submitted something itself.
        let held = Held(self);
        let quiet = Quiet { _making: making?, _held: held, _shallow: None, _owner: None };
        (self.is_quiet(of.is_done) && !(of.ends)()).then_some(quiet)
    }

    /// Has others held once, after they have gone on for as long as they may.
    fn round(&self, rounds: &mut Rounds, of: &Request<'_>) -> Option<Quiet<'_>> {
        if let Some(until) = rounds.rest_until {
            let mut is_over = false;
            wait(REPORTED_AFTER, REST_PAUSE_MAX, || {
                is_over = Instant::now() >= until
                    || self.is_quiet(of.is_done)
                    || rounds.stalled && !self.is_stalled(of.is_done)
                    || self.hurries();
                is_over || (of.ends)()
            });
            if !is_over {
                return None;
            }
        }
        // Behind a call others go on first, though nothing is in flight yet.
        let may_hold = || !self.turns.rests() || self.hurries();
        wait(REPORTED_AFTER, PAUSE_MAX, || may_hold() || (of.ends)());
        if !may_hold() {
            return None;
        }
        let start = Instant::now();
        let shallow = Shallow::begin(self);
        let mut is_shallow = false;
        let mut look = || {
            is_shallow =
                self.is_shallow(of.own, of.is_done) || self.is_held() && self.is_quiet(of.is_done);
            is_shallow || self.hurries()
        };
        wait(self.hold_max(), PAUSE_MAX, &mut look);
        // Kept shallow they go on: where all work makes progress, there is time.
        let mut may_end = || look() || self.is_stalled(of.is_done) || (of.ends)();
        if !may_end() {
            wait(REPORTED_AFTER, REST_PAUSE_MAX, may_end);
        }
        if !is_shallow && !self.hurries() && !self.is_stalled(of.is_done) {
            rounds.rest_until = None;
            return None;
        }
        let (held, since) = (Held::begin(self), Instant::now());
        let random = RandomState::new().hash_one(rounds.count);
        rounds.count += 1;
        let mut making = None;
        wait(hold_length(self.hold_max(), random), PAUSE_MAX, || {
            if self.is_quiet(of.is_done) {
                // Another call may submit something itself.
                making = self.turns.try_make(since).filter(|_| self.is_quiet(of.is_done));
            }
            making.is_some() || self.hurries() || (of.ends)()
        });
        // In this order: work of which nothing has ended since the call began has stood still for as long.
        let is_late = of.began.elapsed() >= FORCE_AFTER;
        let stalled = self.stalled(of.is_done);
        rounds.stalled = !stalled.is_empty();
        let makes_progress =
            || is_late && stalled.is_empty() && self.is_shallow(of.own, of.is_done);
        if making.is_none() && !(of.ends)() && (self.hurries() || makes_progress()) {
            making = self.turns.try_make(since);
        }
        if let Some(making) = making {
            rounds.rest_until = None;
            self.holding.fetch_add(self.turns.admit(), Ordering::SeqCst);
            return Some(Quiet {
                _making: making,
                _held: held,
                _shallow: Some(shallow),
                _owner: None,
            });
        }
        drop((held, shallow));
        let rest = rest_after(start.elapsed(), rounds.stalled);
        rounds.rest_until = Instant::now().checked_add(rest);
        None
    }
}

/// Waits until `is_over` says true, or for so long; looks at least once each `pause_max`.
fn wait(longest: Duration, pause_max: Duration, mut is_over: impl FnMut() -> bool) {
    let end = Instant::now() + longest;
    let mut pause = PAUSE_MIN;
    while !is_over() && Instant::now() < end {
        std::thread::sleep(pause);
        pause = (pause * 2).min(pause_max);
    }
}

impl ContextSync {
    fn count(&self, call: ContextCall, waited: Duration, took: Duration, beside_others: bool) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(totals) = self.totals.lock().get_mut(call as usize) {
            totals.calls += 1;
            totals.beside_others += u64::from(beside_others);
            totals.waited_ns = totals.waited_ns.saturating_add(ns(waited));
            totals.total_ns = totals.total_ns.saturating_add(ns(took));
            totals.longest_ns = totals.longest_ns.max(ns(took));
        }
    }
}

impl Session {
    fn is(&self, own: Option<&SessionInFlight>) -> bool {
        own.is_some_and(|own| Arc::ptr_eq(&self.in_flight, own))
    }
}

/// As long as it lives, sessions keep their submission shallow.
struct Shallow<'a>(&'a ContextSync);

impl<'a> Shallow<'a> {
    fn begin(sync: &'a ContextSync) -> Self {
        sync.pending.fetch_add(1, Ordering::Relaxed);
        Self(sync)
    }
}

impl Drop for Shallow<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// As long as it lives, sessions submit nothing.
struct Held<'a>(&'a ContextSync);

impl<'a> Held<'a> {
    fn begin(sync: &'a ContextSync) -> Self {
        sync.holding.fetch_add(1, Ordering::SeqCst);
        barrier_in_all_threads();
        Self(sync)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.0.holding.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.turns.release();
        }
    }
}

/// A memory barrier in every thread of the process, so that what is frequent needs none.
fn barrier_in_all_threads() {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let call = |command| membarrier(command).is_ok();
    let register = || call(MembarrierCommand::RegisterPrivateExpedited);
    if !*REGISTERED.get_or_init(register) || !call(MembarrierCommand::PrivateExpedited) {
        // A kernel without it: by then every processor has passed a barrier of its own.
        std::thread::sleep(HOLD_MAX);
    }
}

/// A call in the list of those in flight.
pub(in crate::device) struct Listed<'a> {
    sync: &'a ContextSync,
    number: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.sync.calls_in_flight.lock().retain(|of| of.number != self.number);
    }
}

#[cfg(test)]
mod tests;
