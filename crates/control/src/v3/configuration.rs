//! The configuration file of protocol 3 (`--apply`): TOML, read once when a daemon starts.
//!
//! What it does not know it refuses, with the line: a limit that is misspelt would not hold.

use super::limits::NamespaceLimits;
use super::name::{DEFAULT_NAMESPACE, check_name};
use super::named::parse_devices;
use crate::error::ConfigurationError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::{Spanned, Value};

/// What answers a request for locality domains.
pub(crate) const LOCALITY_DOMAINS: &str =
    "locality domains are not supported: devices are served whole";
/// What answers a request for a server whose clients have contexts of their own.
pub(crate) const CONTEXT_SHARE: &str =
    "context-share cannot be disabled: a server holds one context for all of its clients";

/// The version of the file's form.
const SCHEMA: &str = "1.0";

/// What a file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub servers: Vec<ServerConfiguration>,
    pub memacct: Option<bool>,
    pub audit_log: Option<bool>,
    /// Whether programs of the daemon's own socket share a context.
    pub default_socket: Option<bool>,
    /// Keys that are understood and have no effect here, a sentence each.
    pub without_effect: Vec<String>,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerConfiguration {
    pub name: String,
    pub uid: Option<u32>,
    pub allowed: Vec<String>,
    /// By the namespace's name; `default` has the server's own.
    pub namespaces: BTreeMap<String, NamespaceLimits>,
    pub partitions: Vec<PartitionConfiguration>,
}

/// A static partition of a server's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionConfiguration {
    pub device: String,
    pub name: String,
    pub chunks: u32,
    pub include_remainder: bool,
    /// It lends its chunks while no program has it.
    pub shareable: bool,
    /// Chunks that it has at most with those that it borrows; 0: it borrows none.
    pub chunks_max: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    // NVIDIA's own Kubernetes components write files without it.
    schema_version: Option<Spanned<Value>>,
    #[serde(default)]
    servers: BTreeMap<String, Spanned<ServerTable>>,
    #[serde(default)]
    features: Features,
    compute_policy: Option<ComputePolicy>,
    // Of the settings file, which reads them.
    #[serde(default, rename = "daemon")]
    _daemon: Option<serde::de::IgnoredAny>,
    #[serde(default, rename = "server")]
    _server: Option<serde::de::IgnoredAny>,
    #[serde(default, rename = "software_gpu")]
    _software_gpu: Option<serde::de::IgnoredAny>,
}

/// Release 620's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComputePolicy {
    timeslice: Option<Spanned<Value>>,
    timeslice_yield_level: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTable {
    allowed_devices: Option<Spanned<Value>>,
    pinned_memory_limit: Option<Spanned<Value>>,
    active_thread_percentage: Option<Spanned<Value>>,
    client_priority: Option<Spanned<Value>>,
    timeslice_pct: Option<Spanned<Value>>,
    uid: Option<Spanned<Value>>,
    locality_domains: Option<Spanned<bool>>,
    #[serde(default)]
    namespaces: BTreeMap<String, Spanned<NamespaceTable>>,
    #[serde(default)]
    devices: Vec<DeviceTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceTable {
    pinned_memory_limit: Option<Spanned<Value>>,
    active_thread_percentage: Option<Spanned<Value>>,
    client_priority: Option<Spanned<Value>>,
    cgroup: Option<Spanned<Value>>,
    cgroup_depth: Option<Spanned<Value>>,
    // From here on they are ours.
    timeslice_pct: Option<Spanned<Value>>,
    memory_limit: Option<Spanned<Value>>,
    memory_guarantee: Option<Spanned<Value>>,
    clients: Option<Spanned<Value>>,
    #[serde(default)]
    devices: Vec<NamespaceDeviceTable>,
}

/// A device of a namespace: the partition is release 620's, the limits are ours.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceDeviceTable {
    uuid: Spanned<String>,
    sm_partition: Option<Spanned<Value>>,
    pinned_memory_limit: Option<Spanned<Value>>,
    active_thread_percentage: Option<Spanned<Value>>,
    memory_limit: Option<Spanned<Value>>,
    memory_guarantee: Option<Spanned<Value>>,
    clients: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    uuid: Spanned<String>,
    #[serde(default)]
    sm_partitions: Vec<PartitionTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionTable {
    name: Spanned<String>,
    chunks: Spanned<u32>,
    #[serde(default)]
    include_remainder: bool,
    #[serde(default)]
    shareable: bool,
    max_chunks: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    memacct: Option<Memacct>,
    #[serde(rename = "context-share")]
    context_share: Option<ContextShare>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memacct {
    enabled: Option<bool>,
    audit_log: Option<bool>,
    // Limits of cgroups are always looked up when a client comes.
    #[serde(rename = "force_polling")]
    _force_polling: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextShare {
    enabled: Option<Spanned<bool>>,
    default_socket: Option<Spanned<Value>>,
}

/// What is wrong at a place of the text.
struct Mistake(Range<usize>, String);

/// Reads a file: what it asks for, and its text.
pub(crate) fn read(path: &Path) -> Result<(Configuration, String), ConfigurationError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigurationError::Read { path: path.to_owned(), error })?;
    let wrong = |text| ConfigurationError::Wrong { path: path.to_owned(), text };
    let read = parse(&text).map_err(wrong)?;
    Ok((read, text))
}

/// Reads a file's text.
pub(crate) fn parse(text: &str) -> Result<Configuration, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(String::new(), |span| line_of(text, span.start));
        format!("{line}{}", error.message())
    })?;
    configuration(file).map_err(|Mistake(span, reason)| line_of(text, span.start) + &reason)
}

/// `line 3: `
fn line_of(text: &str, at: usize) -> String {
    let before = text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    format!("line {}: ", before + 1)
}

fn configuration(file: File) -> Result<Configuration, Mistake> {
    if let Some(version) = file.schema_version.filter(|of| of.get_ref().as_str() != Some(SCHEMA)) {
        let reason = format!("schema_version has to be \"{SCHEMA}\"");
        return Err(Mistake(version.span(), reason));
    }
    let mut read = Configuration::default();
    if let Some(policy) = file.compute_policy {
        check_policy(policy, &mut read.without_effect)?;
    }
    for (name, table) in file.servers {
        read.servers.push(server(name, table)?);
    }
    if let Some(memacct) = file.features.memacct {
        (read.memacct, read.audit_log) = (memacct.enabled, memacct.audit_log);
    }
    if let Some(share) = file.features.context_share {
        if let Some(enabled) = share.enabled.filter(|enabled| !enabled.get_ref()) {
            return Err(Mistake(enabled.span(), CONTEXT_SHARE.to_owned()));
        }
        if let Some(socket) = share.default_socket {
            let on = match (socket.get_ref().as_str(), socket.get_ref().as_bool()) {
                (Some("on"), _) | (_, Some(true)) => true,
                (Some("off"), _) | (_, Some(false)) => false,
                _ => {
                    let reason = "default_socket is \"on\" or \"off\"".to_owned();
                    return Err(Mistake(socket.span(), reason));
                }
            };
            read.default_socket = Some(on);
        }
    }
    Ok(read)
}

/// Time slices between servers are the driver's own.
fn check_policy(policy: ComputePolicy, without_effect: &mut Vec<String>) -> Result<(), Mistake> {
    if let Some(slice) = policy.timeslice {
        let known = ["default", "short", "medium", "long"];
        if !slice.get_ref().as_str().is_some_and(|word| known.contains(&word)) {
            let reason = "timeslice is \"default\", \"short\", \"medium\" or \"long\"".to_owned();
            return Err(Mistake(slice.span(), reason));
        }
        without_effect.push(
            "compute_policy.timeslice: slices between servers are the driver's own".to_owned(),
        );
    }
    if policy.timeslice_yield_level.is_some() {
        without_effect
            .push("compute_policy.timeslice_yield_level: slices are the driver's own".to_owned());
    }
    Ok(())
}

fn server(name: String, table: Spanned<ServerTable>) -> Result<ServerConfiguration, Mistake> {
    let whole = table.span();
    let table = table.into_inner();
    check_name(&name).map_err(|error| Mistake(whole, error.to_string()))?;
    let mut read = ServerConfiguration { name, ..ServerConfiguration::default() };
    if let Some(devices) = table.allowed_devices {
        let text = match devices.get_ref() {
            Value::Array(list) => {
                let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                words.map(|words| words.join(","))
            }
            other => scalar(other),
        };
        let wrong = || "allowed_devices is a text as \"0,GPU-d0a1\"".to_owned();
        let parsed = text.ok_or_else(wrong).and_then(|text| parse_devices(&text));
        read.allowed = parsed.map_err(|reason| Mistake(devices.span(), reason))?;
    }
    if let Some(uid) = table.uid {
        let number = scalar(uid.get_ref()).and_then(|text| text.parse().ok());
        let wrong = || Mistake(uid.span(), "uid is a user's number".to_owned());
        read.uid = Some(number.ok_or_else(wrong)?);
    }
    if let Some(domains) = table.locality_domains.filter(|domains| *domains.get_ref()) {
        return Err(Mistake(domains.span(), LOCALITY_DOMAINS.to_owned()));
    }
    let mut default = limits(&[
        ("pinned-memory-limit", table.pinned_memory_limit),
        ("active-thread-percentage", table.active_thread_percentage),
        ("client-priority", table.client_priority),
        ("timeslice-pct", table.timeslice_pct),
    ])?;
    for (name, table) in table.namespaces {
        let span = table.span();
        let table = table.into_inner();
        check_name(&name).map_err(|error| Mistake(span, error.to_string()))?;
        if let (Some(depth), None) = (&table.cgroup_depth, &table.cgroup) {
            let reason = "cgroup_depth is of a cgroup, which is not said".to_owned();
            return Err(Mistake(depth.span(), reason));
        }
        let mut said = limits(&[
            ("pinned-memory-limit", table.pinned_memory_limit),
            ("active-thread-percentage", table.active_thread_percentage),
            ("client-priority", table.client_priority),
            ("cgroup", table.cgroup),
            ("cgroup-depth", table.cgroup_depth),
            ("timeslice-pct", table.timeslice_pct),
            ("memory-limit", table.memory_limit),
            ("memory-guarantee", table.memory_guarantee),
            ("clients", table.clients),
        ])?;
        for device in table.devices {
            limits_of_device(&mut said, device)?;
        }
        match name == DEFAULT_NAMESPACE {
            true => default.merge(said),
            false => drop(read.namespaces.insert(name, said)),
        }
    }
    read.namespaces.insert(DEFAULT_NAMESPACE.to_owned(), default);
    for device in table.devices {
        let span = device.uuid.span();
        cuda_api::settings::parse_device(device.uuid.get_ref())
            .map_err(|error| Mistake(span, error.to_string()))?;
        for partition in device.sm_partitions {
            let name = partition.name.get_ref();
            check_name(name).map_err(|error| Mistake(partition.name.span(), error.to_string()))?;
            if *partition.chunks.get_ref() == 0 {
                return Err(Mistake(partition.chunks.span(), "chunks is above 0".to_owned()));
            }
            let chunks_max = chunks_max(&partition)?;
            read.partitions.push(PartitionConfiguration {
                device: device.uuid.get_ref().clone(),
                name: name.clone(),
                chunks: *partition.chunks.get_ref(),
                include_remainder: partition.include_remainder,
                shareable: partition.shareable,
                chunks_max,
            });
        }
    }
    Ok(read)
}

/// Texts and numbers mean the same.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn limits(rows: &[(&str, Option<Spanned<Value>>)]) -> Result<NamespaceLimits, Mistake> {
    let mut limits = NamespaceLimits::default();
    for (key, value) in rows {
        take(key, value.as_ref(), |key, text| limits.set(key, text))?;
    }
    Ok(limits)
}

fn take(
    key: &str,
    value: Option<&Spanned<Value>>,
    set: impl FnOnce(&str, &str) -> Result<bool, String>,
) -> Result<(), Mistake> {
    let Some(value) = value else { return Ok(()) };
    let wrong = || format!("{} is a text or a number", key.replace('-', "_"));
    let text = scalar(value.get_ref()).ok_or_else(wrong);
    let taken = text.and_then(|text| set(key, &text));
    taken.map(drop).map_err(|reason| Mistake(value.span(), reason))
}

/// What a namespace has on one device.
fn limits_of_device(
    limits: &mut NamespaceLimits,
    device: NamespaceDeviceTable,
) -> Result<(), Mistake> {
    let uuid = device.uuid.get_ref();
    let checked = cuda_api::settings::parse_device(uuid).map_err(|error| error.to_string());
    let is_number = uuid.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || format!("{uuid:?} is a number: devices of a namespace are named by their UUIDs");
    let checked = checked.and_then(|_| if is_number { Err(wrong()) } else { Ok(()) });
    checked.map_err(|reason| Mistake(device.uuid.span(), reason))?;
    for (key, value) in [
        ("sm-partition", &device.sm_partition),
        ("pinned-memory-limit", &device.pinned_memory_limit),
        ("active-thread-percentage", &device.active_thread_percentage),
        ("memory-limit", &device.memory_limit),
        ("memory-guarantee", &device.memory_guarantee),
        ("clients", &device.clients),
    ] {
        take(key, value.as_ref(), |key, text| limits.set_of_device(uuid, key, text))?;
    }
    Ok(())
}

/// Chunks that a partition has at most with those that it borrows; 0 if it borrows none.
fn chunks_max(partition: &PartitionTable) -> Result<u32, Mistake> {
    let Some(most) = &partition.max_chunks else { return Ok(0) };
    if most.get_ref() < partition.chunks.get_ref() {
        let reason = "max_chunks is at least as many as chunks".to_owned();
        return Err(Mistake(most.span(), reason));
    }
    Ok(*most.get_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of NVIDIA's manual has these keys.
    const EXAMPLE: &str = r#"schema_version = "1.0"

[servers.training]
allowed_devices = "GPU-abcd-1234,1"
pinned_memory_limit = "10G"
active_thread_percentage = "50"
client_priority = "0"
uid = 1000
locality_domains = false

[servers.training.namespaces.high_priority]
pinned_memory_limit = "5G"
active_thread_percentage = 25

[[servers.training.devices]]
uuid = "GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65"

  [[servers.training.devices.sm_partitions]]
  name = "large"
  chunks = 4
  include_remainder = false

[features.memacct]
enabled = true
audit_log = true

[features.context-share]
enabled = true
default_socket = "on"
"#;

    #[test]
    fn a_file_is_read() {
        let read = parse(EXAMPLE).unwrap();
        let [server] = &read.servers[..] else { panic!("{read:?}") };
        assert_eq!((server.name.as_str(), server.uid), ("training", Some(1000)));
        assert_eq!(server.allowed, ["GPU-abcd-1234", "1"]);
        let own = &server.namespaces["default"];
        assert_eq!(own.memory, Some((10 << 30, "10G".into())));
        assert_eq!(own.share.unwrap().to_string(), "50.0");
        assert_eq!(server.namespaces["high_priority"].share.unwrap().to_string(), "25.0");
        assert_eq!((server.partitions[0].name.as_str(), server.partitions[0].chunks), ("large", 4));
        assert_eq!((read.memacct, read.audit_log), (Some(true), Some(true)));
        assert_eq!(read.default_socket, Some(true));
        assert_eq!(parse("schema_version = \"1.0\"\n"), Ok(Configuration::default()));
    }

    /// What `mpsd` of kai-gpu-fractioning writes: no schema_version, the daemon's own socket without a context
    /// that is shared.
    #[test]
    fn the_file_of_nvidia_s_fractions_is_read() {
        let read = parse(
            "[features.memacct]\nenabled=true\naudit_log=true\n[features.context-share]\n\
             enabled=true\ndefault_socket=\"off\"\n[servers.shared]\n",
        );
        let read = read.unwrap();
        assert_eq!((read.memacct, read.default_socket), (Some(true), Some(false)));
        assert_eq!(read.servers[0].name, "shared");
    }

    /// The keys of release 620, as its page has them.
    const RELEASE_620: &str = r#"schema_version = "1.0"
[compute_policy]
timeslice = "long"
timeslice_yield_level = 2
[servers.training]
timeslice_pct = "50"
[servers.training.namespaces.high_priority]
cgroup = "/sys/fs/cgroup/training"
cgroup_depth = 1
[[servers.training.namespaces.high_priority.devices]]
uuid = "GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65"
sm_partition = "large"
[[servers.training.devices]]
uuid = "GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65"
  [[servers.training.devices.sm_partitions]]
  name = "large"
  chunks = 4
  include_remainder = false
  shareable = true
  max_chunks = 6
[features.memacct]
force_polling = false
"#;

    #[test]
    fn release_620_s_keys_are_read_and_those_without_effect_are_said() {
        let read = parse(RELEASE_620).unwrap();
        let server = &read.servers[0];
        assert_eq!(server.namespaces["default"].weight, Some(50));
        let namespace = &server.namespaces["high_priority"];
        let route = namespace.cgroup.as_ref().unwrap();
        let root = Path::new("/sys/fs/cgroup");
        assert_eq!(
            (route.distance("/training", root), route.distance("/training/a", root)),
            (Some(0), Some(1))
        );
        assert_eq!(
            (route.distance("/training/a/b", root), route.distance("/trainings", root)),
            (None, None)
        );
        let device = &namespace.devices["GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65"];
        assert_eq!(device.partition.as_deref(), Some("large"));
        assert_eq!(read.without_effect.len(), 2, "{:?}", read.without_effect);
        assert_eq!((server.partitions[0].shareable, server.partitions[0].chunks_max), (true, 6));
        for (from, to, part) in [
            ("\"long\"", "\"eternal\"", "timeslice is"),
            ("\"50\"", "\"0\"", "from 1 to 100"),
            ("cgroup = \"/", "cgroup = \"", "cgroup's path"),
            ("cgroup = \"/sys/fs/cgroup/training\"\n", "", "cgroup_depth is of a cgroup"),
            ("max_chunks = 6", "max_chunks = 3", "at least as many"),
            (
                "uuid = \"GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65\"\nsm_",
                "uuid = \"0\"\nsm_",
                "by their UUIDs",
            ),
        ] {
            let error = parse(&RELEASE_620.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(part), "{to}: {error}");
        }
    }

    #[test]
    fn what_it_does_not_know_is_refused_with_its_line() {
        for (from, to, line, part) in [
            ("uid = 1000", "colour = 1", 8, "unknown field `colour`"),
            ("pinned_memory_limit = \"5G\"", "uid = 5", 12, "unknown field `uid`"),
            ("chunks = 4", "chunk = 4", 20, "unknown field `chunk`"),
            ("audit_log = true", "audit = true", 25, "unknown field `audit`"),
            ("features.memacct", "features.memory", 23, "unknown field `memory`"),
            ("\"1.0\"", "\"2.0\"", 1, "schema_version has to be"),
            ("\"50\"", "\"150\"", 6, "at most 100"),
            ("\"10G\"", "\"10\"", 5, "with K, M or G"),
            ("= \"0\"", "= 7", 7, "0 (normal) or 1"),
            ("= false", "= true", 9, "locality domains"),
            ("GPU-abcd-1234,1", "gpu", 4, "a device: its number"),
            ("\"large\"", "\"Large\"", 19, "is no name"),
            ("chunks = 4", "chunks = 0", 20, "above 0"),
            ("\"on\"", "\"of\"", 29, "default_socket is \"on\" or \"off\""),
            ("uid = 1000", "uid = true", 8, "a user's number"),
        ] {
            let text = EXAMPLE.replacen(from, to, 1);
            let error = parse(&text).unwrap_err();
            let line = format!("line {line}: ");
            assert!(error.starts_with(&line) && error.contains(part), "{to}: {error}");
        }
    }
}
