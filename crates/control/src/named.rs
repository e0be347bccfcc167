//! Named servers and namespaces of protocol 3: what an operator has made, and what clients are given there.

use crate::settings::Settings;
use channel::message::{self, Devices, MemoryGroup, RequestedLimits, SetBy};
use cuda_api::CUuuid;
use cuda_api::settings::{Percentage, Priority, names_device, parse_device, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// Characters of the longest name.
pub(crate) const NAME_CHARS_MAX: usize = 64;
/// Namespace of clients that choose none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// What the daemon has in its directory itself.
const TAKEN: &[&str] = &["control", "control_lock", "control_privileged", "log", "new"];
/// Named servers of a daemon. Each holds a socket for each of its namespaces.
const SERVERS_MAX: usize = 256;
/// Namespaces of a server.
const NAMESPACES_MAX: usize = 256;

/// Why servers and namespaces are as they were.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NamedError {
    #[error("{0:?} is no name: a name has a to z, 0 to 9 and _, at most {NAME_CHARS_MAX} of them")]
    Name(String),
    #[error("{0:?} is the name of a file of the daemon's own")]
    Taken(String),
    #[error("Server '{0}' exists already")]
    ServerExists(String),
    #[error("Server '{0}' not found; `server list` lists them")]
    NoServer(String),
    #[error("Namespace '{namespace}' exists already on server '{server}'")]
    NamespaceExists { server: String, namespace: String },
    #[error("Namespace '{namespace}' not found on server '{server}'; `namespace list` lists them")]
    NoNamespace { server: String, namespace: String },
    #[error(
        "the namespace '{DEFAULT_NAMESPACE}' is every server's own: `server set` sets its limits"
    )]
    Default,
    #[error("there are {0} of them already, which is the most")]
    Many(usize),
    #[error("{0}")]
    Refused(String),
}

/// Checks a name of a server, a namespace or a partition.
pub(crate) fn check_name(name: &str) -> Result<(), NamedError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => Err(NamedError::Name(name.to_owned())),
    }
}

/// Limits of a namespace's clients; what is not said is the daemon's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceLimits {
    /// Memory of each device, bytes, and the text that it was given as.
    pub memory: Option<(u64, String)>,
    pub share: Option<Percentage>,
    pub priority: Option<Priority>,
    /// Part of the time beside clients of other weights, under the policy `weighted`: 1 to 100.
    pub weight: Option<u32>,
    /// What all of its clients together may have of each device.
    pub together: Together,
    /// What holds on one device, by its UUID or the beginning of one, before what holds on each.
    pub devices: BTreeMap<String, DeviceLimits>,
    /// The cgroup whose programs are in this namespace if they come by the daemon's own socket.
    pub cgroup: Option<CgroupRoute>,
}

/// What a namespace's clients together may have of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Together {
    /// Device memory, bytes; `u64::MAX`: as much as there is.
    pub memory: Option<u64>,
    /// Device memory that they get before programs without such a word, bytes.
    pub guarantee: Option<u64>,
    /// How many of them there may be at once; `u32::MAX`: any number.
    pub clients: Option<u32>,
}

impl Together {
    /// Takes a value by its key's name on the command line; false if there is no such key.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let bytes = |none: u64| match value {
            "none" => Ok(none),
            _ => parse_size(value).map_err(|error| format!("{key}: {error}")),
        };
        match key {
            "memory-limit" => self.memory = Some(bytes(u64::MAX)?),
            "memory-guarantee" => self.guarantee = Some(bytes(0)?),
            "clients" if value == "none" => self.clients = Some(u32::MAX),
            "clients" => {
                let clients = value.parse().ok().filter(|clients| *clients > 0);
                let wrong = || format!("{key} is a number above 0, or none, not {value:?}");
                self.clients = Some(clients.ok_or_else(wrong)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn merge(&mut self, other: &Together) {
        self.memory = other.memory.or(self.memory);
        self.guarantee = other.guarantee.or(self.guarantee);
        self.clients = other.clients.or(self.clients);
    }
}

/// Limits of a namespace's clients on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceLimits {
    /// Bytes, and the text that it was given as.
    pub memory: Option<(u64, String)>,
    /// Thousandths of the SMs.
    pub share: Option<u32>,
    /// The name of the static partition that they are in.
    pub partition: Option<String>,
    /// What all of them together may have.
    pub together: Together,
}

/// The cgroup of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CgroupRoute {
    /// Its path, as in /proc/PID/cgroup or below the directory where cgroups are mounted.
    pub path: String,
    /// Levels below it that belong to it; none: all.
    pub depth: Option<u32>,
}

impl CgroupRoute {
    /// Levels between the cgroup and a process's, if that is at or below it and belongs to it; the fewest are the
    /// nearest. `root` is where cgroups are mounted.
    pub fn distance(&self, cgroup: &str, root: &Path) -> Option<u32> {
        let below_root = Path::new(&self.path).strip_prefix(root);
        let own =
            below_root.map_or_else(|_| self.path.clone(), |rest| format!("/{}", rest.display()));
        let rest = cgroup.strip_prefix(own.trim_end_matches('/'))?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let levels = rest.split('/').filter(|part| !part.is_empty()).count() as u32;
        self.depth.is_none_or(|depth| levels <= depth).then_some(levels)
    }
}

impl DeviceLimits {
    /// Takes a value by its key's name on the command line; false if there is no such key.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let text = |error: cuda_api::settings::Refused| format!("{key}: {error}");
        match key {
            "pinned-memory-limit" => {
                self.memory = Some((parse_size(value).map_err(text)?, value.to_owned()));
            }
            "active-thread-percentage" => {
                self.share = Some(Percentage::parse(value).map_err(text)?.thousandths());
            }
            "sm-partition" if value == "none" => self.partition = Some(String::new()),
            "sm-partition" => {
                check_name(value).map_err(|error| error.to_string())?;
                self.partition = Some(value.to_owned());
            }
            _ => return self.together.set(key, value),
        }
        Ok(true)
    }

    fn merge(&mut self, other: DeviceLimits) {
        self.memory = other.memory.or(self.memory.take());
        self.share = other.share.or(self.share);
        self.partition = other.partition.or(self.partition.take()).filter(|name| !name.is_empty());
        self.together.merge(&other.together);
    }
}

impl NamespaceLimits {
    /// Takes a value by its key's name on the command line; false if there is no such key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let text = |error: cuda_api::settings::Refused| format!("{key}: {error}");
        match key {
            "pinned-memory-limit" if value == "none" => self.memory = None,
            "pinned-memory-limit" => {
                self.memory = Some((parse_size(value).map_err(text)?, value.to_owned()));
            }
            "active-thread-percentage" => {
                self.share = Some(Percentage::parse(value).map_err(text)?);
            }
            "client-priority" => self.priority = Some(Priority::parse(value).map_err(text)?),
            "timeslice-pct" => {
                let weight = value.parse().ok().filter(|weight| (1..=100).contains(weight));
                let wrong = || format!("{key} is a whole number from 1 to 100, not {value:?}");
                self.weight = Some(weight.ok_or_else(wrong)?);
            }
            "cgroup" => {
                if !value.starts_with('/') {
                    return Err(format!(
                        "{key} is a cgroup's path from its root, as /training, not {value:?}"
                    ));
                }
                let depth = self.cgroup.take().and_then(|of| of.depth);
                self.cgroup = Some(CgroupRoute { path: value.to_owned(), depth });
            }
            "cgroup-depth" => {
                let depth =
                    value.parse().map_err(|_| format!("{key} is a whole number, not {value:?}"))?;
                let path = self.cgroup.take().map(|of| of.path).unwrap_or_default();
                self.cgroup = Some(CgroupRoute { path, depth: Some(depth) });
            }
            _ => return self.together.set(key, value),
        }
        Ok(true)
    }

    /// The same of one device, by its UUID.
    pub fn set_of_device(&mut self, device: &str, key: &str, value: &str) -> Result<bool, String> {
        self.devices.entry(device.to_owned()).or_default().set(key, value)
    }

    /// What holds on a device alone.
    fn of_device(&self, device: CUuuid) -> impl Iterator<Item = &DeviceLimits> {
        let uuid = device.to_string();
        let named = move |word: &str| names_device(word, u32::MAX, &uuid);
        self.devices.iter().filter(move |(word, _)| named(word)).map(|(_, of)| of)
    }

    /// The static partition that its clients are in on a device.
    pub fn partition_on(&self, device: CUuuid) -> Option<&str> {
        self.of_device(device).find_map(|of| of.partition.as_deref())
    }

    /// What its clients together may have of a device.
    fn together_on(&self, device: CUuuid) -> Together {
        let mut together = self.together.clone();
        self.of_device(device).for_each(|of| together.merge(&of.together));
        together
    }

    /// Takes what another one says.
    pub fn merge(&mut self, other: NamespaceLimits) {
        self.memory = other.memory.or(self.memory.take());
        self.share = other.share.or(self.share);
        self.priority = other.priority.or(self.priority);
        self.weight = other.weight.or(self.weight);
        self.cgroup = other.cgroup.or(self.cgroup.take());
        self.together.merge(&other.together);
        for (device, limits) in other.devices {
            self.devices.entry(device).or_default().merge(limits);
        }
    }

    /// On top of what a daemon gives all clients.
    fn over(&self, defaults: &Settings, device: CUuuid) -> Settings {
        let mut settings = defaults.clone();
        if let Some((bytes, text)) = &self.memory {
            // A table of limits that is full keeps the others', which is more than the daemon allows
            // in one variable.
            let _ = settings.set_memory(&device.to_string(), *bytes, text, SetBy::Server);
        }
        if let Some(share) = self.share {
            settings.set_share(share, SetBy::Server);
        }
        for of in self.of_device(device) {
            if let Some((bytes, text)) = &of.memory {
                let _ = settings.set_memory(&device.to_string(), *bytes, text, SetBy::Server);
            }
            if let Some(share) = of.share.and_then(Percentage::from_thousandths) {
                settings.set_share(share, SetBy::Server);
            }
        }
        if let Some(priority) = self.priority {
            settings.set_priority(priority, SetBy::Server);
        }
        settings
    }
}

/// Named servers as one daemon writes them for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NamedRecord {
    last: u32,
    servers: Vec<ServerRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ServerRecord {
    number: u32,
    name: String,
    uid: u32,
    gid: u32,
    automatic: bool,
    allowed: Vec<String>,
    namespaces: BTreeMap<String, LimitsRecord>,
}

impl NamedRecord {
    /// The directories of servers and namespaces, below the daemon's.
    pub fn directories(&self) -> Vec<String> {
        let of = |server: &ServerRecord| {
            let below = server.namespaces.keys().map(|name| format!("{}/{name}", server.name));
            std::iter::once(server.name.clone()).chain(below).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }
}

/// Bytes and text of memory, thousandths of a share, number of a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct LimitsRecord {
    memory: Option<(u64, String)>,
    share: Option<u32>,
    priority: Option<u8>,
    weight: Option<u32>,
    devices: BTreeMap<String, DeviceLimits>,
    cgroup: Option<CgroupRoute>,
    together: Together,
}

impl LimitsRecord {
    fn of(limits: &NamespaceLimits) -> LimitsRecord {
        LimitsRecord {
            memory: limits.memory.clone(),
            share: limits.share.map(Percentage::thousandths),
            priority: limits.priority.map(Priority::number),
            weight: limits.weight,
            devices: limits.devices.clone(),
            cgroup: limits.cgroup.clone(),
            together: limits.together.clone(),
        }
    }

    fn limits(self) -> NamespaceLimits {
        NamespaceLimits {
            memory: self.memory,
            share: self.share.and_then(Percentage::from_thousandths),
            priority: self.priority.and_then(Priority::from_number),
            weight: self.weight,
            devices: self.devices,
            cgroup: self.cgroup,
            together: self.together,
        }
    }
}

/// A named server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedServer {
    /// Never used again, and never 0.
    pub number: u32,
    pub name: String,
    /// The user that its processes run as, and whose programs it serves.
    pub uid: u32,
    pub gid: u32,
    /// Made for a user's program that named no server.
    pub automatic: bool,
    /// The devices that its clients see, by number, UUID or the beginning of one; none: all.
    pub allowed: Vec<String>,
    pub namespaces: BTreeMap<String, NamespaceLimits>,
}

impl NamedServer {
    /// Whether its clients see a device.
    pub fn allows(&self, ordinal: usize, device: CUuuid) -> bool {
        let uuid = device.to_string();
        self.allowed.is_empty()
            || self.allowed.iter().any(|word| names_device(word, ordinal as u32, &uuid))
    }

    /// The devices that its clients see.
    pub fn devices(&self, all: &Devices) -> Devices {
        let allowed = all.devices.iter().enumerate();
        let allowed = allowed.filter(|(ordinal, device)| self.allows(*ordinal, device.uuid));
        Devices {
            driver_version: all.driver_version,
            devices: allowed.map(|(_, device)| device.clone()).collect(),
        }
    }
}

/// Reads a list of devices, `0,GPU-d0a1`.
pub(crate) fn parse_devices(text: &str) -> Result<Vec<String>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| Ok(parse_device(word).map_err(|e| e.to_string())?.to_owned())).collect()
}

/// A client that was handed to a process of a named server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entered {
    process: u32,
    client: u32,
    namespace: String,
}

/// All named servers.
#[derive(Debug, Default)]
pub(crate) struct Named {
    servers: Vec<NamedServer>,
    last: u32,
    clients: Vec<Entered>,
}

impl Named {
    /// What the next daemon is given of them.
    pub fn record(&self) -> NamedRecord {
        let limits = |(name, of): (&String, &NamespaceLimits)| (name.clone(), LimitsRecord::of(of));
        let server = |of: &NamedServer| ServerRecord {
            number: of.number,
            name: of.name.clone(),
            uid: of.uid,
            gid: of.gid,
            automatic: of.automatic,
            allowed: of.allowed.clone(),
            namespaces: of.namespaces.iter().map(limits).collect(),
        };
        NamedRecord { last: self.last, servers: self.servers.iter().map(server).collect() }
    }

    /// Those that a daemon before had, without their clients. Names are checked: a directory is made
    /// for each.
    pub fn from_record(record: NamedRecord) -> Self {
        let is_name = |name: &str| check_name(name).is_ok() && !TAKEN.contains(&name);
        let server = |of: ServerRecord| NamedServer {
            number: of.number,
            name: of.name,
            uid: of.uid,
            gid: of.gid,
            automatic: of.automatic,
            allowed: of.allowed,
            namespaces: of
                .namespaces
                .into_iter()
                .filter(|(name, _)| is_name(name))
                .map(|(name, limits)| (name, limits.limits()))
                .collect(),
        };
        let servers = record.servers.into_iter().filter(|of| is_name(&of.name)).map(server);
        Self { last: record.last, servers: servers.collect(), clients: Vec::new() }
    }

    /// All, oldest first.
    pub fn all(&self) -> &[NamedServer] {
        &self.servers
    }

    /// The one with this number.
    pub fn find(&self, number: u32) -> Option<&NamedServer> {
        self.servers.iter().find(|server| server.number == number)
    }

    /// The one with this name.
    pub fn by_name(&self, name: &str) -> Result<&NamedServer, NamedError> {
        let found = self.servers.iter().find(|server| server.name == name);
        found.ok_or_else(|| NamedError::NoServer(name.to_owned()))
    }

    fn by_name_mut(&mut self, name: &str) -> Result<&mut NamedServer, NamedError> {
        let found = self.servers.iter_mut().find(|server| server.name == name);
        found.ok_or_else(|| NamedError::NoServer(name.to_owned()))
    }

    /// Makes one, with its namespace `default`. Its number is given here.
    pub fn create(&mut self, mut server: NamedServer) -> Result<u32, NamedError> {
        check_name(&server.name)?;
        if TAKEN.contains(&server.name.as_str()) {
            return Err(NamedError::Taken(server.name));
        }
        if self.by_name(&server.name).is_ok() {
            return Err(NamedError::ServerExists(server.name));
        }
        if self.servers.len() >= SERVERS_MAX {
            return Err(NamedError::Many(SERVERS_MAX));
        }
        if let Some(user) = server.name.strip_prefix("uid_")
            && user != server.uid.to_string()
        {
            let name = &server.name;
            return Err(NamedError::Refused(format!(
                "'{name}' is the name of the server that user {user}'s programs come to, and that \
                 user's alone (--uid={user})"
            )));
        }
        self.last += 1;
        server.number = self.last;
        server.namespaces.entry(DEFAULT_NAMESPACE.to_owned()).or_default();
        self.servers.push(server);
        Ok(self.last)
    }

    /// Gives a server of a daemon before other devices and limits, of the configuration file.
    pub fn replace(&mut self, new: NamedServer) {
        if let Some(server) = self.servers.iter_mut().find(|of| of.name == new.name) {
            *server = NamedServer { number: server.number, ..new };
        }
    }

    /// Takes one away.
    pub fn delete(&mut self, number: u32) {
        self.servers.retain(|server| server.number != number);
    }

    /// Changes the user of a server, its devices or nothing of it, and limits of its own namespace.
    pub fn change(
        &mut self,
        name: &str,
        user: Option<(u32, u32)>,
        limits: NamespaceLimits,
    ) -> Result<(), NamedError> {
        let server = self.by_name_mut(name)?;
        if let Some((uid, gid)) = user {
            if server.name.starts_with("uid_") {
                return Err(NamedError::Refused(format!("'{name}' has its user in its name")));
            }
            (server.uid, server.gid) = (uid, gid);
        }
        server.namespaces.entry(DEFAULT_NAMESPACE.to_owned()).or_default().merge(limits);
        Ok(())
    }

    /// Makes a namespace.
    pub fn create_namespace(&mut self, server: &str, name: &str) -> Result<(), NamedError> {
        check_name(name)?;
        let of = self.by_name_mut(server)?;
        if name == DEFAULT_NAMESPACE || of.namespaces.contains_key(name) {
            let (server, namespace) = (server.to_owned(), name.to_owned());
            return Err(NamedError::NamespaceExists { server, namespace });
        }
        if TAKEN.contains(&name) {
            return Err(NamedError::Taken(name.to_owned()));
        }
        if of.namespaces.len() >= NAMESPACES_MAX {
            return Err(NamedError::Many(NAMESPACES_MAX));
        }
        of.namespaces.insert(name.to_owned(), NamespaceLimits::default());
        Ok(())
    }

    /// The limits of a namespace.
    pub fn namespace(
        &mut self,
        server: &str,
        name: &str,
    ) -> Result<&mut NamespaceLimits, NamedError> {
        let missing =
            NamedError::NoNamespace { server: server.to_owned(), namespace: name.to_owned() };
        self.by_name_mut(server)?.namespaces.get_mut(name).ok_or(missing)
    }

    /// Takes a namespace away.
    pub fn delete_namespace(&mut self, server: &str, name: &str) -> Result<(), NamedError> {
        if name == DEFAULT_NAMESPACE {
            return Err(NamedError::Default);
        }
        self.namespace(server, name)?;
        self.by_name_mut(server)?.namespaces.remove(name);
        Ok(())
    }

    /// What clients to come of a server's process are given that ask for nothing.
    pub fn settings_of_server(&self, number: u32, device: CUuuid, defaults: &Settings) -> Settings {
        let limits = self.find(number).and_then(|of| of.namespaces.get(DEFAULT_NAMESPACE));
        limits.map_or_else(|| defaults.clone(), |limits| limits.over(defaults, device))
    }

    /// What a client is given. A share of its namespace goes before its own; other limits of its own
    /// can only be less. `None` if there is no such namespace.
    pub fn settings_of_client(
        &self,
        number: u32,
        namespace: &str,
        device: CUuuid,
        (defaults, requested): (&Settings, &RequestedLimits),
    ) -> Option<message::Settings> {
        let limits = self.find(number)?.namespaces.get(namespace)?;
        let mut requested = requested.clone();
        let has_share =
            limits.share.is_some() || limits.of_device(device).any(|of| of.share.is_some());
        requested.share = requested.share.filter(|_| !has_share);
        Some(limits.over(defaults, device).of_client(&requested))
    }

    /// The server and the namespace of a cgroup's programs that come by the daemon's own socket: the nearest, of
    /// servers of a user.
    pub fn of_cgroup(&self, cgroup: &str, root: &Path, uid: u32) -> Option<(u32, String)> {
        let servers = self.servers.iter().filter(|server| server.uid == uid);
        let all = servers.flat_map(|server| {
            server.namespaces.iter().filter_map(move |(name, limits)| {
                let distance = limits.cgroup.as_ref()?.distance(cgroup, root)?;
                Some((distance, server.number, name))
            })
        });
        all.min().map(|(_, number, name)| (number, name.clone()))
    }

    /// The group that a namespace's clients' memory of a device counts for, also where it has no limits.
    pub fn memory_group(
        &self,
        number: u32,
        namespace: &str,
        device: CUuuid,
    ) -> Option<MemoryGroup> {
        let server = self.find(number)?;
        let together = server.namespaces.get(namespace)?.together_on(device);
        let hard_bytes = together.memory.unwrap_or(u64::MAX);
        Some(MemoryGroup {
            name: format!("namespace {namespace} of server {}", server.name),
            soft_bytes: together.guarantee.unwrap_or(0).min(hard_bytes),
            hard_bytes,
        })
    }

    /// How many clients a namespace may have on a device at once, if that is limited.
    pub fn clients_max(&self, number: u32, namespace: &str, device: CUuuid) -> Option<u32> {
        let limits = self.find(number)?.namespaces.get(namespace)?;
        limits.together_on(device).clients.filter(|most| *most < u32::MAX)
    }

    /// The weight of a namespace's clients, and the partition that they are in on a device.
    pub fn place_in(
        &self,
        number: u32,
        namespace: &str,
        device: CUuuid,
    ) -> (Option<u32>, Option<String>) {
        let server = self.find(number);
        let limits = server.and_then(|of| of.namespaces.get(namespace));
        let weight = limits.and_then(|of| of.weight).or_else(|| {
            // A server's own is its default namespace's.
            server?.namespaces.get(DEFAULT_NAMESPACE)?.weight
        });
        (weight, limits.and_then(|of| of.partition_on(device)).map(str::to_owned))
    }

    /// A client has gone to a process of a server.
    pub fn enter(&mut self, process: u32, client: u32, namespace: String) {
        self.clients.push(Entered { process, client, namespace });
    }

    /// A client is gone.
    pub fn leave(&mut self, process: u32, client: u32) {
        if let Some(at) =
            self.clients.iter().position(|e| (e.process, e.client) == (process, client))
        {
            self.clients.remove(at);
        }
    }

    /// A process of a server has ended, with its clients.
    pub fn forget_server(&mut self, process: u32) {
        self.clients.retain(|entered| entered.process != process);
    }

    /// The namespace of a client by its PID here, 0 for one without.
    pub fn namespace_of(&self, process: u32, client: u32) -> Option<&str> {
        let known = |entered: &&Entered| (entered.process, entered.client) == (process, client);
        self.clients.iter().find(known).map(|entered| entered.namespace.as_str())
    }

    /// The clients of a namespace, by their PIDs here, among the clients of a process.
    pub fn clients_in(&self, process: u32, namespace: &str) -> Vec<u32> {
        let here = |e: &&Entered| e.process == process && e.namespace == namespace;
        self.clients.iter().filter(here).map(|entered| entered.client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, uid: u32) -> NamedServer {
        NamedServer {
            number: 0,
            name: name.into(),
            uid,
            gid: uid,
            automatic: false,
            allowed: vec![],
            namespaces: BTreeMap::new(),
        }
    }

    #[test]
    fn names_are_letters_digits_and_underscores() {
        let mut named = Named::default();
        assert_eq!(named.create(server("training", 5)), Ok(1));
        assert_eq!(named.create(server("uid_5", 5)), Ok(2));
        for (name, part) in [
            ("training", "exists already"),
            ("Training", "is no name"),
            ("", "is no name"),
            ("a/b", "is no name"),
            ("control", "the daemon's own"),
            ("uid_6", "user 6's"),
            (&"x".repeat(65), "at most 64"),
        ] {
            let error = named.create(server(name, 5)).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        assert_eq!(named.create_namespace("training", "batch"), Ok(()));
        assert!(named.create_namespace("training", "batch").is_err());
        assert!(named.create_namespace("training", "default").is_err());
        assert_eq!(named.delete_namespace("training", "default"), Err(NamedError::Default));
        assert_eq!(named.delete_namespace("training", "batch"), Ok(()));
        assert!(named.delete_namespace("training", "batch").is_err());
    }

    #[test]
    fn a_namespace_s_share_goes_before_the_program_s_and_its_memory_is_a_limit() {
        let mut named = Named::default();
        let number = named.create(server("a", 5)).unwrap();
        named.create_namespace("a", "batch").unwrap();
        let limits = named.namespace("a", "batch").unwrap();
        assert_eq!(limits.set("active-thread-percentage", "25"), Ok(true));
        assert_eq!(limits.set("pinned-memory-limit", "2G"), Ok(true));
        assert_eq!(limits.set("colour", "red"), Ok(false));
        assert!(limits.set("client-priority", "3").unwrap_err().contains("0 (normal)"));
        let mut defaults = Settings::default();
        defaults.set_priority(Priority::BelowNormal, SetBy::Daemon);
        let device = CUuuid { bytes: [7; 16] };
        let requested = RequestedLimits {
            share: Some(Percentage::parse("10").unwrap()),
            ..RequestedLimits::default()
        };
        let given = |named: &Named, namespace: &str| {
            named.settings_of_client(number, namespace, device, (&defaults, &requested)).unwrap()
        };
        let batch = given(&named, "batch");
        assert_eq!(batch.share, (Percentage::parse("25").unwrap(), SetBy::Server));
        assert_eq!(batch.memory_of(0, &device.to_string()), Some((2 << 30, SetBy::Server)));
        assert_eq!(batch.priority, (Priority::BelowNormal, SetBy::Daemon));
        let own = given(&named, DEFAULT_NAMESPACE);
        assert_eq!(own.share, (Percentage::parse("10").unwrap(), SetBy::Program));
        assert_eq!(own.memory_of(0, &device.to_string()), None);
        assert_eq!(named.settings_of_client(number, "x", device, (&defaults, &requested)), None);
    }
}
