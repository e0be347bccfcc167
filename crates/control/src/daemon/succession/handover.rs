//! Daemon handover: another program takes the daemon's place in its process, with its sockets, servers
//! and settings.
//!
//! The process stays the same one (exec), so that servers stay its children, and its lock, its PID and
//! its descriptors stay as they are. What it knew travels in a memory file, as JSON: a version reads what
//! it knows of it. Clients that wait for a server and have none yet lose their connection, and come
//! again. Neither shells nor devices that are just being looked for are handed over: they are waited for.

use super::snapshot::{Given, Snapshot};
use crate::accounting::Present;
use crate::activation;
use crate::daemon::Daemon;
use crate::daemon::clients::newcomers;
use crate::daemon::servers::process::{ServerProcess, pidfd};
use crate::daemon::servers::protocol::Socket;
use crate::daemon::servers::questions::Questions;
use crate::daemon::sources::Sources;
use crate::daemon::state::{ClientEnd, Link, Server, State, Successor};
use crate::directory::PipeDirectory;
use crate::faults::Faults;
use crate::options::TAKE_OVER;
use crate::report::HANDOVER_VERSION;
use crate::settings::{Settings, SettingsRecord};
use crate::v3::endpoints::{self, Chosen};
use channel::socket::{FileId, Listener, inherited};
use cuda_api::CUuuid;
use cuda_api::environment::{
    CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY, OPENMPS_CLASS_RULES, OPENMPS_COUNTERS,
    OPENMPS_SCHEDULING,
};
use recovery::servers::{
    ClientProcess, Failures, Isolated, IsolationReason, Phase, Role, ServerKey,
};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shells and starts that go on after so long are not waited for any more: the daemon stays.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// All that is handed over.
#[derive(Serialize, Deserialize)]
pub(crate) struct Handover {
    /// The version of the daemon before.
    from: String,
    lock: RawFd,
    /// The log FIFO, to read and to write.
    log: [RawFd; 2],
    listeners: [ListenerRecord; 2],
    /// Sockets of namespaces.
    named_listeners: Vec<NamedListenerRecord>,
    /// Log FIFOs of named servers: number, to read and to write.
    named_logs: Vec<(u32, RawFd, RawFd)>,
    servers: Vec<ServerRecord>,
    windows: Vec<WindowRecord>,
    /// What commands have changed, and who is where.
    snapshot: Snapshot,
    failures: Vec<FailureRecord>,
    /// Processes that may have caused a fault, and for how long they have been that.
    /// The name is the one that release 0.2 needs, to which a daemon may go back.
    #[serde(rename = "suspects")]
    candidates: Vec<(ProcessRecord, u64)>,
    faults: Faults,
    /// The clients at servers.
    #[serde(default)]
    present: Present,
}

/// A socket that listens, and its file.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ListenerRecord {
    fd: RawFd,
    file: FileId,
    /// Its file is the service manager's.
    #[serde(default)]
    stays: bool,
}

impl ListenerRecord {
    fn listener(self, path: &Path) -> io::Result<Listener> {
        let listener = Listener::from_fd(inherited(self.fd)?, path, self.file)?;
        Ok(if self.stays { listener.staying() } else { listener })
    }
}

#[derive(Serialize, Deserialize)]
struct NamedListenerRecord {
    named: u32,
    namespace: String,
    listener: ListenerRecord,
}

#[derive(Serialize, Deserialize)]
struct ProcessRecord {
    uid: u32,
    named: u32,
    pid: u32,
    device: String,
}

/// Failures of servers for a server key.
#[derive(Serialize, Deserialize)]
struct FailureRecord {
    uid: u32,
    named: u32,
    device: String,
    count: u32,
    /// What is left of the pause.
    pause_ms: u64,
    reason: String,
}

#[derive(Serialize, Deserialize)]
struct ServerRecord {
    pid: u32,
    uid: u32,
    gid: u32,
    named: u32,
    stays: bool,
    device: String,
    socket: RawFd,
    settings: SettingsRecord,
    mute: bool,
    /// Asked to end, or about to be.
    draining: bool,
    age_ms: u64,
    /// After so long it is killed.
    kill_ms: Option<u64>,
    clients: usize,
    idle_ms: Option<u64>,
    fault: bool,
    standby: bool,
    #[serde(default)]
    stuck: bool,
    /// The process for which alone it is there, because its kernels run for long.
    #[serde(default)]
    isolates: Option<u32>,
    /// The version of the protocol that it speaks with the daemon.
    #[serde(default = "oldest_protocol")]
    protocol: u16,
}

/// That of servers of a daemon which does not say it.
fn oldest_protocol() -> u16 {
    channel::PROTOCOL_VERSION_MIN
}

#[derive(Serialize, Deserialize)]
struct WindowRecord {
    process: ProcessRecord,
    index: u32,
    server: u32,
}

/// What a successor begins with, besides what the daemon's state gets.
pub(crate) struct Inherited {
    pub lock: OwnedFd,
    pub log: [OwnedFd; 2],
    pub listeners: [ListenerRecord; 2],
}

/// An error of data that the daemon before has written.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the daemon before handed over {what}"))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Handover {
    /// Reads what the program before has left in a descriptor.
    ///
    /// # Errors
    /// There is none, or it is not understood.
    pub fn read(number: RawFd) -> io::Result<Self> {
        let mut file = File::from(inherited(number)?);
        file.rewind()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))
    }

    /// Takes over the descriptors that are the process's own.
    ///
    /// # Errors
    /// One of them is not open.
    pub fn inherit(&self) -> io::Result<Inherited> {
        let [log, to_log] = self.log;
        let [main, privileged] = &self.listeners;
        Ok(Inherited {
            lock: inherited(self.lock)?,
            log: [inherited(log)?, inherited(to_log)?],
            listeners: [*main, *privileged],
        })
    }

    /// What the first daemon was started with.
    pub fn given(&self) -> Given {
        self.snapshot.given.clone()
    }
}

/// Why a program that takes over that version of what is handed over gets nothing of this one, if so. It
/// reads its own version and the one before.
fn keeps_it_from_handing_over(theirs: Option<u32>) -> Option<String> {
    match theirs {
        Some(theirs) if (HANDOVER_VERSION..=HANDOVER_VERSION + 1).contains(&theirs) => None,
        Some(theirs) => Some(format!(
            "the daemon itself stays: it hands over by version {HANDOVER_VERSION}, and that program \
             takes over version {theirs}"
        )),
        None => Some("the daemon itself stays: that program takes no daemon's place".to_owned()),
    }
}

/// The sockets that clients and shells come to.
pub(in crate::daemon) fn listeners(
    inherited: [ListenerRecord; 2],
    directory: &PipeDirectory,
) -> io::Result<[Arc<Listener>; 2]> {
    let [main, privileged] = inherited;
    let privileged = privileged.listener(&directory.control_privileged())?;
    Ok([Arc::new(main.listener(&directory.control())?), Arc::new(privileged)])
}

impl Daemon {
    /// Has another program take the daemon's place, when no shell is connected any more; a sentence if
    /// this daemon stays.
    pub(crate) fn begin_handover(&self, program: Option<PathBuf>) -> Option<String> {
        let mut command = self.programs.successor(program.as_deref());
        let said = command.arg(crate::options::HANDOVER).output();
        let theirs = said.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        let theirs: Option<u32> = theirs.and_then(|text| text.trim().parse().ok());
        if let Some(why) = keeps_it_from_handing_over(theirs) {
            return Some(why);
        }
        self.lock().successor = Some(Successor { program, since: Instant::now() });
        self.wake();
        None
    }

    /// Gives its place to another program if that is wanted and nothing stops it; a connection that has not said yet what it
    /// wants is (`greeting`). Comes back if it is not, or failed.
    pub(in crate::daemon) fn give_way(&self, state: &mut State, sources: &Sources, greeting: bool) {
        let Some(successor) = &state.successor else { return };
        let busy = self.shells.load(Ordering::Acquire) > 0
            || greeting
            || state.inventory.is_asked()
            || state.servers.sorts_out_a_fault(Instant::now())
            || state.servers.iter().any(|server| {
                matches!(server.phase, Phase::Starting { .. })
                    || server.isolated().is_some() && !server.is_isolation()
                    || server.replaces.is_some()
            });
        if state.servers.stopping.is_some() || busy && successor.since.elapsed() > WAIT_MAX {
            self.log("The daemon itself stays: it ends, or shells and servers keep it busy");
            state.successor = None;
        }
        if busy {
            return;
        }
        let Some(successor) = state.successor.take() else { return };
        let error = match self.become_successor(state, sources, successor.program.as_deref()) {
            Ok(never) => match never {},
            Err(error) => error,
        };
        self.log(format!("The daemon itself stays: {error}"));
    }

    /// Becomes the program.
    fn become_successor(
        &self,
        state: &State,
        sources: &Sources,
        program: Option<&Path>,
    ) -> io::Result<std::convert::Infallible> {
        let now = Instant::now();
        let handover = self.describe(state, sources, now)?;
        let mut file = File::from(memfd_create(c"openmps-handover", MemfdFlags::CLOEXEC)?);
        file.write_all(&serde_json::to_vec(&handover)?)?;
        let sockets: Vec<Arc<Socket>> =
            state.servers.iter().map(|server| server.link.socket.clone()).collect();
        let mut kept: Vec<BorrowedFd<'_>> = vec![
            file.as_fd(),
            sources.occupied.lock(),
            sources.log.as_fd(),
            self.log_writer.as_fd(),
            sources.listeners[0].as_fd(),
            sources.listeners[1].as_fd(),
        ];
        kept.extend(sockets.iter().map(|socket| socket.as_fd()));
        kept.extend(state.tenancy.endpoints().descriptors());
        for fd in &kept {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        let mut command: Command = self.programs.successor(program);
        command
            .args(self.options.words())
            .arg(if self.detached { crate::options::DETACH } else { "-f" })
            .arg(format!("{TAKE_OVER}={}", file.as_raw_fd()))
            .env(CUDA_MPS_PIPE_DIRECTORY, self.directory.path())
            // Those sockets are handed over, and these numbers are others by then.
            .env_remove(activation::LISTEN_PID)
            .env_remove(activation::LISTEN_FDS)
            .env(OPENMPS_CLASS_RULES, self.class_rules())
            .env(OPENMPS_SCHEDULING, self.scheduling.of_servers())
            .env(OPENMPS_COUNTERS, self.counting().name());
        if let Some(directory) = &self.logs.directory {
            command.env(CUDA_MPS_LOG_DIRECTORY, directory);
        }
        self.log("Handing over to the program that takes this daemon's place");
        let error = command.exec();
        // It came back: nothing else of this process may leave these to its children.
        for fd in &kept {
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
        Err(error)
    }

    fn describe(&self, state: &State, sources: &Sources, now: Instant) -> io::Result<Handover> {
        let server = |server: &Server| ServerRecord {
            pid: server.pid,
            uid: server.uid,
            gid: server.gid,
            named: server.named,
            stays: server.stays,
            device: server.device.to_string(),
            socket: server.link.socket.as_fd().as_raw_fd(),
            settings: server.link.settings.record(),
            mute: server.mute,
            draining: server.phase == Phase::Draining,
            age_ms: ms(now.saturating_duration_since(server.started)),
            kill_ms: server.kill_at.map(|at| ms(at.saturating_duration_since(now))),
            clients: server.clients,
            idle_ms: server.idle_since.map(|since| ms(now.saturating_duration_since(since))),
            fault: server.fault,
            standby: server.role == Role::Standby,
            stuck: server.stuck,
            isolates: server.isolated_for(IsolationReason::LongKernels).map(|process| process.pid),
            protocol: server.link.socket.speaks(),
        };
        let process = |of: ClientProcess| ProcessRecord {
            uid: of.uid,
            named: of.named,
            pid: of.pid,
            device: of.device.to_string(),
        };
        let window = |(of, index, server): (ClientProcess, u32, u32)| WindowRecord {
            process: process(of),
            index,
            server,
        };
        let failure = |(server_key, of): (&ServerKey, &Failures)| FailureRecord {
            uid: server_key.uid,
            named: server_key.named,
            device: server_key.device.to_string(),
            count: of.count,
            pause_ms: ms(of.until.saturating_duration_since(now)),
            reason: of.reason.clone(),
        };
        let candidate = |(of, since): (&ClientProcess, &Instant)| {
            (process(*of), ms(now.saturating_duration_since(*since)))
        };
        let listener = |of: &Listener| ListenerRecord {
            fd: of.as_raw_fd(),
            file: of.file(),
            stays: of.stays(),
        };
        let named_listener = |(of, chosen): &(Arc<Listener>, Chosen)| NamedListenerRecord {
            named: chosen.named,
            namespace: chosen.namespace.clone(),
            listener: listener(of),
        };
        let watched = state.tenancy.endpoints().watched();
        Ok(Handover {
            from: env!("CARGO_PKG_VERSION").to_owned(),
            lock: sources.occupied.lock().as_raw_fd(),
            log: [sources.log.as_fd().as_raw_fd(), self.log_writer.as_fd().as_raw_fd()],
            listeners: [listener(&sources.listeners[0]), listener(&sources.listeners[1])],
            named_listeners: watched.sockets.iter().map(named_listener).collect(),
            named_logs: watched.logs.iter().map(|log| log.descriptors()).collect(),
            servers: state.servers.iter().map(server).collect(),
            windows: state.windows.all().map(window).collect(),
            snapshot: self.snapshot(state),
            failures: state.servers.failures().map(failure).collect(),
            candidates: state.servers.candidates().map(candidate).collect(),
            faults: state.faults.clone(),
            present: state.present.clone(),
        })
    }

    fn take_endpoints(
        &self,
        state: &mut State,
        listeners: Vec<NamedListenerRecord>,
        logs: Vec<(u32, RawFd, RawFd)>,
    ) -> io::Result<()> {
        for (number, reader, writer) in logs {
            let name = state.tenancy.name_of(number);
            let name = name.ok_or_else(|| wrong("the log of no server"))?;
            let directory = self.directory_of(name);
            let fifo = (inherited(reader)?, inherited(writer)?);
            let logs = self.logs.directory.as_deref();
            let endpoints = state.tenancy.endpoints_mut();
            endpoints.adopt_log(&directory, logs, number, fifo).map_err(io::Error::other)?;
        }
        for NamedListenerRecord { named: number, namespace, listener } in listeners {
            let name = state.tenancy.name_of(number);
            let name = name.ok_or_else(|| wrong("a socket of no server"))?;
            let mut directory = self.directory_of(name);
            let endpoints = state.tenancy.endpoints_mut();
            // The one of a server and the one of its namespace `default` have one choice.
            let is_server_s =
                !endpoints.has(number, &namespace) && endpoints::is_default(&namespace);
            if !is_server_s {
                directory.push(&namespace);
            }
            let listener = listener.listener(&directory.join("control"))?;
            endpoints.adopt(listener, Chosen { named: number, namespace, by_main: false });
        }
        Ok(())
    }

    /// Goes on with what the daemon before knew.
    ///
    /// # Errors
    /// What it has left is not understood.
    pub(in crate::daemon) fn go_on(&self, handover: Handover) -> io::Result<()> {
        let Handover { from, servers, windows, snapshot, present, faults, .. } = handover;
        let Handover { named_listeners, named_logs, failures, candidates, .. } = handover;
        let now = Instant::now();
        let before = |ms: u64| now.checked_sub(Duration::from_millis(ms)).unwrap_or(now);
        let mut state = self.lock();
        self.restore(&mut state, &snapshot);
        state.left.clear();
        (state.present, state.faults) = (present, faults);
        self.take_endpoints(&mut state, named_listeners, named_logs)?;
        let device = |text: &str| CUuuid::parse(text).ok_or_else(|| wrong("no device"));
        let count = servers.len();
        for of in servers {
            let device = device(&of.device)?;
            let (uid, named) = (of.uid, of.named);
            let isolated = of.isolates.map(|pid| Isolated {
                process: ClientProcess { uid, named, pid, device },
                reason: IsolationReason::LongKernels,
                came: Some(now),
            });
            let others = match of.standby {
                true => Role::Standby,
                false => Role::Serving { stood_by: None },
            };
            let socket = Socket::from_fd(inherited(of.socket)?)?;
            socket.speak(of.protocol);
            state.servers.adopt(Server {
                pid: of.pid,
                uid: of.uid,
                gid: of.gid,
                device,
                named,
                stays: of.stays,
                link: Link {
                    socket: Arc::new(socket),
                    exit: Arc::new(pidfd(of.pid)?),
                    child: ServerProcess::Inherited(of.pid),
                    questions: Questions::default(),
                    settings: Settings::from_record(&of.settings),
                },
                mute: of.mute,
                phase: if of.draining { Phase::Draining } else { Phase::Running },
                started: before(of.age_ms),
                failure: None,
                kill_at: of.kill_ms.map(|ms| now + Duration::from_millis(ms)),
                clients: of.clients,
                idle_since: of.idle_ms.map(before),
                fault: of.fault,
                role: isolated.map_or(others, Role::Isolated),
                replaces: None,
                outdated: false,
                stuck: of.stuck,
            });
        }
        let process = |of: &ProcessRecord| {
            let device = device(&of.device)?;
            io::Result::Ok(ClientProcess { uid: of.uid, named: of.named, pid: of.pid, device })
        };
        for of in windows {
            let (process, pid) = (process(&of.process)?, of.process.pid);
            state.windows.give(process, of.index, of.server, || ClientEnd::of(pid));
        }
        state.tenancy.enter_all();
        for of in failures {
            let server_key =
                ServerKey { uid: of.uid, named: of.named, device: device(&of.device)? };
            let until = now + Duration::from_millis(of.pause_ms);
            let failures = Failures::kept(of.count, until, of.reason, now);
            state.servers.has_failed_before(server_key, failures);
        }
        for (of, since) in candidates {
            state.servers.is_candidate_since(process(&of)?, before(since));
        }
        if state.tenancy.outlives_daemon() || self.directory.state_file().exists() {
            self.write_snapshot_of(&mut state);
        }
        let users: BTreeSet<u32> = state.servers.iter().map(|server| server.uid).collect();
        drop(state);
        if let Some(daemon) = self.this.upgrade() {
            // Of their users the accounting has names.
            for uid in users {
                let _ = newcomers::is_known(&daemon, uid);
            }
        }
        let version = env!("CARGO_PKG_VERSION");
        self.log(format!(
            "This daemon (version {version}) has taken the place of version {from}: {count} \
             servers go on"
        ));
        Ok(())
    }
}

/// What builds of each version of the protocol hand over (`corpus/N.json`), which later ones must take
/// with the same meaning. `cargo xtask corpus` records that of this build.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::v3::memacct::CgroupLimit;
    use crate::v3::{Membership, TenancyRecord};
    use channel::message::ClientFault;
    use serde_json::Value;
    use std::time::SystemTime;

    fn sample() -> Handover {
        let device = "GPU-0a000000-0000-0000-0000-00000000000b".to_owned();
        let process = |pid| ProcessRecord { uid: 1000, named: 0, pid, device: device.clone() };
        let listener = |fd, inode| ListenerRecord { fd, file: (5, inode), stays: true };
        let mut settings = Settings::default();
        let share = cuda_api::settings::Percentage::parse("50").expect("a share");
        settings.set_share(share, channel::message::SetBy::Daemon);
        settings
            .set_memory("0", 1 << 30, "1G", channel::message::SetBy::Server)
            .expect("a limit of memory");
        let mut faults = Faults::default();
        let said = ClientFault {
            pid: 12,
            command: "./a".into(),
            is_faulting: true,
            error: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            why: "a kernel".into(),
        };
        faults.note(11, 1000, said, SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        let membership = Membership {
            server: 11,
            client: 12,
            named: 1,
            namespace: "n".into(),
            partition: Some("p".into()),
            cgroup: Some(("/a".into(), 5, Some(6))),
            namespace_memory: Some(("namespace a of server b".into(), 0, None)),
            sms: Some((8, 16)),
        };
        let limit = CgroupLimit {
            cgroup: "/a".into(),
            device: Some("0".into()),
            soft_bytes: 5,
            hard_bytes: 6,
        };
        Handover {
            from: "0.0.0".into(),
            lock: 3,
            log: [4, 5],
            listeners: [listener(6, 60), listener(7, 70)],
            named_listeners: vec![NamedListenerRecord {
                named: 1,
                namespace: "n".into(),
                listener: listener(8, 80),
            }],
            named_logs: vec![(1, 9, 10)],
            servers: vec![ServerRecord {
                pid: 11,
                uid: 1000,
                gid: 100,
                named: 0,
                stays: true,
                device: device.clone(),
                socket: 11,
                settings: settings.record(),
                mute: true,
                draining: true,
                age_ms: 12,
                kill_ms: Some(13),
                clients: 14,
                idle_ms: Some(15),
                fault: true,
                standby: true,
                stuck: true,
                isolates: Some(16),
                protocol: channel::PROTOCOL_VERSION,
            }],
            windows: vec![WindowRecord { process: process(12), index: 3, server: 11 }],
            snapshot: Snapshot {
                protocol: 3,
                given: Given { configuration: "x".into(), ..Given::default() },
                settings: settings.record(),
                class_rules: "user:a=batch".into(),
                scheduling: "policy=fifo".into(),
                counting: "every".into(),
                tenancy: TenancyRecord {
                    cgroup_limits: vec![limit],
                    clients: vec![membership],
                    ..TenancyRecord::default()
                },
                servers: vec![(11, settings.record())],
                ..Snapshot::default()
            },
            failures: vec![FailureRecord {
                uid: 1000,
                named: 0,
                device: device.clone(),
                count: 2,
                pause_ms: 17,
                reason: "no memory".into(),
            }],
            candidates: vec![(process(18), 19)],
            faults,
            present: Present::default(),
        }
    }

    /// Names that releases before this one wrote, and what is written now.
    const RENAMED: [(&str, &str); 1] = [("is_culprit", "is_faulting")];

    /// True if all that was recorded is there with the same value, by its name of today.
    fn has(now: &Value, recorded: &Value) -> bool {
        match (now, recorded) {
            (Value::Object(now), Value::Object(recorded)) => {
                recorded.iter().all(|(name, value)| {
                    let renamed = RENAMED.iter().find(|(before, _)| before == name);
                    let name = renamed.map_or(name.as_str(), |(_, now)| now);
                    now.get(name).is_some_and(|now| has(now, value))
                })
            }
            (Value::Array(now), Value::Array(recorded)) => {
                now.len() == recorded.len()
                    && now.iter().zip(recorded).all(|(now, of)| has(now, of))
            }
            _ => now == recorded,
        }
    }

    #[test]
    fn the_corpus_of_each_version_is_taken_with_the_same_meaning() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        if std::env::var_os("OPENMPS_RECORD_CORPUS").is_some() {
            std::fs::create_dir_all(&corpus).expect("a folder");
            let text = serde_json::to_string_pretty(&sample()).expect("JSON") + "\n";
            let path = corpus.join(format!("{}.json", channel::PROTOCOL_VERSION));
            std::fs::write(path, text).expect("the corpus is written");
        }
        for version in channel::PROTOCOL_VERSION_MIN..=channel::PROTOCOL_VERSION {
            let path = corpus.join(format!("{version}.json"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
                panic!("{}: {error}; `cargo xtask corpus` records it", path.display())
            });
            let recorded: Value = serde_json::from_str(&text).expect("JSON");
            let taken: Handover = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(taken.servers.iter().all(|server| server.protocol == version));
            let faulting = taken.faults.list(|_| true, SystemTime::now());
            assert!(faulting.iter().all(|fault| fault.is_faulting), "{}", path.display());
            let now = serde_json::to_value(&taken).expect("JSON");
            assert!(has(&now, &recorded), "{}: {now:#}", path.display());
        }
    }

    #[test]
    fn a_daemon_goes_over_to_its_own_release_and_the_next() {
        assert_eq!(keeps_it_from_handing_over(Some(HANDOVER_VERSION)), None);
        assert_eq!(keeps_it_from_handing_over(Some(HANDOVER_VERSION + 1)), None);
        let why = keeps_it_from_handing_over(Some(HANDOVER_VERSION + 2)).expect("it stays");
        assert!(why.contains(&format!("version {}", HANDOVER_VERSION + 2)), "{why}");
        assert!(keeps_it_from_handing_over(Some(HANDOVER_VERSION - 1)).is_some());
        assert!(keeps_it_from_handing_over(None).is_some());
    }
}
