//! Upgrade: servers of another version in the place of all. Which server follows which is decided in crate
//! `recovery`.

use super::Daemon;
use super::launch_error::LaunchError;
use super::state::State;
use recovery::servers::Phase;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long servers of a new version may take to be ready, and the old ones to hand over.
const UPGRADE_S_MAX: u64 = 180;

/// What came of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upgraded {
    /// Servers whose clients have gone to new ones.
    pub servers: usize,
    /// Servers that still finish work of their clients.
    pub left: usize,
}

impl Daemon {
    /// Puts servers of the program at `program` in place of all, whose programs go on with them.
    ///
    /// # Errors
    /// No server of the new version could be started.
    pub(crate) fn upgrade(&self, program: Option<PathBuf>) -> Result<Upgraded, LaunchError> {
        let mut state = self.lock();
        if program.is_some() {
            *self.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = program;
        }
        let (servers, mut hands) = state.servers_and_hands(self);
        let old = servers.begin_upgrade(Instant::now(), &mut hands);
        let deadline = Instant::now() + Duration::from_secs(UPGRADE_S_MAX);
        let (mut state, _) = self.wait_until(state, Some(deadline), |state| {
            let waits = old.iter().any(|pid| state.server(*pid).is_some());
            (!waits).then_some(())
        });
        let serves = |state: &mut State, pid: u32| {
            state.server(pid).is_some_and(|server| server.phase == Phase::Running)
        };
        if let Some(pid) = old.iter().copied().find(|pid| serves(&mut state, *pid)) {
            let reason =
                format!("server {pid} still serves: no new one was ready; see control.log");
            return Err(LaunchError::Ended(reason));
        }
        let left = old.iter().filter(|pid| state.server(**pid).is_some()).count();
        Ok(Upgraded { servers: old.len(), left })
    }
}
