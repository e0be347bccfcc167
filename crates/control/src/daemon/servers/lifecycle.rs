//! Server processes: starting one as its user, and taking note of what became of it. What is started,
//! asked to end and killed when is decided in crate `recovery`.

use super::inventory::Inventory;
use super::process::{ServerProcess, ending, pidfd};
use super::protocol::{self, Socket};
use super::questions::Questions;
use crate::accounting::AccountingRecord;
use crate::activation;
use crate::daemon::Daemon;
use crate::daemon::clients::launch_error::LaunchError;
use crate::daemon::notify::NOTIFY_SOCKET;
use crate::daemon::problems;
use crate::daemon::state::{Link, State};
use crate::settings::Settings;
use crate::v3::Tenancy;
use cuda_api::environment::{
    CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY, OPENMPS_CPUS, OPENMPS_WARM,
};
use recovery::servers::{Effects, Phase, ServerKey, Servers, Serves, StartServers};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Does what the rules decide about servers.
pub(crate) struct DaemonEffects<'a> {
    daemon: &'a Daemon,
    tenancy: &'a Tenancy,
    inventory: &'a Inventory,
    defaults: &'a Settings,
}

impl Effects<Link> for DaemonEffects<'_> {
    fn shut_down(&mut self, server: &Link, force: bool) -> bool {
        protocol::send_shutdown(&server.socket, force).is_ok()
    }

    fn hand_over(&mut self, server: &Link) -> bool {
        protocol::send_move(&server.socket).is_ok()
    }

    fn hand_over_one(&mut self, server: &Link, process: u32) -> bool {
        protocol::send_move_one(&server.socket, process).is_ok()
    }

    fn leave(&mut self, server: &Link) {
        // One that is gone has left.
        let _ = protocol::send_leave(&server.socket);
    }

    fn kill(&mut self, server: &mut Link) {
        let _ = server.child.kill();
    }

    fn look_again(&mut self) {
        self.daemon.wake();
    }

    fn log(&mut self, text: String) {
        self.daemon.logs.control.control(text);
    }
}

impl StartServers<Link> for DaemonEffects<'_> {
    fn start(
        &mut self,
        server_key: ServerKey,
        gid: u32,
        serves: Serves,
    ) -> Result<(u32, Link), String> {
        let log =
            self.tenancy.endpoints().log_of(server_key.named).unwrap_or(&self.daemon.log_writer);
        let settings = self.tenancy.settings_of_server(server_key, self.defaults);
        let how = (self.tenancy.name_of(server_key.named), log, settings);
        self.daemon.spawn((server_key, gid), serves, how).map_err(|error| error.to_string())
    }

    fn stays(&self, server_key: ServerKey) -> bool {
        self.tenancy.stays(server_key.named)
    }

    fn name(&self, server_key: ServerKey) -> String {
        let name = self.tenancy.name_of(server_key.named).map(|name| format!(" ('{name}')"));
        name.unwrap_or_default()
    }

    fn on_device(&self, ServerKey { device, .. }: ServerKey) -> String {
        let devices = self.inventory.devices().filter(|devices| devices.devices.len() > 1);
        let ordinal = devices.and_then(|devices| devices.find(device));
        ordinal.map_or_else(String::new, |ordinal| format!(" on device {ordinal} ({device})"))
    }
}

impl State {
    /// The servers, and what does what their rules decide.
    pub(crate) fn servers_and_effects<'a>(
        &'a mut self,
        daemon: &'a Daemon,
    ) -> (&'a mut Servers<Link>, DaemonEffects<'a>) {
        let State { servers, tenancy, inventory, defaults, .. } = self;
        (servers, DaemonEffects { daemon, tenancy, inventory, defaults })
    }
}

impl Daemon {
    /// Starts a server for a server key that has none. Returns its PID; it is not ready yet.
    pub(in crate::daemon) fn launch(
        &self,
        state: &mut State,
        server_key: ServerKey,
        gid: u32,
    ) -> Result<u32, LaunchError> {
        self.check_user(server_key.uid, gid)?;
        let (servers, mut effects) = state.servers_and_effects(self);
        Ok(servers.launch(server_key, gid, Instant::now(), &mut effects)?)
    }

    /// Whether this daemon may serve the user at all: root's serves all users, another its owner.
    pub(crate) fn check_user(&self, uid: u32, gid: u32) -> Result<(), LaunchError> {
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
    pub(in crate::daemon) fn server_command(&self, theirs: &Socket) -> io::Result<Command> {
        rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty())?;
        let program = self.program.lock();
        let mut command = match program.as_deref() {
            None => self.programs.server(),
            Some(program) => self.programs.server_at(program),
        };
        drop(program);
        command
            .arg(crate::daemon::CONTROL_FD)
            .arg(theirs.as_raw_fd().to_string())
            .env(CUDA_MPS_PIPE_DIRECTORY, self.directory.path())
            // It may be of another release.
            .env(crate::daemon::DAEMON_PROTOCOL, channel::PROTOCOL_VERSION.to_string())
            // Where its log is, which clients report: not always where the variable said.
            .env(CUDA_MPS_LOG_DIRECTORY, self.logs.directory.as_deref().unwrap_or("".as_ref()))
            .env(cuda_api::environment::OPENMPS_SCHEDULING, self.scheduling.of_servers())
            .env(cuda_api::environment::OPENMPS_COUNTERS, self.counting().name())
            .envs(
                self.options
                    .isolate_long
                    .iter()
                    .map(|long| (cuda_api::environment::OPENMPS_ISOLATE_LONG, long.as_str())),
            )
            .envs(
                self.options
                    .hold_max
                    .iter()
                    .map(|hold| (cuda_api::environment::OPENMPS_HOLD_MAX, hold.as_str())),
            )
            .envs(self.options.kernel_timeout_s.map(|seconds| {
                (cuda_api::environment::OPENMPS_KERNEL_TIMEOUT_S, seconds.to_string())
            }))
            .envs(
                self.changed_variables()
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            // Libraries that are put before programs: their functions of CUDA are not for a server, which calls
            // the driver for all programs.
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(self.log_writer.try_clone()?)
            .stderr(self.log_writer.try_clone()?)
            .current_dir("/");
        Ok(command)
    }

    fn spawn(
        &self,
        (server_key, gid): (ServerKey, u32),
        serves: Serves,
        (name, log, settings): (Option<&str>, &OwnedFd, Settings),
    ) -> io::Result<(u32, Link)> {
        let ServerKey { uid, device, .. } = server_key;
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = self.server_command(&theirs)?;
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        command.arg(crate::daemon::DEVICE).arg(device.to_string());
        if let Some(name) = name {
            // There it looks for the next daemon, which knows by that whose process it is.
            command.env(CUDA_MPS_PIPE_DIRECTORY, self.directory_of(name));
            if let Some(logs) = &self.logs.directory {
                command.env(CUDA_MPS_LOG_DIRECTORY, logs.join(name));
            }
        }
        if serves == Serves::Candidate {
            // It waits for its own code alone, and what it uses is no list of what others need.
            command.env(OPENMPS_WARM, "0");
        }
        // That is between the daemon and its service manager.
        for name in [NOTIFY_SOCKET, activation::LISTEN_PID, activation::LISTEN_FDS] {
            command.env_remove(name);
        }
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
        problems::count(&problems::SERVERS_STARTED);
        let pid = child.id();
        let exit = pidfd(pid)?;
        if let Err(error) = self.cgroups.enter(pid) {
            let text = format!("Server {pid} stays in the daemon's cgroup: {error}");
            self.logs.control.control(text);
        }
        let link = Link {
            socket: Arc::new(ours),
            exit: Arc::new(exit),
            child: ServerProcess::Started(child),
            questions: Questions::default(),
            settings,
        };
        Ok((pid, link))
    }

    /// Adds a client to the accounting; a line that cannot be written is lost, and that is said.
    pub(in crate::daemon) fn write_down(&self, record: &AccountingRecord) {
        if let Err(error) = self.book.add(record) {
            let text = "What a client used cannot be written down";
            self.logs.control.control(format!("{text}: {error}"));
        }
    }

    /// Takes an ended server out of the list and counts how it ended.
    pub(in crate::daemon) fn reap(&self, state: &mut State, pid: u32) {
        let Some(server) = state.server(pid) else { return };
        let (how, killed) = match server.link.child.wait() {
            Ok(status) => (ending(status), status.signal() == Some(Signal::KILL.as_raw())),
            Err(error) => (format!("has ended, how is not known: {error}"), false),
        };
        self.cgroups.leave(pid);
        let (servers, mut effects) = state.servers_and_effects(self);
        let Some(ended) = servers.has_ended(pid, (&how, killed), Instant::now(), &mut effects)
        else {
            return;
        };
        if ended.server.fault || ended.server.phase != Phase::Draining {
            problems::count(&problems::SERVERS_LOST);
        }
        let server_key = ended.server.server_key();
        state.last_answers.keep(pid, ended.server.link.questions);
        state.tenancy.forget_server(pid);
        self.note_server_ended(state, pid);
        for record in state.present.server_ended(pid, SystemTime::now()) {
            self.write_down(&record);
        }
        if let Some(reason) = ended.refuse {
            self.refuse_waiting(state, server_key, &LaunchError::Ended(reason));
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
