//! Users of the device: clients of this user's daemon, by its word, and processes without one, by
//! the rows that they keep (see [`ProcessRow`]).

use super::daemon_directory;
use control::locate;
use control::report::ClientReport;
use cuda_api::extension::{PROCESS_ROWS_MAX, ProcessRow};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) pid: u32,
    pub(crate) memory_bytes: u64,
    /// Device memory that it may have, bytes, if that is limited.
    pub(crate) memory_limit: Option<u64>,
    /// Time in which a kernel of it ran, ns, if it is counted.
    pub(crate) busy_ns: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// Those that share the device through a daemon.
    pub(crate) clients: Vec<User>,
    /// Those that use it by themselves.
    pub(crate) alone: Vec<User>,
}

impl Users {
    /// Those of the device with this UUID, as they are now. The daemon's servers have their clients'
    /// memory and are not listed.
    pub(super) fn find(file: Option<&Path>, uuid: &str) -> Self {
        let report = locate::report(&daemon_directory());
        let servers = report.map_or_else(Vec::new, |report| report.servers);
        let alone = rows(file)
            .into_iter()
            .filter(|user| servers.iter().all(|server| server.pid != user.pid))
            .collect();
        let clients = servers.iter().flat_map(|server| &server.clients);
        let here =
            |client: &&ClientReport| client.device_uuid.is_empty() || client.device_uuid == uuid;
        let clients = clients.filter(here).filter_map(user);
        Self { clients: clients.collect(), alone }
    }
}

/// Memory of all processes that keep a row, bytes: servers among them, for their clients.
pub(super) fn used_bytes(file: Option<&Path>) -> u64 {
    rows(file).iter().fold(0, |sum, user| sum.saturating_add(user.memory_bytes))
}

/// A process that has no id here is in another namespace, and cannot be named.
fn user(client: &ClientReport) -> Option<User> {
    let busy_ns = client.work.map(|work| work.busy_ns);
    let memory_limit = client.limits.memory_bytes;
    Some(User { pid: client.pid?, memory_bytes: client.memory_bytes, memory_limit, busy_ns })
}

/// The rows of processes that live.
fn rows(file: Option<&Path>) -> Vec<User> {
    let Some(file) = file.and_then(|file| File::open(file).ok()) else { return Vec::new() };
    let mut users = Vec::new();
    for number in 0..PROCESS_ROWS_MAX {
        let mut bytes = [0; ProcessRow::BYTES];
        let position = ProcessRow::position(number);
        // Rows are taken from the first on: where the file ends, there are no more.
        if file.read_exact_at(&mut bytes, position).is_err() {
            break;
        }
        let row = ProcessRow::from_bytes(&bytes);
        // A lock may outlive its process in a child that it forked.
        let lives = Path::new("/proc").join(row.pid.to_string()).exists();
        if lives && row.memory_bytes > 0 && is_locked(&file, position) {
            let (pid, memory_bytes) = (row.pid, row.memory_bytes);
            users.push(User { pid, memory_bytes, memory_limit: None, busy_ns: None });
        }
    }
    users
}

/// Whether a process has a lock on a byte.
fn is_locked(file: &File, position: u64) -> bool {
    lock(file, libc::F_OFD_GETLK, position).is_some_and(|kind| kind != libc::F_UNLCK)
}

/// Makes a request about a writer's lock on a byte: the kind of lock that is there; `None` without an answer.
fn lock(file: &File, request: libc::c_int, position: u64) -> Option<libc::c_int> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: position as i64,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: `lock` is a valid flock that lives across the call.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), request, &mut lock) };
    (status == 0).then_some(lock.l_type.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_are_held_count() {
        let path = std::env::temp_dir().join(format!("nvml-rows-{}", std::process::id()));
        let mut options = File::options();
        let file = options.create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let pid = std::process::id();
        for (number, memory_bytes) in [(0, 5), (1, 7), (2, 11)] {
            let row = ProcessRow { pid, memory_bytes };
            file.write_all_at(&row.to_bytes(), ProcessRow::position(number)).unwrap();
        }
        assert_eq!(rows(Some(&path)), []);
        assert!(lock(&file, libc::F_OFD_SETLK, ProcessRow::position(1)).is_some());
        assert_eq!(
            rows(Some(&path)),
            [User { pid, memory_bytes: 7, memory_limit: None, busy_ns: None }]
        );
        assert_eq!(used_bytes(Some(&path)), 7);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(used_bytes(Some(&path)), 0);
    }

    #[test]
    fn a_client_of_another_namespace_is_not_listed() {
        let client = |pid: &str| -> ClientReport {
            let rest = r#""id":1,"user":"ann","memory_bytes":4,"kernels":0,"command":"""#;
            let text = format!(r#"{{"pid":{pid},{rest},"work":{{"busy_ns":5}}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(
            user(&client("9")),
            Some(User { pid: 9, memory_bytes: 4, memory_limit: None, busy_ns: Some(5) })
        );
        assert_eq!(user(&client("null")), None);
    }
}
