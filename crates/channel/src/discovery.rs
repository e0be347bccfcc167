//! Discovery: in which pipe directory the daemon is that serves this process. Programs, shells, `openmps`
//! and NVML look in the same places in the same order.
//!
//! 1. CUDA_MPS_PIPE_DIRECTORY, if it is set; then nothing else is looked at.
//! 2. /tmp/nvidia-mps, NVIDIA's default.
//! 3. /run/nvidia-mps, of the system's service.
//! 4. The user's own: `openmps` in XDG_RUNTIME_DIR and in /run/user/UID, and /tmp/openmps-UID. `openmps up`
//!    starts a daemon there; a program may lack the variable of the session that it was started in.
//!
//! Of 2 to 4 the first one holds in which a daemon listens that is root's or this user's: any user can
//! make a directory in /tmp. A process in a user namespace cannot see whose a daemon outside of it is;
//! it is believed.

use crate::socket::SeqPacket;
use core::time::Duration;
use cuda_api::environment::{
    CUDA_MPS_PIPE_DIRECTORY, OPENMPS_SYSTEM_DIRECTORY, PIPE_DIRECTORY_DEFAULT, XDG_RUNTIME_DIR,
};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory of the system's service (`lib/systemd/system/openmps.service`).
pub const SERVICE_DIRECTORY: &str = "/run/nvidia-mps";
/// The user that stands for those that a user namespace does not have, unless the kernel says another.
const OVERFLOW_UID: u32 = 65534;
/// How long a socket is tried: a daemon with a full queue listens too.
const PROBE: Duration = Duration::from_millis(200);

/// A directory in which a daemon may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub directory: PathBuf,
    /// Why it is one, for people.
    pub why: &'static str,
}

/// The directory that the environment names.
pub fn named() -> Option<PathBuf> {
    let value = std::env::var_os(CUDA_MPS_PIPE_DIRECTORY).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// The places of daemons for a process whose environment names none, in their order.
pub fn places() -> Vec<Place> {
    let mut places = Vec::new();
    let mut own = own_directories();
    let system = std::env::var_os(OPENMPS_SYSTEM_DIRECTORY).map(PathBuf::from);
    match system.filter(|directory| directory.is_absolute()) {
        Some(directory) => {
            places.push(Place { directory, why: "OPENMPS_SYSTEM_DIRECTORY" });
            // Who says where the system's daemon is has one machine for several, as tests have.
            own.truncate(1);
        }
        None => {
            let default = PathBuf::from(PIPE_DIRECTORY_DEFAULT);
            places.push(Place { directory: default, why: "the default directory" });
            let service = PathBuf::from(SERVICE_DIRECTORY);
            places.push(Place { directory: service, why: "the directory of the system's service" });
        }
    }
    for directory in own {
        if places.iter().all(|place| place.directory != directory) {
            places.push(Place { directory, why: "this user's own directory" });
        }
    }
    places
}

/// The directories of a daemon of this user's own; the first one is where it is started.
pub fn own_directories() -> Vec<PathBuf> {
    let me = effective_uid();
    // `su` and `sudo` may leave another user's in the environment.
    let is_mine = |directory: &PathBuf| {
        directory.is_absolute()
            && std::fs::metadata(directory).is_ok_and(|it| it.is_dir() && it.uid() == me)
    };
    let session = std::env::var_os(XDG_RUNTIME_DIR).map(PathBuf::from);
    let runtime = [session, Some(PathBuf::from(format!("/run/user/{me}")))];
    let runtime = runtime.into_iter().flatten().filter(is_mine);
    let mut all: Vec<PathBuf> = runtime.map(|directory| directory.join("openmps")).collect();
    let without_session = PathBuf::from(format!("/tmp/openmps-{me}"));
    // Where there is no session a daemon is started there.
    match std::env::var_os(XDG_RUNTIME_DIR).map(PathBuf::from).filter(is_mine) {
        Some(_) => all.push(without_session),
        None => all.insert(0, without_session),
    }
    all.dedup();
    all
}

/// Those of the places in which a daemon listens that serves this user, in their order.
pub fn listening() -> impl Iterator<Item = Place> {
    places().into_iter().filter(|place| listens(&place.directory))
}

/// True if a daemon listens in a directory that is root's or this user's.
pub fn listens(directory: &Path) -> bool {
    let socket = directory.join("control");
    // Most places are empty, and a look costs less than a connection.
    if std::fs::symlink_metadata(&socket).is_err() {
        return false;
    }
    match SeqPacket::connect(&socket, PROBE) {
        Ok(connection) => connection.peer_credentials().is_ok_and(|peer| serves(peer.uid)),
        // Its queue is full: then the file says whose it is.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            std::fs::symlink_metadata(&socket).is_ok_and(|there| serves(there.uid()))
        }
        Err(_) => false,
    }
}

fn serves(owner: u32) -> bool {
    owner == 0 || owner == effective_uid() || owner == OVERFLOW_UID && in_user_namespace()
}

/// True in a user namespace that does not have all users.
fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Listener;

    #[test]
    fn a_daemon_listens_where_a_socket_is_answered() {
        let directory = std::env::temp_dir().join(format!("discovery-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        assert!(!listens(&directory));
        std::fs::write(directory.join("control"), "").unwrap();
        assert!(!listens(&directory), "a file");
        std::fs::remove_file(directory.join("control")).unwrap();
        let listener = Listener::bind(&directory.join("control"), 0o666).unwrap();
        assert!(listens(&directory));
        drop(listener);
        assert!(!listens(&directory));
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn only_root_and_the_user_itself_are_served_by() {
        assert!(serves(0) && serves(effective_uid()));
        assert!(!serves(4_000_000));
        assert_eq!(serves(OVERFLOW_UID), in_user_namespace() || effective_uid() == OVERFLOW_UID);
        let own = own_directories();
        assert!(own.iter().any(|own| own.to_string_lossy().starts_with("/tmp/openmps-")));
    }
}
