//! Reload: the settings file read again (SIGHUP), without touching programs.
//!
//! Only what has changed in the file since it was read last is applied, so that what commands have set
//! stays otherwise. What hangs on the start of the daemon waits for the next one, and the log says so.

use crate::daemon::Daemon;
use crate::settings_file::{self, SettingsFile};
use cuda_api::environment::{
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_CLIENT_PRIORITY, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT,
    OPENMPS_CLASS_RULES, OPENMPS_COUNTERS, OPENMPS_IDLE_S, OPENMPS_SCHEDULING, OPENMPS_STANDBY,
    VARIABLES,
};
use cuda_api::settings::{Counting, Percentage, Priority, parse_memory_limits};
use locks::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server of another user stays without clients, seconds, if nothing is said.
pub(in crate::daemon) const IDLE_S: u64 = 300;

/// What the settings file said when it was read last.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Configured {
    /// The file; `None`: there was none.
    pub path: Option<PathBuf>,
    /// Variables that have their values from it.
    pub variables: BTreeMap<&'static str, String>,
    /// What servers to come are started with, where it is not the daemon's own environment.
    pub of_servers: BTreeMap<&'static str, Option<String>>,
}

impl Configured {
    /// What this process was started with.
    pub fn of_process() -> Mutex<Self> {
        let (path, variables) = settings_file::configured().unzip();
        Mutex::new(Self {
            path: path.or_else(settings_file::path),
            variables: variables.unwrap_or_default(),
            of_servers: BTreeMap::new(),
        })
    }

    /// Takes a file's values. Returns the variables whose value there is another one now, or is gone.
    fn take(
        &mut self,
        file: &SettingsFile,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<(&'static str, Option<String>)> {
        // One that the environment sets goes before the file, which cannot change it.
        let is_free = |name: &str| self.variables.contains_key(name) || variable(name).is_none();
        let mut now = file.variables.clone();
        now.retain(|name, _| is_free(name));
        let names = VARIABLES.iter().map(|row| row.name);
        let changed = names.filter(|name| now.get(name) != self.variables.get(name));
        let changed = changed.map(|name| (name, now.get(name).cloned())).collect();
        self.variables = now;
        changed
    }
}

/// What became of a changed setting.
enum Outcome {
    /// It holds.
    Applied,
    /// Servers that start from now on have it.
    ForServersToCome,
    /// The daemon that is started next has it.
    AtNextStart,
    /// It is not taken; why.
    Refused(String),
}

impl Daemon {
    /// Reads the settings file again, in the background: servers are asked.
    pub(in crate::daemon) fn reload_settings(&self) {
        let Some(daemon) = self.this.upgrade() else { return };
        let reload = move || daemon.reload_settings_now();
        if let Err(error) = std::thread::Builder::new().name("reload".into()).spawn(reload) {
            self.log(format!("The settings file is not read again: {error}"));
        }
    }

    fn reload_settings_now(&self) {
        let configured = || self.configured.lock();
        let Some(path) = configured().path.clone() else { return };
        let file = match settings_file::read(&path) {
            Ok(file) => file.unwrap_or_default(),
            Err(error) => {
                return self.log(format!("The settings stay as they were: {error}"));
            }
        };
        let changed = configured().take(&file, |name| std::env::var(name).ok());
        let count = changed.len();
        for (name, value) in changed {
            let said = match self.apply_setting(name, value.as_deref()) {
                Outcome::Applied => "holds",
                Outcome::ForServersToCome => "is for servers that start from now on",
                Outcome::AtNextStart => "is for the daemon's next start",
                Outcome::Refused(why) => {
                    self.log(format!("{}: {name} is not taken: {why}", path.display()));
                    continue;
                }
            };
            let value = value.as_deref().unwrap_or("its default");
            self.log(format!("{}: {name} is {value}, which {said}", path.display()));
        }
        self.log(format!("{} is read again: {count} settings changed", path.display()));
    }

    fn apply_setting(&self, name: &'static str, value: Option<&str>) -> Outcome {
        let text = value.unwrap_or_default().trim();
        match name {
            CUDA_MPS_ACTIVE_THREAD_PERCENTAGE => {
                match value.map_or(Ok(Percentage::ALL), |_| Percentage::parse(text)) {
                    Ok(share) => self.set_default_share(share),
                    Err(error) => return Outcome::Refused(error.to_string()),
                }
            }
            CUDA_MPS_CLIENT_PRIORITY => {
                match value.map_or(Ok(Priority::Normal), |_| Priority::parse(text)) {
                    Ok(priority) => self.set_default_priority(priority),
                    Err(error) => return Outcome::Refused(error.to_string()),
                }
            }
            CUDA_MPS_PINNED_DEVICE_MEM_LIMIT => {
                let Some(text) = value else { return Outcome::AtNextStart };
                let limits = match parse_memory_limits(text) {
                    Ok(limits) => limits,
                    Err(error) => return Outcome::Refused(error.to_string()),
                };
                for limit in limits {
                    let bytes = limit.bytes;
                    let shown = format!("{bytes}");
                    if let Err(why) = self.set_default_memory(&limit.device, bytes, &shown) {
                        return Outcome::Refused(why);
                    }
                }
            }
            OPENMPS_CLASS_RULES => {
                if let Err(error) = self.set_class_rules(text) {
                    return Outcome::Refused(error.to_string());
                }
            }
            OPENMPS_SCHEDULING => {
                let text = if text.is_empty() { "preset=balanced" } else { text };
                match self.set_server_scheduling(text) {
                    Ok(not_taken) if not_taken.is_empty() => {}
                    Ok(not_taken) => return Outcome::Refused(not_taken[0].to_string()),
                    Err(error) => return Outcome::Refused(error.to_string()),
                }
            }
            OPENMPS_COUNTERS => {
                let counting = match text {
                    "" => Ok(Counting::default()),
                    text => Counting::parse(text),
                };
                match counting {
                    Ok(counting) => drop(self.set_counting(counting)),
                    Err(error) => return Outcome::Refused(error.to_string()),
                }
            }
            OPENMPS_STANDBY => self.lock().servers.rules.standby = text == "1",
            OPENMPS_IDLE_S => {
                let seconds = text.parse().unwrap_or(IDLE_S);
                let idle = (seconds > 0).then(|| Duration::from_secs(seconds));
                self.lock().servers.rules.idle_max = idle;
            }
            _ => {
                let row = VARIABLES.iter().find(|row| row.name == name);
                let readers = row.map_or("", |row| row.readers);
                if readers.split(", ").any(|reader| reader == "daemon") {
                    return Outcome::AtNextStart;
                }
                let mut configured = self.configured.lock();
                configured.of_servers.insert(name, value.map(ToOwned::to_owned));
                return Outcome::ForServersToCome;
            }
        }
        Outcome::Applied
    }

    /// Variables of servers that the settings file has changed since the daemon's start; `None`: not set.
    pub(in crate::daemon) fn changed_variables(&self) -> BTreeMap<&'static str, Option<String>> {
        self.configured.lock().of_servers.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_in_the_file_is_taken_and_variables_go_before() {
        let file = |text: &str| settings_file::parse(text).expect("a file");
        let environment = |name: &str| (name == "OPENMPS_WARM").then(|| "64M".to_owned());
        let mut configured = Configured::default();
        let first = file("[daemon]\nstandby = 1\nidle_s = 9\n[server]\nwarm = 0\n");
        let changed = configured.take(&first, environment);
        let one = |text: &str| Some(text.to_owned());
        assert_eq!(changed, [("OPENMPS_IDLE_S", one("9")), ("OPENMPS_STANDBY", one("1"))]);
        assert_eq!(configured.take(&first, environment), []);
        let changed = configured.take(&file("[daemon]\nidle_s = 8\n"), environment);
        assert_eq!(changed, [("OPENMPS_IDLE_S", one("8")), ("OPENMPS_STANDBY", None)]);
    }
}
