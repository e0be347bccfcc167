//! Groups: CUDA programs that start together, with or without sharing, for `demo` and `bench`.
//!
//! A program of a group takes `--barrier FILE`: when it is ready it makes `FILE.ready.PID`, and
//! starts once FILE exists. It prints one line of JSON at its end.

use crate::activity::Reading;
use crate::libraries::Libraries;
use crate::personality;
use crate::scratch::Scratch;
use crate::signals;
use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use cuda_api::environment::{
    CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY, OPENMPS_LIB_DIR, OPENMPS_SOFT_DIR,
};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a program may take to get ready: building kernels on a busy machine of two cores.
const READY_S_MAX: u64 = 60;
/// How long a daemon may take to accept connections, and to end.
const DAEMON_S_MAX: u64 = 20;
const POLL: Duration = Duration::from_millis(2);
/// Most programs of a group: the software GPU and its clients are to fit a small machine.
const PROGRAMS_MAX: u64 = 64;

/// Reads a number of programs from the command line.
pub(crate) fn programs_parser() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=PROGRAMS_MAX)
}

/// Set by Ctrl-C: everything that waits gives up, and what was started is ended on the way out.
fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// True after Ctrl-C or SIGTERM on a [`Stage`]. A command that ends with an error then has not
/// failed: what it waited for, a daemon of its own above all, got the signal too.
pub(crate) fn is_interrupted() -> bool {
    interrupted().load(Ordering::Relaxed)
}

/// An error after Ctrl-C or SIGTERM, for what would go on otherwise.
pub(crate) fn check_interrupted() -> Result<()> {
    if is_interrupted() {
        bail!("interrupted");
    }
    Ok(())
}

/// Where groups run: the libraries, and a directory of this command's own in which the processes
/// of the software GPU meet, so that no other programs' work is counted or waited for.
pub(crate) struct Stage {
    libraries: Libraries,
    meeting: Scratch,
}

/// How the programs of a group get at the device.
#[derive(Clone, Copy)]
pub(crate) enum Setting<'a> {
    /// Each by itself through the provider in its own process: they take turns.
    Turns,
    /// Through this daemon: they share.
    Shared(&'a PrivateDaemon),
}

/// A daemon for the command's own use, in a directory of its own; ended on drop.
pub(crate) struct PrivateDaemon {
    child: Child,
    directory: Scratch,
}

impl Stage {
    /// Finds the libraries and sees to it that Ctrl-C ends what is started here.
    pub(crate) fn new() -> Result<Self> {
        let libraries = Libraries::find()?;
        let meeting = Scratch::new("soft")?;
        signals::note(interrupted())?;
        Ok(Self { libraries, meeting })
    }

    /// The libraries that the groups use.
    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// What the software GPU has done on this stage.
    pub(crate) fn activity(&self) -> Reading {
        Reading::take(self.meeting.path())
    }

    /// Starts a daemon and waits until it accepts connections.
    pub(crate) fn daemon(&self) -> Result<PrivateDaemon> {
        self.daemon_with(&[])
    }

    /// The same with these environment variables.
    pub(crate) fn daemon_with(&self, environment: &[(&str, &str)]) -> Result<PrivateDaemon> {
        let directory = Scratch::new("daemon")?;
        // In memory: what it says of a full disk has to have room.
        let log = memfd_create("openmps-daemon", MemfdFlags::CLOEXEC).context("making a log")?;
        let mut log = std::fs::File::from(log);
        let mut command = personality::own(personality::CONTROL);
        ends_with_us(&mut command);
        let child = command
            .arg("-f")
            .env(CUDA_MPS_PIPE_DIRECTORY, directory.path())
            .env(CUDA_MPS_LOG_DIRECTORY, directory.path())
            .env(OPENMPS_LIB_DIR, self.libraries.directory())
            .env(OPENMPS_SOFT_DIR, self.meeting.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.try_clone()?)
            .spawn()
            .context("starting a daemon")?;
        let mut daemon = PrivateDaemon { child, directory };
        let socket = daemon.pipe_directory().join("control");
        wait_until(DAEMON_S_MAX, "the daemon accepts connections", || {
            if let Some(status) = daemon.child.try_wait()? {
                let mut said = String::new();
                log.seek(SeekFrom::Start(0)).and_then(|_| log.read_to_string(&mut said))?;
                bail!(
                    "the daemon in {} (TMPDIR says where such directories go) ended at once, \
                     {status}: {}",
                    daemon.pipe_directory().display(),
                    said.trim()
                );
            }
            Ok(socket.exists())
        })?;
        Ok(daemon)
    }

    /// Starts the programs, lets them begin together, calls `started`, and returns their reports
    /// in order.
    pub(crate) fn run(
        &self,
        setting: Setting<'_>,
        programs: &[Program],
        started: impl FnOnce(),
    ) -> Result<Vec<Report>> {
        let scratch = Scratch::new("group")?;
        let barrier = scratch.path().join("go");
        let mut members = Members(Vec::new());
        for program in programs {
            members.0.push(self.start(setting, program, &scratch, &barrier)?);
        }
        wait_until(READY_S_MAX, "all programs are ready", || {
            for (child, program) in members.0.iter_mut().zip(programs) {
                if !program.takes_barrier {
                    continue;
                }
                if let Some(status) = child.try_wait()? {
                    bail!("{} ended before it was ready: {status}", program.path.display());
                }
            }
            let ready = std::fs::read_dir(scratch.path())?
                .filter_map(|entry| Some(entry.ok()?.file_name()))
                .filter(|name| name.to_string_lossy().starts_with("go.ready."))
                .count();
            Ok(ready == programs.iter().filter(|p| p.takes_barrier).count())
        })?;
        std::fs::write(&barrier, "")?;
        started();
        members.0.iter_mut().zip(programs).map(|(child, p)| report(child, p)).collect()
    }

    fn start(
        &self,
        setting: Setting<'_>,
        program: &Program,
        scratch: &Scratch,
        barrier: &Path,
    ) -> Result<Child> {
        let mut arguments: Vec<&OsStr> = program.arguments.iter().map(OsStr::new).collect();
        if program.takes_barrier {
            arguments.extend([OsStr::new("--barrier"), barrier.as_os_str()]);
        }
        let directory = match setting {
            // A directory without a daemon: the library passes through.
            Setting::Turns => scratch.path(),
            Setting::Shared(daemon) => daemon.pipe_directory(),
        };
        self.spawn(directory, &program.path, &arguments)
    }

    /// Runs one program that shares through this daemon to its end; what it says is of no interest.
    pub(crate) fn finish(
        &self,
        daemon: &PrivateDaemon,
        path: &Path,
        arguments: &[&str],
    ) -> Result<std::process::ExitStatus> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = self.command(daemon.pipe_directory(), path, &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().with_context(|| format!("running {}", path.display()))
    }

    /// Starts one program that shares through this daemon; its output is the caller's to read, and
    /// the program the caller's to end.
    pub(crate) fn client(&self, daemon: &PrivateDaemon, path: &Path) -> Result<Child> {
        self.spawn(daemon.pipe_directory(), path, &[])
    }

    fn spawn(&self, directory: &Path, path: &Path, arguments: &[&OsStr]) -> Result<Child> {
        self.command(directory, path, arguments)
            .spawn()
            .with_context(|| format!("starting {}", path.display()))
    }

    fn command(&self, directory: &Path, path: &Path, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(path);
        self.libraries.put_in_front(&mut command);
        ends_with_us(&mut command);
        command
            .args(arguments)
            .env(OPENMPS_SOFT_DIR, self.meeting.path())
            .env(CUDA_MPS_PIPE_DIRECTORY, directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }
}

fn report(child: &mut Child, program: &Program) -> Result<Report> {
    let mut text = String::new();
    child.stdout.as_mut().context("a program has an output")?.read_to_string(&mut text)?;
    let status = child.wait()?;
    check_interrupted()?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| {
        format!("{} ({status}) printed no report: {line:?}", program.path.display())
    })
}

impl PrivateDaemon {
    /// The directory of its sockets.
    pub(crate) fn pipe_directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(DAEMON_S_MAX));
    }
}

/// Has a child asked to end when this program ends, however that comes about.
fn ends_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec, makes three system calls and allocates
    // nothing; the handler that it takes away is the child's copy, which exec takes away too.
    unsafe {
        command.pre_exec(move || {
            // Our own handler would take note of the signal and be gone with exec.
            if libc::signal(libc::SIGTERM, libc::SIG_DFL) == libc::SIG_ERR {
                return Err(std::io::Error::last_os_error());
            }
            let ask = Some(rustix::process::Signal::TERM);
            rustix::process::set_parent_process_death_signal(ask)?;
            // No signal comes from a parent that ended before that call.
            if rustix::process::getppid() == Some(us) {
                Ok(())
            } else {
                Err(rustix::io::Errno::SRCH.into())
            }
        });
    }
}

/// Asks a child to end, and makes it end if it does not within `patience`.
fn end(child: &mut Child, patience: Duration) {
    let deadline = Instant::now() + patience;
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended already: then there is no process to signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// One program of a group.
pub(crate) struct Program {
    /// The executable.
    pub(crate) path: PathBuf,
    /// Its arguments but for the barrier.
    pub(crate) arguments: Vec<String>,
    /// Whether it starts with the others. One that does not starts at once.
    pub(crate) takes_barrier: bool,
}

/// What one program of a group printed: its last line, parsed.
pub(crate) type Report = serde_json::Value;

struct Members(Vec<Child>);

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if matches!(child.try_wait(), Ok(None)) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn wait_until(
    seconds_max: u64,
    what: &str,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(seconds_max);
    while !condition()? {
        check_interrupted()?;
        if Instant::now() > deadline {
            bail!("waited {seconds_max} s, but not yet: {what}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
