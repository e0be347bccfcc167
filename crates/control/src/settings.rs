//! What clients are given: the settings of a daemon and of each of its servers, and how they combine.
//!
//! As with NVIDIA's MPS, what is set by default counts for servers to come, what is set for a server
//! for clients to come, and a program's own variables can only lower it.

use channel::message::{self, RequestedLimits, SetBy};
use cuda_api::environment::{
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_CLIENT_PRIORITY, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT,
};
use cuda_api::settings::{
    MEMORY_LIMITS_MAX, MemoryLimit, Percentage, Priority, SettingRefused, parse_memory_limits,
    size_text,
};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A limit of memory, with the text that it was given as.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    limit: MemoryLimit,
    text: String,
    by: SetBy,
}

/// Settings of a daemon or a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    share: Option<(Percentage, SetBy)>,
    /// In the order in which they were set: of those that mean one device, the last one holds.
    memory: Vec<Memory>,
    priority: Option<(Priority, SetBy)>,
}

/// Settings as one daemon writes them for the next: numbers of shares, priorities and who set them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingsRecord {
    share: Option<(u32, u8)>,
    /// Device, bytes, text, who set it.
    memory: Vec<(String, u64, String, u8)>,
    priority: Option<(u8, u8)>,
}

impl Settings {
    /// What the next daemon is given of them.
    pub fn record(&self) -> SettingsRecord {
        let memory =
            |m: &Memory| (m.limit.device.clone(), m.limit.bytes, m.text.clone(), m.by as u8);
        SettingsRecord {
            share: self.share.map(|(share, by)| (share.thousandths(), by as u8)),
            memory: self.memory.iter().map(memory).collect(),
            priority: self.priority.map(|(priority, by)| (priority.number(), by as u8)),
        }
    }

    /// Those that the daemon before had; what is not understood is as if it had not been set.
    pub fn from_record(record: &SettingsRecord) -> Settings {
        let by = |number: u8| SetBy::from_number(number).unwrap_or(SetBy::Daemon);
        let mut settings = Settings::default();
        if let Some((share, set)) = record.share
            && let Some(share) = Percentage::from_thousandths(share)
        {
            settings.set_share(share, by(set));
        }
        if let Some((priority, set)) = record.priority
            && let Some(priority) = Priority::from_number(priority)
        {
            settings.set_priority(priority, by(set));
        }
        for (device, bytes, text, set) in &record.memory {
            // As many as there can be find room.
            let _ = settings.set_memory(device, *bytes, text, by(*set));
        }
        settings
    }

    /// Those of a daemon's environment, and what is wrong with the variables that are not taken.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> (Settings, Vec<String>) {
        let mut settings = Settings::default();
        let mut mistakes = Vec::new();
        let value = |name| variable(name).filter(|value: &String| !value.trim().is_empty());
        let mut refused = |name: &str, error: SettingRefused| {
            mistakes.push(format!("{name} is not taken: {error}"));
        };
        if let Some(text) = value(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) {
            match Percentage::parse(&text) {
                Ok(share) => settings.set_share(share, SetBy::Daemon),
                Err(error) => refused(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, error),
            }
        }
        if let Some(text) = value(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT) {
            match parse_memory_limits(&text) {
                Ok(limits) => {
                    for limit in limits {
                        let text = size_text(limit.bytes);
                        // As many as one variable can have find room.
                        let _ =
                            settings.set_memory(&limit.device, limit.bytes, text, SetBy::Daemon);
                    }
                }
                Err(error) => refused(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, error),
            }
        }
        if let Some(text) = value(CUDA_MPS_CLIENT_PRIORITY) {
            match Priority::parse(&text) {
                Ok(priority) => settings.set_priority(priority, SetBy::Daemon),
                Err(error) => refused(CUDA_MPS_CLIENT_PRIORITY, error),
            }
        }
        (settings, mistakes)
    }

    /// The share of SMs.
    pub fn share(&self) -> Percentage {
        self.share.map_or(Percentage::ALL, |(share, _)| share)
    }

    pub fn set_share(&mut self, share: Percentage, by: SetBy) {
        self.share = Some((share, by));
    }

    /// The priority.
    pub fn priority(&self) -> Priority {
        self.priority.map_or(Priority::Normal, |(priority, _)| priority)
    }

    pub fn set_priority(&mut self, priority: Priority, by: SetBy) {
        self.priority = Some((priority, by));
    }

    /// What was set under exactly that name of a device, as it was written.
    pub fn memory(&self, device: &str) -> Option<&str> {
        self.memory.iter().find(|m| m.limit.device == device).map(|m| m.text.as_str())
    }

    /// Limits memory; an error if there are too many limits already.
    pub fn set_memory(
        &mut self,
        device: &str,
        bytes: u64,
        text: impl Display,
        by: SetBy,
    ) -> Result<(), String> {
        self.memory.retain(|m| m.limit.device != device);
        if self.memory.len() >= MEMORY_LIMITS_MAX {
            return Err(format!("{MEMORY_LIMITS_MAX} devices have a limit already"));
        }
        let limit = MemoryLimit { device: device.to_owned(), bytes };
        self.memory.push(Memory { limit, text: text.to_string(), by });
        Ok(())
    }

    /// What a client is given that asks for nothing.
    pub fn of_server(&self) -> message::Settings {
        message::Settings {
            share: self.share.unwrap_or((Percentage::ALL, SetBy::Default)),
            memory: self.memory.iter().map(|m| (m.limit.clone(), m.by)).collect(),
            priority: self.priority.unwrap_or_default(),
            partition: None,
            group: None,
            connections: 0,
            now: false,
            namespace: None,
        }
    }

    /// What a client is given that asks for something.
    pub fn of_client(&self, requested: &RequestedLimits) -> message::Settings {
        let mut settings = self.of_server();
        if let Some(share) = requested.share.filter(|share| *share < settings.share.0) {
            settings.share = (share, SetBy::Program);
        }
        let own = requested.memory.iter().take(MEMORY_LIMITS_MAX);
        settings.memory.extend(own.map(|limit| (limit.clone(), SetBy::Program)));
        if let Some(priority) = requested.priority {
            settings.priority = (priority, SetBy::Program);
        }
        settings.connections = requested.connections;
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_tighten_and_servers_are_as_set() {
        let mut settings = Settings::default();
        settings.set_share(Percentage::parse("50").unwrap(), SetBy::Server);
        settings.set_memory("0", 2 << 30, "2G", SetBy::Daemon).unwrap();
        let requested = |share: &str| RequestedLimits {
            share: Some(Percentage::parse(share).unwrap()),
            memory: vec![MemoryLimit { device: "0".into(), bytes: 1 << 30 }],
            priority: Some(Priority::BelowNormal),
            connections: 2,
            ..RequestedLimits::default()
        };
        let less = settings.of_client(&requested("20"));
        assert_eq!(less.share, (Percentage::parse("20").unwrap(), SetBy::Program));
        assert_eq!(less.memory_of(0, ""), Some((1 << 30, SetBy::Program)));
        assert_eq!(less.priority, (Priority::BelowNormal, SetBy::Program));
        assert_eq!((less.connections, settings.of_server().connections), (2, 0));
        let more = settings.of_client(&requested("80"));
        assert_eq!(more.share, (Percentage::parse("50").unwrap(), SetBy::Server));
    }

    #[test]
    fn the_next_daemon_has_the_same_settings() {
        let mut settings = Settings::default();
        assert_eq!(Settings::from_record(&settings.record()), settings);
        settings.set_share(Percentage::parse("33.3").unwrap(), SetBy::Server);
        settings.set_memory("0", 2 << 30, "2G", SetBy::Daemon).unwrap();
        settings.set_priority(Priority::BelowNormal, SetBy::Daemon);
        assert_eq!(Settings::from_record(&settings.record()), settings);
    }

    #[test]
    fn a_device_s_name_is_found_as_it_was_given() {
        let mut settings = Settings::default();
        settings.set_memory("0", 1 << 30, "1G", SetBy::Daemon).unwrap();
        settings.set_memory("GPU-01", 2 << 30, "2048M", SetBy::Daemon).unwrap();
        assert_eq!((settings.memory("0"), settings.memory("GPU-01")), (Some("1G"), Some("2048M")));
        assert_eq!(settings.memory("GPU-0"), None);
        let uuid = "GPU-01000000-0000-0000-0000-000000000000";
        assert_eq!(settings.of_server().memory_of(0, uuid), Some((2 << 30, SetBy::Daemon)));
        settings.set_memory("0", 3 << 30, "3G", SetBy::Daemon).unwrap();
        assert_eq!(settings.of_server().memory_of(0, uuid), Some((3 << 30, SetBy::Daemon)));
        for number in 0..40 {
            let _ = settings.set_memory(&number.to_string(), 1 << 30, "1G", SetBy::Daemon);
        }
        assert!(settings.set_memory("99", 1 << 30, "1G", SetBy::Daemon).is_err());
    }

    #[test]
    fn variables_that_say_nothing_sensible_are_named() {
        let read = |wanted: &'static str, text: &'static str| {
            Settings::from_environment(move |name| (name == wanted).then(|| text.to_owned()))
        };
        let (settings, mistakes) = read(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, "25");
        assert_eq!((settings.share().to_string(), mistakes), ("25.0".into(), vec![]));
        let (settings, _) = read(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1024M");
        assert_eq!(settings.memory("0"), Some("1G"));
        let (settings, mistakes) = read(CUDA_MPS_CLIENT_PRIORITY, "7");
        assert_eq!((settings, mistakes.len()), (Settings::default(), 1));
        assert!(mistakes[0].contains("0 (normal) or 1 (below normal)"), "{}", mistakes[0]);
    }
}
