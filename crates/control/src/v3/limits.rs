//! Limits of a namespace's clients: read from commands and from the configuration file, merged, put over the daemon's.

use super::name::check_name;
use crate::settings::Settings;
use channel::message::SetBy;
use cuda_api::CUuuid;
use cuda_api::settings::{Percentage, Priority, names_device, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

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
        let text = |error: cuda_api::settings::SettingRefused| format!("{key}: {error}");
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
        let text = |error: cuda_api::settings::SettingRefused| format!("{key}: {error}");
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
    pub fn of_device(&self, device: CUuuid) -> impl Iterator<Item = &DeviceLimits> {
        let uuid = device.to_string();
        let named = move |word: &str| names_device(word, u32::MAX, &uuid);
        self.devices.iter().filter(move |(word, _)| named(word)).map(|(_, of)| of)
    }

    /// The static partition that its clients are in on a device.
    pub fn partition_on(&self, device: CUuuid) -> Option<&str> {
        self.of_device(device).find_map(|of| of.partition.as_deref())
    }

    /// What its clients together may have of a device.
    pub fn together_on(&self, device: CUuuid) -> Together {
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
    pub fn over(&self, defaults: &Settings, device: CUuuid) -> Settings {
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

/// Bytes and text of memory, thousandths of a share, number of a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LimitsRecord {
    memory: Option<(u64, String)>,
    share: Option<u32>,
    priority: Option<u8>,
    weight: Option<u32>,
    devices: BTreeMap<String, DeviceLimits>,
    cgroup: Option<CgroupRoute>,
    together: Together,
}

impl LimitsRecord {
    pub fn of(limits: &NamespaceLimits) -> LimitsRecord {
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

    pub fn limits(self) -> NamespaceLimits {
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
