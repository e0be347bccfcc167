//! State words of the region: errors, the server's life, host functions.

use super::{
    ASYNC_ERROR, HOST_CALL_SIGNAL, LIKELY_FAULT, LIVENESS_FACTOR, Region, SERVER_STATE,
    SESSION_END, STICKY_ERROR, WAITING, WAKEUPS,
};
use crate::shared::SharedU32;
use crate::wait::{LIVENESS_PERIOD, LIVENESS_PERIOD_MAX, SpinPolicy};
use core::time::Duration;
use cuda_api::{CUresult, CudaError, result_from_code};

/// What a server is doing for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ServerState {
    /// It does not pop requests yet.
    Starting = 0,
    /// It pops requests.
    Running = 1,
    /// It never will again.
    Ended = 2,
}

/// How a client's threads should wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Waiting {
    /// As their process' policy says.
    #[default]
    Plain = 0,
    /// Programs leave no core free: waiters had better leave the cores to others.
    Oversubscribed = 1,
    /// The client is latency-critical, and there are cores for all: they spin.
    BusyPoll = 2,
}

impl Waiting {
    /// The policy for a wait of the client.
    pub fn policy(self, policy: SpinPolicy) -> SpinPolicy {
        match self {
            Self::Plain => policy,
            Self::Oversubscribed => policy.oversubscribed(),
            Self::BusyPoll => policy.busy_polling(),
        }
    }

    /// The policy of the consumer of the client's ring; `coalesces`: it carries out several records at once
    /// while programs leave no core free.
    pub fn consumer_policy(self, policy: SpinPolicy, coalesces: bool) -> SpinPolicy {
        match self {
            Self::Plain => policy,
            Self::Oversubscribed if coalesces => policy.coalescing_consumer(),
            Self::Oversubscribed => policy.oversubscribed_consumer(),
            Self::BusyPoll => policy.busy_polling_consumer(),
        }
    }
}

/// Why a server ended a client's session, in its own words; a server that dies leaves none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SessionEnd {
    /// `terminate_client` named this client.
    Terminated = 1,
    /// The server was asked to end, and its clients with it.
    ServerShutDown = 2,
    /// The control daemon is gone without a word, and no server outlives its daemon.
    DaemonGone = 3,
    /// What came through the ring was no request.
    ClientBroken = 4,
    /// The session failed within the server.
    SessionFailed = 5,
    /// The server ends for a reason that is not this client's: another program's fault, an
    /// upgrade. The client shall attach again and go on with another server; no error is set.
    Moved = 6,
    /// As [`SessionEnd::Moved`], and all that the server took from the ring is done.
    HandedOver = 7,
}

impl SessionEnd {
    /// The error that the client's calls get from then on; `None` if it is to attach again.
    pub const fn error(self) -> Option<CudaError> {
        match self {
            Self::Terminated | Self::ServerShutDown => Some(CudaError::MPS_CLIENT_TERMINATED),
            Self::DaemonGone | Self::ClientBroken | Self::SessionFailed => {
                Some(CudaError::MPS_RPC_FAILURE)
            }
            Self::Moved | Self::HandedOver => None,
        }
    }

    /// True if the client is to attach again.
    pub const fn is_move(self) -> bool {
        self.error().is_none()
    }
}

impl Region {
    /// Says why the session is going to end: the reason, then its error, if it has one, as the
    /// sticky one. The first reason stays, and so does an earlier error.
    pub fn set_session_end(&self, reason: SessionEnd) {
        let _ = self.u32_at(SESSION_END).compare_exchange(0, reason as u32);
        if let Some(error) = reason.error() {
            self.set_sticky_error(error);
        }
    }

    /// Says why the session ends, and that no thread pops requests any more.
    pub fn end_session(&self, reason: SessionEnd) {
        self.set_session_end(reason);
        self.set_server_state(ServerState::Ended);
    }

    /// Why the session ended, if the server has said so.
    pub fn session_end(&self) -> Option<SessionEnd> {
        match self.u32_at(SESSION_END).load() {
            1 => Some(SessionEnd::Terminated),
            2 => Some(SessionEnd::ServerShutDown),
            3 => Some(SessionEnd::DaemonGone),
            4 => Some(SessionEnd::ClientBroken),
            5 => Some(SessionEnd::SessionFailed),
            6 => Some(SessionEnd::Moved),
            7 => Some(SessionEnd::HandedOver),
            _ => None,
        }
    }

    /// The error after which every call fails, if there is one: set once and for good.
    #[inline]
    pub fn sticky_error(&self) -> CUresult {
        result_from_code(self.u32_at(STICKY_ERROR).load())
    }

    /// Sets the sticky error. The first one stays.
    pub fn set_sticky_error(&self, error: CudaError) {
        let _ = self.u32_at(STICKY_ERROR).compare_exchange(0, error.code());
    }

    /// Says with which error the client's work is lost if it cannot be repeated elsewhere: it is likely to have
    /// caused that.
    pub fn set_likely_fault(&self, error: CudaError) {
        self.u32_at(LIKELY_FAULT).store(error.code());
    }

    /// The error of a fault that the client is likely to have caused, if the server has said so.
    pub fn likely_fault(&self) -> Option<CudaError> {
        result_from_code(self.u32_at(LIKELY_FAULT).load()).err()
    }

    /// Notes the error of a post, to be reported by a later call. The first unreported one stays.
    pub fn note_async_error(&self, error: CudaError) {
        let _ = self.u32_at(ASYNC_ERROR).compare_exchange(0, error.code());
    }

    /// The first unreported error of a post, which is thereby reported.
    #[inline]
    pub fn take_async_error(&self) -> CUresult {
        let word = self.u32_at(ASYNC_ERROR);
        // Nearly always there is none: a read leaves the cache line shared by all cores that have
        // it.
        if word.load() == 0 { Ok(()) } else { result_from_code(word.swap(0)) }
    }

    /// The first unreported error of a post, which stays unreported.
    #[inline]
    pub fn async_error(&self) -> CUresult {
        result_from_code(self.u32_at(ASYNC_ERROR).load())
    }

    /// What the server is doing. A number that stands for nothing is an ended server.
    pub fn server_state(&self) -> ServerState {
        match self.u32_at(SERVER_STATE).load() {
            0 => ServerState::Starting,
            1 => ServerState::Running,
            _ => ServerState::Ended,
        }
    }

    /// Says what the server is doing and wakes the threads that wait for a change.
    pub fn set_server_state(&self, state: ServerState) {
        let word = self.server_state_word();
        word.store(state as u32);
        crate::wait::wake(word);
    }

    /// The word of [`Region::server_state`], to sleep on.
    pub fn server_state_word(&self) -> SharedU32<'_> {
        self.u32_at(SERVER_STATE)
    }

    /// How the client should wait. A number that stands for nothing is [`Waiting::Plain`].
    pub fn waiting(&self) -> Waiting {
        match self.u32_at(WAITING).load() {
            1 => Waiting::Oversubscribed,
            2 => Waiting::BusyPoll,
            _ => Waiting::Plain,
        }
    }

    /// Says how the client should wait.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.u32_at(WAITING).store(waiting as u32);
    }

    /// The policy for a wait of the client: its process' as the server has it changed.
    pub fn client_policy(&self, policy: SpinPolicy) -> SpinPolicy {
        SpinPolicy { liveness: self.liveness_period(), ..self.waiting().policy(policy) }
    }

    /// How often the client looks whether its server lives while it waits: [`LIVENESS_PERIOD`], or
    /// more where many clients wait, up to [`LIVENESS_PERIOD_MAX`].
    pub fn liveness_period(&self) -> Duration {
        let factor = self.u32_at(LIVENESS_FACTOR).load().max(1);
        LIVENESS_PERIOD.saturating_mul(factor).min(LIVENESS_PERIOD_MAX)
    }

    /// Has the client look so much less often than usual whether its server lives.
    pub fn set_liveness_factor(&self, factor: u32) {
        self.u32_at(LIVENESS_FACTOR).store(factor);
    }

    /// Bumped and woken with each host function that the client shall run.
    pub fn host_call_signal(&self) -> SharedU32<'_> {
        self.u32_at(HOST_CALL_SIGNAL)
    }

    /// How often the client woke the server by a system call, wrapping.
    pub fn wakeups(&self) -> SharedU32<'_> {
        self.u32_at(WAKEUPS)
    }
}
