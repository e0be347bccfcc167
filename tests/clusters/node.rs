//! A node: directories of its own, daemons in them, the programs of an installation under NVIDIA's names.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::{Ended, Running, Signal, dist, finish, start, try_signal, wait_until};
pub use tests::{is_root, skipped};

/// A machine's directories. Every user may enter them.
pub struct Node {
    root: PathBuf,
    /// Variables of the software GPU, for all programs.
    device: Vec<(&'static str, String)>,
}

impl Node {
    pub fn new() -> Node {
        Node::with_device(&[])
    }

    /// With variables of the software GPU.
    pub fn with_device(device: &[(&'static str, &str)]) -> Node {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("openmps-node-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let node =
            Node { root, device: device.iter().map(|(name, of)| (*name, (*of).into())).collect() };
        node.directory("bin", 0o755);
        // Processes of all users meet there.
        for shared in ["soft", "cache"] {
            node.directory(shared, 0o1777);
        }
        for name in ["nvidia-cuda-mps-control", "nvidia-smi"] {
            symlink(dist().join("bin/openmps"), node.path("bin").join(name)).expect("a link");
        }
        node
    }

    /// One more variable for all programs.
    pub fn set(&mut self, name: &'static str, value: &Path) {
        self.device.push((name, value.display().to_string()));
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// A directory with a mode.
    pub fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path
    }

    /// A program with nothing in its environment but what keeps this node's software GPU apart from others'.
    pub fn bare(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("OPENMPS_PROVIDER", "soft")
            .env("OPENMPS_SOFT_DIR", self.path("soft"));
        command.env("CUDA_CACHE_PATH", self.path("cache"));
        command.envs(self.device.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The control program with its two directories.
    pub fn control(&self, pipe: &Path, log: &Path) -> Command {
        let mut command = self.bare(self.path("bin/nvidia-cuda-mps-control"));
        command.env("CUDA_MPS_PIPE_DIRECTORY", pipe).env("CUDA_MPS_LOG_DIRECTORY", log);
        command
    }

    /// A command by standard input, as components give it: without an end of line.
    pub fn echo(&self, pipe: &Path, line: &str) -> Ended {
        feed(&mut self.control(pipe, &self.path("no-log")), line)
    }

    /// The words of a command as arguments.
    pub fn ask(&self, pipe: &Path, line: &str) -> Ended {
        finish(self.control(pipe, &self.path("no-log")).args(line.split(' ')))
    }

    /// nvidia-smi with these words.
    pub fn smi(&self, line: &str) -> Ended {
        finish(self.bare(self.path("bin/nvidia-smi")).args(line.split_whitespace()))
    }

    /// A sample program that has the daemon's directory and the libraries, and nothing else.
    pub fn sample(&self, pipe: &Path, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.bare(dist().join("lib/openmps/samples").join(name));
        command.args(arguments);
        command
            .env("LD_LIBRARY_PATH", dist().join("lib/openmps"))
            .env("CUDA_MPS_PIPE_DIRECTORY", pipe);
        command
    }

    /// A program that computes, is compared with the processor's result, and ends.
    pub fn computes(&self, pipe: &Path) -> Command {
        self.sample(pipe, "vector_add", &["--iterations", "2"])
    }

    /// The same, until a file is there.
    pub fn computes_until(&self, pipe: &Path, file: &Path) -> Command {
        let file = file.to_str().expect("a path");
        self.sample(pipe, "vector_add", &["--until", file])
    }

    /// Starts a daemon by `-d` and these words; it ends with the guard.
    pub fn start(&self, pipe: &Path, log: &Path, words: &[&str]) -> Daemon {
        finish(self.control(pipe, log).arg("-d").args(words)).expect_success();
        Daemon::of(pipe)
    }

    /// What the daemon knows.
    pub fn report(&self, pipe: &Path) -> Value {
        let text = self.ask(pipe, "report").expect_success().stdout;
        serde_json::from_str(&text).expect("JSON")
    }

    /// All clients of the daemon's servers.
    pub fn clients(&self, pipe: &Path) -> Vec<Value> {
        let report = self.report(pipe);
        let servers = report["servers"].as_array().cloned().unwrap_or_default();
        let of = |server: &Value| server["clients"].as_array().cloned().unwrap_or_default();
        servers.iter().flat_map(of).collect()
    }

    /// Waits until the daemon has so many clients that have launched kernels.
    pub fn wait_for_clients(&self, pipe: &Path, count: usize) -> Vec<Value> {
        let mut clients = Vec::new();
        wait_until("the clients compute", || {
            clients = self.clients(pipe);
            clients.len() == count && clients.iter().all(|of| of["kernels"].as_u64() > Some(0))
        });
        clients
    }

    /// UUIDs of the devices.
    pub fn uuids(&self) -> Vec<String> {
        let listed = self.smi("--query-gpu=uuid --format=csv,noheader").expect_success().stdout;
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in logs(&self.root) {
                let text = fs::read_to_string(&log).unwrap_or_default();
                eprintln!("{}:\n{text}", log.display());
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn logs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(logs(&path)),
            Ok(kind) if kind.is_file() && path.ends_with("control.log") => found.push(path),
            _ => {}
        }
    }
    found
}

/// A daemon that ends with the test.
pub struct Daemon {
    pub pid: u32,
}

impl Daemon {
    pub fn of(pipe: &Path) -> Daemon {
        let text = fs::read_to_string(pipe.join("nvidia-cuda-mps-control.pid")).expect("its PID");
        Daemon { pid: text.trim().parse().expect("a number") }
    }

    pub fn is_there(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.is_there() {
            try_signal(self.pid, Signal::TERM);
            wait_until("the daemon ends", || !self.is_there());
        }
    }
}

/// Runs a program with this standard input to its end.
pub fn feed(command: &mut Command, input: &str) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("to run");
    // Without a daemon the program may end before it reads.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("to end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// A program in the background, ended in the end.
pub fn background(command: &mut Command) -> Running {
    start(command)
}

/// Whether new user, mount and PID namespaces can be made.
pub fn can_unshare() -> bool {
    let script = "mount -t tmpfs none /dev/shm && mount --bind /tmp /mnt";
    let tried = Command::new("unshare").args(UNSHARE).args(["sh", "-c", script]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// New user, mount, PID, IPC and network namespaces.
pub const UNSHARE: &[&str] =
    &["-U", "-r", "-m", "-p", "-f", "-i", "-n", "--mount-proc", "--kill-child"];
