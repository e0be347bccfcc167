//! Tenancy: which server a client belongs to, and what clients of a namespace, a partition or a cgroup may have together.
//!
//! The rest of the daemon asks here, and knows nothing of the protocol: under protocol 2 there are no named servers, and
//! the answers are those for clients of the user's own server, whose number is 0.

use super::configuration::PartitionConfiguration;
use super::endpoints::{Chosen, Endpoints};
use super::memacct::{self, CgroupLimit, Memacct};
use super::membership::Membership;
use super::name::DEFAULT_NAMESPACE;
use super::named::{Named, NamedRecord};
use super::partitions::{Partitions, PartitionsRecord};
use crate::settings::Settings;
use channel::message::{self, Devices, MemoryGroup, RequestedLimits};
use recovery::servers::{ClientProcess, ServerKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A static partition: its ID, and its first SM and how many they are.
type Partition = (String, (u32, u32));

/// What of protocol 3 can be switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Features {
    /// Memory accounting: limits of cgroups, eviction.
    pub memacct: bool,
    /// Its decisions go to control.log.
    pub audit_log: bool,
    /// An operator has switched memory accounting.
    pub memacct_is_set: bool,
    /// Each program that comes by the daemon's own socket has a server of its own: none shares a context there.
    pub main_socket_alone: bool,
}

/// What a daemon was started with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TenancyOptions {
    /// It follows protocol 3: servers have names.
    pub named_servers: bool,
    /// SMs are given out in static partitions only.
    pub static_partitioning: bool,
}

/// All of it. The daemon's part of this module alone sees the fields.
#[derive(Default)]
pub(crate) struct Tenancy {
    pub(super) options: TenancyOptions,
    /// What the operator has made.
    pub(super) named: Named,
    pub(super) endpoints: Endpoints,
    pub(super) partitions: Partitions,
    pub(super) memacct: Memacct,
    pub(super) features: Features,
    /// Clients in namespaces, partitions and cgroups' accounts, as the next daemon is to know them.
    pub(super) memberships: Vec<Membership>,
    /// Those that a daemon before knew at servers that have not come yet.
    pub(super) left: Vec<Membership>,
    /// Partitions of the configuration file, and their servers' names, until the devices are known.
    pub(super) partitions_wanted: Vec<(String, PartitionConfiguration)>,
    /// Those that could not be made, a sentence each.
    pub(super) partitions_refused: Vec<String>,
    /// Limits of programs that run are to be compared with what holds now.
    pub(super) follow_now: bool,
}

/// What one daemon leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TenancyRecord {
    pub features: Features,
    pub named: NamedRecord,
    pub partitions: PartitionsRecord,
    pub cgroup_limits: Vec<CgroupLimit>,
    pub clients: Vec<Membership>,
}

/// Why a named server serves no client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoTenancy {
    /// The server or the namespace is gone.
    Deleted,
    /// The server has none of the daemon's devices.
    NoDevice(String),
    /// The server is another user's: its name, and that user.
    OtherUser { server: String, owner: u32 },
}

/// Why a client is not handed to its server, which is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It names no static partition where it has to.
    NoPartition(String),
    /// Its namespace has as many clients as it may have.
    NamespaceFull(String),
    /// Its namespace is gone.
    Deleted,
}

/// A client that is to be handed to its server.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub process: ClientProcess,
    pub chosen: &'a Chosen,
    pub requested: &'a RequestedLimits,
}

/// What a client is given, and where it counts from then on.
pub(crate) struct Grant {
    pub settings: message::Settings,
    /// Its part of the time beside others.
    pub weight: Option<u32>,
    pub membership: Membership,
}

impl Grant {
    /// Whether the next daemon is to know where it counts.
    pub fn is_noted(&self) -> bool {
        let of = &self.membership;
        of.named != 0 || of.partition.is_some() || of.cgroup.is_some()
    }
}

impl Tenancy {
    /// Without any servers.
    pub fn new(options: TenancyOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Whether what operators have made stays for the next daemon: containers have its directories mounted.
    pub fn outlives_daemon(&self) -> bool {
        self.options.named_servers
    }

    /// Whether there is a named server.
    pub fn has_servers(&self) -> bool {
        !self.named.all().is_empty()
    }

    /// The sockets and logs of named servers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub fn endpoints_mut(&mut self) -> &mut Endpoints {
        &mut self.endpoints
    }

    /// The name of a server.
    pub fn name_of(&self, named: u32) -> Option<&str> {
        self.named.find(named).map(|of| of.name.as_str())
    }

    /// The user and the group of a named server's processes.
    pub fn user_of(&self, named: u32) -> Option<(u32, u32)> {
        self.named.find(named).map(|of| (of.uid, of.gid))
    }

    /// Whether a server runs without clients too.
    pub fn stays(&self, named: u32) -> bool {
        self.named.find(named).is_some_and(|of| !of.automatic)
    }

    /// What clients to come of a server are given that ask for nothing.
    pub fn settings_of_server(&self, server_key: ServerKey, defaults: &Settings) -> Settings {
        self.named.settings_of_server(server_key.named, server_key.device, defaults)
    }

    /// The devices that clients of a server see, of all.
    pub fn devices_of(&self, named: u32, all: &Arc<Devices>) -> Result<Arc<Devices>, NoTenancy> {
        if named == 0 {
            return Ok(all.clone());
        }
        let server = self.named.find(named).ok_or(NoTenancy::Deleted)?;
        let devices = server.devices(all);
        match devices.devices.is_empty() && !all.devices.is_empty() {
            true => Err(NoTenancy::NoDevice(server.name.clone())),
            false => Ok(Arc::new(devices)),
        }
    }

    /// Whether a user's client may come to the server whose socket it came by.
    pub fn may_come(&self, chosen: &Chosen, uid: u32) -> Result<(), NoTenancy> {
        let server = self.named.find(chosen.named).ok_or(NoTenancy::Deleted)?;
        match server.uid == uid {
            true => Ok(()),
            false => Err(NoTenancy::OtherUser { server: server.name.clone(), owner: server.uid }),
        }
    }

    /// Whether a user's server of a daemon before may go on here that came by the socket of `chosen`, or by the
    /// daemon's own; else a sentence.
    pub fn may_serve_on(&self, chosen: Option<&Chosen>, uid: u32) -> Result<(), String> {
        match (chosen, self.options.named_servers) {
            (None, false) => Ok(()),
            (Some(chosen), true) => self.may_come(chosen, uid).map_err(|why| match why {
                NoTenancy::OtherUser { server, .. } => {
                    format!("server '{server}' is of another user by now")
                }
                NoTenancy::Deleted | NoTenancy::NoDevice(_) => "its server was deleted".to_owned(),
            }),
            _ => Err("this daemon follows another protocol".to_owned()),
        }
    }

    /// Whether a client has a server of its own because of the socket that it came by.
    pub fn is_alone(&self, chosen: &Chosen) -> bool {
        self.features.main_socket_alone && chosen.by_main
    }

    /// The static partition that a client has named, where there are such.
    pub fn partition_of(
        &self,
        arrival: Arrival<'_>,
        devices: Option<&Devices>,
    ) -> Result<Option<Partition>, Refusal> {
        let (named, device) = (arrival.chosen.named, arrival.process.device);
        let partitioned = match named {
            0 => self.options.static_partitioning,
            _ => self.partitions.of_device(device).any(|p| p.of.named == named),
        };
        match partitioned {
            true => self.named_partition(arrival, devices).map(Some).map_err(Refusal::NoPartition),
            false => Ok(None),
        }
    }

    fn named_partition(
        &self,
        Arrival { process, chosen, requested }: Arrival<'_>,
        devices: Option<&Devices>,
    ) -> Result<Partition, String> {
        let (named, device) = (chosen.named, process.device);
        let devices = devices.ok_or("the devices are not known")?;
        let place = devices.find(device).ok_or("the device is not known")?;
        let (_, of_namespace) = self.named.place_in(named, &chosen.namespace, device);
        // That of the namespace is the operator's word.
        let partition = match of_namespace {
            Some(name) => self.partitions.id_of(device, named, &name).ok_or_else(|| {
                format!("its namespace is in SM partition {name:?}, which this device of the server has not")
            })?,
            None => requested.partition.clone(),
        };
        let device = &devices.devices[place];
        let (id, own) = self.partitions.of_client(&partition, device, named)?;
        let sms = self.partitions.sms_now(&id, device, Some(&id)).unwrap_or(own);
        Ok((id, sms))
    }

    /// Whether a client's namespace takes one more client on its device; `servers` are the PIDs of the processes of its
    /// server there. A client whose process `has_ended` does not count, though its server has not noticed it yet.
    pub fn has_room(
        &self,
        Arrival { process, chosen, .. }: Arrival<'_>,
        servers: impl Iterator<Item = u32>,
        has_ended: impl Fn(u32) -> bool,
    ) -> Result<(), Refusal> {
        let namespace = &chosen.namespace;
        let Some(most) = self.named.clients_max(chosen.named, namespace, process.device) else {
            return Ok(());
        };
        let mut clients: BTreeSet<u32> =
            servers.flat_map(|pid| self.named.clients_in(pid, namespace)).collect();
        // One that comes again is there already.
        clients.remove(&process.pid);
        if clients.len() >= most as usize {
            clients.retain(|pid| !has_ended(*pid));
        }
        match clients.len() >= most as usize {
            true => Err(Refusal::NamespaceFull(format!(
                "namespace '{namespace}' has {} of its {most} clients on this device",
                clients.len()
            ))),
            false => Ok(()),
        }
    }

    /// What a client is given at the server with the process `server`: `of_server` is what this gives its clients,
    /// `group` the account of the client's cgroup.
    pub fn grant(
        &self,
        Arrival { process, chosen, requested }: Arrival<'_>,
        (server, of_server, defaults): (u32, &Settings, &Settings),
        partition: Option<Partition>,
        group: Option<MemoryGroup>,
    ) -> Result<Grant, Refusal> {
        let Chosen { named, ref namespace, .. } = *chosen;
        let mut settings = match named {
            0 => of_server.of_client(requested),
            _ => {
                let given = (defaults, requested);
                let given = self.named.settings_of_client(named, namespace, process.device, given);
                given.ok_or(Refusal::Deleted)?
            }
        };
        let (weight, _) = self.named.place_in(named, namespace, process.device);
        let of_namespace = self.named.memory_group(named, namespace, process.device);
        let membership = Membership {
            server,
            client: process.pid,
            named,
            namespace: namespace.clone(),
            sms: partition.as_ref().map(|(_, sms)| *sms),
            cgroup: group.as_ref().map(Membership::of_group),
            namespace_memory: of_namespace.as_ref().map(Membership::of_group),
            partition: partition.map(|(id, _)| id),
        };
        settings.partition = membership.sms;
        settings.group = group;
        settings.namespace = of_namespace;
        Ok(Grant { settings, weight, membership })
    }

    /// Enters a client that a server has where its namespace, its partition and its cgroup count it.
    pub fn enter(&mut self, of: &Membership) {
        if of.named != 0 {
            self.named.enter(of.server, of.client, of.namespace.clone());
        }
        for group in of.groups().filter(memacct::is_limited) {
            self.memacct.enter(of.server, of.client, group);
        }
        if let Some(id) = &of.partition {
            self.partitions.enter(of.server, of.client, id.clone());
            // A partition of which it is the first program lends nothing any more.
            self.follow_now = true;
        }
    }

    /// A client has left a server.
    pub fn leave(&mut self, server: u32, client: u32) {
        self.partitions.leave(server, client);
        self.named.leave(server, client);
        self.memacct.leave(server, client);
        self.follow_now = true;
    }

    /// A server's process has ended, with its clients.
    pub fn forget_server(&mut self, server: u32) {
        self.partitions.forget_server(server);
        self.named.forget_server(server);
        self.memacct.forget_server(server);
        self.follow_now = true;
    }

    /// Notes for the next daemon where a client counts.
    pub fn note(&mut self, membership: Membership) {
        self.memberships.push(membership);
    }

    /// The same of one that has left a server; false if nothing was noted.
    pub fn note_left(&mut self, server: u32, client: u32) -> bool {
        let of = |it: &Membership| (it.server, it.client) == (server, client);
        let found = self.memberships.iter().position(of);
        found.map(|at| self.memberships.remove(at)).is_some()
    }

    /// The same of all clients of a server that has ended.
    pub fn note_server_ended(&mut self, server: u32) -> bool {
        let before = self.memberships.len();
        self.memberships.retain(|of| of.server != server);
        self.memberships.len() < before
    }

    /// A server of the daemon before has come, with these clients: they count where that daemon has left them. True if
    /// there is something for the next daemon to know.
    pub fn take_over(
        &mut self,
        server: u32,
        named: u32,
        clients: impl Iterator<Item = u32>,
    ) -> bool {
        for client in clients {
            let known =
                |of: &&Membership| (of.server, of.client, of.named) == (server, client, named);
            let membership = match self.left.iter().find(known) {
                Some(known) => known.clone(),
                None if named == 0 => continue,
                None => Membership {
                    server,
                    client,
                    named,
                    namespace: DEFAULT_NAMESPACE.to_owned(),
                    ..Membership::default()
                },
            };
            self.enter(&membership);
            self.memberships.push(membership);
        }
        self.left.retain(|of| of.server != server);
        !self.memberships.is_empty()
    }

    /// Forgets all clients, at the daemon's end.
    pub fn forget_clients(&mut self) {
        self.memberships.clear();
        self.left.clear();
    }

    /// What is left for the next daemon.
    pub fn record(&self) -> TenancyRecord {
        TenancyRecord {
            features: self.features,
            named: self.named.record(),
            partitions: self.partitions.record(),
            cgroup_limits: self.memacct.limits().to_vec(),
            clients: self.memberships.iter().chain(&self.left).cloned().collect(),
        }
    }

    /// Goes on with what the daemon before left; its clients come with their servers.
    pub fn restore(&mut self, record: TenancyRecord) {
        for limit in record.cgroup_limits {
            // It was checked when it was set.
            let _ = self.memacct.set(limit);
        }
        self.named = Named::from_record(record.named);
        self.features = record.features;
        self.partitions = Partitions::from_record(record.partitions);
        self.left = record.clients;
    }

    /// Enters the clients that the daemon before left: their servers are here.
    pub fn enter_all(&mut self) {
        for membership in std::mem::take(&mut self.left) {
            self.enter(&membership);
            self.memberships.push(membership);
        }
    }

    /// The directories of servers and namespaces, below the daemon's.
    pub fn directories(&self) -> Vec<String> {
        self.named.record().directories()
    }
}
