//! A scene: directories of its own, a daemon if wanted, the software GPU as device.

use crate::{Ended, Running, Signal, dist, finish, start, try_signal, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// One test's world. Everything it started is gone when it is dropped.
pub struct Scene {
    directory: PathBuf,
    daemon: Option<Running>,
    /// Where programs find the daemon.
    entry: PathBuf,
    keeps: bool,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// A scene without a daemon.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("openmps-test-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        for part in ["pipe", "log", "soft", "empty"] {
            std::fs::create_dir_all(directory.join(part)).expect("a scene's directory");
        }
        let entry = directory.join("pipe");
        Self { directory, daemon: None, entry, keeps: false }
    }

    /// A scene with a daemon that accepts connections.
    pub fn with_daemon() -> Self {
        let mut scene = Self::new();
        scene.start_daemon();
        scene
    }

    /// Starts the daemon with these words on its command line besides.
    pub fn start_daemon_by(&mut self, words: &[&str], environment: &[(&str, &str)]) {
        let mut command = self.command(&dist().join("bin/nvidia-cuda-mps-control"));
        command.envs(environment.iter().copied()).arg("-f").args(words);
        self.wait_for_start(&mut command);
    }

    /// From now on sample programs find the daemon there, in a directory below the pipe directory: that of a
    /// namespace, or with an empty path the pipe directory itself.
    pub fn enter(&mut self, below: &str) {
        self.entry = self.pipe().join(below);
    }

    /// Starts the daemon and waits until it accepts connections.
    pub fn start_daemon(&mut self) {
        self.start_daemon_with(&[]);
    }

    /// The same, with these environment variables for it and its servers.
    pub fn start_daemon_with(&mut self, environment: &[(&str, &str)]) {
        self.start_daemon_of(&dist().join("bin/nvidia-cuda-mps-control"), environment);
    }

    /// The same, of another program that is called `nvidia-cuda-mps-control`.
    pub fn start_daemon_of(&mut self, program: &Path, environment: &[(&str, &str)]) {
        let mut command = self.command(program);
        command.envs(environment.iter().copied());
        self.wait_for_start(command.arg("-f"));
    }

    /// Starts the daemon by a command and waits until it accepts connections.
    pub fn wait_for_start(&mut self, command: &mut Command) {
        self.daemon = Some(start(command));
        wait_until("the daemon accepts connections", || {
            self.control("get_server_list").status == 0
        });
    }

    /// The pipe directory.
    pub fn pipe(&self) -> PathBuf {
        self.directory.join("pipe")
    }

    /// A scratch file's path.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The text of a log of the daemon.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join("log").join(name)).unwrap_or_default()
    }

    /// Any program in this scene's environment: the daemon is there, our library comes first.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", dist().join("lib/openmps"))
            .env("OPENMPS_LIB_DIR", dist().join("lib/openmps"))
            .env("OPENMPS_PROVIDER", "soft")
            .env("OPENMPS_SOFT_DIR", self.directory.join("soft"))
            .env("CUDA_CACHE_DISABLE", "0")
            .env("CUDA_CACHE_PATH", self.directory.join("cache"))
            .env("CUDA_MPS_PIPE_DIRECTORY", self.pipe())
            .env("CUDA_MPS_LOG_DIRECTORY", self.directory.join("log"));
        command
    }

    /// A sample program that finds the scene's daemon.
    pub fn sample(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(&dist().join("lib/openmps/samples").join(name));
        command.args(arguments).env("CUDA_MPS_PIPE_DIRECTORY", &self.entry);
        command
    }

    /// A sample program that finds no daemon.
    pub fn sample_alone(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.sample(name, arguments);
        command.env("CUDA_MPS_PIPE_DIRECTORY", self.directory.join("empty"));
        command
    }

    /// A command to the daemon's shell.
    pub fn control(&self, command: &str) -> Ended {
        let mut shell = self.command(&dist().join("bin/nvidia-cuda-mps-control"));
        finish(shell.args(command.split(' ')))
    }

    /// `openmps` with these arguments.
    pub fn openmps(&self, arguments: &[&str]) -> Ended {
        finish(self.command(&dist().join("bin/openmps")).args(arguments))
    }

    /// PIDs of the servers.
    pub fn servers(&self) -> Vec<u32> {
        numbers(&self.control("get_server_list").expect_success().stdout)
    }

    /// PIDs of the one server's clients, as it says itself; none if there is no server. Asks again as long as
    /// the server does not say.
    pub fn clients(&self) -> Vec<u32> {
        let mut clients = None;
        wait_until("the server says who its clients are", || {
            clients = self.clients_if_told();
            clients.is_some()
        });
        clients.unwrap_or_default()
    }

    fn clients_if_told(&self) -> Option<Vec<u32>> {
        let Some(server) = self.servers().first().copied() else { return Some(Vec::new()) };
        let answer = self.control(&format!("get_client_list {server}"));
        // A server is listed as soon as it is being started, may be gone by the second question, and may
        // have no core for as long as the daemon waits for it.
        let no_answer = ["is not ready", "not found", "does not answer"];
        if answer.status == 1 && no_answer.iter().any(|why| answer.stdout.contains(why)) {
            return None;
        }
        Some(numbers(&answer.expect_success().stdout))
    }

    /// What the daemon says of its servers (`openmps ps --json`), each of which has answered. Asks again as long
    /// as one does not.
    pub fn report(&self) -> serde_json::Value {
        let mut report = serde_json::Value::Null;
        wait_until("the daemon and its servers answer", || {
            let answer = self.openmps(&["ps", "--json"]);
            if answer.status != 0 && answer.stderr.contains("does not answer") {
                return false;
            }
            report = answer.expect_success().json();
            let servers = report["servers"].as_array().expect("servers");
            servers.iter().all(|server| server["error"].is_null())
        });
        report
    }

    /// Keeps the scene's directory, with its logs, if a panic ends the scene.
    pub fn keep_after_failure(&mut self) {
        self.keeps = true;
    }

    /// The daemon's process ID.
    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon runs").pid()
    }

    /// kill -9 of the daemon.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon runs");
        daemon.kill();
    }

    /// Waits for a daemon that was told to end, and returns how it ended.
    pub fn wait_for_daemon(&mut self) -> Ended {
        self.daemon.take().expect("a daemon runs").wait()
    }

    /// Ends the daemon as `kill` does and returns how it ended.
    pub fn stop_daemon(&mut self) -> Ended {
        try_signal(self.daemon_pid(), Signal::TERM);
        self.wait_for_daemon()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            let ended = self.stop_daemon();
            if std::thread::panicking() {
                eprintln!("daemon: {ended:?}");
                eprintln!("control.log:\n{}", self.log("control.log"));
                eprintln!("server.log:\n{}", self.log("server.log"));
            }
        }
        if self.keeps && std::thread::panicking() {
            eprintln!("what the scene had is kept in {}", self.directory.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|n| n.parse().expect("a PID a line")).collect()
}
