//! Programs that a test runs: their output, their end, and a watchdog.

use crate::{PATIENCE, Patience};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

pub use rustix::process::Signal;

/// Sends a signal to a process; false if it has ended.
pub fn try_signal(pid: u32, signal: Signal) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a PID");
    rustix::process::kill_process(pid, signal).is_ok()
}

/// Sends a signal to a process that is there.
#[track_caller]
pub fn signal(pid: u32, signal: Signal) {
    assert!(try_signal(pid, signal), "process {pid} gets no {signal:?}");
}

/// How often a program that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status; 128 + the signal if one ended it, as a shell says.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Asserts that it succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Standard error without lines that say that it waits for the daemon: a client library rightly writes
    /// them where daemon or server have no core for seconds.
    pub fn errors(&self) -> String {
        const WAITS: &str = "openmps: waiting for the control daemon ";
        self.stderr.split_inclusive('\n').filter(|line| !line.starts_with(WAITS)).collect()
    }

    /// The last line of its output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// A program that runs; killed on drop.
pub struct Running {
    child: Child,
    stdout: Output,
    stderr: Output,
    what: String,
}

/// Starts a program with its output caught.
pub fn start(command: &mut Command) -> Running {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let stdout = Output::of(child.stdout.take().expect("it is caught"));
    let stderr = Output::of(child.stderr.take().expect("it is caught"));
    Running { child, stdout, stderr, what }
}

/// Runs a program to its end.
pub fn finish(command: &mut Command) -> Ended {
    start(command).wait()
}

/// What a program writes to a pipe, read while it runs so that it never waits for us.
struct Output(Receiver<Vec<u8>>);

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, parts) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            // A killed program's pipe may end in an error: what came before it is still wanted.
            while let Ok(bytes @ 1..) = pipe.read(&mut part) {
                if sender.send(part[..bytes].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self(parts)
    }

    /// What came until patience ran out, and whether that is all: a process that outlives the program
    /// may hold the pipe.
    fn read(&self, patience: &mut Patience) -> (String, bool) {
        let mut bytes = Vec::new();
        let whole = loop {
            let wait = if patience.is_out() { Duration::ZERO } else { LOOK };
            match self.0.recv_timeout(wait) {
                Ok(part) => bytes.extend(part),
                Err(RecvTimeoutError::Timeout) if !wait.is_zero() => {}
                Err(end) => break end == RecvTimeoutError::Disconnected,
            }
        };
        (String::from_utf8_lossy(&bytes).into_owned(), whole)
    }
}

impl Running {
    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True if it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
    }

    /// Waits for its end and that of its output; panics when either takes too long.
    pub fn wait(self) -> Ended {
        self.wait_with(Patience::of(PATIENCE))
    }

    fn wait_with(mut self, mut patience: Patience) -> Ended {
        let mut status = self.status();
        while status.is_none() && !patience.is_out() {
            std::thread::sleep(LOOK);
            status = self.status();
        }
        if status.is_none() {
            let _ = self.child.kill();
        }
        let (stdout, whole_stdout) = self.stdout.read(&mut patience);
        let (stderr, whole_stderr) = self.stderr.read(&mut patience);
        let Some(status) = status else {
            panic!("{} hangs; stdout: {stdout} stderr: {stderr}", self.what);
        };
        assert!(
            whole_stdout && whole_stderr,
            "{} left a process that holds its output; stdout: {stdout} stderr: {stderr}",
            self.what
        );
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ended { status, stdout, stderr }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell's commands, waited for for a second of a machine of their own: 20 s where the clock is slowest,
    /// which none may end before that is to be found.
    fn run(commands: &str) -> Ended {
        let running = start(Command::new("sh").args(["-c", commands]));
        running.wait_with(Patience::of(Duration::from_secs(1)))
    }

    #[test]
    fn long_output_is_whole() {
        let ended = finish(Command::new("sh").args(["-c", "seq 1 50000; echo end >&2; exit 3"]));
        assert_eq!((ended.status, ended.stdout.lines().count()), (3, 50_000));
        assert_eq!(ended.stderr, "end\n");
    }

    #[test]
    fn a_wait_for_the_daemon_is_no_error() {
        let ended =
            |stderr: &str| Ended { status: 0, stdout: String::new(), stderr: stderr.into() };
        let waits = "openmps: waiting for the control daemon at /tmp/p (PID 7), which has not answered yet\n";
        assert_eq!(ended(waits).errors(), "");
        assert_eq!(
            ended(&format!("one\n{waits}openmps: two\n{waits}")).errors(),
            "one\nopenmps: two\n"
        );
    }

    #[test]
    #[should_panic(expected = "hangs; stdout: here")]
    fn what_does_not_end_is_ended() {
        run("echo here; exec sleep 60");
    }

    #[test]
    #[should_panic(expected = "hangs; stdout: here")]
    fn what_looks_again_for_ever_is_ended() {
        run("echo here; while :; do sleep 0.01; done");
    }

    #[test]
    #[should_panic(expected = "hangs; stdout: here")]
    fn what_computes_for_ever_is_ended() {
        run("echo here; while :; do :; done");
    }

    #[test]
    #[should_panic(expected = "left a process that holds its output; stdout: here")]
    fn output_is_waited_for_no_longer_than_an_end() {
        run("sleep 60 & echo here");
    }
}
