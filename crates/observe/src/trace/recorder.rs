//! Recorder: asks a daemon again and again for what was done, until all of it has come.

use crate::source::ReportSource;
use anyhow::Result;
use control::trace::{Trace, TracedClient, TracedWork};
use std::collections::{BTreeMap, BTreeSet};

/// A server's state in reports once it takes clients.
const READY: &str = "ACTIVE";

/// Memory that records of one recording may take, bytes; what comes later counts as lost.
const BYTES_MAX: usize = 1 << 30;

/// A client of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedClient {
    /// Its process, as its server sees it.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Its device: ordinal and name.
    pub device: (u32, String),
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recording {
    /// The clients, by server and number.
    pub clients: BTreeMap<(u32, u32), RecordedClient>,
    /// The records with their server, as they ended.
    pub records: Vec<(u32, TracedWork)>,
    /// Records that were lost.
    pub lost: u64,
    /// Servers that did not answer the last question, and why: what they did since the one before is not here.
    pub silent: BTreeMap<u32, String>,
}

/// Records what a daemon's clients do.
pub struct Recorder {
    /// Where to go on, by server.
    places: BTreeMap<u32, u64>,
    /// Only these processes; empty: all.
    pids: BTreeSet<u32>,
    left_out: BTreeSet<u32>,
    /// The daemon was asked.
    has_begun: bool,
    /// Memory that the records take, bytes, and may take.
    bytes: (usize, usize),
    recording: Recording,
}

impl Recorder {
    /// Begins to record: work that ends from now on. `pids` limits it to these processes.
    pub fn begin(source: &mut dyn ReportSource, pids: &[u32]) -> Result<Self> {
        let mut recorder = Self {
            places: BTreeMap::new(),
            pids: pids.iter().copied().collect(),
            left_out: BTreeSet::new(),
            has_begun: false,
            bytes: (0, BYTES_MAX),
            recording: Recording::default(),
        };
        recorder.take(source)?;
        Ok(recorder)
    }

    /// Takes in what has come since. Servers that have started meanwhile are recorded from their start on.
    pub fn take(&mut self, source: &mut dyn ReportSource) -> Result<()> {
        let report = source.report()?;
        for server in &report.servers {
            // One that was not there, or not ready, when recording began has recorded from its start on.
            let from = u64::from(self.has_begun || server.state != READY);
            self.places.entry(server.pid).or_insert(from);
            let device = server.devices.first();
            let device =
                device.map_or((0, String::new()), |device| (device.ordinal, device.name.clone()));
            for client in &server.clients {
                let known = self.recording.clients.entry((server.pid, client.id)).or_default();
                known.device = device.clone();
                known.pid = client.pid.unwrap_or(known.pid);
                known.command = client.command.clone();
            }
        }
        let is_there = |pid: &u32| report.servers.iter().any(|server| server.pid == *pid);
        self.places.retain(|server, _| is_there(server));
        self.has_begun = true;
        // Without places too: servers to come are to record.
        let places: Vec<(u32, u64)> = self.places.iter().map(|(pid, from)| (*pid, *from)).collect();
        for Trace { server, next, lost, clients, records, error } in source.trace(&places)? {
            self.places.insert(server, next);
            match error {
                Some(error) => self.recording.silent.insert(server, error),
                None => self.recording.silent.remove(&server),
            };
            self.recording.lost += lost;
            for TracedClient { client, pid, command } in clients {
                let known = self.recording.clients.entry((server, client)).or_default();
                if known.pid == 0 {
                    *known = RecordedClient { pid, command, ..known.clone() };
                }
            }
            let clients = &self.recording.clients;
            let wanted = |record: &TracedWork| {
                let pid = clients.get(&(server, record.client)).map_or(0, |client| client.pid);
                !self.left_out.contains(&pid) && (self.pids.is_empty() || self.pids.contains(&pid))
            };
            for record in records.into_iter().filter(wanted) {
                let bytes = size_of::<(u32, TracedWork)>() + record.name.len();
                if self.bytes.0 + bytes > self.bytes.1 {
                    self.recording.lost += 1;
                    continue;
                }
                self.bytes.0 += bytes;
                self.recording.records.push((server, record));
            }
        }
        Ok(())
    }

    /// The clients that were seen so far.
    pub fn clients(&self) -> impl Iterator<Item = &RecordedClient> {
        self.recording.clients.values()
    }

    /// Leaves these processes out of what was recorded and of what comes.
    pub fn leave_out(&mut self, pids: &[u32]) {
        let clients = &mut self.recording.clients;
        clients.retain(|_, client| !pids.contains(&client.pid));
        let is_known =
            |(server, record): &(u32, TracedWork)| clients.contains_key(&(*server, record.client));
        self.recording.records.retain(is_known);
        let each = self.recording.records.iter();
        self.bytes.0 = each.map(|(_, of)| size_of::<(u32, TracedWork)>() + of.name.len()).sum();
        self.left_out.extend(pids);
    }

    /// What was recorded.
    pub fn finish(self) -> Recording {
        self.recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;
    use control::counts::ClientCounts;
    use control::report::Report;
    use std::time::Instant;

    /// A daemon whose servers are these; notes the places that it is asked for.
    struct Fake {
        servers: Vec<(u32, &'static str)>,
        asked: Vec<Vec<(u32, u64)>>,
        /// This server does not answer.
        silent: u32,
    }

    impl ReportSource for Fake {
        fn report(&mut self) -> Result<Report> {
            let mut report = reading(Instant::now(), 1, &[]).report;
            let model = report.servers.remove(0);
            for (pid, state) in &self.servers {
                let mut server = model.clone();
                (server.pid, server.state) = (*pid, (*state).to_owned());
                report.servers.push(server);
            }
            Ok(report)
        }
        fn counts(&mut self) -> Result<Vec<ClientCounts>> {
            Ok(Vec::new())
        }
        fn trace(&mut self, places: &[(u32, u64)]) -> Result<Vec<Trace>> {
            self.asked.push(places.to_vec());
            // One that is not ready does not answer.
            let ready = |pid: u32| self.servers.iter().any(|s| s.0 == pid && s.1 == READY);
            let places = places.iter().filter(|place| ready(place.0));
            let answer = |place: &(u32, u64)| match place.0 == self.silent {
                true => Trace {
                    server: place.0,
                    next: place.1,
                    error: Some("it is stopped".to_owned()),
                    ..Trace::default()
                },
                false => Trace { server: place.0, next: 9, ..Trace::default() },
            };
            Ok(places.map(answer).collect())
        }
        fn command(&mut self, _: &str) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn servers_to_come_are_recorded_from_their_first_record_on() {
        let mut source = Fake { servers: vec![], asked: vec![], silent: 0 };
        let mut recorder = Recorder::begin(&mut source, &[]).expect("it answers");
        source.servers = vec![(5, "INITIALIZING")];
        recorder.take(&mut source).expect("it answers");
        source.servers = vec![(5, READY), (6, READY)];
        recorder.take(&mut source).expect("it answers");
        recorder.take(&mut source).expect("it answers");
        // Asked without servers too: so the daemon learns that servers to come shall record.
        let expected: [&[(u32, u64)]; 4] = [&[], &[(5, 1)], &[(5, 1), (6, 1)], &[(5, 9), (6, 9)]];
        assert_eq!(source.asked, expected);
    }

    #[test]
    fn what_a_recording_has_no_room_for_counts_as_lost() {
        let mut source = Fake { servers: vec![(5, READY)], asked: vec![], silent: 0 };
        let mut recorder = Recorder::begin(&mut source, &[]).expect("it answers");
        let one = size_of::<(u32, TracedWork)>();
        recorder.bytes.1 = 2 * one;
        let mut records = Works(vec![TracedWork::default(); 5]);
        recorder.take(&mut records).expect("it answers");
        let recording = recorder.finish();
        assert_eq!((recording.records.len(), recording.lost), (2, 3));
    }

    /// A server with these records.
    struct Works(Vec<TracedWork>);

    impl ReportSource for Works {
        fn report(&mut self) -> Result<Report> {
            Ok(reading(Instant::now(), 1, &[]).report)
        }
        fn counts(&mut self) -> Result<Vec<ClientCounts>> {
            Ok(Vec::new())
        }
        fn trace(&mut self, _: &[(u32, u64)]) -> Result<Vec<Trace>> {
            let records = std::mem::take(&mut self.0);
            Ok(vec![Trace { server: 2, next: 9, records, ..Trace::default() }])
        }
        fn command(&mut self, _: &str) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn servers_that_are_there_are_recorded_from_now_on() {
        let servers = vec![(5, READY), (6, "INITIALIZING")];
        let mut source = Fake { servers, asked: vec![], silent: 0 };
        Recorder::begin(&mut source, &[]).expect("it answers");
        assert_eq!(source.asked, [[(5, 0), (6, 1)]]);
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_again_from_the_same_place() {
        let mut source = Fake { servers: vec![(5, READY), (6, READY)], asked: vec![], silent: 0 };
        let mut recorder = Recorder::begin(&mut source, &[]).expect("it answers");
        source.silent = 5;
        recorder.take(&mut source).expect("the other one answers");
        assert_eq!(recorder.recording.silent, BTreeMap::from([(5, "it is stopped".to_owned())]));
        source.silent = 0;
        recorder.take(&mut source).expect("both answer");
        assert_eq!(source.asked.last(), Some(&vec![(5, 9), (6, 9)]));
        assert!(recorder.finish().silent.is_empty());
    }
}
