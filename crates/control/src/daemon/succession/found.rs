//! Found servers: those of a daemon that was killed come to the one that follows it in its directory, and
//! serve on.
//!
//! A server is believed what it says of itself, because it serves its own user alone: the kernel says
//! whose it is, and the directory by which it comes, of which named server. In which namespace a client
//! is, and which partition and cgroup's account it has, the daemon before has left (`snapshot`). For a short time newcomers wait, so that no server is started beside one that is on its way
//! here, and no newcomer gets addresses that a client has. Of a client whose server is killed after that
//! there is no line in the accounting.

use crate::daemon::Daemon;
use crate::daemon::clients::admission::Door;
use crate::daemon::servers::process::{ServerProcess, began, pidfd};
use crate::daemon::servers::protocol::{self, Socket};
use crate::daemon::servers::questions::Questions;
use crate::daemon::state::{ClientEnd, Link, State};
use crate::settings::{Settings, SettingsRecord};
use channel::message::Serving;
use channel::socket::PeerCredentials;
use cuda_api::CudaError;
use recovery::servers::{ClientProcess, Found, ServerKey};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long newcomers wait where a daemon was killed: servers look for the next one several times
/// meanwhile.
pub(in crate::daemon) const NEWCOMERS_WAIT: Duration = Duration::from_millis(600);
/// How long after that a server may still come: it may have been stopped, or busy.
const LATE: Duration = Duration::from_secs(60);
/// How long servers that start by themselves wait for those of the daemon before.
const LEFT_MAX: Duration = Duration::from_secs(10);

impl Daemon {
    /// A server of the daemon before has come.
    pub(in crate::daemon) fn take_over(
        &self,
        socket: Socket,
        door: &Door,
        peer: PeerCredentials,
        serving: &Serving,
    ) {
        let mut state = self.lock();
        let pid = peer.pid;
        if let Err(reason) = self.may_take_over(&mut state, door, peer, serving) {
            self.log(format!("Server {pid} of the daemon before is not taken over: {reason}"));
            return protocol::refuse(&socket, CudaError::MPS_CONNECTION_FAILED, reason);
        }
        let exit = match pidfd(pid) {
            Ok(exit) => exit,
            Err(error) => return self.log(format!("Server {pid} cannot be watched: {error}")),
        };
        let count = serving.clients.iter().filter(|(process, _)| *process != 0).count();
        self.log(format!("Server {pid} of the daemon before serves on, with {count} clients"));
        let named = door.chosen().map_or(0, |chosen| chosen.named);
        let server_key = ServerKey { uid: peer.uid, named, device: serving.device };
        let of_it = |(server, _): &(u32, SettingsRecord)| *server == pid;
        let settings = match state.left.iter().position(of_it) {
            Some(at) => Settings::from_record(&state.left.remove(at).1),
            None => state.tenancy.settings_of_server(server_key, &state.defaults),
        };
        let link = Link {
            socket: Arc::new(socket),
            exit: Arc::new(exit),
            child: ServerProcess::Found(pid),
            questions: Questions::default(),
            settings,
        };
        let now = Instant::now();
        let (fault, ends) = (serving.fault, serving.ends);
        let found = Found { pid, gid: peer.gid, server_key, clients: count, fault, ends };
        let (servers, mut effects) = state.servers_and_effects(self);
        servers.take_over(found, link, now, &mut effects);
        if let Some(server) = servers.get(pid) {
            // By this it knows that it was taken over.
            protocol::send_settings(server, false);
        }
        for (process, window) in serving.clients.iter().copied() {
            let of_it = |(of, index, _): &(ClientProcess, u32, u32)| {
                (of.uid, *index) == (server_key.uid, window)
            };
            let holder = state.windows.all().find(of_it);
            if process == 0 && holder.is_some() {
                continue;
            }
            // Another server needs them too, for memory of this client's.
            if let Some((_, _, server)) = holder.filter(is_of_server) {
                state.windows.free(server_key.uid, window, server);
            }
            let process = if process == 0 { pid } else { process };
            let client = ClientProcess {
                uid: server_key.uid,
                named,
                pid: process,
                device: server_key.device,
            };
            state.windows.give(client, window, pid, || ClientEnd::of(process));
        }
        let clients = serving.clients.iter().map(|(process, _)| *process);
        if state.tenancy.take_over(pid, named, clients.filter(|process| *process != 0)) {
            self.write_snapshot_of(&mut state);
        }
        drop(state);
        self.wake();
    }

    /// Waits for those servers of the daemon before that are still there: on a busy machine they come late, and
    /// none is to be started beside them.
    pub(crate) fn wait_for_left(&self) {
        let until = Instant::now() + LEFT_MAX;
        let comes = |(pid, _): &(u32, SettingsRecord)| began(*pid) != 0;
        while Instant::now() < until && self.lock().left.iter().any(comes) {
            std::thread::sleep(NEWCOMERS_WAIT / 10);
        }
    }

    fn may_take_over(
        &self,
        state: &mut State,
        door: &Door,
        PeerCredentials { pid, uid, gid }: PeerCredentials,
        serving: &Serving,
    ) -> Result<(), String> {
        if state.found_until.is_none_or(|until| Instant::now() > until + LATE) {
            return Err("no daemon was killed here lately".to_owned());
        }
        if *door == Door::Privileged {
            return Err("this daemon follows another protocol".to_owned());
        }
        state.tenancy.may_serve_on(door.chosen(), uid)?;
        if self.options.access.server_user(self.owner, uid) != uid {
            return Err("this daemon has one server for all users".to_owned());
        }
        self.may_wait(state, uid, gid).map_err(|error| error.to_string())?;
        if state.server(pid).is_some() {
            return Err("it is there already".to_owned());
        }
        let is_taken = |(process, window): &(u32, u32)| {
            let mut holders = state.windows.all().filter(|holder| !is_of_server(holder));
            let other = |of: ClientProcess| of.uid == uid && of.pid != *process;
            *process != 0 && holders.any(|(of, index, _)| index == *window && other(of))
        };
        match serving.clients.iter().any(is_taken) {
            true => Err("other clients have the addresses of its clients".to_owned()),
            false => Ok(()),
        }
    }
}

/// True for windows that a server needs itself.
fn is_of_server((of, _, server): &(ClientProcess, u32, u32)) -> bool {
    of.pid == *server
}
