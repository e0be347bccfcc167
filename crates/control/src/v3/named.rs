//! Named servers and namespaces of protocol 3: what an operator has made, and what clients are given there.

use super::limits::{LimitsRecord, NamespaceLimits};
use super::name::{DEFAULT_NAMESPACE, NamedError, TAKEN, check_name};
use crate::settings::Settings;
use channel::message::{self, Devices, MemoryGroup, RequestedLimits};
use cuda_api::CUuuid;
use cuda_api::settings::{names_device, parse_device};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Named servers of a daemon. Each holds a socket for each of its namespaces.
const SERVERS_MAX: usize = 256;
/// Namespaces of a server.
const NAMESPACES_MAX: usize = 256;

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
    use channel::message::SetBy;
    use cuda_api::settings::{Percentage, Priority};

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
