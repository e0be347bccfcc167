//! Source: what is asked of a control daemon. Tests have sources of their own.

use anyhow::{Context, Result, bail};
use control::counts::ClientCounts;
use control::directory::PipeDirectory;
use control::report::Report;
use control::shell::Shell;
use control::trace::Trace;
use std::path::Path;
use std::time::Duration;

/// How long a daemon may take to answer: it waits for its servers for some seconds at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where reports come from and commands go.
pub trait ReportSource {
    /// Servers, devices and clients, as `report` says them.
    fn report(&mut self) -> Result<Report>;
    /// Clients by kernel and stream, as `counts` says them.
    fn counts(&mut self) -> Result<Vec<ClientCounts>>;
    /// What was recorded since these places (server, number), as `trace` says it; from now on of all
    /// servers if there are none.
    fn trace(&mut self, places: &[(u32, u64)]) -> Result<Vec<Trace>>;
    /// Gives a command to the daemon. Its output.
    fn command(&mut self, line: &str) -> Result<String>;
}

/// The daemon of a pipe directory.
pub struct DaemonSource {
    shell: Shell,
}

impl DaemonSource {
    /// That of this directory; whether it runs is seen when it is asked.
    pub fn new(directory: &Path) -> Self {
        Self { shell: Shell::new(PipeDirectory::new(directory)).with_patience(PATIENCE) }
    }

    fn ask(&self, line: &str) -> Result<String> {
        let (text, status) = self.shell.ask(line)?;
        if status != 0 {
            bail!("{}", text.trim());
        }
        Ok(text)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, line: &str) -> Result<T> {
        let text = self.ask(line)?;
        serde_json::from_str(&text)
            .with_context(|| format!("reading what the daemon says to {line}"))
    }
}

impl ReportSource for DaemonSource {
    fn report(&mut self) -> Result<Report> {
        self.read("report")
    }

    fn counts(&mut self) -> Result<Vec<ClientCounts>> {
        self.read("counts")
    }

    fn trace(&mut self, places: &[(u32, u64)]) -> Result<Vec<Trace>> {
        let words: Vec<String> =
            places.iter().map(|(server, from)| format!(" {server}:{from}")).collect();
        self.read(&format!("trace{}", words.concat()))
    }

    fn command(&mut self, line: &str) -> Result<String> {
        self.ask(line)
    }
}
