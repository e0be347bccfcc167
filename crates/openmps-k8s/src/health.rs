//! Health of devices: from the daemon's reports to the kubelet's stream and to taints of the slice.

use control::report::{Report, ServerReport};
use control::status::ServerPhase;

/// After so many looks in a row that find a GPU's server in a fault, the GPU is unhealthy: recovery takes less.
pub const LOOKS_MAX: u32 = 2;

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum TaintEffect {
    /// No pod is placed on the device.
    NoSchedule,
    /// Pods are evicted, too.
    NoExecute,
}

impl TaintEffect {
    /// The API's word.
    pub fn word(self) -> &'static str {
        match self {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        }
    }
}

/// How a GPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// It serves.
    Healthy,
    /// It does not; the taint that it gets.
    Unhealthy {
        /// What the taint does.
        effect: TaintEffect,
    },
}

/// How a GPU is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// How it is.
    pub verdict: HealthState,
    /// Why, for people.
    pub message: String,
    /// Since when it is unhealthy, RFC 3339.
    pub since: Option<String>,
}

impl Health {
    /// It serves.
    pub fn healthy() -> Health {
        Health { verdict: HealthState::Healthy, message: String::new(), since: None }
    }

    /// It does not serve.
    pub fn unhealthy(why: &str, effect: TaintEffect) -> Health {
        let message = why.chars().take(1000).collect();
        Health { verdict: HealthState::Unhealthy { effect }, message, since: None }
    }

    /// Whether it serves.
    pub fn is_healthy(&self) -> bool {
        self.verdict == HealthState::Healthy
    }
}

/// Counts for one GPU how often it was found ill.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    ill_looks: u32,
    last: Option<Health>,
}

impl Watch {
    /// A look at a GPU by its UUID: what the daemon reports, or why it does not. `now` is RFC 3339.
    pub fn look(
        &mut self,
        uuid: &str,
        report: Result<&Report, &str>,
        effect: TaintEffect,
        now: &str,
    ) -> Health {
        let ill = match report {
            // Pods that run go on at their servers; new ones would wait.
            Err(why) => Some(Health::unhealthy(why, TaintEffect::NoSchedule)),
            Ok(report) => why_ill(uuid, report).map(|why| Health::unhealthy(&why, effect)),
        };
        let health = match ill {
            None => {
                self.ill_looks = 0;
                Health::healthy()
            }
            Some(mut health) => {
                self.ill_looks = self.ill_looks.saturating_add(1);
                match (self.ill_looks >= LOOKS_MAX, &self.last) {
                    (false, _) => Health::healthy(),
                    (true, Some(before)) if !before.is_healthy() => {
                        health.since.clone_from(&before.since);
                        health
                    }
                    (true, _) => {
                        health.since = Some(now.to_owned());
                        health
                    }
                }
            }
        };
        self.last = Some(health.clone());
        health
    }
}

/// Why a GPU does not serve, if it does not.
fn why_ill(uuid: &str, report: &Report) -> Option<String> {
    if !report.devices.iter().any(|device| device.uuid == uuid) {
        return Some(format!("{uuid} is gone"));
    }
    let on_gpu = |server: &&ServerReport| server.devices.iter().any(|device| device.uuid == uuid);
    let mut all = report.servers.iter().filter(on_gpu);
    all.find_map(|server| match server.state == ServerPhase::Fault.word() {
        true => {
            let fault = report.faults.iter().rev().find(|fault| fault.server == server.pid);
            let why = fault.map_or("a fault", |fault| fault.why.as_str());
            Some(format!("server {} recovers from a fault: {why}", server.pid))
        }
        false => server.error.as_ref().map(|error| format!("server {}: {error}", server.pid)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: &str, uuid: &str) -> Report {
        let device = r#"{"ordinal":0,"pci":"","uuid":"UUID","name":"x"}"#.replace("UUID", uuid);
        let text = format!(
            r#"{{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,"devices":[{device}],
            "clients_waiting":0,"servers":[{{"pid":7,"state":"{state}","devices":[{device}],"clients":[]}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_fault_that_stays_is_a_taint_and_goes_with_the_fault() {
        let mut watch = Watch::default();
        let (ill, well) = (report("FAULT", "GPU-1"), report("ACTIVE", "GPU-1"));
        let mut look = |report: Result<&Report, &str>, now: &str| {
            watch.look("GPU-1", report, TaintEffect::NoExecute, now)
        };
        assert!(look(Ok(&well), "1").is_healthy());
        assert!(look(Ok(&ill), "2").is_healthy(), "recovery takes less than a look");
        let found = look(Ok(&ill), "3");
        assert_eq!(found.verdict, HealthState::Unhealthy { effect: TaintEffect::NoExecute });
        assert_eq!(found.since.as_deref(), Some("3"));
        assert_eq!(look(Ok(&ill), "4").since.as_deref(), Some("3"), "since the first look");
        assert!(look(Ok(&well), "5").is_healthy());
        assert!(look(Err("no daemon"), "6").is_healthy());
        let silent = look(Err("no daemon"), "7");
        assert_eq!(silent.verdict, HealthState::Unhealthy { effect: TaintEffect::NoSchedule });
        let other = report("ACTIVE", "GPU-2");
        assert!(look(Ok(&other), "8").message.contains("GPU-1 is gone"));
    }
}
