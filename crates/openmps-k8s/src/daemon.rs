//! The control daemon's side of a share: a namespace of a named server, by the daemon's own socket.

use crate::gpu::MIB;
use crate::share::{GpuShare, Namespace};
use control::directory::PipeDirectory;
use control::report::{ClientReport, Report};
use control::shell::{Shell, ShellError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// How long the daemon may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the daemon did not do something.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// It is not there, or does not answer.
    #[error("the control daemon in {}: {error}", directory.display())]
    Silent {
        /// Its directory.
        directory: PathBuf,
        /// Why.
        error: ShellError,
    },
    /// It refused a command.
    #[error("the control daemon refuses `{command}`: {answer}")]
    Refused {
        /// The command.
        command: String,
        /// Its answer.
        answer: String,
    },
    /// It has another interface.
    #[error("the control daemon in {} follows protocol {protocol}: start it with -p 3 -m", directory.display())]
    Protocol {
        /// Its directory.
        directory: PathBuf,
        /// What it follows.
        protocol: u32,
    },
    /// What it reports cannot be read.
    #[error("the control daemon's report: {0}")]
    Report(String),
}

/// The daemon of a directory, and its server for all shares.
#[derive(Clone, Debug)]
pub struct ShareDaemon {
    shell: Shell,
    server: String,
}

impl ShareDaemon {
    /// The daemon of a directory; whether it runs is seen when it is asked.
    pub fn new(directory: &Path, server: &str) -> ShareDaemon {
        let shell = Shell::new(PipeDirectory::new(directory)).with_patience(PATIENCE);
        ShareDaemon { shell, server: server.to_owned() }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.shell.directory().path()
    }

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Where the programs of a namespace find it.
    pub fn directory_of(&self, namespace: &str) -> PathBuf {
        self.directory().join(&self.server).join(namespace)
    }

    fn ask(&self, command: &str) -> Result<String, DaemonError> {
        let silent = |error| DaemonError::Silent { directory: self.directory().to_owned(), error };
        let (text, status) = self.shell.ask(command).map_err(silent)?;
        match status {
            0 => Ok(text),
            _ => {
                let (command, answer) = (command.to_owned(), text.trim().to_owned());
                Err(DaemonError::Refused { command, answer })
            }
        }
    }

    /// What it knows.
    ///
    /// # Errors
    /// It does not answer, or follows protocol 2.
    pub fn report(&self) -> Result<Report, DaemonError> {
        let text = self.ask("report")?;
        let report: Report =
            serde_json::from_str(&text).map_err(|error| DaemonError::Report(error.to_string()))?;
        match report.protocol {
            3 => Ok(report),
            protocol => {
                Err(DaemonError::Protocol { directory: self.directory().to_owned(), protocol })
            }
        }
    }

    /// Makes a namespace with its limits, or sets the limits of one that is there. Its directory.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn ensure(&self, namespace: &Namespace) -> Result<PathBuf, DaemonError> {
        let create = format!("namespace create {} --server={}", namespace.name, self.server);
        // One that is there is as good: whether it is shows when its limits are set.
        let created = self.ask(&create);
        match self.limit(namespace) {
            Err(DaemonError::Refused { .. }) if created.is_err() => {
                self.ask(&format!("server create {}", self.server)).or_else(|error| match self
                    .ask(&format!("server get {} name", self.server))
                {
                    Ok(_) => Ok(String::new()),
                    Err(_) => Err(error),
                })?;
                self.ask(&create)?;
                self.limit(namespace)?;
            }
            result => result?,
        }
        Ok(self.directory_of(&namespace.name))
    }

    fn limit(&self, namespace: &Namespace) -> Result<(), DaemonError> {
        for words in limits(namespace) {
            let command =
                format!("namespace set {} --server={} {words}", namespace.name, self.server);
            self.ask(&command)?;
        }
        Ok(())
    }

    /// Takes a namespace away, with its programs; one that is not there is no error.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn remove(&self, name: &str) -> Result<(), DaemonError> {
        let command = format!("namespace delete {name} --server={} --force", self.server);
        match self.ask(&command) {
            Err(DaemonError::Refused { command, answer }) => {
                match self.namespaces()?.contains(&name.to_owned()) {
                    true => Err(DaemonError::Refused { command, answer }),
                    false => Ok(()),
                }
            }
            result => result.map(drop),
        }
    }

    /// The names of the server's namespaces; none if there is no server yet.
    ///
    /// # Errors
    /// It does not answer.
    pub fn namespaces(&self) -> Result<Vec<String>, DaemonError> {
        let command = format!("namespace list --server={} --format=csv,noheader", self.server);
        match self.ask(&command) {
            Ok(text) => {
                let names = text.lines().filter_map(|line| line.split(',').next());
                Ok(names.map(str::to_owned).collect())
            }
            Err(DaemonError::Refused { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Gives programs of a namespace that run its limits too.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn resize(&self, namespace: &Namespace) -> Result<usize, DaemonError> {
        self.limit(namespace)?;
        let report = self.report()?;
        let mut changed = 0;
        for (server, client) in clients_of(&report, &namespace.name) {
            let share = namespace.shares.iter().find(|share| share.uuid == client.device_uuid);
            let Some(share) = share else { continue };
            let command = format!(
                "set id:{} server={server} sms={} memory={}M priority={} class={}",
                client.id,
                share.cap_sms(),
                share.memory_bytes / MIB,
                share.parameters.priority.unwrap_or(0),
                share.class(),
            );
            match self.ask(&command) {
                Ok(_) => changed += 1,
                // One that has ended meanwhile needs no other limits.
                Err(error) => {
                    let again = self.report()?;
                    let is_there =
                        |of: &(u32, &ClientReport)| of.0 == server && of.1.id == client.id;
                    if clients_of(&again, &namespace.name).iter().any(is_there) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(changed)
    }
}

/// The programs of a namespace, each with its server's PID.
pub fn clients_of<'a>(report: &'a Report, namespace: &str) -> Vec<(u32, &'a ClientReport)> {
    let of_server = |server: &'a control::report::ServerReport| {
        server.clients.iter().map(move |client| (server.pid, client))
    };
    let is_in = |of: &(u32, &ClientReport)| of.1.mps_namespace.as_deref() == Some(namespace);
    report.servers.iter().flat_map(of_server).filter(is_in).collect()
}

/// The words of `namespace set`, one text a command: what its programs have on GPUs that are not theirs, which is as
/// good as nothing, and what they have on each of theirs.
fn limits(namespace: &Namespace) -> Vec<String> {
    let mut others = "--active-thread-percentage=0.001 --pinned-memory-limit=1M".to_owned();
    if let Some(priority) = namespace.shares.iter().find_map(|of| of.parameters.priority) {
        others.push_str(&format!(" --client-priority={priority}"));
    }
    let of_share = |share: &GpuShare| {
        let mib = |bytes: u64| format!("{}M", bytes.div_ceil(MIB));
        let memory = mib(share.memory_bytes);
        let guarantee = share.parameters.soft_memory_bytes.filter(|bytes| *bytes > 0).map(mib);
        let clients = share.limits_clients.then(|| share.clients.to_string());
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        format!(
            "--device={} --active-thread-percentage={} --pinned-memory-limit={memory} --memory-limit={memory} \
             --memory-guarantee={} --clients={}",
            share.uuid,
            percentage(share.cap_sms(), share.all_sms),
            or_none(guarantee),
            or_none(clients),
        )
    };
    std::iter::once(others).chain(namespace.shares.iter().map(of_share)).collect()
}

/// The least percentage, in thousandths, of which the daemon makes that number of SMs.
fn percentage(sms: u32, all: u32) -> String {
    let thousandths = (u64::from(sms) * 100_000).div_ceil(u64::from(all.max(1))).min(100_000);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn a_percentage_gives_its_sms_back() {
        for all in [1, 8, 46, 108, 132, 148] {
            for sms in 1..=all {
                let text = percentage(sms, all);
                let share = cuda_api::settings::Percentage::parse(&text).unwrap();
                assert_eq!(share.sms(all, 1), sms, "{sms} of {all}: {text}");
            }
        }
    }

    #[test]
    fn limits_are_words_of_the_command() {
        let share = |uuid: &str, sms| GpuShare {
            uuid: uuid.into(),
            sms,
            all_sms: 8,
            memory_bytes: 1 << 30,
            ..GpuShare::default()
        };
        let promised = Parameters { soft_memory_bytes: Some(512 << 20), ..Parameters::default() };
        let second = GpuShare {
            limits_clients: true,
            clients: 3,
            parameters: promised,
            ..share("GPU-b", 4)
        };
        let shares = vec![share("GPU-a", 2), second];
        let namespace = Namespace { name: "s1".into(), shares, ..Namespace::default() };
        let wanted = [
            "--active-thread-percentage=0.001 --pinned-memory-limit=1M",
            "--device=GPU-a --active-thread-percentage=25.000 --pinned-memory-limit=1024M --memory-limit=1024M \
             --memory-guarantee=none --clients=none",
            "--device=GPU-b --active-thread-percentage=50.000 --pinned-memory-limit=1024M --memory-limit=1024M \
             --memory-guarantee=512M --clients=3",
        ];
        assert_eq!(limits(&namespace), wanted);
    }
}
