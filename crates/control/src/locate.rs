//! Which pipe directory is this user's: where `openmps`, the shell and NVML find a daemon, as programs do
//! (`channel::discovery`), and where a daemon of the user's own is started.

use crate::directory::PipeDirectory;
use crate::report::Report;
use crate::shell::{Shell, ShellError};
use channel::discovery;
pub use channel::discovery::Place;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a daemon may take to say who it is.
pub const ANSWER: Duration = Duration::from_secs(5);

/// The pipe directory of this user: the environment's, else the first one in which a daemon of ours serves
/// this user, else one of the user's own.
pub fn pipe_directory() -> PathBuf {
    place().directory
}

/// The same, and why it is that one.
pub fn place() -> Place {
    if let Some(directory) = discovery::named() {
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        return Place { directory, why: "CUDA_MPS_PIPE_DIRECTORY" };
    }
    let why = "this user's own directory";
    running().unwrap_or_else(|| Place { directory: own_directory(), why })
}

/// The first of the places in which a daemon of ours runs, even if it does not answer now. Another
/// project's daemon is none of ours.
fn running() -> Option<Place> {
    let is_ours = |place: &Place| {
        let shell = Shell::new(PipeDirectory::new(&place.directory)).with_patience(ANSWER);
        matches!(shell.ask("report"), Ok(_) | Err(ShellError::Silent(_)))
    };
    discovery::listening().find(is_ours)
}

/// The directory of the daemon that commands of the shell are for: as [`pipe_directory`], but the default one
/// where there is no daemon.
pub fn of_shell() -> PipeDirectory {
    match discovery::named() {
        Some(directory) => PipeDirectory::new(directory),
        None => {
            running().map_or_else(PipeDirectory::found, |place| PipeDirectory::new(place.directory))
        }
    }
}

/// The directory for a daemon of this user's own. A runtime directory is used if it is this user's:
/// `su` and `sudo` may leave another one's in the environment.
pub fn own_directory() -> PathBuf {
    discovery::own_directories().swap_remove(0)
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
