//! Log: lines of server.log.
//!
//! What a line looks like is [`log_line`]'s; time is local. Where lines go is the binary's business: it gives a writer. A line that
//! cannot be written is lost; no thread waits for a log.

use channel::log_line::{self, Form, Level};
use cuda_api::environment::OPENMPS_LOG_FORMAT;
use locks::Mutex;
use std::io::Write;
use std::sync::{Arc, LazyLock};

/// Who speaks: the word before the process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRole {
    /// A process that is not yet a server.
    Other,
    /// The server.
    Server,
}

/// A handle to the log; clones write to the same place.
#[derive(Clone)]
pub struct Log {
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    path: Arc<str>,
}

impl Log {
    /// A log that writes each line with one call of `writer`.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Arc::new(Mutex::new(Box::new(writer))), path: "".into() }
    }

    /// The same log, which is known to be at a path.
    pub fn at(self, path: &str) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Where the log is, for clients to know; empty if that is not known.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A log that goes nowhere.
    pub fn none() -> Self {
        Self::new(std::io::sink())
    }

    /// Writes a line as the server.
    pub fn line(&self, text: impl AsRef<str>) {
        self.line_as(LogRole::Server, text);
    }

    /// Writes a line of the server that is more than information.
    pub fn line_at(&self, level: Level, text: impl AsRef<str>) {
        self.write(level, LogRole::Server, text.as_ref());
    }

    /// Writes a line in a role.
    pub fn line_as(&self, role: LogRole, text: impl AsRef<str>) {
        self.write(Level::Info, role, text.as_ref());
    }

    fn write(&self, level: Level, role: LogRole, text: &str) {
        static FORM: LazyLock<Form> =
            LazyLock::new(|| Form::parse(&std::env::var(OPENMPS_LOG_FORMAT).unwrap_or_default()));
        let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string();
        let (role, pid) = (format!("{role:?}"), std::process::id());
        let mut line = log_line::line(*FORM, &now, &role, pid, level, text);
        line.push('\n');
        let mut writer = self.writer.lock();
        let _ = writer.write_all(line.as_bytes());
        let _ = writer.flush();
    }
}
