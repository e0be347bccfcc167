//! Cgroup of a server: one for each in the service's delegated subtree, so that a server without memory ends alone.
//!
//! systemd starts the daemon in the cgroup [`OF_DAEMON`] of its unit (`DelegateSubgroup=`), whose parent it delegates.
//! Each server gets a sibling of it. Elsewhere servers stay in the daemon's cgroup.

use crate::cgroup::cgroup_of;
use std::io;
use std::path::{Path, PathBuf};

/// The daemon's own cgroup in the delegated subtree.
const OF_DAEMON: &str = "daemon";
/// What names of servers' cgroups begin with; a PID follows.
const OF_SERVER: &str = "server-";
/// Controllers that servers' cgroups have where the unit has them.
const CONTROLLERS: [&str; 3] = ["+memory", "+cpu", "+pids"];

/// The subtree that servers' cgroups are in, if one is delegated.
#[derive(Debug, Default)]
pub(in crate::daemon) struct ServerCgroups {
    subtree: Option<PathBuf>,
}

impl ServerCgroups {
    /// The subtree of this process, where cgroups are mounted at `root`.
    pub fn find(root: &Path) -> Self {
        let own = cgroup_of(std::process::id());
        let subtree = own.and_then(|own| subtree_of(root, &own));
        let Some(subtree) = subtree.filter(|path| is_writable(path)) else {
            return Self::default();
        };
        for controller in CONTROLLERS {
            // A machine or a unit may lack it.
            let _ = std::fs::write(subtree.join("cgroup.subtree_control"), controller);
        }
        let found = Self { subtree: Some(subtree) };
        found.remove_empty();
        found
    }

    /// Moves a server into a cgroup of its own.
    ///
    /// # Errors
    /// The kernel's, with which the server stays where it is.
    pub fn enter(&self, pid: u32) -> io::Result<()> {
        let Some(group) = self.group(pid) else { return Ok(()) };
        std::fs::create_dir(&group)?;
        // All of the server or nothing: its threads share what the kernel would kill one process for.
        let _ = std::fs::write(group.join("memory.oom.group"), "1");
        std::fs::write(group.join("cgroup.procs"), pid.to_string())
    }

    /// Removes the cgroup of a server that has ended.
    pub fn leave(&self, pid: u32) {
        if let Some(group) = self.group(pid) {
            // One with a process in it, which a server has left, goes at the daemon's next start.
            let _ = std::fs::remove_dir(group);
        }
    }

    fn group(&self, pid: u32) -> Option<PathBuf> {
        Some(self.subtree.as_ref()?.join(format!("{OF_SERVER}{pid}")))
    }

    /// Removes those of servers that ended while no daemon ran; others have processes, and stay.
    fn remove_empty(&self) {
        let entries = self.subtree.as_ref().and_then(|subtree| std::fs::read_dir(subtree).ok());
        for entry in entries.into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(OF_SERVER) {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

/// Where servers' cgroups belong, by the path in `/proc/self/cgroup`.
fn subtree_of(root: &Path, own: &str) -> Option<PathBuf> {
    let own = Path::new(own);
    if own.file_name()? != OF_DAEMON {
        return None;
    }
    Some(root.join(own.parent()?.strip_prefix("/").ok()?))
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_beside_a_daemon_whose_cgroup_says_so() {
        let of = |own| subtree_of(Path::new("/sys/fs/cgroup/unified"), own);
        let unit = "/sys/fs/cgroup/unified/system.slice/openmps.service";
        assert_eq!(of("/system.slice/openmps.service/daemon"), Some(unit.into()));
        assert_eq!(of("/system.slice/openmps.service"), None, "nothing is delegated");
        assert_eq!(of("/"), None);
    }
}
