//! Submission: what a session needs to give work to the device, and to see what became of it.
//!
//! Launches, copies, events and fences are methods here, in the files beside this one; the gate's part is
//! in `admission.rs`, that of errors in `../fault.rs`. What is no part of it (records that wait, memory, graphs,
//! events) is given to the methods that need it.

use super::fences::REQUESTS_PER_LOOK_AT_FENCES;
use super::pending::Deferral;
use super::table::Streams;
use super::watchdog;
use super::work_in_flight::WorkInFlight;
use crate::common::Common;
use crate::device::Share;
use crate::meter::Meter;
use crate::oversubscription::Participation;
use crate::session::module::table::Modules;
use crate::session::policy::placement::report_unkept;
use crate::session::printing::Printing;
use crate::session::{End, SessionLink};
use channel::message::TraceClient;
use channel::region::Region;
use channel::request::{PrintfDrain, PrintfText};
use cuda_api::settings::Counting;
use cuda_api::{CUresult, CudaError};
use scheduling::Class;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// First and longest pause between two looks at work that a session waits for.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// Pause of a session that is held: others are too, and what they wait for is short.
const HELD_PAUSE: Duration = Duration::from_micros(50);
/// After so many requests in a row a session looks at its work as if it were idle.
const REQUESTS_PER_LOOK: u32 = 1024;

/// A client's work at the device. Fields are dropped in their order, users before what they use.
pub(in crate::session) struct Submission {
    pub work: WorkInFlight,
    pub meter: Meter,
    pub streams: Streams,
    pub modules: Modules,
    pub printing: Printing,
    pub share: Rc<Share>,
    pub region: Region,
    pub link: Arc<SessionLink>,
    pub common: Arc<Common>,
    pub place: Participation,
    /// The error after which nothing is done any more.
    pub sticky: Option<CudaError>,
    /// A record that cannot go now may wait with others: nothing of it was done.
    pub defers: bool,
    /// Why the record that is carried out cannot go now.
    pub deferral: Option<Deferral>,
    pub(super) requests_until_look: u32,
    /// State of the client's limits in which they were last put into effect.
    pub limits_version: u32,
}

impl Submission {
    /// Nothing is submitted.
    pub fn new(
        share: &Rc<Share>,
        link: &Arc<SessionLink>,
        common: &Arc<Common>,
        region: &Region,
    ) -> Self {
        let terms = link.limits.terms();
        Self {
            work: WorkInFlight::new(share, &link.counters, &link.scheduling),
            meter: Meter::new(share, common.counters.counting(), link.identity.id.into()),
            streams: Streams::new(share, terms, region, &link.counters, &link.scheduling),
            modules: Modules::new(share, link, common),
            printing: Printing::new(share, link, common),
            share: share.clone(),
            region: region.clone(),
            link: link.clone(),
            common: common.clone(),
            place: Participation::new(&common.oversubscription),
            sticky: None,
            defers: false,
            deferral: None,
            requests_until_look: REQUESTS_PER_LOOK,
            limits_version: link.limits.version(),
        }
    }

    /// Looks which streams have become idle; false if all are.
    pub fn poll(&mut self) -> Result<bool, CudaError> {
        let work = &mut self.work;
        self.streams.poll(|slot| work.stream_idle(slot))
    }

    /// Looks which kernels are done.
    pub fn make_room(&mut self) -> CUresult {
        self.work.make_room(&mut self.streams)
    }

    /// True if an operation may go to a stream.
    #[inline]
    pub fn has_room(&self, stream: u64) -> bool {
        self.work.has_room(self.streams.queued_in(stream))
    }

    /// What kernels have printed and the client has not fetched yet.
    pub fn drain_printf(&mut self, request: PrintfDrain) -> Result<PrintfText, CudaError> {
        let Self { printing, work, streams, .. } = self;
        printing.drain(request, || streams.poll(|slot| work.stream_idle(slot)))
    }

    /// So many requests were carried out; true if the work is to be looked at.
    #[inline]
    pub fn is_look_due(&mut self, requests: u32) -> bool {
        self.requests_until_look = self.requests_until_look.saturating_sub(requests);
        let is_due = self.requests_until_look == 0;
        if is_due {
            self.requests_until_look = self.requests_per_look();
        }
        is_due
    }

    /// After how many requests in a row the session looks at its work.
    pub(super) fn requests_per_look(&self) -> u32 {
        match self.place.shares_queues() {
            true => REQUESTS_PER_LOOK_AT_FENCES,
            false => REQUESTS_PER_LOOK,
        }
    }

    /// Looks at work that is in flight: what is done, and whether it went wrong.
    pub fn look(&mut self) {
        if self.sticky.is_some() {
            return;
        }
        self.heed_limits();
        self.heed_counters();
        let polled = self.poll().and_then(|_| self.meter.read());
        for (times, submitted_ns) in self.meter.take_followed() {
            self.link.scheduling.sampled(times, submitted_ns);
        }
        if !self.streams.may_be_busy() {
            self.work.close();
        } else if self.share.device().sync().is_pending() {
            self.work.see_progress(&mut self.streams);
        }
        self.follow_trace();
        if let Err(error) = polled {
            self.note(error);
        } else if let Err(error) = self.share.tenant_error() {
            self.fault(error);
        } else if let Some(error) = self.common.fault() {
            self.begin_attribution(error);
        } else {
            self.watch();
        }
    }

    /// Counts and times what the operator wants now.
    fn heed_counters(&mut self) {
        let counting = self.common.counters.counting();
        if counting == Counting::Off {
            self.link.counters.uncounted.set(1);
        }
        // A request whose answer is waited for is not held up for the sake of a time.
        self.meter.set(counting, self.link.scheduling.class() != Class::Latency);
        let time = self.share.submission_time();
        time.set(counting != Counting::Off && !self.share.is_tenant());
        let (calls, together_ns) = time.totals();
        self.link.counters.submissions.set(calls);
        self.link.counters.submitting_ns.set(together_ns);
        if counting == Counting::Cupti {
            let Self { common, link, streams, .. } = self;
            streams.busy_slots(|slot| common.counters.introduce(&slot.stream, &link.counters));
        }
    }

    /// Records the client's work if a reader of the trace asks for it.
    pub fn follow_trace(&mut self) {
        let identity = &self.link.identity;
        if self.meter.follow(&self.common.trace, || self.streams.numbers(), identity.id) {
            self.common.trace.introduce(TraceClient {
                client: identity.id,
                pid: identity.pid,
                command_line: identity.command.clone(),
            });
        }
    }

    /// Waits until `done` says true, with short pauses in between. Ends with an error as soon as
    /// the session is to end.
    pub fn wait_until(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, CudaError>,
    ) -> CUresult {
        if done(self)? {
            return Ok(());
        }
        // Others' calls that wait for the context do not wait for this.
        self.share.in_flight().end_submitting();
        let waited = self.wait_with_pauses(done);
        let may_submit = self.begin_submitting();
        waited?;
        if may_submit { Ok(()) } else { self.check_end() }
    }

    fn wait_with_pauses(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, CudaError>,
    ) -> CUresult {
        let mut pause = PAUSE_MIN;
        loop {
            self.check_end()?;
            // A thread may wait for a fence that is kept back, and this session for what that
            // thread does then.
            self.look();
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            if done(self)? {
                return Ok(());
            }
        }
    }

    /// Waits while nothing may be submitted: another session makes a call that waits for the context. False if
    /// the session is to end before: it has nothing to submit then.
    #[inline]
    pub fn begin_submitting(&mut self) -> bool {
        self.share.device().sync().may_submit(self.share.in_flight()) || self.wait_while_held()
    }

    #[cold]
    fn wait_while_held(&mut self) -> bool {
        let device = self.share.device().clone();
        let sync = device.sync();
        let _waits = sync.begin_waiting();
        // One that is handed over carries out what it has taken.
        while self.link.ending().is_none_or(|end| end == End::HandedOver) {
            if sync.may_submit(self.share.in_flight()) {
                return true;
            }
            // The driver would let this thread in when the call is over.
            if !sync.is_making() {
                self.look();
            }
            sync.wait_while_held(HELD_PAUSE);
        }
        false
    }

    /// Goes on with the terms that were set since it last looked.
    fn heed_limits(&mut self) {
        let version = self.link.limits.version();
        if version == self.limits_version {
            return;
        }
        self.limits_version = version;
        if self.share.is_tenant() {
            return;
        }
        let set = self.streams.set_terms(self.link.limits.terms());
        let unkept = set.err().or(self.streams.unkept());
        report_unkept(&self.link, &self.common, unkept);
    }

    /// Looks whether the client's work makes progress.
    pub fn watch(&mut self) {
        let watched = watchdog::watch(&mut self.streams, &self.share, &self.link, &self.common);
        if let Err(error) = watched {
            self.note(error);
        }
    }
}
