//! What a session's thread and the server's main thread share of one client.

use super::policy::limits::SessionLimits;
use crate::meter::ClientCounters;
use crate::scheduling::Member;
use channel::message::{Restored, pid_of_process};
use channel::region::Region;
use channel::request::Repeats;
use channel::ring::Doorbell;
use cuda_api::CudaError;
use cuda_api::extension::TenantUsage;
use locks::Mutex;
pub use recovery::End;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number at this server: from 1 up, never used again.
    pub id: u32,
    /// Its process, as the kernel says (SO_PEERCRED).
    pub pid: u32,
    /// Its user, likewise.
    pub uid: u32,
    /// Its group, likewise.
    pub gid: u32,
    /// Its command line, as it says.
    pub command: String,
    /// The number of its windows of addresses.
    pub window: u32,
    /// It comes from another server.
    pub comes_again: bool,
}

impl Identity {
    /// What waits for the context and the provider's tenants name it by: process and command line.
    pub fn process(&self) -> String {
        format!("{} {}", self.pid, self.command)
    }
}

/// What a session says of its client's part in a fault of the shared context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultEvidence {
    /// What was in flight.
    pub part: recovery::Evidence,
    /// The same in words, for the log.
    pub text: String,
}

/// A client's part in a fault, for those who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPart {
    /// It has the error; else others may have caused it too.
    pub is_faulting: bool,
    /// The error.
    pub error: CudaError,
    /// Which kernel, or what was in flight, in words.
    pub why: String,
}

/// Work of a client that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// For how long, of the stream that has waited for longest, when the session looked last.
    pub waited: Duration,
    /// What is in flight.
    pub evidence: recovery::Evidence,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It is being set up.
    Starting = 0,
    /// It takes requests.
    Active = 1,
    /// Its objects are gone.
    Inactive = 2,
}

/// The shared part.
pub struct SessionLink {
    /// Who the client is.
    pub identity: Identity,
    end: AtomicU8,
    stage: AtomicU8,
    /// What it may have.
    pub limits: SessionLimits,
    /// What it has submitted, and what became of that.
    pub counters: Arc<ClientCounters>,
    /// Its place at the gate that all sessions share.
    pub scheduling: Arc<Member>,
    /// Its tenant, if the provider has tenants, once the session has one.
    pub tenant: OnceLock<u64>,
    /// What the provider counted of its tenant, once the tenant has ended.
    pub last_usage: OnceLock<TenantUsage>,
    /// Requests that this server does not know.
    pub unknown_requests: AtomicU32,
    doorbell: OnceLock<Doorbell>,
    region: OnceLock<Region>,
    ends: AtomicBool,
    evidence: OnceLock<FaultEvidence>,
    stuck: AtomicBool,
    restored: Mutex<Option<Option<Repeats>>>,
    likely: AtomicBool,
    /// How long a kernel of the client has been seen to run, ms, if that is long.
    long_kernel_ms: AtomicU64,
    /// The session is within a request that has an answer.
    in_call: AtomicBool,
    /// Such a request may be given up once the client is handed over.
    call_goes_along: AtomicBool,
    stalled: Mutex<Option<Stall>>,
    fault: Mutex<Option<FaultPart>>,
}

impl SessionLink {
    /// The link of a client that has just come.
    pub fn new(identity: Identity, limits: SessionLimits, scheduling: Member) -> Self {
        Self {
            scheduling: Arc::new(scheduling),
            identity,
            end: AtomicU8::new(0),
            stage: AtomicU8::new(Stage::Starting as u8),
            limits,
            counters: Arc::default(),
            tenant: OnceLock::new(),
            last_usage: OnceLock::new(),
            unknown_requests: AtomicU32::new(0),
            doorbell: OnceLock::new(),
            region: OnceLock::new(),
            ends: AtomicBool::new(false),
            evidence: OnceLock::new(),
            stuck: AtomicBool::new(false),
            restored: Mutex::new(None),
            likely: AtomicBool::new(false),
            long_kernel_ms: AtomicU64::new(0),
            in_call: AtomicBool::new(false),
            call_goes_along: AtomicBool::new(false),
            stalled: Mutex::new(None),
            fault: Mutex::new(None),
        }
    }

    /// Asks the session to end. Of several reasons one counts: [`End::beats`].
    pub fn end(&self, reason: End) {
        let beats = |first| reason.beats(End::of(first)).then_some(reason as u8);
        let _ = self.end.fetch_update(Ordering::AcqRel, Ordering::Acquire, beats);
        self.ring();
    }

    /// Why the session should end, if it should.
    #[inline]
    pub fn ending(&self) -> Option<End> {
        End::of(self.end.load(Ordering::Acquire))
    }

    /// Makes the session look up from its sleep.
    pub fn ring(&self) {
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.ring();
        }
    }

    /// Says where to ring, and where the client reads what it is to know. What asked for the end before that
    /// did not ring, so the session looks once more after it.
    pub fn set_doorbell(&self, doorbell: Doorbell, region: Region) {
        let _ = self.doorbell.set(doorbell);
        let _ = self.region.set(region);
    }

    /// The session has seen that it shall end, and is about it.
    pub fn set_ends(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// True after [`SessionLink::set_ends`].
    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Work of the client, which has ended or was asked to, does not end, and nothing here can end it.
    pub fn set_stuck(&self) {
        self.stuck.store(true, Ordering::Release);
    }

    /// True after [`SessionLink::set_stuck`].
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    /// The client alone is likely to have caused the fault of the shared context.
    pub fn set_likely(&self) {
        self.likely.store(true, Ordering::Release);
    }

    /// True after [`SessionLink::set_likely`].
    pub fn is_likely(&self) -> bool {
        self.likely.load(Ordering::Acquire)
    }

    /// The client has restored what it had at another server, and said what becomes of its work if it had any.
    pub fn set_restored(&self, work: Option<Repeats>) {
        *self.restored.lock() = Some(work);
    }

    /// What there is to say once after [`SessionLink::set_restored`].
    pub fn take_restored(&self) -> Option<Restored> {
        let work = self.restored.lock().take()?;
        Some(Restored {
            process: self.identity.pid,
            operations: work.map_or(0, |work| work.operations),
            is_lost: work.is_some_and(|work| work.lost != 0),
        })
    }

    /// A kernel of the client runs for so long already.
    pub fn set_long_kernel(&self, for_ms: u64) {
        self.long_kernel_ms.store(for_ms.max(1), Ordering::Release);
    }

    /// How long a kernel of the client has been seen to run, ms; 0: none ran for long.
    pub fn long_kernel_ms(&self) -> u64 {
        self.long_kernel_ms.load(Ordering::Acquire)
    }

    /// The session begins a request that has an answer, or ends it.
    pub fn set_in_call(&self, is: bool) {
        self.in_call.store(is, Ordering::Relaxed);
    }

    /// A request that waits may be given up without an answer once the client is handed over: the program makes
    /// it again at the other server.
    pub fn let_call_go_along(&self) {
        self.call_goes_along.store(true, Ordering::Release);
    }

    /// True if the request that the session is within is given up: its client ends, or makes it elsewhere.
    pub fn gives_up_call(&self) -> bool {
        self.ending().is_some_and(|end| end != End::HandedOver || self.makes_call_elsewhere())
    }

    /// True if the request that the session is within is not answered here, but made again elsewhere.
    pub fn makes_call_elsewhere(&self) -> bool {
        let is_in_call = || self.in_call.load(Ordering::Relaxed);
        self.call_goes_along.load(Ordering::Acquire)
            && is_in_call()
            && self.ending() == Some(End::HandedOver)
    }

    /// Says for how long the client's work has made no progress, if that is long. True if it did before.
    pub fn set_stalled(&self, stall: Option<Stall>) -> bool {
        let mut known = self.stalled.lock();
        std::mem::replace(&mut *known, stall).is_none()
    }

    /// What was said by [`SessionLink::set_stalled`].
    pub fn stalled(&self) -> Option<Stall> {
        *self.stalled.lock()
    }

    /// Notes the client's part in a fault, of which the daemon is to be notified.
    pub fn set_fault(&self, part: FaultPart) {
        *self.fault.lock() = Some(part);
    }

    /// What was noted since the last call.
    pub fn take_fault(&self) -> Option<FaultPart> {
        self.fault.lock().take()
    }

    /// Ends the session of a client whose work takes longer than it may, with an error.
    pub fn time_out(&self) {
        if let Some(region) = self.region.get() {
            region.set_sticky_error(CudaError::LAUNCH_TIMEOUT);
        }
        self.end(End::Terminated);
    }

    /// Says what part the client may have had in the shared context's fault. The first word stays.
    pub fn record_evidence(&self, evidence: FaultEvidence) {
        let _ = self.evidence.set(evidence);
    }

    /// What was said by [`SessionLink::record_evidence`].
    pub fn evidence(&self) -> Option<&FaultEvidence> {
        self.evidence.get()
    }

    /// Tells the client why its session ends, if it was asked to: for sessions that did not get so
    /// far in time. That its work is finished only the session can say: without a word it counts as lost.
    pub fn say_why(&self) {
        let reason = self.ending().filter(|end| *end != End::HandedOver).and_then(End::notice);
        if let (Some(reason), Some(region)) = (reason, self.region.get()) {
            region.end_session(reason);
        }
    }

    /// How far the session is.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Starting,
            1 => Stage::Active,
            _ => Stage::Inactive,
        }
    }

    /// Says how far the session is.
    pub fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// How the log names the client.
    pub fn name(&self) -> String {
        let pid = pid_of_process(self.identity.pid);
        format!("{{PID: {pid}, Context ID: {}}}", self.identity.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{SmCount, SmPlaces};
    use crate::scheduling::Scheduler;

    #[test]
    fn the_first_reason_stays_unless_the_client_goes() {
        let (command, comes_again) = ("x".into(), false);
        let identity = Identity { id: 1, pid: 42, uid: 0, gid: 0, command, window: 0, comes_again };
        let places = SmPlaces::new(SmCount { all: 8, step: 1 });
        let limits = SessionLimits::new(
            &Default::default(),
            (0, "GPU-"),
            &places,
            &Default::default(),
            crate::account::MemoryAccount::new(0),
        );
        let member = Scheduler::new(Default::default(), 132).join(Default::default());
        let link = SessionLink::new(identity, limits, member);
        assert_eq!(link.ending(), None);
        link.end(End::Terminated);
        link.end(End::ServerEnds);
        assert_eq!(link.ending(), Some(End::Terminated));
        link.end(End::ClientGone);
        assert_eq!(link.ending(), Some(End::ClientGone));
        assert_eq!(link.name(), "{PID: 42, Context ID: 1}");
    }
}
