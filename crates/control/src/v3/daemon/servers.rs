//! What the daemon does with named servers and namespaces: makes them, starts them, ends them.

use crate::daemon::{Daemon, LaunchError, State, protocol};
use crate::status::{ListedClient, ServerPhase};
use crate::v3::configuration::{self, Configuration, PartitionConfiguration, ServerConfiguration};
use crate::v3::endpoints::Chosen;
use crate::v3::limits::NamespaceLimits;
use crate::v3::name::{DEFAULT_NAMESPACE, NamedError};
use crate::v3::named::NamedServer;
use crate::v3::partitions::{Partition, Purpose};
use crate::v3::{Features, Tenancy};
use channel::message::Device;
use cuda_api::CUuuid;
use recovery::servers::{NoServer, Phase, ServerKey};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a deleted server's processes may take to end.
const DELETE_S_MAX: u64 = 15;

/// A server to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewServer {
    pub name: String,
    /// The user that it is for; none: the daemon's.
    pub uid: Option<u32>,
    pub allowed: Vec<String>,
    pub namespaces: BTreeMap<String, NamespaceLimits>,
}

/// A process of a named server.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub named: u32,
    pub pid: u32,
    pub state: ServerPhase,
    pub device: CUuuid,
}

/// A client of a named server.
#[derive(Clone, Debug)]
pub(crate) struct ClientRow {
    pub server: String,
    pub process: u32,
    /// Number of its device; `None` if the daemon has none with its UUID.
    pub device: Option<usize>,
    pub namespace: String,
    pub client: ListedClient,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Daemon {
    /// Whether it follows protocol 3.
    pub(crate) fn is_v3(&self) -> bool {
        self.options().protocol == 3
    }

    /// The UUID of the device that a word names.
    pub(crate) fn uuid_of(&self, word: &str) -> Result<String, String> {
        self.partitioned(word).map(|device| device.uuid.to_string())
    }

    /// Whether its servers are for all users.
    pub(crate) fn is_multiuser(&self) -> bool {
        self.options().access.multiuser
    }

    /// The named servers, oldest first, of the users that `sees` wants.
    pub(crate) fn named_servers(&self, sees: impl Fn(u32) -> bool) -> Vec<NamedServer> {
        self.lock().tenancy.named.all().iter().filter(|server| sees(server.uid)).cloned().collect()
    }

    /// The processes of all named servers.
    pub(crate) fn named_processes(&self) -> Vec<ProcessRow> {
        let state = self.lock();
        let rows = state.servers.iter().filter(|server| server.named != 0);
        rows.map(|server| ProcessRow {
            named: server.named,
            pid: server.pid,
            state: crate::daemon::state_of(server),
            device: server.device,
        })
        .collect()
    }

    /// Where a server's socket is.
    pub(crate) fn directory_of(&self, server: &str) -> PathBuf {
        self.directory().path().join(server)
    }

    /// The user that a server is for, and that user's group.
    fn user_of(&self, uid: Option<u32>) -> Result<(u32, u32), String> {
        let uid = uid.unwrap_or(self.owner());
        if self.options().access.multiuser && uid != self.owner() {
            return Err(format!(
                "this daemon's servers are for all users (multiuser): --uid can only be {}",
                self.owner()
            ));
        }
        let gid = match crate::users::find(uid) {
            Some(user) => user.gid,
            None if uid == self.owner() => rustix::process::getegid().as_raw(),
            None => return Err(format!("there is no user with the id {uid}")),
        };
        self.check_user(uid, gid).map_err(text)?;
        Ok((uid, gid))
    }

    /// Enters a server into the list and makes its sockets. Its processes are not started.
    fn enter_server(&self, state: &mut State, new: NamedServer) -> Result<u32, String> {
        let (name, namespaces) = (new.name.clone(), new.namespaces.clone());
        let number = state.tenancy.named.create(new).map_err(text)?;
        let default = (!namespaces.contains_key(DEFAULT_NAMESPACE)).then_some(DEFAULT_NAMESPACE);
        let names = namespaces.keys().map(String::as_str).chain(default);
        let directory = self.directory_of(&name);
        let logs = self.log_directory();
        if let Err(error) = state.tenancy.endpoints.open_server(&directory, logs, number, names) {
            state.tenancy.named.delete(number);
            return Err(error.to_string());
        }
        self.wake();
        Ok(number)
    }

    /// The server that programs of a user come to that name none; made if there is none.
    pub(crate) fn automatic_server(
        &self,
        state: &mut State,
        uid: u32,
        gid: u32,
    ) -> Result<Chosen, LaunchError> {
        let namespace = DEFAULT_NAMESPACE.to_owned();
        let name = format!("uid_{uid}");
        if let Ok(server) = state.tenancy.named.by_name(&name) {
            return Ok(Chosen { named: server.number, namespace, by_main: true });
        }
        self.check_user(uid, gid)?;
        let (allowed, namespaces) = (Vec::new(), BTreeMap::new());
        let new = NamedServer { number: 0, name, uid, gid, automatic: true, allowed, namespaces };
        let named = self.enter_server(state, new).map_err(NoServer::NotStarted)?;
        self.write_snapshot_of(state);
        Ok(Chosen { named, namespace, by_main: true })
    }

    /// Makes a server and returns when its processes are ready.
    pub(crate) fn create_server(&self, new: NewServer) -> Result<(), String> {
        let (uid, gid) = self.user_of(new.uid)?;
        let devices = self.devices().map_err(text)?;
        let uuids: Vec<String> = devices.devices.iter().map(|d| d.uuid.to_string()).collect();
        for word in &new.allowed {
            let named = |(ordinal, uuid): (usize, &String)| {
                cuda_api::settings::names_device(word, ordinal as u32, uuid)
            };
            if !uuids.iter().enumerate().any(named) {
                return Err(format!("there is no device {word:?}; `device list` lists them"));
            }
        }
        let NewServer { name, allowed, namespaces, .. } = new;
        let new = NamedServer {
            number: 0,
            name: name.clone(),
            uid,
            gid,
            automatic: false,
            allowed,
            namespaces,
        };
        self.enter_server(&mut self.lock(), new)?;
        self.start_named(&name).inspect_err(|_| {
            // What could not be started is as if it had not been made.
            let _ = self.delete_server(&name, true);
        })
    }

    /// Starts a server's processes, one a device, and waits until they are ready.
    fn start_named(&self, name: &str) -> Result<(), String> {
        self.devices().map_err(text)?;
        let state = self.lock();
        let server = state.tenancy.named.by_name(name).map_err(text)?;
        let (uid, gid, named) = (server.uid, server.gid, server.number);
        let devices = match state.devices_of(named) {
            Some(devices) => devices.map_err(text)?,
            None => return Err("the devices are not known".to_owned()),
        };
        let server_keys: Vec<ServerKey> = devices
            .devices
            .iter()
            .map(|device| ServerKey { uid, named, device: device.uuid })
            .collect();
        self.start_at(state, &server_keys, gid).map_err(text)
    }

    /// Takes a server away, with its clients if `force`.
    pub(crate) fn delete_server(&self, name: &str, force: bool) -> Result<(), String> {
        let mut state = self.lock();
        let number = state.tenancy.named.by_name(name).map_err(text)?.number;
        let clients: usize =
            state.servers.iter().filter(|s| s.named == number).map(|s| s.clients).sum();
        if clients > 0 && !force {
            return Err(format!(
                "Server '{name}' has {clients} active clients: end them, or give --force, which \
                 terminates them"
            ));
        }
        let (servers, mut effects) = state.servers_and_effects(self);
        for server in servers.iter_mut().filter(|server| server.named == number) {
            server.request_end(true, Instant::now(), &mut effects);
        }
        state.tenancy.endpoints.close_server(&self.directory_of(name), number);
        state.tenancy.partitions.forget_named(number);
        state.tenancy.named.delete(number);
        self.wake();
        let deadline = Instant::now() + Duration::from_secs(DELETE_S_MAX);
        let _ = self.wait_until(state, Some(deadline), |state| {
            (!state.servers.iter().any(|server| server.named == number)).then_some(())
        });
        Ok(())
    }

    /// Changes a server: its user, while it has no process, and what its clients to come are given.
    pub(crate) fn change_server(
        &self,
        name: &str,
        uid: Option<u32>,
        limits: NamespaceLimits,
    ) -> Result<(), String> {
        let user = match uid {
            Some(_) => Some(self.user_of(uid)?),
            None => None,
        };
        let weighs = limits.weight.is_some();
        let mut state = self.lock();
        let number = state.tenancy.named.by_name(name).map_err(text)?.number;
        if user.is_some() && state.servers.iter().any(|server| server.named == number) {
            return Err(format!(
                "Server '{name}' has processes, whose user cannot change: delete it and create it \
                 with the other user"
            ));
        }
        state.tenancy.named.change(name, user, limits).map_err(text)?;
        let State { servers, tenancy, defaults, .. } = &mut *state;
        for server in servers.iter_mut().filter(|server| server.named == number) {
            server.link.settings = tenancy.settings_of_server(server.server_key(), defaults);
            protocol::send_settings(server, false);
        }
        self.follow_soon(&mut state);
        drop(state);
        if weighs {
            self.weigh();
        }
        Ok(())
    }

    /// Makes a namespace of a server.
    pub(crate) fn create_namespace(&self, server: &str, name: &str) -> Result<(), String> {
        let mut state = self.lock();
        state.tenancy.named.create_namespace(server, name).map_err(text)?;
        let number = state.tenancy.named.by_name(server).map_err(text)?.number;
        let directory = self.directory_of(server);
        if let Err(error) = state.tenancy.endpoints.open_namespace(&directory, number, name) {
            let _ = state.tenancy.named.delete_namespace(server, name);
            return Err(error.to_string());
        }
        self.wake();
        Ok(())
    }

    /// Changes what clients to come of a namespace are given.
    pub(crate) fn change_namespace(
        &self,
        server: &str,
        name: &str,
        limits: NamespaceLimits,
    ) -> Result<(), String> {
        if name == DEFAULT_NAMESPACE {
            return self.change_server(server, None, limits);
        }
        let weighs = limits.weight.is_some();
        let mut state = self.lock();
        state.tenancy.named.namespace(server, name).map_err(text)?.merge(limits);
        self.follow_soon(&mut state);
        drop(state);
        if weighs {
            self.weigh();
        }
        Ok(())
    }

    /// Takes a namespace away, and terminates its clients if `force`.
    pub(crate) fn delete_namespace(
        &self,
        server: &str,
        name: &str,
        force: bool,
    ) -> Result<(), String> {
        let mut clients = Vec::new();
        if name != DEFAULT_NAMESPACE {
            let rows = self.client_rows(|_| true);
            clients.extend(
                rows.into_iter()
                    .filter(|r| (r.server.as_str(), r.namespace.as_str()) == (server, name)),
            );
        }
        let mut state = self.lock();
        let number = state.tenancy.named.by_name(server).map_err(text)?.number;
        state.tenancy.named.namespace(server, name).map_err(text)?;
        let active: usize = state
            .servers
            .iter()
            .filter(|process| process.named == number)
            .map(|process| state.tenancy.named.clients_in(process.pid, name).len())
            .sum();
        if active > 0 && !force && name != DEFAULT_NAMESPACE {
            return Err(format!(
                "Namespace '{name}' has {active} active clients: end them, or give --force, which \
                 terminates them"
            ));
        }
        state.tenancy.named.delete_namespace(server, name).map_err(text)?;
        state.tenancy.endpoints.close_namespace(number, name);
        drop(state);
        for row in clients {
            // One that has ended meanwhile needs no end.
            let _ = self.terminate_client(row.process, row.client.id);
        }
        Ok(())
    }

    /// The clients of named servers of the users that `sees` wants, as far as these answer.
    pub(crate) fn client_rows(&self, sees: impl Fn(u32) -> bool) -> Vec<ClientRow> {
        let devices = self.known_devices();
        let processes: Vec<(u32, String)> = {
            let state = self.lock();
            let named = |s: &crate::daemon::Server| {
                let of = state.tenancy.named.find(s.named).filter(|of| sees(of.uid))?;
                let is_ready = !matches!(s.phase, Phase::Starting { .. });
                is_ready.then(|| (s.pid, of.name.clone()))
            };
            state.servers.iter().filter_map(named).collect()
        };
        let pids: Vec<u32> = processes.iter().map(|(pid, _)| *pid).collect();
        let statuses = self.statuses(&pids);
        let state = self.lock();
        let mut rows = Vec::new();
        for ((process, server), (_, status)) in processes.into_iter().zip(statuses) {
            let Ok(status) = status else { continue };
            for client in status.clients {
                let namespace = state.tenancy.named.namespace_of(process, client.process);
                let ordinal = devices.as_ref().and_then(|devices| {
                    let all = devices.devices.iter();
                    all.map(|d| d.uuid.to_string()).position(|uuid| uuid == client.device_uuid)
                });
                rows.push(ClientRow {
                    server: server.clone(),
                    process,
                    device: ordinal,
                    namespace: namespace.unwrap_or("-").to_owned(),
                    client,
                });
            }
        }
        rows
    }

    /// The namespace that a client of a server's process chose.
    pub(crate) fn mps_namespace(&self, process: u32, client: u32) -> Option<String> {
        let state = self.lock();
        state.tenancy.named.namespace_of(process, client).map(str::to_owned)
    }

    /// Makes a partition of a server's device; gives what it became.
    pub(crate) fn create_partition(
        &self,
        server: &str,
        wanted: &PartitionConfiguration,
    ) -> Result<Partition, String> {
        crate::v3::name::check_name(&wanted.name).map_err(text)?;
        let device = self.partitioned(&wanted.device)?;
        let mut state = self.lock();
        let busy = state.servers.iter().any(|s| s.device == device.uuid && s.clients > 0);
        if busy {
            return Err(format!(
                "device {} has active clients: SMs are given out while there are none",
                device.uuid
            ));
        }
        add_partition(&mut state, server, &device, wanted)
    }

    /// Takes a partition of a server's device away.
    pub(crate) fn delete_partition(
        &self,
        server: &str,
        device: &str,
        name: &str,
    ) -> Result<CUuuid, String> {
        let device = self.partitioned(device)?.uuid;
        let mut state = self.lock();
        let number = state.tenancy.named.by_name(server).map_err(text)?.number;
        let removed = state.tenancy.partitions.remove_named(device, number, name);
        removed.map_err(|error| match error {
            crate::v3::partitions::PartitionError::Unknown(_) => format!(
                "SM partition '{name}' not found on device {device} of server '{server}'; \
                 `sm-partition list` lists them"
            ),
            error => error.to_string(),
        })?;
        Ok(device)
    }

    /// The partitions of all devices.
    pub(crate) fn partition_rows(&self) -> Vec<Partition> {
        let Some(devices) = self.known_devices() else { return Vec::new() };
        let state = self.lock();
        let of = |device: &Device| {
            state.tenancy.partitions.of_device(device.uuid).cloned().collect::<Vec<_>>()
        };
        devices.devices.iter().flat_map(of).collect()
    }

    /// What can be switched.
    pub(crate) fn features(&self) -> Features {
        self.lock().tenancy.features
    }

    /// Switches something.
    pub(crate) fn change_features(&self, change: impl FnOnce(&mut Features)) {
        change(&mut self.lock().tenancy.features);
    }

    /// Makes what a configuration file asks for, beside what the daemon before left; `left` is the file's text
    /// then. Where it is the same, commands that came after it hold; where it was changed it goes before them,
    /// and what commands have made beside it stays. Processes are not started.
    pub(crate) fn apply(
        &self,
        left: Option<&str>,
        configuration: Configuration,
    ) -> Result<(), String> {
        let mut state = self.lock();
        let is_same = left.is_some_and(|left| left == self.given_configuration());
        let before = left.and_then(|left| configuration::parse(left).ok()).unwrap_or_default();
        if !is_same {
            let is_gone = |of: &&ServerConfiguration| {
                !configuration.servers.iter().any(|new| new.name == of.name)
            };
            for gone in before.servers.iter().filter(is_gone) {
                let number = state.tenancy.named.by_name(&gone.name).map(|server| server.number);
                if let Ok(number) = number {
                    state.tenancy.named.delete(number);
                    state.tenancy.partitions.forget_named(number);
                }
            }
            for key in &configuration.without_effect {
                self.log(format!("{key}; the configuration file has it without effect"));
            }
            for server in configuration.servers {
                let of_before = before.servers.iter().find(|of| of.name == server.name);
                self.apply_server(&mut state, server, of_before)?;
            }
            let features = &mut state.tenancy.features;
            if configuration.memacct.is_some() {
                features.memacct = configuration.memacct.unwrap_or_default();
                features.memacct_is_set = true;
            }
            features.audit_log = configuration.audit_log.unwrap_or(features.audit_log);
            features.main_socket_alone =
                configuration.default_socket.map_or(features.main_socket_alone, |on| !on);
        }
        let weighs = state
            .tenancy
            .named
            .all()
            .iter()
            .any(|of| of.namespaces.values().any(|of| of.weight.is_some()));
        if weighs {
            // No server runs yet.
            self.weigh_at_start();
        }
        let Tenancy { named, endpoints, .. } = &mut state.tenancy;
        for server in named.all() {
            let (directory, logs) = (self.directory_of(&server.name), self.log_directory());
            let names = server.namespaces.keys().map(String::as_str);
            endpoints
                .open_server(&directory, logs, server.number, names)
                .map_err(|error| format!("servers.{}: {error}", server.name))?;
        }
        Ok(())
    }

    /// Makes or changes a server as the configuration file says; `before` is what the file said of it
    /// when the daemon before was started.
    fn apply_server(
        &self,
        state: &mut State,
        server: ServerConfiguration,
        before: Option<&ServerConfiguration>,
    ) -> Result<(), String> {
        let wrong = |reason: String| format!("servers.{}: {reason}", server.name);
        let (uid, gid) = self.user_of(server.uid).map_err(wrong)?;
        let mut new = NamedServer {
            number: 0,
            name: server.name.clone(),
            uid,
            gid,
            automatic: false,
            allowed: server.allowed,
            namespaces: server.namespaces,
        };
        let number = match state.tenancy.named.by_name(&new.name) {
            Err(_) => state.tenancy.named.create(new).map_err(|error| wrong(error.to_string()))?,
            Ok(there) => {
                let number = there.number;
                let by_command =
                    |name: &str| before.is_none_or(|before| !before.namespaces.contains_key(name));
                for (name, limits) in there.namespaces.iter().filter(|(name, _)| by_command(name)) {
                    new.namespaces.entry(name.clone()).or_insert_with(|| limits.clone());
                }
                state.tenancy.named.replace(new);
                number
            }
        };
        let of_file = before.map_or(&[][..], |before| &before.partitions);
        state
            .tenancy
            .partitions
            .forget_labels(number, |label| of_file.iter().any(|of| of.name == label));
        let name = &server.name;
        let mine = server.partitions.into_iter().map(|wanted| (name.clone(), wanted));
        state.tenancy.partitions_wanted.extend(mine);
        Ok(())
    }

    /// Whether the devices have what the configuration file asks for. Waits until they are known, if the
    /// file names any.
    pub(crate) fn check_configuration(&self) -> Result<(), String> {
        let names_devices = {
            let state = self.lock();
            !state.tenancy.partitions_wanted.is_empty()
                || state.tenancy.named.all().iter().any(|server| !server.allowed.is_empty())
        };
        if !names_devices {
            return Ok(());
        }
        self.devices().map_err(|error| format!("the devices are not known: {error}"))?;
        let mut state = self.lock();
        let mistakes = std::mem::take(&mut state.tenancy.partitions_refused);
        if let Some(first) = mistakes.into_iter().next() {
            return Err(first);
        }
        for server in state.tenancy.named.all() {
            if let Some(Err(error)) = state.devices_of(server.number) {
                return Err(format!("servers.{}: {error}", server.name));
            }
        }
        Ok(())
    }

    /// Starts the processes of all servers that stay, on a thread of its own: clients wait for them as for
    /// any server. Those of a daemon that was killed come first.
    pub(crate) fn start_all_named(&self) -> Result<(), String> {
        let stays = |server: &&NamedServer| !server.automatic;
        let names: Vec<String> = self
            .lock()
            .tenancy
            .named
            .all()
            .iter()
            .filter(stays)
            .map(|of| of.name.clone())
            .collect();
        let Some(daemon) = self.shared().filter(|_| !names.is_empty()) else { return Ok(()) };
        let start = move || {
            daemon.wait_for_found();
            daemon.wait_for_left();
            for name in names {
                if let Err(reason) = daemon.start_named(&name) {
                    daemon.log(format!("Server '{name}': {reason}"));
                }
            }
        };
        let thread = std::thread::Builder::new().name("servers".to_owned()).spawn(start);
        thread.map(drop).map_err(text)
    }

    /// Makes the partitions that the configuration file wants, once the devices are known.
    pub(crate) fn make_partitions_wanted(&self, state: &mut State) {
        for (server, wanted) in std::mem::take(&mut state.tenancy.partitions_wanted) {
            let Some(devices) = state.inventory.devices().cloned() else { return };
            let named = |(ordinal, device): &(usize, &Device)| {
                let uuid = device.uuid.to_string();
                cuda_api::settings::names_device(&wanted.device, *ordinal as u32, &uuid)
            };
            let made = match devices.devices.iter().enumerate().find(named) {
                Some((_, device)) => add_partition(state, &server, device, &wanted).map(drop),
                None => Err(format!("there is no device {:?}", wanted.device)),
            };
            if let Err(reason) = made {
                let name = &wanted.name;
                let refused = format!("servers.{server}: SM partition '{name}': {reason}");
                self.log(&refused);
                state.tenancy.partitions_refused.push(refused);
            }
        }
    }
}

fn add_partition(
    state: &mut State,
    server: &str,
    device: &Device,
    wanted: &PartitionConfiguration,
) -> Result<Partition, String> {
    let of = state.tenancy.named.by_name(server).map_err(text)?;
    let (number, name) = (of.number, of.name.clone());
    let allowed = state.devices_of(number);
    if !allowed.is_some_and(|all| all.is_ok_and(|all| all.find(device.uuid).is_some())) {
        return Err(NamedError::Refused(format!(
            "device {} is not one of server '{name}': see its allowed-devices",
            device.uuid
        ))
        .to_string());
    }
    let of = Purpose {
        named: number,
        label: wanted.name.clone(),
        remainder: wanted.include_remainder,
        shareable: wanted.shareable,
        chunks_max: wanted.chunks_max,
    };
    let id = state.tenancy.partitions.add(device, wanted.chunks, of).map_err(text)?;
    let made =
        state.tenancy.partitions.of_device(device.uuid).find(|partition| partition.id() == id);
    made.cloned().ok_or_else(|| "the partition is gone".to_owned())
}
