//! Presence: whether the daemon's files are still where programs look for them.
//!
//! A cleaner of /tmp removes sockets, and a service manager the directory. Programs would then find no
//! daemon and run alone, without a word, while this one holds the device. So it looks from time to time:
//! what was removed is made anew; a directory that is another daemon's by now is left to that one, and
//! this one ends with its last program.

use crate::daemon::Daemon;
use crate::daemon::sources::Sources;
use crate::daemon::state::State;
use crate::directory::{MODES, listen};
use crate::error::DirectoryError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it looks: five system calls.
const PERIOD: Duration = Duration::from_secs(2);

/// When to look again.
#[derive(Debug)]
pub(in crate::daemon) struct Presence {
    /// `None`: the directory is another daemon's.
    due: Option<Instant>,
    /// What is wrong was said.
    said: bool,
}

impl Presence {
    pub fn new(now: Instant) -> Presence {
        Presence { due: Some(now + PERIOD), said: false }
    }

    /// When it is time to look.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks if it is time to.
    pub fn look(
        &mut self,
        sources: &mut Sources,
        daemon: &Daemon,
        state: &mut State,
        now: Instant,
    ) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + PERIOD);
        match make_anew(sources, daemon, state) {
            Ok(()) => self.said = false,
            Err(DirectoryError::AlreadyRunning) => {
                daemon.log(format!(
                    "The pipe directory {} is another daemon's by now: this one ends with its last \
                     program",
                    daemon.directory.path().display()
                ));
                self.due = None;
                state.servers.stop(None, true);
                daemon.wake();
            }
            Err(error) => {
                if !std::mem::replace(&mut self.said, true) {
                    daemon.log(format!("Programs do not find this daemon: {error}"));
                }
            }
        }
    }
}

/// Makes the files anew that are not in their places.
fn make_anew(
    sources: &mut Sources,
    daemon: &Daemon,
    state: &mut State,
) -> Result<(), DirectoryError> {
    let directory = daemon.directory();
    let again = |what: &std::path::Path| {
        daemon.log(format!("{} was removed or replaced: it is made anew", what.display()));
    };
    if !sources.occupied.is_in_place() {
        sources.occupied.occupy_again()?;
        again(directory.path());
    }
    let paths = [directory.control(), directory.control_privileged()];
    for ((listener, path), mode) in sources.listeners.iter_mut().zip(paths).zip(MODES) {
        if !listener.is_in_place() {
            *listener = Arc::new(listen(&path, mode)?);
            again(&path);
        }
    }
    state.tenancy.endpoints_mut().open_again()?.iter().for_each(|path| again(path));
    if !sources.occupied.has_pid() {
        let _ = std::fs::remove_file(directory.pid_file());
        sources.occupied.write_pid()?;
    }
    Ok(())
}
