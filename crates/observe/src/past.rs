//! Past: what was known last of each client and device, to which what is known now is compared.
//!
//! A server that does not answer in time tells nothing of its clients in one report, and in the next one all that
//! they ever did. So each is compared with what it was when it was seen last, over the time since then.

use crate::reading::{ClientKey, Reading, clients, devices};
use control::report::ClientReport;
use control::status::DeviceCounts;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// What was known last.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// When the last reading was.
    at: Option<Instant>,
    clients: HashMap<ClientKey, (Instant, ClientReport)>,
    devices: HashMap<(u32, String), DeviceCounts>,
    /// Servers that did not answer in the last reading, and when they did before that.
    silent: HashMap<u32, Option<Instant>>,
}

/// What was known last of one client.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// What it had done; `None`: it was not seen before.
    pub client: Option<&'a ClientReport>,
    /// Since when it did what it has done beyond that; `None`: since its start, which is not known.
    pub since: Option<Instant>,
}

impl Past {
    /// Of a client, which the next reading has.
    pub fn of(&self, key: ClientKey) -> Before<'_> {
        match self.clients.get(&key) {
            Some((at, client)) => Before { client: Some(client), since: Some(*at) },
            None => {
                let since = self.silent.get(&key.0).copied().unwrap_or(self.at);
                Before { client: None, since }
            }
        }
    }

    /// Of a server's device; nothing yet, if it was not seen before.
    pub fn of_device(&self, server: u32, uuid: &str) -> DeviceCounts {
        self.devices.get(&(server, uuid.to_owned())).copied().unwrap_or_default()
    }

    /// Takes in a reading.
    pub fn take(&mut self, now: &Reading) {
        let mut silent = HashMap::new();
        for server in now.report.servers.iter().filter(|server| server.error.is_some()) {
            let answered = self.silent.get(&server.pid).copied().unwrap_or(self.at);
            silent.insert(server.pid, answered);
        }
        let listed: BTreeSet<u32> = now.report.servers.iter().map(|server| server.pid).collect();
        let is_silent = |server: &u32| silent.contains_key(server);
        self.clients.retain(|key, _| is_silent(&key.0));
        self.devices.retain(|key, _| listed.contains(&key.0));
        for (key, client) in clients(&now.report) {
            self.clients.insert(key, (now.at, client.clone()));
        }
        for ((server, uuid), device) in devices(&now.report) {
            self.devices.insert((server, uuid.to_owned()), device.counts);
        }
        (self.at, self.silent) = (Some(now.at), silent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::Rates;
    use crate::rates::tests::reading;
    use std::time::Duration;

    /// A reading in which the one server does not answer.
    fn silent(at: Instant) -> Reading {
        let mut reading = reading(at, 0, &[]);
        reading.report.servers[0].error = Some("it does not answer".to_owned());
        reading.report.servers[0].devices.clear();
        reading
    }

    #[test]
    fn a_missed_report_makes_no_spike() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let busy = 1_000_000_000;
        let mut past = Past::default();
        past.take(&reading(at(0), 1000, &[(1, 100_000, busy)]));
        past.take(&silent(at(1)));
        past.take(&silent(at(2)));
        let now = reading(at(3), 1003, &[(1, 100_300, 2 * busy), (2, 30, 0)]);
        let rates = Rates::since(&past, &now);
        let [old, new] = &rates.clients[..] else { panic!("{rates:?}") };
        assert_eq!((old.kernels_per_s, old.busy.clamp(0.33, 0.34)), (100.0, old.busy));
        // It came since its server answered last.
        assert_eq!(new.kernels_per_s, 10.0);
        assert_eq!(rates.devices[0].util.clamp(0.33, 0.34), rates.devices[0].util);
    }

    #[test]
    fn a_server_that_never_answered_yet_is_told_of_on_the_average_of_its_life() {
        let start = Instant::now();
        let mut past = Past::default();
        past.take(&silent(start));
        let now = reading(start + Duration::from_secs(1), 100, &[(1, 5000, 0)]);
        assert_eq!(Rates::since(&past, &now).clients[0].kernels_per_s, 50.0);
        // One that was not there yet has done all in the last second.
        past.take(&silent(start));
        let mut now = now;
        now.report.servers[0].pid = 77;
        assert_eq!(Rates::since(&past, &now).clients[0].kernels_per_s, 5000.0);
    }
}
