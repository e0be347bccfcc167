//! Admission: before a session submits work it asks the gate that all sessions share, and waits.

use crate::device::LaunchShape;
use crate::meter::{Company, Direction, LaunchTime, Shape};
use crate::scheduling::GateAnswer;
use crate::session::stream::pending::Deferral;
use crate::session::stream::submission::Submission;
use cuda_api::{CUresult, CudaError};
use scheduling::predict::{COPY_NS_PER_MIB, GAP_NS, WITHIN_NS_PER_MIB};
use scheduling::{Hold, Predicted, Verdict};
use std::time::{Duration, Instant};

/// Pauses between two looks at what is in flight, while that is all that is waited for.
const LOOK_PAUSE: Duration = Duration::from_micros(5);
/// For so long a session that waits for its own work looks again and again before it sleeps.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// Longest sleep of a session that is held: a fault, or the session's end, shows no later.
const HELD_MAX: Duration = Duration::from_millis(1);

impl Submission {
    /// What a launch is predicted to take; `None` if it need not ask, and then what goes before others is not
    /// followed.
    #[inline]
    pub(in crate::session) fn predict_launch(
        &mut self,
        function: u64,
        shape: &LaunchShape,
    ) -> Result<Option<Predicted>, CudaError> {
        if self.link.scheduling.is_free() {
            self.meter.forget_context();
            self.meter.set_company(Company::default());
            return Ok(None);
        }
        let meter = &self.modules.loaded(function)?.meter;
        Ok(Some(predicted(meter.launch_time(&Shape::of(shape), self.meter.context()))))
    }

    /// Waits until a copy or fill of so many bytes may be submitted. Returns what it is predicted to take;
    /// `None` if it need not ask.
    pub(in crate::session) fn pass_copy(
        &mut self,
        direction: Direction,
        bytes: u64,
    ) -> Result<Option<Predicted>, CudaError> {
        if self.link.scheduling.is_free() {
            return Ok(None);
        }
        let predicted = copy_time(direction, bytes);
        self.pass(predicted)?;
        Ok(Some(predicted))
    }

    /// Waits until work may be submitted that is predicted to take so long. Returns how many SMs it
    /// must leave free.
    pub(in crate::session) fn pass(&mut self, predicted: Predicted) -> Result<u32, CudaError> {
        self.work.arrived();
        self.work.begin_asking();
        let passed = self.ask_until_let_through(predicted);
        // A record that is kept goes on asking.
        if self.deferral.is_none() {
            self.work.end_asking();
        }
        passed
    }

    /// The record that is carried out cannot go now, and nothing of it was done.
    pub(in crate::session) fn defer(&mut self, deferral: Deferral) -> CUresult {
        self.deferral = Some(deferral);
        Err(CudaError::NOT_READY)
    }

    fn ask_until_let_through(&mut self, predicted: Predicted) -> Result<u32, CudaError> {
        let mut since = None;
        loop {
            let answer = self.link.scheduling.ask(predicted, self.work.is_stalled());
            self.work.set_bound(answer.bound_ns);
            match answer.verdict {
                Verdict::Go { free_sms } => {
                    let GateAnswer { is_alone, is_followed, at_ns, .. } = answer;
                    self.meter.set_company(Company { is_alone, is_followed, at_ns });
                    if let Some(since) = since {
                        self.link.counters.was_paused(since);
                        if !self.begin_submitting() {
                            self.check_end()?;
                        }
                    }
                    return Ok(free_sms);
                }
                Verdict::Wait { hold, .. } if self.defers => {
                    return self.defer(Deferral::Gate(hold, answer)).map(|()| 0);
                }
                Verdict::Wait { hold, .. } => {
                    let since = *since.get_or_insert_with(Instant::now);
                    self.share.in_flight().end_submitting();
                    self.stay(hold, answer, since)?;
                }
            }
        }
    }

    /// Waits a while, and looks what has become of the client's work meanwhile.
    pub(in crate::session) fn stay(
        &mut self,
        hold: Hold,
        answer: GateAnswer,
        since: Instant,
    ) -> CUresult {
        self.check_end()?;
        // An error of the work is the fault's to report, not this request's.
        let _ = self.make_room();
        let waited = since.elapsed();
        match (hold, answer.until) {
            // Only other clients' work, or time, lets it through.
            (Hold::InFlight, Some(until)) if !answer.is_in_flight => {
                if !self.share.work() {
                    self.link.scheduling.wait(answer.epoch, until.min(HELD_MAX));
                }
            }
            (Hold::InFlight, _) if waited < LOOK_MAX => {
                if !self.share.work() {
                    std::thread::sleep(LOOK_PAUSE);
                }
            }
            (Hold::InFlight, _) => {
                if !self.share.work() {
                    std::thread::sleep(LOOK_PAUSE * 4);
                }
            }
            (Hold::Policy, until) => {
                let most = until.unwrap_or(HELD_MAX).min(HELD_MAX);
                if !self.share.work() {
                    self.link.scheduling.wait(answer.epoch, most);
                }
            }
        }
        if waited >= HELD_MAX {
            self.look();
        }
        match self.sticky {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

/// What a copy or fill is predicted to take.
fn copy_time(direction: Direction, bytes: u64) -> Predicted {
    let of = |ns_per_mib: u64| (bytes >> 10).saturating_mul(ns_per_mib) >> 10;
    match direction {
        Direction::In | Direction::Out => of(COPY_NS_PER_MIB).into(),
        Direction::Within => of(WITHIN_NS_PER_MIB).saturating_add(GAP_NS).into(),
    }
}

/// What work is predicted to take of which that is known.
pub(in crate::session) fn predicted(known: Option<LaunchTime>) -> Predicted {
    known.map_or(Predicted::UNKNOWN, |LaunchTime { device_ns, longest_ns, .. }| {
        let mean_ns = device_ns.max(1);
        Predicted { mean_ns, longest_ns: longest_ns.max(mean_ns) + GAP_NS }
    })
}
