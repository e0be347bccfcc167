//! Users: their names, groups and homes, from the system's name service (files, LDAP and other
//! sources). Users whom it does not know (containers) are numbers.
//!
//! The name service may be a server that does not answer. So what it said of a user is kept, and a daemon
//! has a thread of its own ask ([`learn`]) before it takes a user's process in, and never under a lock.

use locks::RwLock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uzers::os::unix::UserExt;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group of the login.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

impl From<uzers::User> for User {
    fn from(user: uzers::User) -> User {
        User {
            name: user.name().to_string_lossy().into_owned(),
            uid: user.uid(),
            gid: user.primary_group_id(),
            home: user.home_dir().to_owned(),
        }
    }
}

/// After so long the name service is asked again.
const FRESH: Duration = Duration::from_secs(600);

/// What the name service said of a user.
#[derive(Debug)]
struct Known {
    user: Option<User>,
    groups: Vec<u32>,
    at: Instant,
}

static KNOWN: RwLock<BTreeMap<u32, Arc<Known>>> = RwLock::new(BTreeMap::new());

fn known(uid: u32) -> Option<Arc<Known>> {
    KNOWN.read().get(&uid).cloned()
}

/// Asks the name service about a user, and keeps what it says.
pub fn learn(uid: u32) {
    ask(uid);
}

fn ask(uid: u32) -> Arc<Known> {
    let user = uzers::get_user_by_uid(uid).map(User::from);
    let groups = user.as_ref().and_then(|user| uzers::get_user_groups(&user.name, user.gid));
    let groups = groups.unwrap_or_default().iter().map(uzers::Group::gid).collect();
    let known = Arc::new(Known { user, groups, at: Instant::now() });
    KNOWN.write().insert(uid, known.clone());
    known
}

/// True if what the name service says of a user is known: then no function here asks it about that user.
pub fn is_known(uid: u32) -> bool {
    known(uid).is_some()
}

/// True if that was not long ago.
pub fn is_fresh(uid: u32) -> bool {
    known(uid).is_some_and(|known| known.at.elapsed() < FRESH)
}

/// The user with this id, if the name service knows one.
pub fn find(uid: u32) -> Option<User> {
    known(uid).unwrap_or_else(|| ask(uid)).user.clone()
}

/// The user with this name, if the name service knows one.
pub fn find_by_name(name: &str) -> Option<User> {
    uzers::get_user_by_name(name).map(User::from)
}

/// The number of a group, if the name service knows one of that name.
pub fn group_id(name: &str) -> Option<u32> {
    uzers::get_group_by_name(name).map(|group| group.gid())
}

/// All groups of a user whom the name service knows; none of another one.
pub fn groups(uid: u32) -> Vec<u32> {
    known(uid).unwrap_or_else(|| ask(uid)).groups.clone()
}

/// Whether this process's user namespace has numbers for a user and a group: only then can a process
/// be started as that user. Others' processes appear as the overflow user, 65534.
pub fn are_mapped(uid: u32, gid: u32) -> bool {
    let holds = |path: &str, id: u32| {
        // Where the file cannot be read there is no such namespace.
        std::fs::read_to_string(path).map_or(true, |map| map_holds(&map, id))
    };
    holds("/proc/self/uid_map", uid) && holds("/proc/self/gid_map", gid)
}

/// Whether a map has the number inside of the namespace: lines of first inside, first outside, count.
fn map_holds(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.nth(1).flatten()) {
            (Some(first), Some(count)) => {
                id.checked_sub(first).is_some_and(|offset| offset < count)
            }
            _ => false,
        }
    })
}

/// The user's name, or its number where there is none.
pub fn name(uid: u32) -> String {
    find(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_s_map_tells_whom_it_knows() {
        let all = "         0          0 4294967295\n";
        assert!(map_holds(all, 0) && map_holds(all, 65534));
        let some = "0 1000 1\n1 100000 65536\n";
        assert!(map_holds(some, 0) && map_holds(some, 1) && map_holds(some, 65536));
        assert!(!map_holds("0 1000 1\n", 65534) && !map_holds(some, 65537));
    }

    #[test]
    fn the_name_service_knows_root() {
        let root = find(0).expect("root");
        assert_eq!((root.name.as_str(), root.gid), ("root", 0));
        assert_eq!(find_by_name("root"), Some(root));
        learn(4_000_000_001);
        assert!(is_known(0) && is_fresh(0) && is_known(4_000_000_001) && !is_known(4_000_000_002));
        assert!(groups(0).contains(&0) && groups(4_000_000_000).is_empty());
        assert_eq!((name(0).as_str(), name(4_000_000_000).as_str()), ("root", "4000000000"));
    }
}
