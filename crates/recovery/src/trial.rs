//! Trial: after a fault of the shared context, whose it was, and what becomes of each client.
//!
//! The provider says that there was a fault, and not whose. Each session says whether kernels of its
//! client were under way. If only one had any, that client gets the error. Of several each goes on at
//! a server of its own and repeats there what it can, and the one that faults again is alone then.
//! Clients that had no kernel under way go on at the next server.

use std::time::{Duration, Instant};

/// How long sessions may take to say what was under way: calls in a spoiled context return at once.
const PLEA_MAX: Duration = Duration::from_millis(250);

/// Where the server is after a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trial {
    /// There was none.
    #[default]
    None,
    /// The sessions are asked, until then.
    Open(Instant),
    /// All clients have been told.
    Closed,
}

/// A client as the trial sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accused {
    /// Its session serves it.
    pub active: bool,
    /// What the session said, if it did: kernels of the client were under way.
    pub plea: Option<bool>,
}

impl Accused {
    /// True if it may have caused the fault: a kernel of it was under way, or may run on where the
    /// session that serves it does not say.
    fn is_suspect(self) -> bool {
        self.plea.unwrap_or(self.active)
    }
}

/// What part a client had in a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It was the one: it gets the error.
    Guilty,
    /// It may have been: it goes on at a server of its own.
    Suspect,
    /// It was not: it goes on at another server.
    Innocent,
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
        let Self::Open(deadline) = *self else { return None };
        let waits = accused.iter().any(|of| of.active && of.plea.is_none());
        if waits && now < deadline {
            return None;
        }
        *self = Self::Closed;
        let suspects = accused.iter().filter(|of| of.is_suspect()).count();
        let part = |of: &Accused| match (of.is_suspect(), suspects) {
            (false, _) => Part::Innocent,
            (true, 1) => Part::Guilty,
            (true, _) => Part::Suspect,
        };
        Some(accused.iter().map(part).collect())
    }

    /// When the sessions will have had their time, if they are asked.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Open(deadline) => Some(*deadline),
            Self::None | Self::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Accused = Accused { active: true, plea: None };
    const GONE: Accused = Accused { active: false, plea: None };
    const RAN: Accused = Accused { active: true, plea: Some(true) };
    const IDLE: Accused = Accused { active: true, plea: Some(false) };

    #[test]
    fn one_suspect_is_guilty_and_several_are_suspects() {
        let now = Instant::now();
        let judge = |accused: &[Accused], at| {
            let mut trial = Trial::default();
            assert!(trial.open(now) && !trial.open(now));
            trial.judge(accused, at)
        };
        let (guilty, suspect, innocent) = (Part::Guilty, Part::Suspect, Part::Innocent);
        assert_eq!(judge(&[IDLE, RAN, GONE], now), Some(vec![innocent, guilty, innocent]));
        assert_eq!(judge(&[RAN, IDLE, RAN], now), Some(vec![suspect, innocent, suspect]));
        assert_eq!(judge(&[RAN, SILENT], now), None, "it is waited for");
        assert_eq!(judge(&[RAN, SILENT], now + PLEA_MAX), Some(vec![suspect, suspect]));
        assert_eq!(judge(&[], now), Some(vec![]));
    }
}
