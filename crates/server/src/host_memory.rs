//! Host memory budget: what a server keeps of the machine's memory for a client, for a user, and for all of them.
//!
//! Pinned memory and graphs are charged to the client's account, which is part of its user's, which is part of the
//! server's. The server's is less than the machine or its cgroup has, so that no client has the server
//! killed for want of memory.

use crate::account::MemoryAccount;
use cuda_api::environment::{OPENMPS_HOST_MEMORY, OPENMPS_HOST_MEMORY_USER};
use cuda_api::settings::parse_bytes;
use locks::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Parts of the memory there is, as a numerator and a denominator.
const OF_CLIENT: (u64, u64) = (1, 2);
const OF_USER: (u64, u64) = (5, 8);
const OF_ALL: (u64, u64) = (3, 4);
/// Taken for the machine's memory where that is not known, bytes.
const UNKNOWN_BYTES: u64 = 2 << 30;
/// Where cgroups of version 2 and of version 1 are mounted, with the file of the limit.
const CGROUPS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

fn part(bytes: u64, (numerator, denominator): (u64, u64)) -> u64 {
    bytes / denominator * numerator
}

/// Memory of the machine, or of the narrowest cgroup that this process is in if that is less, bytes.
pub fn machine_bytes() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let text = read(Path::new("/proc/meminfo"));
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let machine = kib.map_or(UNKNOWN_BYTES, |kib| kib.saturating_mul(1024));
    let own = read(Path::new("/proc/self/cgroup"));
    cgroup_limits(&own, read).fold(machine, u64::min)
}

/// Limits of a process' cgroups and of all above them, bytes, by its `/proc/PID/cgroup`.
fn cgroup_limits(own: &str, read: impl Fn(&Path) -> String) -> impl Iterator<Item = u64> {
    let mut found = Vec::new();
    for line in own.lines() {
        // `0::/path` of version 2, `4:memory:/path` of version 1.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_memory = controllers.split(',').any(|name| name == "memory");
        let (root, file) = match (controllers, is_memory) {
            ("", _) => CGROUPS[0],
            (_, true) => CGROUPS[1],
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        for group in below.ancestors() {
            found.extend(read(&Path::new(root).join(group).join(file)).trim().parse::<u64>());
        }
    }
    found.into_iter()
}

/// Bounds of the three accounts, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    client: u64,
    user: u64,
    all: u64,
}

impl Bounds {
    /// Those for so much memory, and what is set for a client and for a user.
    fn new(machine: u64, client: Option<u64>, user: Option<u64>) -> Self {
        Self {
            client: client.unwrap_or(part(machine, OF_CLIENT)),
            user: user.unwrap_or(part(machine, OF_USER)),
            all: part(machine, OF_ALL),
        }
    }
}

/// The server's account and those of its users.
pub struct HostMemory {
    bounds: Bounds,
    all: Arc<MemoryAccount>,
    users: Mutex<BTreeMap<u32, Weak<MemoryAccount>>>,
}

impl HostMemory {
    /// Of this machine and the daemon's environment.
    pub fn from_environment() -> Self {
        let set = |name| std::env::var(name).ok().and_then(|text: String| parse_bytes(&text));
        let (client, user) = (set(OPENMPS_HOST_MEMORY), set(OPENMPS_HOST_MEMORY_USER));
        Self::new(Bounds::new(machine_bytes(), client, user))
    }

    fn new(bounds: Bounds) -> Self {
        Self { bounds, all: MemoryAccount::new(bounds.all), users: Mutex::default() }
    }

    /// The account of a client that comes.
    pub fn client(&self, uid: u32) -> Arc<MemoryAccount> {
        MemoryAccount::of_groups(self.bounds.client, Some((self.user(uid), u64::MAX)))
    }

    fn user(&self, uid: u32) -> Arc<MemoryAccount> {
        let mut users = self.users.lock();
        users.retain(|_, account| account.strong_count() > 0);
        if let Some(account) = users.get(&uid).and_then(Weak::upgrade) {
            return account;
        }
        let all = Some((self.all.clone(), u64::MAX));
        let account = MemoryAccount::of_groups(self.bounds.user, all);
        users.insert(uid, Arc::downgrade(&account));
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::CudaError;

    #[test]
    fn a_user_s_clients_share_a_bound_and_all_users_share_another() {
        let memory = HostMemory::new(Bounds { client: 50, user: 60, all: 80 });
        let [one, two, other] = [1, 1, 2].map(|uid| memory.client(uid));
        let refused = Some(CudaError::OUT_OF_MEMORY);
        assert_eq!(one.charge(51).err(), refused, "a client");
        let mut held = one.charge(40).expect("within all bounds");
        assert_eq!(two.charge(21).err(), refused, "its user");
        assert_eq!(other.charge(41).err(), refused, "the server");
        held.grow(10).expect("within all bounds");
        assert_eq!(held.grow(1).err(), refused);
        assert_eq!(other.charge(31).err(), refused, "what has grown counts at the server too");
        drop(held);
        assert_eq!((memory.all.used_bytes(), two.used_bytes()), (0, 0));
        assert!(other.charge(50).is_ok());
    }

    #[test]
    fn a_user_who_left_has_no_account() {
        let memory = HostMemory::new(Bounds { client: 50, user: 60, all: 80 });
        drop(memory.client(1));
        let _here = memory.client(2);
        let users = memory.users.lock();
        assert_eq!(users.keys().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn the_narrowest_cgroup_counts() {
        let files = |path: &Path| match path.to_str() {
            Some("/sys/fs/cgroup/a/b/memory.max") => "max\n".to_owned(),
            Some("/sys/fs/cgroup/a/memory.max") => "4096\n".to_owned(),
            Some("/sys/fs/cgroup/memory/c/memory.limit_in_bytes") => "8192\n".to_owned(),
            _ => String::new(),
        };
        let limits = |own: &str| cgroup_limits(own, files).collect::<Vec<_>>();
        assert_eq!(limits("0::/a/b\n"), [4096]);
        assert_eq!(limits("5:cpu:/c\n4:hugetlb,memory:/c\n"), [8192]);
        assert_eq!(limits("nonsense\n0::/elsewhere\n"), [0; 0]);
    }

    #[test]
    fn the_server_keeps_less_than_there_is() {
        let bounds = Bounds::new(16 << 30, None, None);
        assert_eq!(bounds, Bounds { client: 8 << 30, user: 10 << 30, all: 12 << 30 });
        assert_eq!(Bounds::new(16 << 30, Some(1), Some(2)).client, 1);
    }
}
