//! The other end of the daemon's sockets: sends commands, shows answers.
//!
//! Each command has a connection of its own, so a shell outlives the daemon it spoke to and
//! speaks to the next one.

use crate::command::COMMAND_BYTES_MAX;
use crate::directory::PipeDirectory;
use crate::process::stopped_hint;
use crate::report::Report;
use crate::status::ServerPhase;
use channel::message::{Command, Message};
use channel::socket::{Interest, ReceiveError, SeqPacket, in_their_version, poll};
use rustix::process::{Pid, PidfdFlags};
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How long a daemon may leave a connection unanswered when its queue is full.
const CONNECT_S_MAX: u64 = 10;
/// After so long without an answer the daemon is asked how it is, and has as long to say so.
const LOOK: Duration = Duration::from_secs(5);
/// How long a daemon that has answered `quit` may take to be gone.
const END_MAX: Duration = Duration::from_secs(3);
/// Looks that find a server silent, before it is no use to wait: it may just be busy.
const IN_VAIN_MAX: u32 = 3;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ShellError {
    /// The text is NVIDIA's, for the scripts that look for it.
    #[error("Cannot find MPS control daemon process")]
    NoDaemon,
    /// Another user's private directory.
    #[error("no permission for {}", .0.display())]
    NoPermission(PathBuf),
    /// Something else listens, or another version.
    #[error("what listens in {} is no openmps daemon of this version: {reason}", directory.display())]
    Foreign {
        /// The pipe directory.
        directory: PathBuf,
        /// What was wrong with its answer.
        reason: String,
    },
    /// It does not answer in time.
    #[error("the daemon in {} does not answer{hint}", .0.path().display(), hint = hint(.0))]
    Silent(PipeDirectory),
    /// The daemon waits for a server that does not answer.
    #[error("the daemon waits for it in vain; `quit -t 10` ends it")]
    ServerSilent,
    /// It ended in the middle.
    #[error("the daemon ended before it answered")]
    Ended,
    /// The line.
    #[error("a command may have {COMMAND_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What to do about a daemon that does not answer.
fn hint(directory: &PipeDirectory) -> String {
    let pid = std::fs::read_to_string(directory.pid_file()).ok();
    pid.and_then(|pid| pid.trim().parse().ok()).map_or_else(String::new, stopped_hint)
}

/// Speaks to the daemon of a directory.
#[derive(Clone, Debug)]
pub struct Shell {
    directory: PipeDirectory,
    patience: Option<Duration>,
}

impl Shell {
    /// For the daemon of `directory`. It may take as long as it wants to, as `quit` does, but not be
    /// deaf meanwhile.
    pub fn new(directory: PipeDirectory) -> Shell {
        Shell { directory, patience: None }
    }

    /// The same, but [`ShellError::Silent`] after `patience` without an answer.
    pub fn with_patience(self, patience: Duration) -> Shell {
        Shell { patience: Some(patience), ..self }
    }

    /// The directory.
    pub fn directory(&self) -> &PipeDirectory {
        &self.directory
    }

    /// Whether a daemon is there.
    pub fn check(&self) -> Result<(), ShellError> {
        self.connect().map(drop)
    }

    /// Sends one command and writes its output as it comes. Returns its exit status.
    pub fn command(&self, line: &str, output: &mut dyn Write) -> Result<i32, ShellError> {
        in_their_version(|version| self.command_in(version, line, output))
    }

    fn command_in(
        &self,
        version: &mut u16,
        line: &str,
        output: &mut dyn Write,
    ) -> Result<i32, ShellError> {
        if line.len() > COMMAND_BYTES_MAX {
            return Err(ShellError::TooLong(line.len()));
        }
        let socket = self.connect()?;
        let ends = line.split_whitespace().next() == Some("quit");
        let daemon = ends.then(|| self.daemon_process()).flatten();
        socket.speak(*version);
        socket.set_receive_timeout(Some(self.patience.unwrap_or(LOOK)))?;
        let mut in_vain = 0;
        let command = Message::Command(Command { text: line.to_owned() });
        if let Err(error) = socket.send(&command, &[]) {
            return Err(match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ShellError::Ended,
                _ => error.into(),
            });
        }
        loop {
            let reply = match socket.receive() {
                Ok((Message::Reply(reply), _)) => reply,
                Ok((Message::Refused(refused), _)) => {
                    *version = socket.speaks();
                    return Err(self.foreign(refused.reason));
                }
                Ok((other, _)) => return Err(self.foreign(format!("it said {}", other.name()))),
                Err(ReceiveError::Closed) => return Err(ShellError::Ended),
                Err(ReceiveError::TimedOut) if self.patience.is_some() => {
                    return Err(ShellError::Silent(self.directory.clone()));
                }
                Err(ReceiveError::TimedOut) => {
                    self.check_alive(&mut in_vain)?;
                    continue;
                }
                Err(ReceiveError::Io(error)) => return Err(error.into()),
                Err(error) => return Err(self.foreign(error.to_string())),
            };
            output.write_all(reply.text.as_bytes())?;
            output.flush()?;
            if !reply.more {
                if reply.status == 0 {
                    daemon.into_iter().for_each(wait_for_end);
                }
                return Ok(reply.status);
            }
        }
    }

    /// Sends one command and returns its output and exit status.
    pub fn ask(&self, line: &str) -> Result<(String, i32), ShellError> {
        let mut output = Vec::new();
        let status = self.command(line, &mut output)?;
        Ok((String::from_utf8_lossy(&output).into_owned(), status))
    }

    /// Asks the daemon, which has not answered for a while, how it is. `in_vain` counts how often a
    /// server was found silent.
    fn check_alive(&self, in_vain: &mut u32) -> Result<(), ShellError> {
        let other = self.clone().with_patience(LOOK);
        let report = match other.ask("report") {
            Ok((text, 0)) => serde_json::from_str::<Report>(&text).ok(),
            Err(ShellError::Silent(directory)) => return Err(ShellError::Silent(directory)),
            // It is too busy to say so, or has just ended: then that is seen where it is waited for.
            Ok(_) | Err(_) => None,
        };
        let servers = report.map_or_else(Vec::new, |report| report.servers);
        let starts = ServerPhase::Initializing.word();
        let silent = servers.iter().filter(|server| server.state != starts);
        let Some(error) = silent.filter_map(|server| server.error.as_ref()).next() else {
            *in_vain = 0;
            return Ok(());
        };
        if *in_vain == 0 {
            complain(error);
        }
        *in_vain += 1;
        if *in_vain < IN_VAIN_MAX { Ok(()) } else { Err(ShellError::ServerSilent) }
    }

    /// The daemon's process, by its file.
    fn daemon_process(&self) -> Option<OwnedFd> {
        let pid = std::fs::read_to_string(self.directory.pid_file()).ok()?;
        let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
    }

    fn foreign(&self, reason: String) -> ShellError {
        ShellError::Foreign { directory: self.directory.path().to_path_buf(), reason }
    }

    /// By the privileged socket where this user may, else by the other: the daemon then says what
    /// only its owner can do.
    fn connect(&self) -> Result<SeqPacket, ShellError> {
        let timeout = Duration::from_secs(CONNECT_S_MAX);
        let connect = |path: PathBuf| {
            SeqPacket::connect(&path, timeout).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NotADirectory => ShellError::NoDaemon,
                io::ErrorKind::PermissionDenied => ShellError::NoPermission(path),
                io::ErrorKind::WouldBlock => ShellError::Silent(self.directory.clone()),
                _ => error.into(),
            })
        };
        match connect(self.directory.control_privileged()) {
            // The directory of a named server has no other one.
            Err(ShellError::NoPermission(_) | ShellError::NoDaemon) => {
                connect(self.directory.control())
            }
            result => result,
        }
    }
}

/// Waits for a process that has said that it ends: batch systems' prologs look for it right after `quit`.
fn wait_for_end(process: OwnedFd) {
    // One that takes longer is seen by who looks for it.
    let _ = poll(&[Interest::readable(&process)], Some(END_MAX));
}

/// Sends the lines of `input` one after the other. On a terminal it prompts, and says what is
/// wrong without ending. Returns the exit status: that of the first command that failed.
pub fn converse(shell: &Shell, input: &mut dyn BufRead, terminal: bool) -> i32 {
    let mut output = io::stdout();
    let mut result = 0;
    if let Err(error) = shell.check() {
        complain(error);
        return 1;
    }
    loop {
        if terminal {
            let _ = write!(output, "> ").and_then(|()| output.flush());
        }
        let line = match read_line(input) {
            Ok(Some(line)) => line,
            Ok(None) => {
                if terminal {
                    let _ = writeln!(output);
                }
                return result;
            }
            Err(error) => {
                complain(format_args!("standard input: {error}"));
                return 1;
            }
        };
        if line.trim().is_empty() {
            continue;
        }
        let status = match shell.command(&line, &mut output) {
            Ok(status) => status,
            // The reader of the output has enough.
            Err(ShellError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => return 1,
            Err(error) => {
                complain(error);
                1
            }
        };
        if terminal && status == 0 && line.split_whitespace().next() == Some("quit") {
            return result;
        }
        if result == 0 && !terminal {
            result = status;
        }
    }
}

/// The next line without its end; the last one may have none. A line that is longer than any
/// command is cut just above the maximum, so that it is refused and not kept in memory.
fn read_line(input: &mut dyn BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(any.then(|| String::from_utf8_lossy(&line).into_owned()));
        }
        any = true;
        let end = available.iter().position(|&byte| byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        let room = (COMMAND_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// Says what is wrong on standard error, which may be closed or full.
pub(crate) fn complain(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_last_line_may_lack_its_end() {
        let mut input = io::Cursor::new(b"ps\n\nget_server_list".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["ps", "", "get_server_list"]);
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut input = io::BufReader::with_capacity(777, io::repeat(b'x').take(1 << 20));
        let line = read_line(&mut input).unwrap().unwrap();
        assert_eq!(line.len(), COMMAND_BYTES_MAX + 1);
        assert_eq!(read_line(&mut input).unwrap(), None);
    }
}
