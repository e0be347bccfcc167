//! Programs that a test runs: their output, their end, and a watchdog.

use crate::PATIENCE;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
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
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    Running { child, stdout, stderr, what }
}

/// Runs a program to its end.
pub fn finish(command: &mut Command) -> Ended {
    start(command).wait()
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A killed program's pipe may end in an error: what came before it is still wanted.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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

    /// Waits for its end; panics when it takes too long.
    pub fn wait(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let text = |t: Option<JoinHandle<String>>| t.map(|t| t.join()).transpose();
                let (out, err) = (text(self.stdout.take()), text(self.stderr.take()));
                panic!("{} hangs; stdout: {out:?} stderr: {err:?}", self.what);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text =
            |t: Option<JoinHandle<String>>| t.and_then(|t| t.join().ok()).unwrap_or_default();
        Ended {
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
        }
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
