//! Series: which clients have series of their own, and what the others are together.
//!
//! A client that has its own keeps it until it ends: series that change hands would fall and jump. What the others
//! do is added up from one look to the next, so that their sum never falls when one of them ends or gets a
//! series of its own.

use super::{CLIENT, Kind, Numbers};
use crate::reading::{self, ClientKey};
use control::report::Report;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Clients that have series of their own.
pub const CLIENTS_MAX: usize = 64;

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub struct Series {
    own: BTreeSet<ClientKey>,
    /// The other clients' numbers at the last look.
    last: BTreeMap<ClientKey, Numbers>,
    /// Counters of all that were others, and gauges of those that are.
    others: Numbers,
    had_others: bool,
}

impl Series {
    /// True if a client has series of its own.
    pub(super) fn is_own(&self, client: ClientKey) -> bool {
        self.own.contains(&client)
    }

    /// What the others are together, if there were any yet.
    pub(super) fn others(&self) -> Option<Numbers> {
        self.had_others.then_some(self.others)
    }

    /// Takes in a report. Of clients that come at once those with most kernels get series of their own first.
    pub(super) fn see(&mut self, report: &Report) {
        let mut clients: Vec<_> = reading::clients(report).collect();
        clients.sort_by_key(|(key, client)| (Reverse(client.kernels), *key));
        let listed: BTreeSet<ClientKey> = clients.iter().map(|(key, _)| *key).collect();
        // A server that does not answer lists no clients, and has them all the same.
        let silent: BTreeSet<u32> =
            report.servers.iter().filter(|s| s.error.is_some()).map(|s| s.pid).collect();
        let may_live = |key: &ClientKey| listed.contains(key) || silent.contains(&key.0);
        self.own.retain(may_live);
        self.last.retain(|key, _| may_live(key));
        let gauges = CLIENT.iter().enumerate().filter(|(_, (of, _))| of.kind == Kind::Gauge);
        gauges.for_each(|(place, _)| self.others.0[place] = 0.0);
        for (key, client) in clients {
            if self.own.contains(&key) {
                continue;
            }
            let now = Numbers::of(client);
            if !self.last.contains_key(&key) && self.own.len() < CLIENTS_MAX {
                self.own.insert(key);
                continue;
            }
            self.had_others = true;
            let before = self.last.insert(key, now).unwrap_or_default();
            for (place, (family, _)) in CLIENT.iter().enumerate() {
                self.others.0[place] += match family.kind {
                    Kind::Gauge => now.0[place],
                    Kind::Counter => (now.0[place] - before.0[place]).max(0.0),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;
    use std::time::Instant;

    const KERNELS: usize = 2;

    fn see(series: &mut Series, clients: &[(u32, u64, u64)]) -> (f64, f64) {
        series.see(&reading(Instant::now(), 10, clients).report);
        let others = series.others().expect("there are others").0;
        (others[KERNELS], others[0] / f64::from(3u32 << 29))
    }

    #[test]
    fn what_others_did_stays_when_they_end_and_when_ranks_change() {
        let mut series = Series::default();
        let mut clients: Vec<_> = (1..=100u32).map(|id| (id, u64::from(id), 0)).collect();
        let sum = (1..=36).sum::<u32>().into();
        assert_eq!(see(&mut series, &clients), (sum, 36.0));
        // The last one becomes the first one, and one of them ends: its launches were there.
        (clients[0].1, clients[1].1) = (1000, 3);
        clients.remove(9);
        assert_eq!(see(&mut series, &clients), (sum + 999.0 + 1.0, 35.0));
        // One with its own ends: who was another one stays another one.
        clients.pop();
        assert!(!series.is_own((2, 1)));
        assert_eq!(see(&mut series, &clients), (sum + 1000.0, 35.0));
        clients.push((200, 1, 0));
        assert_eq!(see(&mut series, &clients), (sum + 1000.0, 35.0));
        assert!(series.is_own((2, 200)) && !series.is_own((2, 1)));
    }

    #[test]
    fn a_server_that_does_not_answer_once_has_its_clients_counted_once() {
        let mut series = Series::default();
        let clients: Vec<_> = (1..=65u32).map(|id| (id, u64::from(id), 0)).collect();
        let seen = see(&mut series, &clients);
        let mut report = reading(Instant::now(), 10, &[]).report;
        report.servers[0].error = Some("it does not answer".to_owned());
        series.see(&report);
        assert_eq!(see(&mut series, &clients), seen);
        assert!(series.is_own((2, 65)) && !series.is_own((2, 1)));
    }
}
