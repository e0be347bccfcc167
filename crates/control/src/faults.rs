//! Faults of clients: the last ones, for `report` and `ps`.

use channel::message::ClientFault;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// How many are kept: enough to see what a program does that faults again and again.
pub const FAULTS_MAX: usize = 64;

/// A client that has caused a fault, or may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// When the daemon heard of it, RFC 3339 in UTC.
    pub at: String,
    /// How long ago that was when the report was made, s.
    pub ago_s: u64,
    /// Process of its server.
    pub server: u32,
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: u32,
    /// Its command line, as it says.
    pub command: String,
    /// It has caused the fault and has its error. Otherwise others may have been it too, and it goes on at a
    /// server of its own.
    #[serde(alias = "is_culprit")]
    pub is_faulting: bool,
    /// The error's name.
    pub error: String,
    /// Which kernel, or what was in flight, and what the device reported, in words.
    pub why: String,
}

/// The last ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    last: VecDeque<(SystemTime, Fault)>,
    /// How many there were in all.
    count: u64,
}

impl Faults {
    /// Adds what a server of a user said.
    pub fn note(&mut self, server: u32, uid: u32, said: ClientFault, at: SystemTime) {
        let ClientFault { pid, command, is_faulting, error, why } = said;
        self.count += 1;
        if self.last.len() == FAULTS_MAX {
            self.last.pop_front();
        }
        let time = jiff::Timestamp::try_from(at).unwrap_or_default().to_string();
        let fault =
            Fault { at: time, ago_s: 0, server, uid, pid, command, is_faulting, error, why };
        self.last.push_back((at, fault));
    }

    /// How many there were in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many a user's command has caused within a time until now, of the last ones.
    pub fn caused_by(&self, uid: u32, command: &str, within: Duration, now: SystemTime) -> usize {
        let lately = |at: &SystemTime| now.duration_since(*at).is_ok_and(|ago| ago < within);
        let its = |of: &Fault| of.is_faulting && of.uid == uid && of.command == command;
        self.last.iter().filter(|(at, fault)| lately(at) && its(fault)).count()
    }

    /// Those of users whom `sees` is true for, oldest first, as of that time.
    pub fn list(&self, sees: impl Fn(u32) -> bool, now: SystemTime) -> Vec<Fault> {
        let seen = self.last.iter().filter(|(_, fault)| sees(fault.uid));
        let aged = seen.map(|(at, fault)| {
            let ago_s = now.duration_since(*at).unwrap_or_default().as_secs();
            Fault { ago_s, ..fault.clone() }
        });
        aged.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_each_user_sees_its_own() {
        let mut faults = Faults::default();
        let begin = SystemTime::UNIX_EPOCH;
        let at = |s: usize| begin + Duration::from_secs(s as u64);
        for number in 0..=FAULTS_MAX {
            let said = ClientFault { pid: number as u32, ..ClientFault::default() };
            faults.note(7, number as u32 % 2, said, at(number));
        }
        let all = faults.list(|_| true, at(100));
        assert_eq!((all.len(), all[0].pid, all[0].ago_s), (FAULTS_MAX, 1, 99));
        assert_eq!(faults.count(), FAULTS_MAX as u64 + 1);
        assert_eq!(all[0].at, "1970-01-01T00:00:01Z");
        assert!(faults.list(|uid| uid == 1, at(0)).iter().all(|fault| fault.pid % 2 == 1));
    }
}
