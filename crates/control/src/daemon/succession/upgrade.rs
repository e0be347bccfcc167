//! Upgrade: servers of another version in the place of all. Which server follows which is decided in crate
//! `recovery`.

use crate::daemon::Daemon;
use crate::daemon::clients::launch_error::LaunchError;
use crate::daemon::problems;
use crate::daemon::state::State;
use recovery::servers::Phase;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long servers of a new version may take to be ready, and the old ones to hand over.
const UPGRADE_S_MAX: u64 = 180;

/// The result of an upgrade.
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
        let before = program.map(|program| self.set_program(Some(program)));
        let (servers, mut effects) = state.servers_and_effects(self);
        let old = servers.begin_upgrade(Instant::now(), &mut effects);
        let deadline = Instant::now() + Duration::from_secs(UPGRADE_S_MAX);
        let (mut state, _) = self.wait_until(state, Some(deadline), |state| {
            // One whose next server did not start serves on, and nothing is to be waited for.
            let waits = old.iter().any(|pid| state.servers.is_being_replaced(*pid));
            (!waits).then_some(())
        });
        let serves = |state: &mut State, pid: u32| {
            state.server(pid).is_some_and(|server| server.phase == Phase::Running)
        };
        if let Some(pid) = old.iter().copied().find(|pid| serves(&mut state, *pid)) {
            let reason =
                format!("server {pid} still serves: no new one was ready; see control.log");
            if let Some(before) = before {
                self.set_program(before);
            }
            return Err(LaunchError::Ended(reason));
        }
        let left = old.iter().filter(|pid| state.server(**pid).is_some()).count();
        problems::SERVERS_UPGRADED.fetch_add(old.len() as u64, Ordering::Relaxed);
        Ok(Upgraded { servers: old.len(), left })
    }

    /// Has servers be of another program from now on. Returns the one before; `None`: this one.
    fn set_program(&self, program: Option<PathBuf>) -> Option<PathBuf> {
        let mut of_servers = self.program.lock();
        std::mem::replace(&mut *of_servers, program)
    }

    /// Has servers and daemon of the program take over that was installed in this one's place since it
    /// was started; in the background, and only if there is one.
    pub(in crate::daemon) fn upgrade_to_installed(&self) {
        let (Some(program), Some(daemon)) = (installed_since(), self.this.upgrade()) else {
            return;
        };
        self.log(format!("{} is another program now, which takes over", program.display()));
        let upgrade = move || match daemon.upgrade(Some(program.clone())) {
            Ok(_) => {
                if let Some(why) = daemon.begin_handover(Some(program)) {
                    daemon.log(why);
                }
            }
            Err(error) => daemon.log(format!("The servers stay: {error}")),
        };
        if let Err(error) = std::thread::Builder::new().name("upgrade".into()).spawn(upgrade) {
            self.log(format!("The servers stay: {error}"));
        }
    }
}

/// The path by which this program was started, if there is another file by now.
fn installed_since() -> Option<PathBuf> {
    let running = std::fs::metadata("/proc/self/exe").ok()?;
    let path = std::env::current_exe().ok()?.into_os_string().into_vec();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    let path = PathBuf::from(OsStr::from_bytes(path));
    let there = std::fs::metadata(&path).ok().filter(|there| there.is_file())?;
    ((there.dev(), there.ino()) != (running.dev(), running.ino())).then_some(path)
}
