//! Which pipe directory is this user's.
//!
//! The default directory of NVIDIA's MPS is used only if a daemon of ours is there already:
//! programs with NVIDIA's own library look there too.

use crate::directory::{DEFAULT_PIPE_DIRECTORY, PipeDirectory};
use crate::report::Report;
use crate::shell::Shell;
use cuda_api::environment::{OPENMPS_SYSTEM_DIRECTORY, XDG_RUNTIME_DIR};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a daemon may take to say who it is.
pub const ANSWER: Duration = Duration::from_secs(5);

/// The pipe directory of this user: the environment's, else the default one if a daemon there
/// serves this user, else one of the user's own.
pub fn pipe_directory() -> PathBuf {
    if let Some(directory) = PipeDirectory::from_environment() {
        let path = directory.path();
        return std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    }
    let system = std::env::var_os(OPENMPS_SYSTEM_DIRECTORY).map(PathBuf::from);
    let system = system
        .filter(|directory| directory.is_absolute())
        .unwrap_or_else(|| PathBuf::from(DEFAULT_PIPE_DIRECTORY));
    if is_trustworthy(&system)
        && let Some(Report { uid: owner, .. }) = report(&system)
        && (owner == 0 || owner == rustix::process::geteuid().as_raw())
    {
        return system;
    }
    own_directory()
}

/// The directory for a daemon of this user's own. A runtime directory is used if it is this user's:
/// `su` and `sudo` may leave another one's in the environment.
pub fn own_directory() -> PathBuf {
    let me = rustix::process::geteuid().as_raw();
    let is_mine = |directory: &PathBuf| {
        directory.is_absolute()
            && std::fs::metadata(directory).is_ok_and(|it| it.is_dir() && it.uid() == me)
    };
    match std::env::var_os(XDG_RUNTIME_DIR).map(PathBuf::from).filter(is_mine) {
        Some(directory) => directory.join("openmps"),
        None => PathBuf::from(format!("/tmp/openmps-{me}")),
    }
}

/// Only root or this user could have put a daemon into the directory.
pub fn is_trustworthy(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory).is_ok_and(|metadata| {
        let owner = metadata.uid();
        let others_write = metadata.mode() & 0o022 != 0;
        metadata.is_dir()
            && !others_write
            && (owner == 0 || owner == rustix::process::geteuid().as_raw())
    })
}

/// What the daemon in a directory says about itself; `None` if there is none of ours.
pub fn report(directory: &Path) -> Option<Report> {
    let shell = Shell::new(PipeDirectory::new(directory)).with_patience(ANSWER);
    let (report, status) = shell.ask("report").ok()?;
    serde_json::from_str(&report).ok().filter(|_| status == 0)
}
