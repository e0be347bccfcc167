//! Trial: after a fault of the shared context, whose it was, and what becomes of each client.
//!
//! The provider says that there was a fault, and not whose. Each session says whether kernels of its
//! client were under way, and how often the rarest of them had been launched before. If only one client
//! had any, that client gets the error. Of several the likely ones go on at servers of their own and
//! repeat there what they can, and the one that faults again is alone then. All others go on at the next
//! server: also those whose kernels have run so often without a fault that another client is far more
//! likely to have caused this one. If it was one of them after all, it faults again at the next server,
//! where no kernel has run before and every client is as likely as the other.
//!
//! A kernel that has run `n` times without a fault faults the next time with a probability of about
//! 1 / (n + 1) (Laplace's rule of succession); the shares of all clients' in the sum say how likely each is.

use std::time::{Duration, Instant};

/// How long sessions may take to say what was under way: calls in a spoiled context return at once.
const PLEA_MAX: Duration = Duration::from_millis(250);

/// How long the server's process stays when all have been told if the daemon does not let it end before:
/// the driver holds up others while it takes down the context. A context with a fault runs nothing any more,
/// so that nothing of it writes to the clients' memory meanwhile.
const STAYS_MAX: Duration = Duration::from_secs(3);

/// Where the server is after a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trial {
    /// There was none.
    #[default]
    None,
    /// The sessions are asked, until then.
    Open(Instant),
    /// All clients have been told; the process ends when others have gone on, or then.
    Told(Instant),
    /// All clients have been told, and the process may end.
    Closed,
}

/// Suspects are put in quarantine, the likeliest first, until the probability is as high as this that the
/// one whose fault it was is among them.
const QUARANTINED_MIN: f64 = 0.9;

/// Most suspects that go to servers of their own after one fault: each has a context, and the driver makes one
/// after the other. If it was none of them, it is one of fewer after the next fault.
const QUARANTINED_MAX: usize = 4;

/// What a session says was under way of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plea {
    /// No kernel.
    Nothing,
    /// Kernels.
    Kernels {
        /// How often the one of them that was launched least often had been launched before.
        launched_before: u32,
    },
}

/// A client as the trial sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accused {
    /// Its session serves it.
    pub active: bool,
    /// What the session said, if it did.
    pub plea: Option<Plea>,
}

impl Accused {
    /// How likely its kernels were to fault, 0 to 1; `None` if it cannot have caused the fault. A kernel of
    /// which nothing is known may run where the session that serves it does not say.
    fn weight(self) -> Option<f64> {
        let launched_before = match self.plea {
            Some(Plea::Nothing) => return None,
            Some(Plea::Kernels { launched_before }) => launched_before,
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
    Guilty,
    /// It may have been: it goes on at a server of its own.
    Suspect,
    /// It alone is as likely as all suspects together are to be: it goes on at a server of its own, and where
    /// its work cannot be repeated there, which would show it, it gets the error once.
    Likeliest,
    /// It may have been, but others are far more likely: it goes on at another server.
    Unlikely,
    /// It was not: it goes on at another server.
    Innocent,
}

impl Part {
    /// True if it goes on at a server of its own.
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Suspect | Self::Likeliest)
    }
}

/// What part each client had, in the order of the accused.
pub type Judgement = Vec<Part>;

impl Trial {
    /// There is a fault. True if this is the first word of it: the sessions are to be asked.
    pub fn open(&mut self, now: Instant) -> bool {
        let first = *self == Self::None;
        if first {
            *self = Self::Open(now + PLEA_MAX);
        }
        first
    }

    /// Judges once all sessions have spoken or had their time; `None` before, and after.
    pub fn judge(&mut self, accused: &[Accused], now: Instant) -> Option<Judgement> {
        if matches!(self, Self::Told(until) if now >= *until) {
            *self = Self::Closed;
        }
        let Self::Open(deadline) = *self else { return None };
        let waits = accused.iter().any(|of| of.active && of.plea.is_none());
        if waits && now < deadline {
            return None;
        }
        *self = Self::Told(now + STAYS_MAX);
        Some(judge(accused))
    }

    /// The process may end, if all have been told: the others have gone on. Said before that, it is to be
    /// said again.
    pub fn may_end(&mut self) {
        if matches!(self, Self::Told(_)) {
            *self = Self::Closed;
        }
    }

    /// True if all clients have been told.
    pub fn is_told(self) -> bool {
        matches!(self, Self::Told(_) | Self::Closed)
    }

    /// True if the process is to end.
    pub fn is_over(self, now: Instant) -> bool {
        match self {
            Self::None | Self::Open(_) => false,
            Self::Told(until) => now >= until,
            Self::Closed => true,
        }
    }

    /// When the sessions will have had their time, if they are asked; or the process its.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Open(deadline) | Self::Told(deadline) => Some(*deadline),
            Self::None | Self::Closed => None,
        }
    }
}

/// What part each had, by how likely its kernels were to fault.
pub fn judge(accused: &[Accused]) -> Judgement {
    let mut parts = vec![Part::Innocent; accused.len()];
    let weights = accused.iter().enumerate().filter_map(|(i, of)| Some((i, of.weight()?)));
    let mut suspects: Vec<(usize, f64)> = weights.collect();
    if let [(only, _)] = suspects[..] {
        parts[only] = Part::Guilty;
        return parts;
    }
    suspects.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let wanted = QUARANTINED_MIN * suspects.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut sum = 0.0;
    for (place, (index, weight)) in suspects.iter().enumerate() {
        let is_likely = sum < wanted && place < QUARANTINED_MAX;
        parts[*index] = if is_likely { Part::Suspect } else { Part::Unlikely };
        sum += weight;
    }
    if let Some((likeliest, _)) = suspects.first().filter(|(_, weight)| *weight >= wanted) {
        parts[*likeliest] = Part::Likeliest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Accused = Accused { active: true, plea: None };
    const GONE: Accused = Accused { active: false, plea: None };
    const NEW: Accused = after(0);
    const IDLE: Accused = Accused { active: true, plea: Some(Plea::Nothing) };

    const fn after(launched_before: u32) -> Accused {
        Accused { active: true, plea: Some(Plea::Kernels { launched_before }) }
    }

    fn judge_after(accused: &[Accused], after: Duration) -> Option<Judgement> {
        let now = Instant::now();
        let mut trial = Trial::default();
        assert!(trial.open(now) && !trial.open(now));
        trial.judge(accused, now + after)
    }

    #[test]
    fn one_suspect_is_guilty_and_several_are_suspects() {
        let (guilty, suspect, innocent) = (Part::Guilty, Part::Suspect, Part::Innocent);
        let at_once = Duration::ZERO;
        assert_eq!(
            judge_after(&[IDLE, NEW, GONE], at_once),
            Some(vec![innocent, guilty, innocent])
        );
        assert_eq!(judge_after(&[IDLE, after(9999)], at_once), Some(vec![innocent, guilty]));
        assert_eq!(judge_after(&[NEW, IDLE, NEW], at_once), Some(vec![suspect, innocent, suspect]));
        assert_eq!(judge_after(&[NEW, SILENT], at_once), None, "it is waited for");
        assert_eq!(judge_after(&[NEW, SILENT], PLEA_MAX), Some(vec![suspect, suspect]));
        assert_eq!(judge_after(&[], at_once), Some(vec![]));
    }

    #[test]
    fn the_process_stays_until_it_may_end_or_its_time_is_over() {
        let (now, mut trial) = (Instant::now(), Trial::default());
        trial.open(now);
        trial.may_end();
        assert!(!trial.is_told(), "not before all have been told");
        assert!(trial.judge(&[], now).is_some() && trial.is_told());
        assert!(!trial.is_over(now) && trial.is_over(now + STAYS_MAX));
        let mut other = trial;
        other.may_end();
        assert!(other.is_over(now) && other.deadline().is_none());
        assert_eq!(trial.deadline(), Some(now + STAYS_MAX));
        assert!(trial.judge(&[], now + STAYS_MAX).is_none() && trial.deadline().is_none());
    }

    #[test]
    fn those_whose_kernels_have_run_often_are_unlikely_beside_a_new_kernel() {
        let (suspect, unlikely, likeliest) = (Part::Suspect, Part::Unlikely, Part::Likeliest);
        let parts = |accused: &[Accused]| judge_after(accused, PLEA_MAX).expect("all were heard");
        assert_eq!(parts(&[after(100), NEW, after(2000)]), [unlikely, likeliest, unlikely]);
        assert_eq!(parts(&[after(100), SILENT, after(2000)]), [unlikely, likeliest, unlikely]);
        // Ten times as likely is no more than 0.9; one of the two in a hundred is not enough to tell.
        assert_eq!(parts(&[after(3), NEW]), [suspect, suspect]);
        assert_eq!(parts(&[after(5000), after(100), after(101)]), [unlikely, suspect, suspect]);
        // All of them as they are after a server's start.
        assert_eq!(parts(&[NEW; 3]), [suspect; 3]);
    }

    #[test]
    fn few_of_many_suspects_get_servers_of_their_own() {
        let parts = judge_after(&[NEW; 16], PLEA_MAX).expect("all were heard");
        let alone = parts.iter().filter(|part| part.is_alone()).count();
        assert_eq!(alone, QUARANTINED_MAX, "{parts:?}");
        assert!(!parts.contains(&Part::Innocent), "it may have been each of them");
    }
}
