//! Snapshot: what commands have changed and who is where, for the daemon that follows.
//!
//! A daemon that takes this one's place in its process is given it as it is (`handover`). For one that
//! is started later it lies in a file of the pipe directory: a line of JSON, and behind it a line for
//! each client that came to a namespace, a partition or a cgroup's account since, or left. So a daemon
//! that was killed has left all of it. Servers that go on say themselves who is at them; of the rest
//! what concerns a process holds only while that process is there.
//!
//! What the configuration file and the environment say goes before what commands have made of it if it
//! was changed since: the snapshot holds what they said.

use crate::daemon::Daemon;
use crate::daemon::limits::kept::{Kept, KeptRecord};
use crate::daemon::state::State;
use crate::settings::{Settings, SettingsRecord};
use crate::v3::{Membership, TenancyRecord};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines behind the first one before the file is written anew.
const LINES_MAX: usize = 4096;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::daemon) struct Snapshot {
    pub protocol: u32,
    pub given: Given,
    pub settings: SettingsRecord,
    pub class_rules: String,
    pub scheduling: String,
    pub counting: String,
    #[serde(flatten)]
    pub tenancy: TenancyRecord,
    pub kept: Vec<KeptRecord>,
    /// What servers' clients to come are given, by the servers' PIDs.
    pub servers: Vec<(u32, SettingsRecord)>,
}

/// What a daemon was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::daemon) struct Given {
    /// The text of the configuration file.
    pub configuration: String,
    pub settings: SettingsRecord,
    pub class_rules: String,
    pub scheduling: String,
    pub counting: String,
}

/// A line behind the first one.
#[derive(Debug, Serialize, Deserialize)]
enum Change {
    Enter(Membership),
    Leave { server: u32, client: u32 },
    ServerEnded(u32),
}

impl Snapshot {
    /// What the daemon before left at a path, if it left anything; a sentence if that is not understood.
    pub fn read(path: &Path) -> Result<Option<Snapshot>, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let mut snapshot: Snapshot = serde_json::from_str(first).map_err(|error| {
            format!("{} is not understood, and not used: {error}", path.display())
        })?;
        // The last one may be torn, where the file system was full.
        for change in lines.filter_map(|line| serde_json::from_str(line).ok()) {
            snapshot.apply(change);
        }
        Ok(Some(snapshot))
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Enter(membership) => self.tenancy.clients.push(membership),
            Change::Leave { server, client } => {
                let of = |it: &Membership| (it.server, it.client) == (server, client);
                if let Some(at) = self.tenancy.clients.iter().position(of) {
                    self.tenancy.clients.remove(at);
                }
            }
            Change::ServerEnded(server) => {
                self.tenancy.clients.retain(|of| of.server != server);
            }
        }
    }
}

impl Daemon {
    fn snapshot_path(&self) -> PathBuf {
        self.directory.state_file()
    }

    /// What the daemon that follows is to know.
    pub(in crate::daemon) fn snapshot(&self, state: &State) -> Snapshot {
        let settings =
            |server: &crate::daemon::state::Server| (server.pid, server.link.settings.record());
        Snapshot {
            protocol: self.options.protocol,
            given: self.given.clone(),
            settings: state.defaults.record(),
            class_rules: self.class_rules(),
            scheduling: self.server_scheduling(),
            counting: self.counting().name().to_owned(),
            tenancy: state.tenancy.record(),
            kept: state.kept.record(),
            servers: state.servers.iter().map(settings).chain(state.left.clone()).collect(),
        }
    }

    /// Writes down what commands have changed.
    pub(crate) fn write_snapshot(&self) {
        self.write_snapshot_of(&mut self.lock());
    }

    /// The same, of a state that is held.
    pub(crate) fn write_snapshot_of(&self, state: &mut State) {
        let snapshot = self.snapshot(state);
        let written = write_anew(&self.snapshot_path(), &snapshot);
        state.snapshot.lines = 0;
        self.has_written(state, written.map(Some));
    }

    /// A client is at a server, in a namespace, a partition or a cgroup's account.
    pub(crate) fn note_membership(&self, state: &mut State, membership: Membership) {
        state.tenancy.note(membership.clone());
        self.append(state, &Change::Enter(membership));
    }

    /// A client has left a server.
    pub(crate) fn note_left(&self, state: &mut State, server: u32, client: u32) {
        if state.tenancy.note_left(server, client) {
            self.append(state, &Change::Leave { server, client });
        }
    }

    /// A server has ended, with its clients.
    pub(in crate::daemon) fn note_server_ended(&self, state: &mut State, server: u32) {
        if state.tenancy.note_server_ended(server) {
            self.append(state, &Change::ServerEnded(server));
        }
    }

    fn append(&self, state: &mut State, change: &Change) {
        if state.snapshot.lines >= LINES_MAX || state.snapshot.open.is_none() {
            return self.write_snapshot_of(state);
        }
        state.snapshot.lines += 1;
        let Some(file) = &mut state.snapshot.open else { return };
        let line = serde_json::to_string(change).map_err(io::Error::other);
        let written = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        self.has_written(state, written.map(|()| None));
    }

    fn has_written(&self, state: &mut State, written: io::Result<Option<File>>) {
        match written {
            Ok(new) => {
                state.snapshot.said = false;
                state.snapshot.open = new.or(state.snapshot.open.take());
            }
            Err(error) => {
                // The next change writes all of it.
                state.snapshot.open = None;
                if !std::mem::replace(&mut state.snapshot.said, true) {
                    self.log(format!(
                        "What commands change cannot be written down for the next daemon: {error}"
                    ));
                }
            }
        }
    }

    /// At the daemon's end: with protocol 3 servers and namespaces stay for the next one, since
    /// containers have their directories mounted; with protocol 2 commands hold for the daemon's life.
    pub(in crate::daemon) fn leave_snapshot(&self) {
        let mut state = self.lock();
        if !state.tenancy.outlives_daemon() {
            if state.snapshot.open.take().is_some() {
                let _ = std::fs::remove_file(self.snapshot_path());
            }
            return;
        }
        state.tenancy.forget_clients();
        state.left.clear();
        state.kept = Kept::default();
        self.write_snapshot_of(&mut state);
    }

    /// Goes on with what a daemon before left.
    pub(in crate::daemon) fn restore(&self, state: &mut State, snapshot: &Snapshot) {
        let is_as_given = |now: &SettingsRecord| *now == snapshot.given.settings;
        if is_as_given(&self.given.settings) {
            state.defaults = Settings::from_record(&snapshot.settings);
        }
        if self.given.class_rules == snapshot.given.class_rules {
            // They were checked when they were set.
            let _ = self.set_class_rules(&snapshot.class_rules);
        }
        if self.given.scheduling == snapshot.given.scheduling {
            self.scheduling.restore(&snapshot.scheduling);
        }
        if self.given.counting == snapshot.given.counting {
            self.restore_counting(&snapshot.counting);
        }
        state.kept = Kept::from_record(snapshot.kept.clone());
        state.tenancy.restore(snapshot.tenancy.clone());
        state.left = snapshot.servers.clone();
    }
}

/// Writes a file of its own and puts it in the place of the one before: a daemon that is killed
/// meanwhile leaves that one.
fn write_anew(path: &Path, snapshot: &Snapshot) -> io::Result<File> {
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&new)?;
    let text = serde_json::to_string(snapshot)?;
    let written = file.write_all(format!("{text}\n").as_bytes());
    match written.and_then(|()| std::fs::rename(&new, path)) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = std::fs::remove_file(&new);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(server: u32, client: u32) -> Membership {
        let cgroup = Some(("/a".to_owned(), 5, None));
        let namespace = "batch".to_owned();
        Membership { server, client, named: 1, namespace, cgroup, ..Membership::default() }
    }

    #[test]
    fn what_is_written_is_read_and_a_torn_line_costs_only_itself() {
        let path = std::env::temp_dir().join(format!("openmps-snapshot-{}", std::process::id()));
        let clients = vec![membership(1, 2)];
        let tenancy = TenancyRecord { clients, ..TenancyRecord::default() };
        let snapshot = Snapshot { protocol: 3, tenancy, ..Snapshot::default() };
        let mut file = write_anew(&path, &snapshot).unwrap();
        for change in [
            Change::Enter(membership(1, 3)),
            Change::Enter(membership(4, 5)),
            Change::Leave { server: 1, client: 2 },
            Change::Leave { server: 1, client: 99 },
            Change::ServerEnded(4),
        ] {
            writeln!(file, "{}", serde_json::to_string(&change).unwrap()).unwrap();
        }
        write!(file, "{{\"Enter\":{{\"serv").unwrap();
        let read = Snapshot::read(&path).unwrap().unwrap();
        let clients = vec![membership(1, 3)];
        let tenancy = TenancyRecord { clients, ..TenancyRecord::default() };
        assert_eq!(read, Snapshot { tenancy, ..snapshot });
        assert_eq!(read.tenancy.clients[0].groups().next().unwrap().hard_bytes, u64::MAX);
        std::fs::write(&path, "nonsense").unwrap();
        assert!(Snapshot::read(&path).unwrap_err().contains("is not understood"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Snapshot::read(&path), Ok(None));
    }
}
