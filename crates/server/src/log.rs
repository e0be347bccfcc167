//! Log: lines of server.log.
//!
//! A line is `[YYYY-MM-DD hh:mm:ss.mmm+hh:mm Server  12345] text`, local time and what it is ahead of UTC, the role padded to seven
//! characters and the process id to five, as NVIDIA's are. Where lines go is the binary's business: it hands over a writer. A line that
//! cannot be written is lost; no thread waits for a log.

use channel::lock::Mutex;
use std::io::Write;
use std::sync::{Arc, PoisonError};

/// Longest line, bytes: what a pipe takes in one piece (PIPE_BUF), so that lines of several
/// writers do not mix.
pub const LINE_BYTES_MAX: usize = 4096;

/// Who speaks: the word before the process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
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

    /// Where the log is, for clients to be told; empty if that is not known.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A log that goes nowhere.
    pub fn none() -> Self {
        Self::new(std::io::sink())
    }

    /// Writes a line as the server.
    pub fn line(&self, text: impl AsRef<str>) {
        self.line_as(Role::Server, text);
    }

    /// Writes a line in a role.
    pub fn line_as(&self, role: Role, text: impl AsRef<str>) {
        let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string();
        let line = format_line(&now, role, std::process::id(), text.as_ref());
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writer.write_all(line.as_bytes());
        let _ = writer.flush();
    }
}

/// One line with its end; what a client or a provider put into the text cannot start a new one.
fn format_line(now: &str, role: Role, pid: u32, text: &str) -> String {
    let mut line = format!("[{now} {role:<7} {pid:>5}] ", role = format!("{role:?}"));
    line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    if line.len() >= LINE_BYTES_MAX {
        let mut end = LINE_BYTES_MAX - 1;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_vendors_shape() {
        assert_eq!(
            format_line("2026-01-02 03:04:05.678", Role::Server, 82, "Server has started"),
            "[2026-01-02 03:04:05.678 Server     82] Server has started\n"
        );
        assert_eq!(
            format_line("2026-01-02 03:04:05.678", Role::Other, 12345, "Startup"),
            "[2026-01-02 03:04:05.678 Other   12345] Startup\n"
        );
    }

    #[test]
    fn what_comes_from_outside_stays_in_its_line() {
        let line = format_line("t", Role::Server, 1, "a\nb\u{1b}[2J");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}'));
        let long = format_line("t", Role::Server, 1, &"ä".repeat(5000));
        assert!(long.len() <= LINE_BYTES_MAX && long.ends_with('\n'));
    }
}
