//! Fault budget: how often a program may fault before it gets a server of its own, or none.
//!
//! A fault that corrupts a context makes its neighbours pause. A program is a user's command line: it is
//! started again as another process.

use crate::faults::Faults;
use std::fmt;
use std::time::{Duration, SystemTime};

/// What a variable may say.
pub const ALLOWED: &str = "a number of faults and a time, as 3/10m, with refuse behind them or nothing; 0 for no \
                           limit";

/// So many faults in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultBudget {
    /// With so many it is used up.
    pub faults: usize,
    /// Faults count for so long.
    pub within: Duration,
    /// Who has used it up is refused; else it gets a server of its own.
    pub refuses: bool,
}

impl FaultBudget {
    /// Reads a variable's text; `None` for no limit.
    ///
    /// # Errors
    /// It is neither that nor [`ALLOWED`].
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let wrong = || format!("{text:?} is not {ALLOWED}");
        let (budget, refuses) = match text.trim().split_once(' ') {
            Some((budget, "refuse")) => (budget, true),
            Some(_) => return Err(wrong()),
            None => (text.trim(), false),
        };
        if budget.is_empty() || budget == "0" {
            return Ok(None);
        }
        let (faults, within) = budget.split_once('/').ok_or_else(wrong)?;
        let faults = faults.parse().ok().filter(|faults| *faults > 0).ok_or_else(wrong)?;
        let (number, unit) = within.split_at(within.len().saturating_sub(1));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        let within = Duration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?);
        Ok(Some(Self { faults, within, refuses }))
    }

    /// How many faults a user's command has caused in the time that counts, if that uses the budget up.
    pub fn used_up(
        &self,
        faults: &Faults,
        uid: u32,
        command: &str,
        now: SystemTime,
    ) -> Option<usize> {
        let count = faults.caused_by(uid, command, self.within, now);
        (count >= self.faults).then_some(count)
    }
}

impl fmt::Display for FaultBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults in {} s", self.faults, self.within.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::ClientFault;

    #[test]
    fn a_budget_is_a_number_and_a_time() {
        let read = |text: &str| FaultBudget::parse(text).map(|of| of.map(|of| of.to_string()));
        assert_eq!(read("3/10m"), Ok(Some("3 faults in 600 s".into())));
        assert_eq!((read(""), read(" 0 ")), (Ok(None), Ok(None)));
        assert!(FaultBudget::parse("2/1h refuse").is_ok_and(|of| of.is_some_and(|of| of.refuses)));
        for wrong in ["3", "0/10m", "3/0m", "3/10", "3/10d", "x/10m", "3/10m isolate", "-1/1s"] {
            assert!(read(wrong).is_err_and(|error| error.contains("3/10m")), "{wrong}");
        }
    }

    #[test]
    fn what_a_program_has_caused_lately_counts_and_nothing_else() {
        let mut faults = Faults::default();
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let at = |s| start + Duration::from_secs(s);
        let said = |command: &str, is_faulting| ClientFault {
            command: command.into(),
            is_faulting,
            ..ClientFault::default()
        };
        for (s, uid, command, is_faulting) in [
            (0, 1, "a", true),
            (50, 1, "a", true),
            (51, 1, "a", false),
            (52, 2, "a", true),
            (53, 1, "b", true),
            (59, 1, "a", true),
        ] {
            faults.note(7, uid, said(command, is_faulting), at(s));
        }
        let budget = FaultBudget::parse("2/30s").expect("a budget").expect("a limit");
        assert_eq!(budget.used_up(&faults, 1, "a", at(60)), Some(2));
        assert_eq!(budget.used_up(&faults, 2, "a", at(60)), None);
        assert_eq!(budget.used_up(&faults, 1, "b", at(60)), None);
        assert_eq!(budget.used_up(&faults, 1, "a", at(85)), None, "they are long ago");
    }
}
