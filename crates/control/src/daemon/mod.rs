//! The daemon: one event loop over sockets, servers and signals, and a thread for each shell that
//! is connected, which may wait.
//!
//! Invariants:
//! * The state is behind one lock; nothing blocks while it is held. Sockets never block here: a
//!   server that does not read is a server that does not answer.
//! * Only the event loop reads from servers and takes them out of the list; others send.
//! * The daemon is never between a client and its server: the server gets the client's socket.
//!
//! | folder | what it is |
//! | --- | --- |
//! | `clients` | connections until a server has them |
//! | `servers` | processes of servers, the devices |
//! | `limits` | what clients are given, and the settings file |
//! | `succession` | the daemon that follows |

mod clients;
mod event_loop;
mod limits;
mod notify;
mod problems;
mod servers;
mod sources;
mod start;
mod state;
mod succession;

pub(crate) use clients::launch_error::LaunchError;
pub(crate) use servers::protocol;
pub(crate) use servers::questions::Reply;
pub(crate) use state::{Server, State, state_of};

pub use crate::report::HANDOVER_VERSION;
pub(crate) use problems::refusals;
pub use start::{DESCRIPTORS_WANTED, StartError, raise_descriptor_limit, run, start_in_background};

use crate::accounting::Book;
use crate::directory::PipeDirectory;
use crate::fault_budget::FaultBudget;
use crate::faults::Fault;
use crate::log::Logs;
use crate::options::DaemonOptions;
use crate::status::{ServerPhase, Status};
use channel::message::{CountsPart, Question, TracePart, pid_of_process};
use channel::socket::{PeerCredentials, SeqPacket};
use cuda_api::CUuuid;
use cuda_api::settings::Counting;
use limits::scheduling::Scheduling;
use locks::{Condvar, Mutex, MutexGuard};
use recovery::servers::{IsolationReason, Phase, ServerKey};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};
use thiserror::Error;

/// Option of a server: the descriptor that leads to the daemon comes behind it.
pub const CONTROL_FD: &str = "--control-fd";
/// Option of a server: the UUID of the device that it serves comes behind it.
pub const DEVICE: &str = "--device";
/// Option of a server: it describes the devices and ends.
pub const DESCRIBE: &str = "--describe";
/// Variable of a server: the newest version of the protocol that the daemon speaks. One before 0.2 sets none.
pub const DAEMON_PROTOCOL: &str = "OPENMPS_DAEMON_PROTOCOL";

/// How long a server may take to answer a question. It answers from memory.
const ANSWER_S_MAX: u64 = 3;
/// After a question for records, servers that get ready record at once for so long.
const RECORDING: Duration = Duration::from_secs(5);
/// How long a server may take to terminate a client: its running kernel must end first.
const TERMINATE_S_MAX: u64 = 30;

/// The programs that the daemon starts. The caller knows what they are; this crate does not.
pub trait Programs: Send + Sync {
    /// A server: [`CONTROL_FD`] and its identity are added here, and [`DEVICE`] with the UUID of the
    /// device that it serves, or [`DESCRIBE`].
    fn server(&self) -> Command;
    /// The same of another version, at that path.
    fn server_at(&self, program: &Path) -> Command;
    /// The daemon again, for the background: its options are added here.
    fn daemon(&self) -> Command;
    /// A daemon that takes the place of this one in its process: at that path, or this program again.
    /// It keeps descriptors.
    fn successor(&self, program: Option<&Path>) -> Command;
}

/// A connection that has said a command, and the process on the other end. Its socket is
/// non-blocking.
pub struct CommandConnection {
    /// The connection.
    pub socket: SeqPacket,
    /// The process that asks.
    pub peer: PeerCredentials,
    /// The user that asks is root or the daemon's owner, by the privileged socket.
    pub owner: bool,
    /// The command.
    pub line: String,
}

/// What answers commands, on a thread of its own: the daemon does not know them.
pub type Commands = fn(&Arc<Daemon>, CommandConnection);

/// A running daemon, as event loop and commands see it.
pub struct Daemon {
    owner: u32,
    directory: PipeDirectory,
    logs: Logs,
    /// What clients have used.
    book: Book,
    /// End of the log FIFO that servers inherit.
    log_writer: OwnedFd,
    programs: Box<dyn Programs>,
    commands: Commands,
    /// The program of servers, if it is not this one.
    program: Mutex<Option<PathBuf>>,
    /// What its owner has to know, a sentence each.
    warnings: Vec<String>,
    /// How it shares devices.
    options: DaemonOptions,
    /// What its environment and its configuration file said at its start.
    given: succession::snapshot::Given,
    /// It was started for the background.
    detached: bool,
    /// Shells that wait for an answer.
    pub(crate) shells: AtomicUsize,
    /// What the operator has set for clients and servers.
    scheduling: Scheduling,
    /// What servers count of launches.
    counting: Mutex<Counting>,
    /// What the settings file says.
    configured: Mutex<limits::reload::Configured>,
    /// How often a program may fault.
    fault_budget: Option<FaultBudget>,
    /// Where servers have cgroups of their own.
    cgroups: servers::cgroup::ServerCgroups,
    /// Where cgroups are mounted.
    cgroup_root: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// An eventfd that gets the event loop to look at the state again.
    waker: OwnedFd,
    this: Weak<Daemon>,
}

/// One server in a list.
#[derive(Clone, Debug)]
pub(crate) struct ServerSummary {
    pub pid: u32,
    pub uid: u32,
    /// Its name, in protocol 3.
    pub name: Option<String>,
    pub state: ServerPhase,
    /// The process for which alone it is there, because its kernels run for long.
    pub isolates: Option<u32>,
    /// The process for which alone it is there, because it may have caused a fault.
    pub candidate: Option<u32>,
}

/// Why a server did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum QueryError {
    #[error("Server {0} not found")]
    Gone(u32),
    #[error("Server {0} is not ready")]
    NotReady(u32),
    #[error("Server {0} does not answer{hint}", hint = crate::process::stopped_hint(*.0))]
    Silent(u32),
}

/// A shutdown was cancelled while a command waited for its end.
#[derive(Debug, Error)]
#[error("The shutdown was cancelled: the daemon stays")]
pub(crate) struct Cancelled;

/// Why a shutdown cannot be cancelled.
#[derive(Debug, Error)]
pub(crate) enum CannotCancel {
    #[error("The daemon is not shutting down")]
    NoShutdown,
    #[error("The shutdown cannot be cancelled any more: servers do not wait for programs any more")]
    Forced,
    #[error("The shutdown cannot be cancelled: no quit command began it")]
    Final,
}

impl Daemon {
    /// User whose daemon this is.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// How it shares devices.
    pub(crate) fn options(&self) -> &DaemonOptions {
        &self.options
    }

    /// Itself, for a thread of its own; `None` once it has ended.
    pub(crate) fn shared(&self) -> Option<Arc<Daemon>> {
        self.this.upgrade()
    }

    /// Where cgroups are mounted.
    pub(crate) fn cgroup_root(&self) -> &Path {
        &self.cgroup_root
    }

    /// The text of the configuration file that it was started with.
    pub(crate) fn given_configuration(&self) -> &str {
        &self.given.configuration
    }

    /// Has threads that wait for a change of the state look at it.
    pub(crate) fn has_changed(&self) {
        self.changed.notify_all();
    }

    pub(crate) fn directory(&self) -> &PipeDirectory {
        &self.directory
    }

    pub(crate) fn log_directory(&self) -> Option<&Path> {
        self.logs.directory.as_deref()
    }

    /// Writes a line to control.log.
    pub(crate) fn log(&self, text: impl std::fmt::Display) {
        self.logs.control.control(text);
    }

    /// Files that it may have open; `None`: any number.
    pub(crate) fn descriptors_max(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    /// What about its environment and limits is not as its owner may think.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// True once it takes no more clients, and ends with the last of those that it has.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().servers.stopping.is_some()
    }

    pub(crate) fn clients_waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// The last faults of clients of the users whom `sees` is true for, oldest first.
    pub(crate) fn faults(&self, sees: impl Fn(u32) -> bool) -> Vec<Fault> {
        self.lock().faults.list(sees, SystemTime::now())
    }

    /// All servers, oldest first.
    pub(crate) fn servers(&self) -> Vec<ServerSummary> {
        let state = self.lock();
        let process_of = |server: &state::Server, reason| {
            server.isolated_for(reason).map(|process| pid_of_process(process.pid))
        };
        let summary = |server: &state::Server| ServerSummary {
            pid: server.pid,
            uid: server.uid,
            name: state.tenancy.name_of(server.named).map(str::to_owned),
            state: state::state_of(server),
            isolates: process_of(server, IsolationReason::LongKernels),
            candidate: process_of(server, IsolationReason::Candidate),
        };
        state.servers.iter().map(summary).collect()
    }

    /// What one server says about itself.
    pub(crate) fn status(&self, pid: u32) -> Result<Status, QueryError> {
        let mut answers = self.statuses(&[pid]);
        answers.pop().map_or(Err(QueryError::Gone(pid)), |(_, answer)| answer)
    }

    /// Asks servers at once; an answer for each, in order.
    pub(crate) fn statuses(&self, pids: &[u32]) -> Vec<(u32, Result<Status, QueryError>)> {
        let questions = pids.iter().map(|&pid| (pid, Question::Status)).collect();
        self.ask_all(questions, |reply| match reply {
            Reply::Status(status) => Some(status),
            _ => None,
        })
    }

    /// Asks servers at once; an answer for each, in order: `wanted` takes it out of a reply of its kind.
    fn ask_all<T>(
        &self,
        questions: Vec<(u32, Question)>,
        wanted: fn(Reply) -> Option<T>,
    ) -> Vec<(u32, Result<T, QueryError>)> {
        let deadline = Instant::now() + Duration::from_secs(ANSWER_S_MAX);
        let mut state = self.lock();
        let asked: Vec<(u32, Result<u32, QueryError>)> = questions
            .into_iter()
            .map(|(pid, question)| (pid, open_question(&mut state, pid, question)))
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (pid, number) in asked {
            let answer;
            (state, answer) = match number {
                Err(error) => (state, Err(error)),
                Ok(number) => self.reply(state, pid, number, deadline),
            };
            let answer = answer.and_then(|reply| wanted(reply).ok_or(QueryError::Silent(pid)));
            answers.push((pid, answer));
        }
        answers
    }

    /// What servers have counted by kernel and stream.
    pub(crate) fn counts(&self, pids: &[u32]) -> Vec<(u32, Result<Vec<CountsPart>, QueryError>)> {
        let questions = pids.iter().map(|&pid| (pid, Question::Counts(0))).collect();
        self.ask_all(questions, |reply| match reply {
            Reply::Counts(parts) => Some(parts),
            _ => None,
        })
    }

    /// Servers that get ready within the next seconds record their clients' work from its beginning.
    pub(crate) fn record_servers_to_come(&self) {
        self.lock().recording_until = Some(Instant::now() + RECORDING);
    }

    /// What servers have recorded since the record of that number; 0: from now on.
    pub(crate) fn traces(
        &self,
        places: &[(u32, u64)],
    ) -> Vec<(u32, Result<Vec<TracePart>, QueryError>)> {
        let questions = places.iter().map(|&(pid, from)| (pid, Question::Trace(from))).collect();
        self.ask_all(questions, |reply| match reply {
            Reply::Trace(parts) => Some(parts),
            _ => None,
        })
    }

    /// Asks a server and waits for its answer until `deadline`.
    pub(crate) fn ask(
        &self,
        server: u32,
        question: Question,
        deadline: Instant,
    ) -> Result<Reply, QueryError> {
        let mut state = self.lock();
        let number = open_question(&mut state, server, question)?;
        self.reply(state, server, number, deadline).1
    }

    /// Waits for the answer to a question until `deadline`, and closes the question.
    fn reply<'a>(
        &self,
        state: MutexGuard<'a, State>,
        pid: u32,
        number: u32,
        deadline: Instant,
    ) -> (MutexGuard<'a, State>, Result<Reply, QueryError>) {
        let (mut state, _) =
            self.wait_until(state, Some(deadline), |state| match state.server(pid) {
                Some(server) if !server.link.questions.is_answered(number) => None,
                _ => Some(()),
            });
        let reply = match state.server(pid) {
            // It may have answered and then ended, before this thread had its turn.
            None => state.last_answers.close(pid, number).ok_or(QueryError::Gone(pid)),
            Some(server) => server.link.questions.close(number).ok_or(QueryError::Silent(pid)),
        };
        (state, reply)
    }

    /// Starts a user's servers of these devices unless they run, and waits until they are ready.
    pub(crate) fn start_servers(
        &self,
        uid: u32,
        gid: u32,
        devices: &[CUuuid],
    ) -> Result<(), LaunchError> {
        let mut state = self.lock();
        let named = self.own_server(&mut state, uid, gid)?;
        let server_keys: Vec<ServerKey> =
            devices.iter().map(|&device| ServerKey { uid, named, device }).collect();
        self.start_at(state, &server_keys, gid)
    }

    /// Starts servers at these server keys unless they run, and waits until they are ready.
    pub(crate) fn start_at(
        &self,
        mut state: MutexGuard<'_, State>,
        server_keys: &[ServerKey],
        gid: u32,
    ) -> Result<(), LaunchError> {
        let mut started = Vec::with_capacity(server_keys.len());
        for &server_key in server_keys {
            started.push(match state.servers.at(server_key) {
                Some(server) => server.pid,
                None => self.launch(&mut state, server_key, gid)?,
            });
        }
        for (pid, server_key) in started.into_iter().zip(server_keys) {
            let ready;
            (state, ready) =
                self.wait_until(state, None, |state| match state.server(pid).map(|s| s.phase) {
                    Some(Phase::Starting { .. }) => None,
                    Some(_) => Some(true),
                    None => Some(false),
                });
            if ready != Some(true) {
                let failures = state.servers.failures_at(*server_key);
                let reason = failures.map(|failures| failures.reason.clone());
                return Err(LaunchError::Ended(
                    reason.unwrap_or_else(|| "it was shut down".to_owned()),
                ));
            }
        }
        Ok(())
    }

    /// Asks a server to end when its clients are gone, or now.
    pub(crate) fn shutdown_server(&self, pid: u32, force: bool) -> Result<(), QueryError> {
        let mut state = self.lock();
        let (servers, mut effects) = state.servers_and_effects(self);
        let server = servers.get(pid).ok_or(QueryError::Gone(pid))?;
        server.request_end(force, Instant::now(), &mut effects);
        drop(state);
        self.wake();
        Ok(())
    }

    /// Destroys what a client has on the device: the one that has this number in its server.
    /// Returns the driver's error code, 0 for success.
    pub(crate) fn terminate_client(&self, server: u32, id: u32) -> Result<u32, QueryError> {
        let deadline = Instant::now() + Duration::from_secs(TERMINATE_S_MAX);
        match self.ask(server, Question::Terminate(id), deadline)? {
            Reply::Done(result) => {
                if result == 0 {
                    problems::count(&problems::CLIENTS_TERMINATED);
                }
                Ok(result)
            }
            _ => Err(QueryError::Silent(server)),
        }
    }

    /// Ends servers and daemon: when the clients are gone, or after `timeout` in any case. Returns
    /// when the servers have ended and the pipe directory is free for another daemon, or
    /// [`Self::cancel_quit`] was called.
    pub(crate) fn quit(&self, timeout: Option<Duration>) -> Result<(), Cancelled> {
        let text = match timeout {
            Some(timeout) => format!("quit command issued with timeout of {}", timeout.as_secs()),
            None => "quit command issued".to_owned(),
        };
        self.logs.control.control(text);
        let cancelled = self.lock().stops_cancelled;
        self.begin_stop(timeout, false);
        let (state, outcome) = self.wait_until(self.lock(), None, |state| match state.ended {
            true => Some(Ok(())),
            false => (state.stops_cancelled != cancelled).then_some(Err(Cancelled)),
        });
        drop(state);
        outcome.unwrap_or(Ok(()))
    }

    /// Withdraws what [`Self::quit`] has begun. Servers that were asked to end do so with their
    /// programs; those who come get new ones.
    pub(crate) fn cancel_quit(&self) -> Result<(), CannotCancel> {
        let mut state = self.lock();
        let stopping = state.servers.stopping.ok_or(CannotCancel::NoShutdown)?;
        if !state.servers.cancel_stop() {
            return Err(if stopping.forced { CannotCancel::Forced } else { CannotCancel::Final });
        }
        state.stops_cancelled += 1;
        drop(state);
        self.logs.control.control("The shutdown is cancelled");
        self.changed.notify_all();
        self.wake();
        Ok(())
    }

    /// Sets out for the end, which only a command can withdraw that is not `is_final`. A second call can
    /// only make it come sooner.
    fn begin_stop(&self, timeout: Option<Duration>, is_final: bool) {
        let force_at = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        state.servers.stop(force_at, is_final);
        drop(state);
        self.wake();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere is a bug, but no reason to leave every client without a daemon.
        self.state.lock()
    }

    /// Waits for servers of a daemon that was killed, if they may still come: a command is to see their programs.
    pub(crate) fn wait_for_found(&self) {
        let until = self.lock().found_until;
        if let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now())) {
            std::thread::sleep(left);
        }
    }

    /// Waits until `look` finds something, or until `deadline`.
    pub(crate) fn wait_until<'a, T>(
        &self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> (MutexGuard<'a, State>, Option<T>) {
        loop {
            if let Some(found) = look(&mut state) {
                return (state, Some(found));
            }
            state = match deadline.map(|deadline| deadline.checked_duration_since(Instant::now())) {
                None => self.changed.wait(state),
                Some(None) => return (state, None),
                Some(Some(left)) => self.changed.wait_timeout(state, left).0,
            };
        }
    }

    /// Gets the event loop to look at the state.
    pub(crate) fn wake(&self) {
        // EAGAIN: the counter is full, so it will wake anyway.
        let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
    }
}

/// Sends a question to a server. Returns its number.
fn open_question(state: &mut State, pid: u32, question: Question) -> Result<u32, QueryError> {
    let server = state.server(pid).ok_or(QueryError::Gone(pid))?;
    if matches!(server.phase, Phase::Starting { .. }) {
        return Err(QueryError::NotReady(pid));
    }
    let number = server.link.questions.open();
    match protocol::send_question(&server.link.socket, number, question) {
        Ok(()) => Ok(number),
        Err(_) => {
            server.link.questions.close(number);
            Err(QueryError::Silent(pid))
        }
    }
}
