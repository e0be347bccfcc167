//! Connections from their first word on: a client goes to its server, a shell to a thread of its
//! own, anything else out.

use super::lifecycle::LaunchError;
use super::protocol::{self, Socket};
use super::state::{Phase, READY_S_MAX, State, WAITING_MAX, WaitingClient};
use super::{CommandConnection, Daemon};
use channel::limits::WINDOWS_MAX;
use channel::message::{Client, Hello, Message};
use channel::socket::{PeerCredentials, ReceiveError};
use cuda_api::CudaError;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections that have not said a word yet. The oldest makes room for a new one, so nobody can
/// shut others out by being silent.
pub(super) const SILENT_MAX: usize = 256;
/// How long a connection may be silent. Both client and shell speak at once, but on a busy machine a
/// process may not run for long; who is silent costs nothing but its place.
pub(super) const SILENT_S_MAX: u64 = 60;

/// A connection that has not said a word yet.
pub(super) struct Silent {
    pub socket: Socket,
    pub peer: PeerCredentials,
    /// It came by the privileged socket.
    pub privileged: bool,
    pub deadline: Instant,
}

impl Silent {
    /// A fresh connection.
    pub fn new(socket: Socket, privileged: bool) -> std::io::Result<Silent> {
        socket.set_nonblocking(true)?;
        let peer = socket.peer_credentials()?;
        let deadline = Instant::now() + Duration::from_secs(SILENT_S_MAX);
        Ok(Silent { socket, peer, privileged, deadline })
    }

    /// Hears the first word and acts on it. Gives the connection back if there is none yet.
    pub fn hear(self, daemon: &Arc<Daemon>) -> Option<Silent> {
        let control = &daemon.logs.control;
        let peer = self.peer;
        match self.socket.receive() {
            Ok((Message::Hello(hello), fds)) => {
                if let Ok([region]) = <[OwnedFd; 1]>::try_from(fds) {
                    daemon.admit(self.socket, peer, hello, region);
                }
            }
            Ok((Message::Command(command), _)) => {
                let owner = self.privileged && (peer.uid == 0 || peer.uid == daemon.owner);
                let connection =
                    CommandConnection { socket: self.socket, peer, owner, line: command.text };
                (daemon.commands)(daemon, connection);
            }
            Ok((other, _)) => {
                control.control(format!(
                    "Unable to read new connection type information: {} of process {}",
                    other.name(),
                    peer.pid
                ));
                protocol::refuse(
                    &self.socket,
                    CudaError::MPS_CONNECTION_FAILED,
                    format!("{} is no way to begin", other.name()),
                );
            }
            Err(ReceiveError::TimedOut) => return Some(self),
            // A look whether someone is here.
            Err(ReceiveError::Closed) => {}
            Err(error) => {
                control.control(format!(
                    "Unable to read new connection type information: process {} of user {}: {error}",
                    peer.pid, peer.uid
                ));
                let reason = error.to_string();
                protocol::refuse(&self.socket, CudaError::MPS_CONNECTION_FAILED, reason);
            }
        }
        None
    }
}

impl Daemon {
    /// A client has come: to its server if that is ready, else it waits while one starts.
    fn admit(&self, socket: Socket, peer: PeerCredentials, hello: Hello, region: OwnedFd) {
        let PeerCredentials { pid, uid, gid } = peer;
        let mut state = self.lock();
        let state = &mut *state;
        let new = format!("NEW CLIENT {pid} from user {uid}");
        if let Err(error) = self.may_wait(state, uid) {
            self.logs.control.control(format!("{new}: refused, {error}"));
            protocol::refuse(&socket, error.result(), error.to_string());
            return;
        }
        let (scheduling, wrong) =
            self.scheduling.of_client(uid, &hello.command_line, &hello.scheduling);
        if let Some(wrong) = wrong {
            self.logs.control.control(format!("{new}: {wrong}"));
        }
        let client = WaitingClient {
            pid,
            uid,
            gid,
            scheduling,
            command: hello.command_line,
            wishes: hello.wishes,
            socket,
            region,
            deadline: Instant::now() + Duration::from_secs(READY_S_MAX),
        };
        if state.server_for_process(uid, pid).is_some_and(|s| s.phase == Phase::Running) {
            match hand_over(state, &client) {
                HandOver::Done => {
                    self.logs.control.control(format!("{new}: Server already exists"));
                }
                // Its queue is full: many come at once, or it hangs. Then the deadline decides.
                HandOver::Later => self.push_waiting(state, client),
                HandOver::Full => self.refuse_full(&client),
            }
            return;
        }
        self.logs
            .control
            .control(format!("{new}: Server is not ready, push client to pending list"));
        if state.server_for_process(uid, pid).is_none()
            && let Err(error) = self.launch_for_process(state, (uid, gid), pid)
            && !error.is_worth_waiting()
        {
            self.logs.control.control(format!("{new}: refused, {error}"));
            protocol::refuse(&client.socket, error.result(), error.to_string());
            return;
        }
        self.push_waiting(state, client);
    }

    fn may_wait(&self, state: &State, uid: u32) -> Result<(), LaunchError> {
        if state.stopping.is_some() {
            return Err(LaunchError::Stopping);
        }
        self.check_user(uid)
    }

    fn push_waiting(&self, state: &mut State, client: WaitingClient) {
        if state.waiting.len() >= WAITING_MAX {
            let reason = format!("{WAITING_MAX} clients wait already");
            protocol::refuse(&client.socket, CudaError::MPS_MAX_CONNECTIONS_REACHED, reason);
            return;
        }
        state.waiting.push(client);
    }

    /// Starts the server that a process needs: its user's, or one for it alone.
    fn launch_for_process(
        &self,
        state: &mut State,
        (uid, gid): (u32, u32),
        pid: u32,
    ) -> Result<u32, LaunchError> {
        let alone = state.suspects.contains(&(uid, pid)).then_some(pid);
        self.launch_for(state, uid, gid, alone)
    }

    fn refuse_full(&self, client: &WaitingClient) {
        let reason = format!("the user's servers have their most clients, {WINDOWS_MAX}");
        self.logs.control.control(format!("Client {} is refused: {reason}", client.pid));
        protocol::refuse(&client.socket, CudaError::MPS_MAX_CLIENTS_REACHED, reason);
    }

    /// Hands over those whose server is ready and sends those away who have waited too long.
    pub(super) fn serve_waiting(&self, state: &mut State, now: Instant) {
        if state.waiting.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for client in std::mem::take(&mut state.waiting) {
            let (pid, uid) = (client.pid, client.uid);
            let ready = state.server_for_process(uid, pid).map(|s| s.phase == Phase::Running);
            let outcome = ready.map(|ready| match ready {
                true => hand_over(state, &client),
                false => HandOver::Later,
            });
            match outcome {
                Some(HandOver::Done) => self
                    .logs
                    .control
                    .control(format!("NEW CLIENT {pid} from user {uid}: Server already exists")),
                Some(HandOver::Full) => self.refuse_full(&client),
                _ if now >= client.deadline => {
                    let reason = format!("no server was ready within {READY_S_MAX} s");
                    self.logs.control.control(format!("Client {pid} of user {uid}: {reason}"));
                    protocol::refuse(&client.socket, CudaError::MPS_SERVER_NOT_READY, reason);
                }
                Some(HandOver::Later) => left.push(client),
                // The server that it waited for was shut down meanwhile.
                None => match self.launch_for_process(state, (uid, client.gid), pid) {
                    Ok(_) => left.push(client),
                    Err(error) if error.is_worth_waiting() => left.push(client),
                    Err(error) => {
                        protocol::refuse(&client.socket, error.result(), error.to_string());
                    }
                },
            }
        }
        state.waiting = left;
    }

    /// Sends away the waiting clients of a user whose server did not start.
    pub(super) fn refuse_waiting(&self, state: &mut State, uid: u32, error: &LaunchError) {
        state.waiting.retain(|client| {
            if client.uid == uid {
                let pid = client.pid;
                self.logs.control.control(format!("Client {pid} of user {uid} refused: {error}"));
                protocol::refuse(&client.socket, error.result(), error.to_string());
            }
            client.uid != uid
        });
    }
}

/// What came of handing a client over.
enum HandOver {
    /// Its socket is the server's.
    Done,
    /// The server's queue is full.
    Later,
    /// All windows are taken.
    Full,
}

/// Hands a client to its server, which is ready.
fn hand_over(state: &mut State, client: &WaitingClient) -> HandOver {
    let (uid, pid) = (client.uid, client.pid);
    let Some(server) = state.server_for_process(uid, pid).map(|server| server.pid) else {
        return HandOver::Later;
    };
    let mut windows = std::mem::take(&mut state.windows);
    let window = windows.choose(uid, pid, |server| state.serves(server));
    state.windows = windows;
    let Some(window) = window else { return HandOver::Full };
    let Some(server) = state.server(server) else { return HandOver::Later };
    let who = Client {
        pid,
        uid,
        gid: client.gid,
        command_line: client.command.clone(),
        window,
        settings: server.settings.of_client(&client.wishes),
        scheduling: client.scheduling.clone(),
    };
    // From here on the socket is the server's; non-blocking is a property of the connection's
    // open description, which client and daemon do not share with each other.
    let blocking = client.socket.set_nonblocking(false);
    let sent = blocking
        .and_then(|()| protocol::send_client(&server.socket, who, &client.socket, &client.region));
    if sent.is_err() {
        return HandOver::Later;
    }
    server.clients += 1;
    server.idle_since = None;
    if server.quarantine.is_some() {
        server.quarantined = Some(Instant::now());
    }
    let server = server.pid;
    state.windows.give(uid, pid, window, server);
    HandOver::Done
}
