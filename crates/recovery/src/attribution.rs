//! Fault attribution: after a fault of the shared context, which client caused it, and what becomes of each client.
//!
//! The provider says that there was a fault, and not whose. Each session says whether kernels of its
//! client were in flight, and how often the rarest of them had been launched before. If only one client
//! had any, that client gets the error. Of several the likely ones go on at servers of their own and
//! repeat there what they can, and the one that faults again is alone then. All others go on at the next
//! server: also those whose kernels have run so often without a fault that another client is far more
//! likely to have caused this one. If it was one of them after all, it faults again at the next server,
//! where no kernel has run before and every client is as likely as the other.
//!
//! A kernel that has run `n` times without a fault faults the next time with a probability of about
//! 1 / (n + 1) (Laplace's rule of succession); the shares of all clients' in the sum say how likely each is.

use std::time::{Duration, Instant};

/// How long sessions may take to say what was in flight: calls in a corrupted context return at once.
const EVIDENCE_MAX: Duration = Duration::from_millis(250);

/// How long the server's process stays when all are notified if the daemon does not let it end before:
/// the driver holds up others while it takes down the context. A context with a fault runs nothing any more,
/// so that nothing of it writes to the clients' memory meanwhile.
const STAYS_MAX: Duration = Duration::from_secs(3);

/// Where the server is after a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributionState {
    /// There was none.
    #[default]
    None,
    /// The sessions are asked, until then.
    Open(Instant),
    /// All clients are notified; the process ends when others have gone on, or then.
    Notified(Instant),
    /// All clients are notified, and the process may end.
    Closed,
}

/// Candidates are isolated, the likeliest first, until the probability is as high as this that the
/// one whose fault it was is among them.
const ISOLATED_MIN: f64 = 0.9;

/// Most candidates that go to servers of their own after one fault: each has a context, and the driver makes one
/// after the other. If it was none of them, it is one of fewer after the next fault.
const ISOLATED_MAX: usize = 4;

/// What a session says was in flight of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// No kernel.
    Nothing,
    /// Kernels.
    Kernels {
        /// How often the one of them that was launched least often had been launched before.
        launched_before: u32,
    },
}

/// A client as the attribution sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its session serves it.
    pub active: bool,
    /// What the session said, if it did.
    pub evidence: Option<Evidence>,
}

impl Candidate {
    /// How likely its kernels were to fault, 0 to 1; `None` if it cannot have caused the fault. A kernel of
    /// which nothing is known may run where the session that serves it does not say.
    fn weight(self) -> Option<f64> {
        let launched_before = match self.evidence {
            Some(Evidence::Nothing) => return None,
            Some(Evidence::Kernels { launched_before }) => launched_before,
            None if self.active => 0,
            None => return None,
        };
        Some(1.0 / (f64::from(launched_before) + 1.0))
    }
}

/// What part a client had in a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It was the one: it gets the error.
    Faulting,
    /// It may have been: it goes on at a server of its own.
    Candidate,
    /// It alone is as likely as all candidates together are to be: it goes on at a server of its own, and where
    /// its work cannot be repeated there, which would show it, it gets the error once.
    Likeliest,
    /// It may have been, but others are far more likely: it goes on at another server.
    Unlikely,
    /// It was not: it goes on at another server.
    Unaffected,
}

impl Part {
    /// True if it goes on at a server of its own.
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Candidate | Self::Likeliest)
    }
}

/// What part each client had, in the order of the candidates.
pub type Attribution = Vec<Part>;

impl AttributionState {
    /// There is a fault. True if this is the first word of it: the sessions are to be asked.
    pub fn open(&mut self, now: Instant) -> bool {
        let first = *self == Self::None;
        if first {
            *self = Self::Open(now + EVIDENCE_MAX);
        }
        first
    }

    /// Judges once all sessions have spoken or had their time; `None` before, and after.
    pub fn attribute(&mut self, candidates: &[Candidate], now: Instant) -> Option<Attribution> {
        if matches!(self, Self::Notified(until) if now >= *until) {
            *self = Self::Closed;
        }
        let Self::Open(deadline) = *self else { return None };
        let waits = candidates.iter().any(|of| of.active && of.evidence.is_none());
        if waits && now < deadline {
            return None;
        }
        *self = Self::Notified(now + STAYS_MAX);
        Some(attribute(candidates))
    }

    /// The process may end, if all are notified: the others have gone on. Said before that, it is to be
    /// said again.
    pub fn may_end(&mut self) {
        if matches!(self, Self::Notified(_)) {
            *self = Self::Closed;
        }
    }

    /// True if all clients are notified.
    pub fn is_notified(self) -> bool {
        matches!(self, Self::Notified(_) | Self::Closed)
    }

    /// True if the process is to end.
    pub fn is_over(self, now: Instant) -> bool {
        match self {
            Self::None | Self::Open(_) => false,
            Self::Notified(until) => now >= until,
            Self::Closed => true,
        }
    }

    /// When the sessions will have had their time, if they are asked; or the process its.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Open(deadline) | Self::Notified(deadline) => Some(*deadline),
            Self::None | Self::Closed => None,
        }
    }
}

/// What part each had, by how likely its kernels were to fault.
pub fn attribute(candidates: &[Candidate]) -> Attribution {
    let mut parts = vec![Part::Unaffected; candidates.len()];
    let weights = candidates.iter().enumerate().filter_map(|(i, of)| Some((i, of.weight()?)));
    let mut candidates: Vec<(usize, f64)> = weights.collect();
    if let [(only, _)] = candidates[..] {
        parts[only] = Part::Faulting;
        return parts;
    }
    candidates.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let wanted = ISOLATED_MIN * candidates.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut sum = 0.0;
    for (place, (index, weight)) in candidates.iter().enumerate() {
        let is_likely = sum < wanted && place < ISOLATED_MAX;
        parts[*index] = if is_likely { Part::Candidate } else { Part::Unlikely };
        sum += weight;
    }
    if let Some((likeliest, _)) = candidates.first().filter(|(_, weight)| *weight >= wanted) {
        parts[*likeliest] = Part::Likeliest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Candidate = Candidate { active: true, evidence: None };
    const GONE: Candidate = Candidate { active: false, evidence: None };
    const NEW: Candidate = after(0);
    const IDLE: Candidate = Candidate { active: true, evidence: Some(Evidence::Nothing) };

    const fn after(launched_before: u32) -> Candidate {
        Candidate { active: true, evidence: Some(Evidence::Kernels { launched_before }) }
    }

    fn attribute_after(candidates: &[Candidate], after: Duration) -> Option<Attribution> {
        let now = Instant::now();
        let mut attribution = AttributionState::default();
        assert!(attribution.open(now) && !attribution.open(now));
        attribution.attribute(candidates, now + after)
    }

    #[test]
    fn one_candidate_is_guilty_and_several_are_candidates() {
        let (faulting, candidate, unaffected) = (Part::Faulting, Part::Candidate, Part::Unaffected);
        let at_once = Duration::ZERO;
        assert_eq!(
            attribute_after(&[IDLE, NEW, GONE], at_once),
            Some(vec![unaffected, faulting, unaffected])
        );
        assert_eq!(
            attribute_after(&[IDLE, after(9999)], at_once),
            Some(vec![unaffected, faulting])
        );
        assert_eq!(
            attribute_after(&[NEW, IDLE, NEW], at_once),
            Some(vec![candidate, unaffected, candidate])
        );
        assert_eq!(attribute_after(&[NEW, SILENT], at_once), None, "it is waited for");
        assert_eq!(attribute_after(&[NEW, SILENT], EVIDENCE_MAX), Some(vec![candidate, candidate]));
        assert_eq!(attribute_after(&[], at_once), Some(vec![]));
    }

    #[test]
    fn the_process_stays_until_it_may_end_or_its_time_is_over() {
        let (now, mut attribution) = (Instant::now(), AttributionState::default());
        attribution.open(now);
        attribution.may_end();
        assert!(!attribution.is_notified(), "not before all are notified");
        assert!(attribution.attribute(&[], now).is_some() && attribution.is_notified());
        assert!(!attribution.is_over(now) && attribution.is_over(now + STAYS_MAX));
        let mut other = attribution;
        other.may_end();
        assert!(other.is_over(now) && other.deadline().is_none());
        assert_eq!(attribution.deadline(), Some(now + STAYS_MAX));
        assert!(
            attribution.attribute(&[], now + STAYS_MAX).is_none()
                && attribution.deadline().is_none()
        );
    }

    #[test]
    fn those_whose_kernels_have_run_often_are_unlikely_beside_a_new_kernel() {
        let (candidate, unlikely, likeliest) = (Part::Candidate, Part::Unlikely, Part::Likeliest);
        let parts = |candidates: &[Candidate]| {
            attribute_after(candidates, EVIDENCE_MAX).expect("all were heard")
        };
        assert_eq!(parts(&[after(100), NEW, after(2000)]), [unlikely, likeliest, unlikely]);
        assert_eq!(parts(&[after(100), SILENT, after(2000)]), [unlikely, likeliest, unlikely]);
        // Ten times as likely is no more than 0.9; one of the two in a hundred is not enough to decide.
        assert_eq!(parts(&[after(3), NEW]), [candidate, candidate]);
        assert_eq!(parts(&[after(5000), after(100), after(101)]), [unlikely, candidate, candidate]);
        // All of them as they are after a server's start.
        assert_eq!(parts(&[NEW; 3]), [candidate; 3]);
    }

    #[test]
    fn few_of_many_candidates_get_servers_of_their_own() {
        let parts = attribute_after(&[NEW; 16], EVIDENCE_MAX).expect("all were heard");
        let alone = parts.iter().filter(|part| part.is_alone()).count();
        assert_eq!(alone, ISOLATED_MAX, "{parts:?}");
        assert!(!parts.contains(&Part::Unaffected), "it may have been each of them");
    }
}
