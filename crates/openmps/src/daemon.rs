//! Which daemon is this user's: finding it, starting it.
//!
//! Where to look says [`control::locate`]; what `openmps` starts lives in a directory of the user's
//! own.

use crate::libraries::Libraries;
use crate::output;
use crate::personality;
use anyhow::{Context, Result, bail};
use control::directory::PipeDirectory;
pub(crate) use control::locate::pipe_directory;
use control::locate::{ANSWER, is_trustworthy, own_directory};
use control::report::Report;
use control::shell::{Shell, ShellError};
use cuda_api::environment::{
    CUDA_CACHE_DISABLE, CUDA_CACHE_PATH, CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY,
    CUDA_VISIBLE_DEVICES, OPENMPS_LIB_DIR, OPENMPS_SOFT_DIR, VARIABLES, Variable,
};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long another process's daemon may take from its lock to its sockets.
const OTHERS_START: Duration = Duration::from_secs(10);
/// How long a daemon that no program uses may take to end.
const OTHERS_END: Duration = Duration::from_secs(5);
/// From one look at another process's daemon to the next.
const POLL: Duration = Duration::from_millis(20);

/// An error if the daemon takes no program of this user's: it is another user's, or is ending.
fn check_takes_us(report: &Report) -> Result<()> {
    if report.uid != 0 && report.uid != rustix::process::geteuid().as_raw() {
        bail!(
            "the daemon in {} belongs to {} and serves only that user; set \
             {CUDA_MPS_PIPE_DIRECTORY} to another directory",
            report.pipe_directory.display(),
            control::users::name(report.uid)
        );
    }
    if report.stopping {
        bail!(
            "the daemon in {} is shutting down and waits for {} program(s); \
             `openmps down --timeout 0` ends them",
            report.pipe_directory.display(),
            report.programs()
        );
    }
    Ok(())
}

/// What is in a pipe directory.
#[derive(Debug)]
pub(crate) enum State {
    /// A daemon of openmps that takes this user's programs.
    Running {
        /// `openmps 0.1.0`
        version: String,
    },
    /// No daemon.
    None,
    /// Something that we cannot use.
    Foreign {
        /// Why not.
        reason: String,
    },
}

/// What is in `directory`.
pub(crate) fn state(directory: &Path) -> State {
    if directory == own_directory()
        && directory.exists()
        && let Err(error) = check_own(directory)
    {
        return State::Foreign { reason: format!("{error:#}") };
    }
    match ask(directory) {
        Ok(Some(report)) => match check_takes_us(&report) {
            Ok(()) => State::Running { version: format!("openmps {}", report.version) },
            Err(error) => State::Foreign { reason: error.to_string() },
        },
        Ok(None) => State::None,
        Err(error) => State::Foreign { reason: format!("{error:#}") },
    }
}

/// What the daemon in `directory` says about itself; `None` if there is none.
pub(crate) fn ask(directory: &Path) -> Result<Option<Report>> {
    Ok(ask_for_text(directory)?.map(|(_, report)| report))
}

/// The same, with the JSON that it was read from.
pub(crate) fn ask_for_text(directory: &Path) -> Result<Option<(String, Report)>> {
    let shell = Shell::new(PipeDirectory::new(directory)).with_patience(ANSWER);
    let (text, status) = match shell.ask("report") {
        Ok(answer) => answer,
        Err(ShellError::NoDaemon) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if status != 0 {
        bail!("the daemon in {} says: {}", directory.display(), text.trim());
    }
    let report = serde_json::from_str(&text)
        .with_context(|| format!("reading the report of the daemon in {}", directory.display()))?;
    Ok(Some((text, report)))
}

/// This user's daemon, and whether it was started for this.
pub(crate) fn find_or_start(libraries: &Libraries) -> Result<(Report, bool)> {
    find_or_start_with(libraries, &[])
}

/// The same; a daemon that is started gets these environment variables.
pub(crate) fn find_or_start_with(
    libraries: &Libraries,
    environment: &[(&str, String)],
) -> Result<(Report, bool)> {
    let directory = pipe_directory();
    if directory == own_directory() {
        make(&directory)?;
        check_own(&directory)?;
    }
    let found = ask_unless_ending(&directory).with_context(|| {
        format!(
            "no daemon can be had in {}; set {CUDA_MPS_PIPE_DIRECTORY} to another directory",
            directory.display()
        )
    })?;
    match found {
        Some(report) => {
            check_takes_us(&report)?;
            Ok((report, false))
        }
        None => start(&directory, libraries, environment),
    }
}

/// As [`ask`], once a daemon that ends, and has no program left to wait for, is gone.
fn ask_unless_ending(directory: &Path) -> Result<Option<Report>> {
    let deadline = Instant::now() + OTHERS_END;
    loop {
        match ask(directory)? {
            Some(report)
                if report.stopping && report.programs() == 0 && Instant::now() < deadline =>
            {
                std::thread::sleep(POLL);
            }
            found => return Ok(found),
        }
    }
}

/// Makes the user's own directory, for this user alone.
fn make(directory: &Path) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| {
                format!(
                    "making {} for the daemon ({CUDA_MPS_PIPE_DIRECTORY} names another directory)",
                    directory.display()
                )
            })
        }
        _ => Ok(()),
    }
}

/// Refuses the user's own directory if another user may have made it.
fn check_own(directory: &Path) -> Result<()> {
    if !is_trustworthy(directory) {
        bail!(
            "{} is not this user's alone: remove it, or set {CUDA_MPS_PIPE_DIRECTORY} to another \
             directory",
            directory.display()
        );
    }
    Ok(())
}

fn start(
    directory: &Path,
    libraries: &Libraries,
    environment: &[(&str, String)],
) -> Result<(Report, bool)> {
    let mut command = personality::own(personality::CONTROL);
    command
        .arg("-d")
        .env(CUDA_MPS_PIPE_DIRECTORY, directory)
        .env(OPENMPS_LIB_DIR, libraries.directory())
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if std::env::var_os(CUDA_MPS_LOG_DIRECTORY).is_none() {
        command.env(CUDA_MPS_LOG_DIRECTORY, directory);
    }
    if !provider::wants_a_device() {
        // That is meant for a program, or left over: other programs want the daemon to have one.
        command.env_remove(CUDA_VISIBLE_DEVICES);
    }
    let ended = command.output().context("starting a daemon")?;
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    if ended.status.success() {
        said.lines().for_each(output::say);
        let report = ask(directory)?.context("the daemon that was started has ended at once")?;
        return Ok((report, true));
    }
    // Another process was faster: its daemon is as good.
    let deadline = Instant::now() + OTHERS_START;
    let taken = control::error::DirectoryError::AlreadyRunning.to_string();
    while said == taken && Instant::now() < deadline {
        if let Some(report) = ask(directory)? {
            return Ok((report, false));
        }
        std::thread::sleep(POLL);
    }
    bail!("no daemon could be started in {}: {said}", directory.display())
}

/// Says that a daemon was started, by a command that is about something else, and stays.
pub(crate) fn say_started(report: &Report) {
    output::say(format_args!(
        "started a daemon (PID {}) in {}; `openmps down` stops it",
        report.pid,
        report.pipe_directory.display()
    ));
}

/// Variables that the daemon and its servers read and programs do not, which are set here to what the daemon in the
/// background was not started with: they have no effect on a program that is its client.
fn without_effect(
    set: impl Fn(&str) -> Option<String>,
    of_daemon: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let is_servers = |row: &&Variable| {
        row.readers.split(", ").all(|reader| ["daemon", "server", "software GPU"].contains(&reader))
            // The device's processes meet there, clients' tools too.
            && ![OPENMPS_SOFT_DIR, CUDA_CACHE_PATH, CUDA_CACHE_DISABLE].contains(&row.name)
    };
    let differs = |row: &&Variable| {
        let here = set(row.name).filter(|value| !value.is_empty());
        here.is_some() && here != of_daemon(row.name)
    };
    VARIABLES.iter().filter(is_servers).filter(differs).map(|row| row.name.to_owned()).collect()
}

/// The environment of the daemon's process; `None` where it cannot be read: it is another user's.
fn environment_of(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    Some(variables.map(String::from).collect())
}

/// The value of a variable in an environment.
fn value_in(environment: &[String], name: &str) -> Option<String> {
    let values = environment.iter().filter_map(|variable| variable.split_once('='));
    values.filter(|(of, _)| *of == name).map(|(_, value)| value.to_owned()).next()
}

/// Which of these variables a daemon that runs was not started with; all where that cannot be known.
pub(crate) fn not_applied(report: &Report, wanted: &[(&'static str, String)]) -> Vec<&'static str> {
    let environment = environment_of(report.pid).unwrap_or_default();
    let differs = |(name, value): &&(&'static str, String)| {
        value_in(&environment, name).as_ref() != Some(value)
    };
    wanted.iter().filter(differs).map(|(name, _)| *name).collect()
}

/// Says which variables of this environment a daemon that runs does not heed. `alone`: the program is no client.
pub(crate) fn say_what_has_no_effect(report: &Report, alone: bool) {
    let Some(environment) = environment_of(report.pid).filter(|_| !alone) else { return };
    let names =
        without_effect(|name| std::env::var(name).ok(), |name| value_in(&environment, name));
    if !names.is_empty() {
        output::say(format_args!(
            "{}: read by the daemon's servers alone, and the daemon (PID {}) runs already, without it: no effect here; \
             set it for `openmps up`, after `openmps down`",
            names.join(", "),
            report.pid
        ));
    }
}

/// The error of a command that needs a daemon where there is none.
pub(crate) fn none_in(directory: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "no daemon runs in {}; `openmps up` or `openmps run` starts one",
        directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_servers_read_has_no_effect_at_a_daemon_that_runs() {
        let set = |name: &str| match name {
            "OPENMPS_SOFT_PROFILE" => Some("k.tsv".to_owned()),
            "OPENMPS_SOFT_SMS" => Some("16".to_owned()),
            // Programs read these.
            "OPENMPS_CLASS" => Some("batch".to_owned()),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" => Some("50".to_owned()),
            _ => None,
        };
        let of_daemon = |name: &str| (name == "OPENMPS_SOFT_SMS").then(|| "16".to_owned());
        assert_eq!(without_effect(set, of_daemon), ["OPENMPS_SOFT_PROFILE"]);
        assert_eq!(without_effect(|_| None, of_daemon), [""; 0]);
        let environment = ["A=1".to_owned(), "AB=2=3".to_owned()];
        assert_eq!(value_in(&environment, "AB").as_deref(), Some("2=3"));
    }
}
