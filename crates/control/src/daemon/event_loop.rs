//! The event loop: everything that happens to the daemon comes through one poll.

use super::Daemon;
use super::clients::admission::{Door, SILENT_MAX, Silent};
use super::clients::newcomers::{self, Newcomer};
use super::notify::Watchdog;
use super::problems;
use super::servers::protocol::{self, Socket};
use super::sources::Sources;
use super::state::State;
use super::succession::presence::Presence;
use crate::accounting::AccountingRecord;
use crate::log::LineAssembler;
use channel::log_line::Level;
use channel::message::Message;
use channel::socket::{Interest, Listener, ReceiveError, poll};
use cuda_api::CudaError;
use recovery::servers::NoServer;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// After accept failed for want of descriptors, pause before the next: closing some takes time.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Clients that could not be handed over are tried again so often.
const RETRY_MS: u64 = 50;
/// Messages taken from one server, or bytes from the log, before others have their turn.
const BATCH_MAX: usize = 64;
/// The same of a server with a fault: the ends and candidates of all its clients.
const FAULT_BATCH_MAX: usize = 8192;
/// How long SIGTERM lets servers end by themselves.
const SIGNAL_TIMEOUT: Duration = Duration::ZERO;

/// One server's descriptors, kept while they are polled.
struct Watched {
    pid: u32,
    socket: Arc<Socket>,
    mute: bool,
    exit: Arc<OwnedFd>,
}

pub(super) struct EventLoop {
    daemon: Arc<Daemon>,
    sources: Sources,
    silent: Vec<Silent>,
    newcomers: Vec<Newcomer>,
    lines: LineAssembler,
    accept_after: Option<Instant>,
    presence: Presence,
    watchdog: Watchdog,
}

impl EventLoop {
    pub fn new(daemon: Arc<Daemon>, sources: Sources) -> EventLoop {
        let lines = LineAssembler::default();
        let presence = Presence::new(Instant::now());
        EventLoop {
            daemon,
            sources,
            silent: Vec::new(),
            newcomers: Vec::new(),
            lines,
            accept_after: None,
            presence,
            watchdog: Watchdog::of_environment(Instant::now()),
        }
    }

    /// Runs until the daemon is to end and its servers have. What it polled is given back.
    pub fn run(mut self) -> Sources {
        // Why it fails is in the log, and those who come learn it.
        let _ = self.daemon.find_devices(&mut self.daemon.lock());
        loop {
            self.turn();
            let daemon = self.daemon.clone();
            let mut state = daemon.lock();
            let now = Instant::now();
            self.advance(&mut state, now);
            self.presence.look(&mut self.sources, &daemon, &mut state, now);
            self.watchdog.look(now);
            daemon.changed.notify_all();
            let greeting = !self.silent.is_empty() || !self.newcomers.is_empty();
            daemon.give_way(&mut state, &self.sources, greeting);
            let idle = state.servers.is_empty() && !state.inventory.is_asked();
            if state.servers.stopping.is_some() && idle {
                break;
            }
        }
        self.drain_log();
        self.sources
    }

    /// Waits for something to happen and deals with it.
    fn turn(&mut self) {
        let now = Instant::now();
        // Also while another program is to take this one's place: what that waits for may wait for those who come.
        let accepting = self.accept_after.is_none_or(|after| now >= after);
        let (servers, named, timeout) = {
            let state = self.daemon.lock();
            let watch = |server: &super::state::Server| Watched {
                pid: server.pid,
                socket: server.link.socket.clone(),
                mute: server.mute,
                exit: server.link.exit.clone(),
            };
            let servers: Vec<Watched> = state.servers.iter().map(watch).collect();
            (servers, state.tenancy.endpoints().watched(), self.timeout(&state, now))
        };
        let mut interests = vec![
            Interest::readable(&self.daemon.waker),
            Interest::readable(&self.sources.signals),
            Interest::readable(&self.sources.log),
            Interest::readable(&self.sources.hang_ups),
        ];
        let first_server = interests.len();
        for server in &servers {
            interests.push(Interest::readable(&*server.exit));
            // Polled, a closed socket would wake this loop for ever.
            let socket = (!server.mute).then(|| Interest::readable(&*server.socket));
            interests.push(socket.unwrap_or(Interest::readable(&*server.exit)));
        }
        let first_silent = interests.len();
        interests.extend(self.silent.iter().map(|silent| Interest::readable(&silent.socket)));
        let first_listener = interests.len();
        if accepting {
            interests.extend(self.sources.listeners.iter().map(|of| Interest::readable(&**of)));
        }
        let first_log = interests.len();
        interests.extend(named.logs.iter().map(|log| Interest::readable(log.reader())));
        let first_named = interests.len();
        if accepting {
            interests
                .extend(named.sockets.iter().map(|(listener, _)| Interest::readable(&**listener)));
        }
        let ready = match poll(&interests, timeout) {
            Ok(ready) => ready,
            Err(error) => {
                self.daemon.logs.control.control(format!("poll: {error}"));
                std::thread::sleep(Duration::from_millis(ACCEPT_PAUSE_MS));
                return;
            }
        };
        let happened = |index: usize| {
            let ready = ready.get(index).copied().unwrap_or_default();
            ready.readable || ready.hung_up
        };
        if happened(0) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.daemon.waker, &mut count);
        }
        if happened(1) {
            self.take_signal();
        }
        if happened(2) {
            self.drain_log();
        }
        if happened(3) {
            self.take_hang_up();
        }
        for (index, server) in servers.iter().enumerate() {
            let at = first_server + 2 * index;
            self.hear_server(server, happened(at), happened(at + 1));
        }
        let heard: Vec<bool> = (first_silent..first_listener).map(happened).collect();
        self.hear_silent(&heard);
        self.hear_newcomers();
        for listener in 0..self.sources.listeners.len() {
            if accepting && happened(first_listener + listener) {
                let door = if listener == 1 { Door::Privileged } else { Door::Main };
                let listener = self.sources.listeners[listener].clone();
                self.accept_all(&listener, &door);
            }
        }
        for (index, log) in named.logs.iter().enumerate() {
            if happened(first_log + index) {
                log.drain();
            }
        }
        for (index, (listener, chosen)) in named.sockets.iter().enumerate() {
            if accepting && happened(first_named + index) {
                self.accept_all(listener, &Door::Named(chosen.clone()));
            }
        }
    }

    /// Opens the logs and reads the settings again, as SIGHUP asks.
    fn take_hang_up(&self) {
        let mut bytes = [0; 16];
        let _ = rustix::io::read(&self.sources.hang_ups, &mut bytes);
        self.daemon.logs.open_again();
        if self.daemon.detached {
            // A file that was moved away is not held for the report of a crash.
            let _ = self.daemon.logs.take_stderr();
        }
        self.daemon.lock().tenancy.endpoints().open_logs_again();
        self.daemon.logs.control.control("Logs are opened again, as SIGHUP asks");
        self.daemon.reload_settings();
        self.daemon.upgrade_to_installed();
    }

    /// How long nothing need be done if nothing happens.
    fn timeout(&self, state: &State, now: Instant) -> Option<Duration> {
        let silent = self.silent.iter().map(|silent| silent.deadline);
        // A client that waits although its server is ready found the server's queue full.
        let retry = (!state.waiting.is_empty()).then(|| now + Duration::from_millis(RETRY_MS));
        let handover = state.successor.is_some().then(|| now + Duration::from_millis(RETRY_MS));
        silent
            .chain(handover)
            .chain(self.newcomers.iter().map(|newcomer| newcomer.deadline))
            .chain(state.servers.next_due())
            .chain(retry)
            .chain(self.accept_after)
            .chain(self.presence.due())
            .chain(self.watchdog.due())
            .min()
            .map(|deadline| deadline.saturating_duration_since(now))
    }

    /// What time and the state ask for.
    fn advance(&mut self, state: &mut State, now: Instant) {
        if self.accept_after.is_some_and(|after| now >= after) {
            self.accept_after = None;
        }
        self.silent.retain(|silent| {
            let in_time = now < silent.deadline;
            if !in_time {
                let peer = silent.peer;
                self.daemon.logs.control.control(format!(
                    "User did not send valid credentials: process {} of user {} says nothing",
                    peer.pid, peer.uid
                ));
            }
            in_time
        });
        state.waiting.retain(|client| !client.socket.is_hung_up());
        let (servers, mut effects) = state.servers_and_effects(&self.daemon);
        if servers.end_all(now, &mut effects) {
            state.inventory.stop();
            self.daemon.refuse_all(state, &NoServer::Stopping.into());
        }
        let (servers, mut effects) = state.servers_and_effects(&self.daemon);
        servers.advance(now, &mut effects);
        self.daemon.serve_waiting(state, now);
    }

    fn take_signal(&mut self) {
        let mut bytes = [0; 16];
        let _ = rustix::io::read(&self.sources.signals, &mut bytes);
        self.daemon.logs.control.control("Ending on a signal");
        self.daemon.begin_stop(Some(SIGNAL_TIMEOUT), true);
    }

    /// Moves lines from the FIFO to server.log.
    fn drain_log(&mut self) {
        let mut buffer = [0; 4096];
        for _ in 0..BATCH_MAX {
            match rustix::io::read(&self.sources.log, &mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(bytes) => {
                    let server = &self.daemon.logs.server;
                    self.lines.push(&buffer[..bytes], |line| server.append(line));
                }
            }
        }
    }

    fn accept_all(&mut self, listener: &Listener, door: &Door) {
        for _ in 0..BATCH_MAX {
            let accepted = match listener.accept() {
                Ok(Some(socket)) => Silent::new(socket, door.clone()),
                Ok(None) => return,
                Err(error) => {
                    self.daemon.logs.control.control(format!("accept: {error}"));
                    self.accept_after =
                        Some(Instant::now() + Duration::from_millis(ACCEPT_PAUSE_MS));
                    return;
                }
            };
            // A connection whose credentials cannot be read has no user.
            let Ok(silent) = accepted else { continue };
            if newcomers::is_known(&self.daemon, silent.peer.uid) {
                self.hear_first(silent);
                continue;
            }
            if self.newcomers.len() >= SILENT_MAX {
                make_room(&mut self.newcomers, |of| of.silent.peer.uid);
            }
            self.newcomers.push(Newcomer::new(silent));
        }
    }

    fn hear_first(&mut self, silent: Silent) {
        // Most have spoken by now.
        if let Some(silent) = silent.hear(&self.daemon) {
            if self.silent.len() >= SILENT_MAX {
                make_room(&mut self.silent, |silent| silent.peer.uid);
            }
            self.silent.push(silent);
        }
    }

    /// Hears those of whose users it is known by now what the name service says.
    fn hear_newcomers(&mut self) {
        let now = Instant::now();
        for newcomer in std::mem::take(&mut self.newcomers) {
            let uid = newcomer.silent.peer.uid;
            if newcomers::is_known(&self.daemon, uid) {
                self.hear_first(newcomer.silent);
            } else if now < newcomer.deadline {
                self.newcomers.push(newcomer);
            } else {
                let reason = format!("the name service does not say who user {uid} is");
                self.daemon
                    .log(format!("Process {} is refused: {reason}", newcomer.silent.peer.pid));
                let code = CudaError::MPS_CONNECTION_FAILED;
                protocol::refuse(&newcomer.silent.socket, code, reason);
            }
        }
    }

    fn hear_silent(&mut self, heard: &[bool]) {
        let mut left = Vec::with_capacity(self.silent.len());
        for (index, silent) in std::mem::take(&mut self.silent).into_iter().enumerate() {
            if heard.get(index).copied().unwrap_or(false) {
                left.extend(silent.hear(&self.daemon));
            } else {
                left.push(silent);
            }
        }
        self.silent = left;
    }

    /// Takes in what a server says; its last words before its end.
    fn hear_server(&mut self, server: &Watched, ended: bool, speaks: bool) {
        if !speaks && !ended {
            return;
        }
        let daemon = self.daemon.clone();
        let mut state = daemon.lock();
        let mut heard = 0;
        // All of one that has ended, which is no more than its socket holds; and of one with a fault: who may have
        // caused it is known before a client of its own comes.
        let has_fault =
            |state: &mut State| state.servers.get(server.pid).is_some_and(|of| of.fault);
        while heard < BATCH_MAX || ended || has_fault(&mut state) && heard < FAULT_BATCH_MAX {
            heard += 1;
            match server.socket.receive() {
                Ok((message, _)) => self.take_message(&mut state, server.pid, message),
                Err(ReceiveError::TimedOut) => break,
                Err(ReceiveError::Closed) => {
                    // It cannot be reached any more, regardless of what it still does.
                    if !ended {
                        state.servers.is_mute(server.pid, Instant::now());
                    }
                    break;
                }
                Err(error) => {
                    let pid = server.pid;
                    daemon.logs.control.control(format!("Server {pid} is not understood: {error}"));
                    state.servers.is_not_understood(pid, error.to_string(), Instant::now());
                    break;
                }
            }
        }
        if ended {
            self.drain_log();
            state.tenancy.endpoints().drain_logs();
            daemon.reap(&mut state, server.pid);
        }
    }

    fn take_message(&self, state: &mut State, pid: u32, message: Message) {
        let control = &self.daemon.logs.control;
        let now = Instant::now();
        // What it was started with was changed meanwhile.
        let outdated = matches!(message, Message::Ready(_)) && state.outdated.remove(&pid);
        let recording = state.recording_until.is_some_and(|until| until > now);
        let (servers, mut effects) = state.servers_and_effects(&self.daemon);
        let Some(server) = servers.get(pid) else { return };
        match message {
            Message::Ready(_) => {
                if servers.is_ready(pid)
                    && let Some(server) = servers.get(pid)
                {
                    if recording {
                        protocol::have_recorded(server);
                    }
                    if outdated {
                        protocol::have_scheduled(server, self.daemon.server_scheduling());
                        protocol::have_counted(server, self.daemon.counting());
                    }
                    // Not before: a server that fails would leave it unread, and its own word with it.
                    protocol::send_settings(server, false);
                    control.control(format!("NEW SERVER {pid}: Ready"));
                }
                servers.finish_replacing(pid, now, &mut effects);
                if let Some((process, from)) = servers.finish_isolating(pid, &mut effects) {
                    state.windows.leave(process, from);
                }
            }
            Message::Failed(reason) => {
                control.control(format!("Server {pid} failed: {reason}"));
                servers.has_failed(pid, reason);
            }
            Message::Answer(answer) => server.link.questions.take(answer),
            Message::Exiting(()) => servers.is_exiting(pid, now),
            Message::ClientGone(process) => {
                server.lose_client(now);
                let device = server.device;
                state.tenancy.leave(pid, process);
                self.daemon.note_left(state, pid, process);
                state.present.leave(pid, process);
                self.daemon.follow_number(state, device);
            }
            Message::Ended(ended) => {
                self.daemon.write_down(&AccountingRecord::new(pid, ended));
            }
            Message::Fault(reason) => {
                let text = format!("Server {pid} has met a fatal fault: {reason}");
                control.control_at(Level::Error, text);
                servers.has_faulted(pid, now, &mut effects);
            }
            Message::ClientFault(fault) => {
                let uid = server.uid;
                state.faults.note(pid, uid, fault, SystemTime::now());
            }
            Message::MemoryWanted(process) => self.daemon.make_room(state, pid, process),
            Message::WindowFree(index) => {
                // One that was sent elsewhere keeps its addresses, and comes for them.
                if server.takes_clients() {
                    let uid = server.uid;
                    state.windows.free(uid, index, pid);
                }
            }
            Message::Replace(reason) => {
                control
                    .control(format!("Server {pid} asks for another one in its place: {reason}"));
                servers.replace_stuck(pid, now, &mut effects);
            }
            Message::Isolate(process) => {
                problems::count(&problems::ISOLATIONS);
                servers.isolate(pid, process, now, &mut effects);
            }
            Message::Restored(restored) => {
                problems::count_recovery(restored);
                servers.has_declared(pid, &mut effects);
            }
            Message::Candidate(process) => {
                problems::count(&problems::CANDIDATES);
                let uid = server.uid;
                control.control(format!(
                    "Process {process} of user {uid} may have caused the fault of server {pid}: it \
                     gets a server of its own"
                ));
                servers.candidate(pid, process, now);
            }
            other => control.control(format!("Server {pid} said {} unasked", other.name())),
        }
    }
}

/// Removes the oldest one of the user that has the most.
fn make_room<T>(all: &mut Vec<T>, uid_of: impl Fn(&T) -> u32) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for one in all.iter() {
        *counts.entry(uid_of(one)).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(uid, _)| uid);
    if let Some(at) = all.iter().position(|one| Some(uid_of(one)) == most) {
        all.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::make_room;

    #[test]
    fn one_user_s_silent_connections_do_not_push_out_another_s() {
        let mut all = vec![(7, 'a'), (5, 'b'), (5, 'c'), (5, 'd')];
        make_room(&mut all, |of| of.0);
        assert_eq!(all, [(7, 'a'), (5, 'c'), (5, 'd')]);
        make_room(&mut all, |of| of.0);
        assert_eq!(all, [(7, 'a'), (5, 'd')]);
    }
}
