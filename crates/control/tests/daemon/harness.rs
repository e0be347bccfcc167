//! Harness: a daemon in a directory of its own, and what tests do with it.

use crate::stand_in::{self, BEHAVIOUR, CONTROL, DEVICES};
use channel::socket::{Interest, poll};
use rustix::process::PidfdFlags;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const NOBODY: u32 = 65534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A fresh directory, removed in the end; open to all users.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("openmps-control-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a scratch directory");
        let all_users = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, all_users).expect("chmod");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a program printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub output: String,
    pub errors: String,
    pub status: i32,
}

/// A pipe directory and the programs that are pointed at it.
pub struct Setting {
    pub scratch: Scratch,
    pub behaviour: &'static str,
    /// How many devices there are.
    pub devices: u8,
    /// The user that runs the programs, if it is another one.
    pub uid: Option<u32>,
    pub pipe: PathBuf,
    /// Variables of clients.
    pub client_environment: Vec<(&'static str, &'static str)>,
}

impl Setting {
    pub fn new() -> Setting {
        Setting::with_behaviour("")
    }

    pub fn with_behaviour(behaviour: &'static str) -> Setting {
        let scratch = Scratch::new();
        let pipe = scratch.0.join("pipe");
        Setting { scratch, behaviour, devices: 1, uid: None, pipe, client_environment: Vec::new() }
    }

    pub fn logs(&self) -> PathBuf {
        self.scratch.0.join("logs")
    }

    pub fn control_log(&self) -> String {
        std::fs::read_to_string(self.logs().join("control.log")).expect("control.log")
    }

    /// The log of the servers, in which their words come late: the daemon copies them.
    pub fn server_log(&self) -> String {
        std::fs::read_to_string(self.logs().join("server.log")).unwrap_or_default()
    }

    /// The same of a named server.
    pub fn server_log_of(&self, name: &str) -> String {
        std::fs::read_to_string(self.logs().join(name).join("server.log")).unwrap_or_default()
    }

    /// A program of this test's, pointed at this setting.
    pub fn program(&self, name: &str) -> Command {
        let mut command = stand_in::own(name);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe)
            .env("CUDA_MPS_LOG_DIRECTORY", self.logs())
            .env("PIPE", &self.pipe)
            .env(BEHAVIOUR, self.behaviour)
            .env(DEVICES, self.devices.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Runs the control program with these arguments to its end.
    pub fn control(&self, arguments: &[&str]) -> Outcome {
        let output = self.program(CONTROL).args(arguments).output().expect("to run");
        Outcome {
            output: String::from_utf8(output.stdout).expect("text"),
            errors: String::from_utf8(output.stderr).expect("text"),
            status: output.status.code().expect("an exit"),
        }
    }

    /// Output and status of a command that is given as words.
    pub fn command(&self, line: &str) -> (String, i32) {
        let outcome = self.control(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(outcome.errors, "", "{line}");
        (outcome.output, outcome.status)
    }

    /// Waits until the log says that so many shells are gone: each has its answer before that.
    pub fn wait_for_closed_shells(&self, count: usize) {
        wait_until("shells are gone", || self.control_log().matches("UI closed").count() == count);
    }

    /// Runs the control program with this standard input.
    pub fn script(&self, text: &str) -> Outcome {
        let mut child = self.program(CONTROL).stdin(Stdio::piped()).spawn().expect("to run");
        let mut input = child.stdin.take().expect("a pipe");
        // A shell that finds no daemon ends without reading what it was given.
        match input.write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
            _ => drop(input),
        }
        let output = child.wait_with_output().expect("to end");
        Outcome {
            output: String::from_utf8(output.stdout).expect("text"),
            errors: String::from_utf8(output.stderr).expect("text"),
            status: output.status.code().expect("an exit"),
        }
    }

    /// Starts the daemon as a user does.
    pub fn start(&self) -> Daemon {
        let outcome = self.control(&["-d"]);
        assert_eq!((outcome.output.as_str(), outcome.status), ("", 0), "{}", outcome.errors);
        Daemon { pid: self.daemon_pid() }
    }

    pub fn daemon_pid(&self) -> u32 {
        let text = std::fs::read_to_string(self.pipe.join("nvidia-cuda-mps-control.pid"));
        text.expect("a pid file").trim().parse().expect("a number")
    }

    /// A client process of some user. Returns it when it has been welcomed.
    pub fn client(&self, uid: Option<u32>) -> Result<ClientProcess, String> {
        let mut command = self.program(stand_in::CLIENT);
        command.envs(self.client_environment.iter().copied());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("to run");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        match line.trim_end().split_once(' ') {
            Some(("welcome", server)) => Ok(ClientProcess {
                server: server.parse().expect("a number"),
                input: child.stdin.take(),
                child,
            }),
            _ => {
                let _ = child.wait();
                Err(line.trim_end().to_owned())
            }
        }
    }
}

/// A client that lives until it is dropped.
pub struct ClientProcess {
    pub server: u32,
    pub child: Child,
    input: Option<ChildStdin>,
}

impl ClientProcess {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// A daemon that was started, and ends with the test.
pub struct Daemon {
    pub pid: u32,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if is_daemon(self.pid) {
            signal(self.pid, rustix::process::Signal::TERM);
            wait_until("the daemon ends", || !is_daemon(self.pid));
        }
    }
}

/// Whether the process is one of ours and not a zombie that its parent has not waited for.
pub fn is_daemon(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.starts_with("stand-in"))
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    let _ = rustix::process::kill_process(pid, signal);
}

/// Kills a process, and waits until all that it had is closed: a process that ends may be seen as ended before.
pub fn kill(pid: u32) {
    let process = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    let end = rustix::process::pidfd_open(process, PidfdFlags::empty()).expect("it is there");
    signal(pid, rustix::process::Signal::KILL);
    poll(&[Interest::readable(&end)], None).expect("poll");
}

/// Waits; the watchdog of the test is the limit.
pub fn wait_until(_what: &str, mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}
