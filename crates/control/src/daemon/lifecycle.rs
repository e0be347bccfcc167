//! Servers from start to end: starting one as its user, taking note of what became of it, ending
//! it in three steps (asked, told, killed).

use super::Daemon;
use super::notify::NOTIFY_SOCKET;
use super::protocol::{self, Socket};
use super::questions::Questions;
use super::state::{ClientProcess, END_S_MAX, Failures, Phase, READY_S_MAX, Seat, Server, State};
use crate::settings::Settings;
use cuda_api::environment::OPENMPS_CPUS;
use cuda_api::{CUuuid, CudaError};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Clients wait for the end of a pause between two starts of a server if it is not longer.
const PATIENCE_S_MAX: u64 = 10;

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LaunchError {
    #[error(
        "this daemon was started by {owner} and serves only that user, not {user}: start one with \
         `openmps up`, or have root start one for all"
    )]
    OtherUser { owner: String, user: String },
    #[error(
        "no server can run as user {uid}, group {gid}, which this daemon's user namespace does not \
         have: run the program as a user of that namespace, or start the daemon outside of it"
    )]
    Unmapped { uid: u32, gid: u32 },
    #[error("this daemon serves no device {0}")]
    NoSuchDevice(CUuuid),
    #[error("server '{server}' is {owner}'s and serves only that user, not {user}")]
    OtherUsersServer { server: String, owner: String, user: String },
    #[error("the server or namespace of this socket is not there any more")]
    ServerDeleted,
    #[error("server '{0}' has none of this daemon's devices: see its allowed-devices")]
    NoAllowedDevice(String),
    #[error("{max} clients wait already", max = super::state::WAITING_MAX)]
    Crowded,
    #[error("the daemon is shutting down")]
    Stopping,
    #[error("this daemon does not serve {0}: its operator says whom by --allow")]
    NotAllowed(String),
    #[error("another user's programs have the device, and this daemon serves one user at a time")]
    OtherUserFirst,
    #[error(
        "the server failed {count} times, last: {reason}; it will be tried again in {seconds} s"
    )]
    BackOff { count: u32, reason: String, seconds: u64 },
    #[error("the server could not be started: {0}")]
    Spawn(String),
    #[error("the server did not start: {0}")]
    Ended(String),
}

impl LaunchError {
    /// What a client's first driver call answers.
    pub fn result(&self) -> CudaError {
        match self {
            LaunchError::NotAllowed(_)
            | LaunchError::OtherUsersServer { .. }
            | LaunchError::ServerDeleted
            | LaunchError::OtherUser { .. }
            | LaunchError::Unmapped { .. }
            | LaunchError::Spawn(_)
            | LaunchError::Ended(_) => CudaError::MPS_CONNECTION_FAILED,
            LaunchError::NoSuchDevice(_) | LaunchError::NoAllowedDevice(_) => {
                CudaError::INVALID_DEVICE
            }
            LaunchError::Crowded => CudaError::MPS_MAX_CONNECTIONS_REACHED,
            LaunchError::Stopping | LaunchError::BackOff { .. } | LaunchError::OtherUserFirst => {
                CudaError::MPS_SERVER_NOT_READY
            }
        }
    }

    /// It will pass, and soon: a client does better to wait than to fail.
    pub fn is_worth_waiting(&self) -> bool {
        match self {
            LaunchError::BackOff { seconds, .. } => *seconds <= PATIENCE_S_MAX,
            LaunchError::OtherUserFirst => true,
            _ => false,
        }
    }
}

impl State {
    /// What a line of the log says of a device behind the rest, where there are several.
    fn suffix_of(&self, device: CUuuid) -> String {
        let devices = self.inventory.devices().filter(|devices| devices.devices.len() > 1);
        let ordinal = devices.and_then(|devices| devices.find(device));
        ordinal.map_or_else(String::new, |ordinal| format!(" on device {ordinal} ({device})"))
    }
}

impl Daemon {
    /// Starts a server at a seat that has none. Returns its PID; it is not ready yet.
    pub(super) fn launch(
        &self,
        state: &mut State,
        seat: Seat,
        gid: u32,
    ) -> Result<u32, LaunchError> {
        if let Some(pid) = self.take_standby(state, seat) {
            return Ok(pid);
        }
        self.launch_for(state, seat, gid, None)
    }

    /// Starts a server at a seat, or for one process there alone.
    pub(super) fn launch_for(
        &self,
        state: &mut State,
        seat: Seat,
        gid: u32,
        quarantine: Option<u32>,
    ) -> Result<u32, LaunchError> {
        let Seat { uid, named, device } = seat;
        if state.stopping.is_some() {
            return Err(LaunchError::Stopping);
        }
        self.check_user(uid, gid)?;
        if self.options.access.one_user && self.has_others(state, uid) {
            return Err(LaunchError::OtherUserFirst);
        }
        if let Some(failures) = state.failures.get(&seat) {
            failures.may_start(Instant::now())?;
        }
        let settings = state.named.settings_of_server(named, device, &state.defaults);
        let log = state.endpoints.log_of(named).unwrap_or(&self.log_writer);
        match self.spawn(seat, gid, log, settings) {
            Ok(mut server) => {
                let pid = server.pid;
                server.stays = state.named.find(named).is_some_and(|of| !of.automatic);
                server.quarantine = quarantine.map(|pid| ClientProcess { uid, named, pid, device });
                let name = state.named.find(named).map(|of| format!(" ('{}')", of.name));
                let name = name.unwrap_or_default();
                let whom = match quarantine {
                    None => format!("user {uid}{name}"),
                    Some(process) => format!("process {process} of user {uid} alone"),
                };
                let on = state.suffix_of(device);
                self.logs.control.control(format!("Starting new server {pid} for {whom}{on}"));
                state.servers.push(server);
                self.wake();
                Ok(pid)
            }
            Err(error) => {
                self.logs.control.control(format!("No server for user {uid}: {error}"));
                self.count_failure(state, seat, Duration::ZERO, error.to_string());
                Err(LaunchError::Spawn(error.to_string()))
            }
        }
    }

    /// Whether servers of other users are there. They take no more programs then, and end with those
    /// that they have.
    fn has_others(&self, state: &mut State, uid: u32) -> bool {
        let mut any = false;
        for server in state.servers.iter_mut().filter(|server| server.uid != uid) {
            any = true;
            if server.phase == Phase::Running {
                self.tell_to_end(server, false);
            }
        }
        any
    }

    /// Whether this daemon may serve the user at all: root's serves everyone, another its owner.
    pub(super) fn check_user(&self, uid: u32, gid: u32) -> Result<(), LaunchError> {
        if !self.options.access.lets_in(self.owner, uid, gid) {
            return Err(LaunchError::NotAllowed(crate::users::name(uid)));
        }
        if uid == self.owner || self.options.access.multiuser {
            return Ok(());
        }
        if self.owner == 0 {
            let mapped = crate::users::are_mapped(uid, gid);
            return if mapped { Ok(()) } else { Err(LaunchError::Unmapped { uid, gid }) };
        }
        let name = crate::users::name;
        Err(LaunchError::OtherUser { owner: name(self.owner), user: name(uid) })
    }

    /// A server's command as the daemon's own user, to which `theirs` leads. To be started under the
    /// state's lock, so that no other child can catch the descriptor.
    pub(super) fn server_command(&self, theirs: &Socket) -> io::Result<Command> {
        rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty())?;
        let program = self.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut command = match program.as_deref() {
            None => self.programs.server(),
            Some(program) => self.programs.server_at(program),
        };
        drop(program);
        command
            .arg(super::CONTROL_FD)
            .arg(theirs.as_raw_fd().to_string())
            .env(cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY, self.directory.path())
            // Where its log is, which clients are told: not always where the variable said.
            .env(
                cuda_api::environment::CUDA_MPS_LOG_DIRECTORY,
                self.logs.directory.as_deref().unwrap_or("".as_ref()),
            )
            .env(cuda_api::environment::OPENMPS_SCHEDULING, self.scheduling.of_servers())
            .envs(self.options.kernel_timeout_s.map(|seconds| {
                (cuda_api::environment::OPENMPS_KERNEL_TIMEOUT_S, seconds.to_string())
            }))
            .stdin(Stdio::null())
            .stdout(self.log_writer.try_clone()?)
            .stderr(self.log_writer.try_clone()?)
            .current_dir("/");
        Ok(command)
    }

    fn spawn(&self, seat: Seat, gid: u32, log: &OwnedFd, settings: Settings) -> io::Result<Server> {
        let Seat { uid, named, device } = seat;
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = self.server_command(&theirs)?;
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        command.arg(super::DEVICE).arg(device.to_string());
        // That is between the daemon and its service manager.
        command.env_remove(NOTIFY_SOCKET);
        if let Some(cpus) = &self.options.cpus {
            command.env(OPENMPS_CPUS, cpus);
        }
        if uid != self.owner {
            // Only root gets here. The library drops supplementary groups too. The user can read
            // the environment of the server, so there is nothing in it that is only root's.
            command.gid(gid).uid(uid);
            for (name, _) in std::env::vars_os().filter(|(name, _)| !is_for_servers(name)) {
                command.env_remove(name);
            }
            if let Some(user) = crate::users::find(uid) {
                // Native code that a server keeps is found again by that user's next one.
                command.env("HOME", user.home);
            }
        }
        let child = command.spawn()?;
        let pid = child.id();
        let exit = pidfd(pid)?;
        let started = Instant::now();
        Ok(Server {
            settings,
            pid,
            uid,
            device,
            named,
            stays: false,
            socket: Arc::new(ours),
            mute: false,
            exit: Arc::new(exit),
            child,
            phase: Phase::Starting { deadline: started + Duration::from_secs(READY_S_MAX) },
            started,
            failure: None,
            kill_at: None,
            questions: Questions::default(),
            clients: 0,
            idle_since: None,
            fault: false,
            gid,
            replaces: None,
            standby: false,
            quarantine: None,
            quarantined: None,
        })
    }

    /// Asks a server to end when its clients are gone; or tells it to end now, and kills it if it
    /// does not.
    pub(super) fn tell_to_end(&self, server: &mut Server, force: bool) {
        let pid = server.pid;
        self.logs.control.control(format!("Try shutting down server {pid}, backoff is disabled"));
        let never_ready = matches!(server.phase, Phase::Starting { .. });
        server.phase = Phase::Draining;
        let told = protocol::send_shutdown(&server.socket, force);
        if force || never_ready || told.is_err() {
            let kill_at = Instant::now() + Duration::from_secs(END_S_MAX);
            server.kill_at = Some(server.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
        }
    }

    /// Takes an ended server out of the list and counts how it ended.
    pub(super) fn reap(&self, state: &mut State, pid: u32) {
        let Some(index) = state.servers.iter().position(|server| server.pid == pid) else { return };
        let mut server = state.servers.remove(index);
        let status = match server.child.wait() {
            Ok(status) => status,
            Err(error) => {
                self.logs.control.control(format!("Server {pid} is lost: {error}"));
                ExitStatus::from_raw(0)
            }
        };
        self.logs.control.control(format!("Server {pid} {}", ending(status)));
        state.last_answers.keep(pid, std::mem::take(&mut server.questions));
        state.partitions.forget_server(pid);
        state.named.forget_server(pid);
        state.memacct.forget_server(pid);
        if let Some(process) = server.quarantine {
            state.suspects.remove(&process);
        }
        let expected = server.phase == Phase::Draining;
        let served = match server.phase {
            Phase::Starting { .. } => Duration::ZERO,
            Phase::Running | Phase::Draining => server.started.elapsed(),
        };
        if expected {
            state.failures.remove(&server.seat());
            self.end_needless_standby(state, server.seat());
            return;
        }
        let reason =
            server.failure.clone().unwrap_or_else(|| format!("server {pid} {}", ending(status)));
        if server.phase == Phase::Running && server.clients > 0 {
            // They will come.
            self.replace(state, server.seat(), server.gid);
        }
        if matches!(server.phase, Phase::Starting { .. }) {
            let error = LaunchError::Ended(reason.clone());
            self.refuse_waiting(state, server.seat(), &error);
        }
        self.count_failure(state, server.seat(), served, reason);
    }

    pub(super) fn count_failure(
        &self,
        state: &mut State,
        failed: Seat,
        served: Duration,
        reason: String,
    ) {
        let now = Instant::now();
        let failures = Failures::after(state.failures.get(&failed), served, now, reason);
        let pause_s = (failures.until - now).as_secs();
        if pause_s > 0 {
            self.logs.control.control(format!(
                "Servers of user {} failed {} times, no new one for {pause_s} s",
                failed.uid, failures.count
            ));
        }
        state.failures.insert(failed, failures);
    }

    /// When a server is to end for want of clients, if nothing happens before: one of another user
    /// than the daemon's, which holds a context on the device for nobody.
    pub(super) fn idle_end(&self, server: &Server) -> Option<Instant> {
        // What an operator has named stays until the operator takes it away.
        let idle = server.phase == Phase::Running && server.uid != self.owner && !server.stays;
        server.idle_since.filter(|_| idle)?.checked_add(self.idle_max?)
    }

    /// Ends the servers that no client has used for long.
    pub(super) fn end_idle(&self, state: &mut State, now: Instant) {
        for server in &mut state.servers {
            if self.idle_end(server).is_some_and(|at| now >= at) {
                self.logs.control.control(format!(
                    "Server {} of user {} has had no client for {} s",
                    server.pid,
                    server.uid,
                    self.idle_max.unwrap_or_default().as_secs()
                ));
                self.tell_to_end(server, false);
            }
        }
    }

    /// Kills servers whose time is over.
    pub(super) fn kill_overdue(&self, state: &mut State, now: Instant) {
        for server in &mut state.servers {
            if let Phase::Starting { deadline } = server.phase
                && now >= deadline
            {
                server.failure = Some(format!("not ready after {READY_S_MAX} s"));
                server.kill_at.get_or_insert(now);
            }
            if server.kill_at.is_some_and(|at| now >= at) {
                let pid = server.pid;
                self.logs.control.control(format!("Server {pid} does not end, killing it"));
                let _ = server.child.kill();
                server.kill_at = Some(now + Duration::from_secs(END_S_MAX));
            }
        }
    }
}

/// Whether a server of another user is given a variable of the daemon's environment.
fn is_for_servers(name: &OsStr) -> bool {
    const NAMES: &[&str] = &["PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "RUST_BACKTRACE"];
    const PREFIXES: &[&str] = &["CUDA_", "OPENMPS_", "NVIDIA_", "LC_"];
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A descriptor that becomes readable when a process ends.
pub(super) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed())
        .ok_or_else(|| io::Error::other("process id 0"))?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// `exited with status 1`, `was killed by signal 9`.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
