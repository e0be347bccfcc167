//! Connections from their first word on: a client goes to its server, a shell to a thread of its
//! own, anything else out.

use super::launch_error::{LaunchError, WAITING_MAX, WAITING_OF_USER_MAX};
use crate::accounting::UnderWay;
use crate::daemon::limits::scheduling::Scheduling;
use crate::daemon::servers::inventory::Asking;
use crate::daemon::servers::process::is_ending;
use crate::daemon::servers::protocol::{self, Socket};
use crate::daemon::state::{ClientEnd, Server, State, WaitingClient};
use crate::daemon::{CommandConnection, Daemon};
use crate::v3::endpoints::Chosen;
use crate::v3::partitions::NO_PARTITION;
use crate::v3::{Arrival, Grant, Refusal};
use channel::limits::WINDOWS_MAX;
use channel::log_line::Level;
use channel::message::{Client, Hello, Message, process_number};
use channel::socket::{PeerCredentials, ReceiveError};
use cuda_api::CudaError;
use recovery::servers::{ClientProcess, NoServer, Placement, READY_S_MAX, ServerKey};
use scheduling::ClientSettings;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Connections that have not said a word yet. The oldest of the user that has the most makes room for a
/// new one, so no process can shut others out by being silent.
pub(in crate::daemon) const SILENT_MAX: usize = 256;
/// How long a connection may be silent. Both client and shell speak at once, but on a busy machine a
/// process may not run for long; a silent connection costs nothing but its place.
pub(in crate::daemon) const SILENT_S_MAX: u64 = 60;

/// A connection that has not said a word yet.
pub(in crate::daemon) struct Silent {
    pub socket: Socket,
    pub peer: PeerCredentials,
    pub door: Door,
    pub deadline: Instant,
}

/// The socket that a connection came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum Door {
    /// The daemon's.
    Main,
    /// The daemon's for its owner.
    Privileged,
    /// A namespace's of a named server.
    Named(Chosen),
}

impl Door {
    /// The namespace whose socket it is.
    pub fn chosen(&self) -> Option<&Chosen> {
        match self {
            Door::Named(chosen) => Some(chosen),
            Door::Main | Door::Privileged => None,
        }
    }
}

impl Silent {
    /// A fresh connection.
    pub fn new(socket: Socket, door: Door) -> std::io::Result<Silent> {
        socket.set_nonblocking(true)?;
        let peer = socket.peer_credentials()?;
        let deadline = Instant::now() + Duration::from_secs(SILENT_S_MAX);
        Ok(Silent { socket, peer, door, deadline })
    }

    /// Hears the first word and acts on it. Gives the connection back if there is none yet.
    pub fn hear(self, daemon: &Arc<Daemon>) -> Option<Silent> {
        let control = &daemon.logs.control;
        let peer = self.peer;
        match self.socket.receive() {
            Ok((Message::Hello(hello), fds)) => {
                if let Ok([region]) = <[OwnedFd; 1]>::try_from(fds) {
                    daemon.admit((self.socket, &self.door), peer, hello, region);
                }
            }
            Ok((Message::Serving(serving), _)) => {
                daemon.take_over(self.socket, &self.door, peer, &serving);
            }
            Ok((Message::Describe(()), _)) => {
                let asking = Asking { pid: peer.pid, uid: peer.uid, named: 0, socket: self.socket };
                daemon.describe_to(asking, peer.gid, &self.door);
            }
            Ok((Message::Command(command), _)) => {
                let privileged = self.door == Door::Privileged;
                let owner = privileged && (peer.uid == 0 || peer.uid == daemon.owner);
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
            // A client that only looks whether there is a daemon.
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
    fn admit(
        &self,
        (socket, door): (Socket, &Door),
        peer: PeerCredentials,
        hello: Hello,
        region: OwnedFd,
    ) {
        let PeerCredentials { pid, uid, gid } = peer;
        // One without a PID here is a process of its own all the same.
        let number = process_number(pid, hello.token);
        let mut state = self.lock();
        let state = &mut *state;
        let new = format!("NEW CLIENT {pid} from user {uid}");
        let may = self.may_wait(state, uid, gid);
        let chosen = match may.and_then(|()| self.chosen(state, door.chosen(), (pid, uid, gid))) {
            Ok(chosen) => chosen,
            Err(error) => {
                self.logs.control.control(format!("{new}: refused, {error}"));
                protocol::refuse(&socket, error.result(), error.to_string());
                return;
            }
        };
        if let Some(wrong) = Scheduling::not_used(&hello.scheduling) {
            self.logs.control.control(format!("{new}: {wrong}"));
        }
        let client = WaitingClient {
            process: number,
            uid,
            gid,
            scheduling: hello.scheduling,
            chosen,
            command: hello.command_line,
            requested: hello.requested,
            device: hello.device,
            request: hello.request,
            socket,
            region,
            deadline: Instant::now() + self.ready_max(),
        };
        let mark = client.mark();
        let process = match self.process_of(state, &client) {
            Some(Ok(process)) => Some(process),
            None => None,
            Some(Err(error)) => {
                self.logs.control.control(format!("{new}: refused, {error}{mark}"));
                protocol::refuse(&client.socket, error.result(), error.to_string());
                return;
            }
        };
        if let Some(process) = process
            && let Err(error) = self.spend_fault_budget(state, process, &client)
        {
            self.logs.control.control(format!("{new}: refused, {error}{mark}"));
            protocol::refuse(&client.socket, error.result(), error.to_string());
            return;
        }
        if state.newcomers_wait(Instant::now()) {
            return self.push_waiting(state, client);
        }
        let place =
            process.map_or(Placement::Nowhere, |process| self.place_of(state, process, &client));
        if let (Some(process), Placement::At(_)) = (process, place) {
            match self.hand_over(state, process, &client) {
                HandOver::Done => {
                    self.logs.control.control(format!("{new}: Server already exists{mark}"));
                }
                // Its queue is full: many come at once, or it hangs. Then the deadline decides.
                HandOver::Later => self.push_waiting(state, client),
                HandOver::Full => self.refuse_full(&client),
                HandOver::Older(version) => self.have_said_again(&client, version),
                HandOver::Refused(refusal) => self.refuse_arrival(&client, refusal),
            }
            return;
        }
        self.logs
            .control
            .control(format!("{new}: Server is not ready, push client to pending list{mark}"));
        if place == Placement::Nowhere
            && let Err(error) = self.launch_for_process(state, process, gid)
            && !error.is_worth_waiting()
        {
            self.logs.control.control(format!("{new}: refused, {error}{mark}"));
            protocol::refuse(&client.socket, error.result(), error.to_string());
            return;
        }
        self.push_waiting(state, client);
    }

    /// A process whose program has faulted too often gets a server of its own, or is refused.
    fn spend_fault_budget(
        &self,
        state: &mut State,
        process: ClientProcess,
        client: &WaitingClient,
    ) -> Result<(), LaunchError> {
        let Some(budget) = self.fault_budget else { return Ok(()) };
        let used = budget.used_up(&state.faults, client.uid, &client.command, SystemTime::now());
        let Some(count) = used else { return Ok(()) };
        if budget.refuses {
            return Err(LaunchError::FaultBudget(count, budget));
        }
        self.log(format!(
            "Process {} gets a server of its own: its program has caused {count} faults, and {budget} \
             are allowed among others",
            client.pid()
        ));
        state.servers.keep_alone(process);
        Ok(())
    }

    /// Where a client that comes is served. On a machine with several devices processes of a second job get
    /// servers of their own: a job's kernels may wait for each other on several devices, and where two such
    /// jobs share a context each can come to wait for the other one's.
    fn place_of(
        &self,
        state: &mut State,
        process: ClientProcess,
        client: &WaitingClient,
    ) -> Placement {
        if state.tenancy.is_alone(&client.chosen) {
            // As the configuration file says by `default_socket`: the device takes turns between them.
            state.servers.keep_alone(process);
        }
        let place = state.servers.place_of(process);
        let job = &client.requested.job;
        let Placement::At(server) = place else { return place };
        if state.inventory.devices().is_none_or(|known| known.devices.len() < 2) {
            return place;
        }
        let Some(other) = state.present.other_job_at(server, job).filter(|_| !job.is_empty())
        else {
            return place;
        };
        self.logs.control.control(format!(
            "Process {} of job {job} gets a server of its own: job {} is at server {server}",
            client.pid(),
            other.job
        ));
        state.servers.keep_alone(process);
        state.servers.place_of(process)
    }

    pub(in crate::daemon) fn may_wait(
        &self,
        state: &State,
        uid: u32,
        gid: u32,
    ) -> Result<(), LaunchError> {
        if state.servers.stopping.is_some() {
            return Err(NoServer::Stopping.into());
        }
        self.check_user(uid, gid)
    }

    fn push_waiting(&self, state: &mut State, client: WaitingClient) {
        let of_user = state.waiting.iter().filter(|waiting| waiting.uid == client.uid).count();
        if of_user >= WAITING_OF_USER_MAX || state.waiting.len() >= WAITING_MAX {
            let error = LaunchError::TooManyWaiting(of_user.max(WAITING_OF_USER_MAX));
            protocol::refuse(&client.socket, error.result(), error.to_string());
            return;
        }
        state.waiting.push(client);
    }

    /// Starts the server that a process needs: its user's, or one for it alone. As long as the devices
    /// are not known, these are found out first.
    fn launch_for_process(
        &self,
        state: &mut State,
        process: Option<ClientProcess>,
        gid: u32,
    ) -> Result<(), LaunchError> {
        let Some(process) = process else { return self.find_devices(state) };
        let gid = state.tenancy.user_of(process.named).map_or(gid, |(_, gid)| gid);
        self.check_user(process.uid, gid)?;
        let (servers, mut effects) = state.servers_and_effects(self);
        servers.launch_for_process(process, gid, Instant::now(), &mut effects)?;
        Ok(())
    }

    /// A client as a process of its server's; `None` as long as the devices are not known.
    fn process_of(
        &self,
        state: &State,
        client: &WaitingClient,
    ) -> Option<Result<ClientProcess, LaunchError>> {
        let (pid, named) = (client.process, client.chosen.named);
        let device = match state.device_named(client.device, named)? {
            Ok(device) => device,
            Err(error) => return Some(Err(error)),
        };
        let uid = match state.tenancy.user_of(named) {
            Some((uid, _)) => uid,
            None => self.server_user(client.uid),
        };
        Some(Ok(ClientProcess { uid, named, pid, device }))
    }

    /// How long a client waits for its server: where users take turns, as long as it takes.
    fn ready_max(&self) -> Duration {
        const TURN_S_MAX: u64 = 7 * 24 * 3600;
        Duration::from_secs(if self.options.access.one_user { TURN_S_MAX } else { READY_S_MAX })
    }

    pub(crate) fn server_user(&self, uid: u32) -> u32 {
        self.options.access.server_user(self.owner, uid)
    }

    fn refuse_arrival(&self, client: &WaitingClient, refusal: Refusal) {
        match refusal {
            Refusal::NoPartition(reason) => self.refuse_client(client, NO_PARTITION, reason),
            Refusal::NamespaceFull(reason) => {
                self.refuse_client(client, CudaError::MPS_MAX_CLIENTS_REACHED, reason);
            }
            Refusal::Deleted => {
                let error = LaunchError::ServerDeleted;
                self.refuse_one(client.pid(), client.uid, &client.socket, &error);
            }
        }
    }

    /// Has a client begin again in the older version that its server speaks: it takes that from this answer.
    fn have_said_again(&self, client: &WaitingClient, version: u16) {
        let theirs = client.socket.speaks();
        let reason = format!("its server speaks protocol version {version}, the program {theirs}");
        self.logs.control.control(format!("Client {} is to begin again: {reason}", client.pid()));
        protocol::have_said_again(&client.socket, version, reason);
    }

    fn refuse_full(&self, client: &WaitingClient) {
        let reason = format!("the user's servers have their most clients, {WINDOWS_MAX}");
        self.refuse_client(client, CudaError::MPS_MAX_CLIENTS_REACHED, reason);
    }

    fn refuse_client(&self, client: &WaitingClient, error: CudaError, reason: String) {
        self.logs.control.control(format!("Client {} is refused: {reason}", client.pid()));
        protocol::refuse(&client.socket, error, reason);
    }

    /// Sends those whose server is ready there, and sends those away who have waited too long.
    pub(in crate::daemon) fn serve_waiting(&self, state: &mut State, now: Instant) {
        if state.waiting.is_empty() || state.newcomers_wait(now) {
            return;
        }
        let mut left = Vec::new();
        for client in std::mem::take(&mut state.waiting) {
            let (pid, uid) = (client.pid(), client.uid);
            let process = match self.process_of(state, &client) {
                Some(Ok(process)) => Some(process),
                None => None,
                Some(Err(error)) => {
                    self.refuse_one(pid, uid, &client.socket, &error);
                    continue;
                }
            };
            let outcome =
                process.and_then(|process| match self.place_of(state, process, &client) {
                    Placement::At(_) => Some(self.hand_over(state, process, &client)),
                    Placement::Later => Some(HandOver::Later),
                    Placement::Nowhere => None,
                });
            match outcome {
                Some(HandOver::Done) => self.logs.control.control(format!(
                    "NEW CLIENT {pid} from user {uid}: Server already exists{}",
                    client.mark()
                )),
                Some(HandOver::Full) => self.refuse_full(&client),
                Some(HandOver::Older(version)) => self.have_said_again(&client, version),
                Some(HandOver::Refused(refusal)) => self.refuse_arrival(&client, refusal),
                _ if now >= client.deadline => {
                    let reason = format!("no server was ready within {READY_S_MAX} s");
                    self.logs.control.control(format!("Client {pid} of user {uid}: {reason}"));
                    protocol::refuse(&client.socket, CudaError::MPS_SERVER_NOT_READY, reason);
                }
                Some(HandOver::Later) => left.push(client),
                // The devices were not known, or the server that it waited for was shut down.
                None => match self.launch_for_process(state, process, client.gid) {
                    Ok(()) => left.push(client),
                    Err(error) if error.is_worth_waiting() => left.push(client),
                    Err(error) => {
                        protocol::refuse(&client.socket, error.result(), error.to_string());
                    }
                },
            }
        }
        state.waiting = left;
    }

    /// Sends away the waiting clients of a server that did not start.
    pub(in crate::daemon) fn refuse_waiting(
        &self,
        state: &mut State,
        server_key: ServerKey,
        error: &LaunchError,
    ) {
        for client in std::mem::take(&mut state.waiting) {
            let process = self.process_of(state, &client);
            if process.is_some_and(|process| process.is_ok_and(|of| of.server_key() == server_key))
            {
                self.refuse_one(client.pid(), client.uid, &client.socket, error);
            } else {
                state.waiting.push(client);
            }
        }
    }

    /// Sends away all who wait: the devices are not known.
    pub(in crate::daemon) fn refuse_all(&self, state: &mut State, error: &LaunchError) {
        for client in std::mem::take(&mut state.waiting) {
            self.refuse_one(client.pid(), client.uid, &client.socket, error);
        }
        for asking in std::mem::take(&mut state.inventory.waiting) {
            self.refuse_one(asking.pid, asking.uid, &asking.socket, error);
        }
    }

    pub(in crate::daemon) fn refuse_one(
        &self,
        pid: u32,
        uid: u32,
        socket: &Socket,
        error: &LaunchError,
    ) {
        let text = format!("Client {pid} of user {uid} refused: {error}");
        self.logs.control.control_at(Level::Warning, text);
        protocol::refuse(socket, error.result(), error.to_string());
    }
}

/// The result of handing a client over.
enum HandOver {
    /// Its socket is the server's.
    Done,
    /// The server's queue is full.
    Later,
    /// All windows are taken.
    Full,
    /// The server speaks this version, and the client has begun in a newer one.
    Older(u16),
    /// Its namespace or its partition does not take it.
    Refused(Refusal),
}

impl Daemon {
    /// Sends a client to its server, which is ready.
    fn hand_over(
        &self,
        state: &mut State,
        process: ClientProcess,
        client: &WaitingClient,
    ) -> HandOver {
        let pid = process.pid;
        let (chosen, requested) = (&client.chosen, &client.requested);
        let arrival = Arrival { process, chosen, requested };
        let devices = state.inventory.devices().map(|devices| &**devices);
        let partition = match state.tenancy.partition_of(arrival, devices) {
            Ok(partition) => partition,
            Err(refusal) => return HandOver::Refused(refusal),
        };
        let Placement::At(server) = state.servers.place_of(process) else { return HandOver::Later };
        // A server that was killed would take the connection with it, and the client came again after a pause.
        if is_ending(server) {
            return HandOver::Later;
        }
        let State { windows, servers, .. } = &mut *state;
        // Nor may work be done again while the server where it was in flight still may do it. In a context with
        // a fault nothing runs any more.
        let was_at = windows.server_of(process).and_then(|before| servers.get(before));
        if was_at.is_some_and(|before| !before.fault && is_ending(before.pid)) {
            return HandOver::Later;
        }
        let window = windows.choose(process, |server| servers.serves(server), ClientEnd::has_come);
        let Some((window, comes_again)) = window else { return HandOver::Full };
        let beside =
            |other: &&Server| (other.device, other.named) == (process.device, chosen.named);
        let beside = state.servers.iter().filter(beside).map(|other| other.pid);
        let has_ended = |process| ClientEnd::of(process).has_come();
        if let Err(refusal) = state.tenancy.has_room(arrival, beside, has_ended) {
            return HandOver::Refused(refusal);
        }
        let group = self.cgroup_group(state, process);
        let State { servers, tenancy, defaults, .. } = &mut *state;
        let Some(found) = servers.get(server) else { return HandOver::Later };
        let version = found.link.socket.speaks();
        if client.socket.speaks() > version {
            return HandOver::Older(version);
        }
        let of_server = (server, &found.link.settings, &*defaults);
        let mut grant = match tenancy.grant(arrival, of_server, partition, group) {
            Ok(grant) => grant,
            Err(refusal) => return HandOver::Refused(refusal),
        };
        let scheduling = self.given(state, process, client, &mut grant);
        let is_noted = grant.is_noted();
        let Grant { settings, membership, .. } = grant;
        let who = Client {
            pid,
            uid: client.uid,
            gid: client.gid,
            command_line: client.command.clone(),
            window,
            settings,
            scheduling: scheduling.to_string(),
            comes_again,
            protocol: client.socket.speaks(),
            request: client.request,
        };
        // Before the server has it: a daemon that is killed then has left it all the same.
        if is_noted {
            self.note_membership(state, membership.clone());
        }
        let Some(found) = state.server(server) else { return HandOver::Later };
        // From here on the socket is the server's; non-blocking is a property of the connection's
        // open description, which client and daemon do not share with each other.
        let blocking = client.socket.set_nonblocking(false);
        let sent = blocking.and_then(|()| {
            protocol::send_client(&found.link.socket, who, &client.socket, &client.region)
        });
        if sent.is_err() {
            if is_noted {
                self.note_left(state, server, pid);
            }
            return HandOver::Later;
        }
        found.take_client(Instant::now());
        state.present.enter(UnderWay {
            server,
            pid,
            uid: client.uid,
            device_uuid: process.device.to_string(),
            command: client.command.clone(),
            job: client.requested.job.clone(),
            began: SystemTime::now(),
        });
        state.windows.give(process, window, server, || ClientEnd::of(pid));
        state.tenancy.enter(&membership);
        self.follow_number(state, process.device);
        HandOver::Done
    }

    /// What a client is given: its namespace's limits, rules, and what was changed of its process.
    fn given(
        &self,
        state: &mut State,
        process: ClientProcess,
        client: &WaitingClient,
        grant: &mut Grant,
    ) -> ClientSettings {
        let priority = grant.settings.priority.0;
        let asked = &client.scheduling;
        let mut scheduling =
            self.scheduling.of_client(client.uid, &client.command, asked, priority);
        // A program's own and the operator's rules go before what its namespace says.
        if let Some(weight) = grant.weight.filter(|_| scheduling.weight == 1) {
            scheduling.weight = weight;
        }
        let sms = state.inventory.sms_of(process.device);
        let at = (process.pid, process.device);
        state.kept.apply(at, sms, &mut grant.settings, &mut scheduling);
        scheduling
    }
}
