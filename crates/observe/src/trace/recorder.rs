//! Recorder: asks a daemon again and again for what was done, until all of it has come.

use crate::source::Source;
use anyhow::Result;
use control::trace::{Record, Trace, TraceClient};
use std::collections::{BTreeMap, BTreeSet};

/// A client of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
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
    pub clients: BTreeMap<(u32, u32), Client>,
    /// The records with their server, as they ended.
    pub records: Vec<(u32, Record)>,
    /// Records that were lost.
    pub lost: u64,
}

/// Records what a daemon's clients do.
pub struct Recorder {
    /// Where to go on, by server.
    places: BTreeMap<u32, u64>,
    /// Only these processes; empty: all.
    pids: BTreeSet<u32>,
    left_out: BTreeSet<u32>,
    recording: Recording,
}

impl Recorder {
    /// Begins to record: work that ends from now on. `pids` limits it to these processes.
    pub fn begin(source: &mut dyn Source, pids: &[u32]) -> Result<Self> {
        let mut recorder = Self {
            places: BTreeMap::new(),
            pids: pids.iter().copied().collect(),
            left_out: BTreeSet::new(),
            recording: Recording::default(),
        };
        recorder.take(source)?;
        Ok(recorder)
    }

    /// Takes in what has come since. Servers that have started meanwhile are recorded from now on.
    pub fn take(&mut self, source: &mut dyn Source) -> Result<()> {
        let report = source.report()?;
        for server in &report.servers {
            self.places.entry(server.pid).or_insert(0);
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
        let places: Vec<(u32, u64)> = self.places.iter().map(|(pid, from)| (*pid, *from)).collect();
        if places.is_empty() {
            return Ok(());
        }
        for Trace { server, next, lost, clients, records } in source.trace(&places)? {
            self.places.insert(server, next);
            self.recording.lost += lost;
            for TraceClient { client, pid, command } in clients {
                let known = self.recording.clients.entry((server, client)).or_default();
                if known.pid == 0 {
                    *known = Client { pid, command, ..known.clone() };
                }
            }
            let clients = &self.recording.clients;
            let wanted = |record: &Record| {
                let pid = clients.get(&(server, record.client)).map_or(0, |client| client.pid);
                !self.left_out.contains(&pid) && (self.pids.is_empty() || self.pids.contains(&pid))
            };
            let records = records.into_iter().filter(wanted).map(|record| (server, record));
            self.recording.records.extend(records);
        }
        Ok(())
    }

    /// Leaves these processes out of what was recorded and of what comes.
    pub fn leave_out(&mut self, pids: &[u32]) {
        let clients = &mut self.recording.clients;
        clients.retain(|_, client| !pids.contains(&client.pid));
        let is_known =
            |(server, record): &(u32, Record)| clients.contains_key(&(*server, record.client));
        self.recording.records.retain(is_known);
        self.left_out.extend(pids);
    }

    /// What was recorded.
    pub fn finish(self) -> Recording {
        self.recording
    }
}
