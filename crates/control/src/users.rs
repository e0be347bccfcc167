//! Names, groups and homes of users, from /etc/passwd. Users whom it does not list (directory services,
//! containers) are numbers.

use std::io::Read;
use std::path::PathBuf;

/// Bytes of /etc/passwd that are read: beyond some thousand users a directory service has them.
const PASSWD_BYTES_MAX: u64 = 4 << 20;

/// One line of the file.
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

/// The user with this id, if the file lists one.
pub fn find(uid: u32) -> Option<User> {
    let mut text = Vec::new();
    let file = std::fs::File::open("/etc/passwd").ok()?;
    file.take(PASSWD_BYTES_MAX).read_to_end(&mut text).ok()?;
    find_in(&String::from_utf8_lossy(&text), uid)
}

fn find_in(passwd: &str, uid: u32) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let user = User {
            name: name.to_owned(),
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
            home: fields.nth(1)?.into(),
        };
        (user.uid == uid).then_some(user)
    })
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
    fn a_line_is_found_among_broken_ones() {
        let text = "#:\nbroken\nroot:x:0:0::/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\n";
        let ann = User { name: "ann".into(), uid: 1000, gid: 100, home: "/home/ann".into() };
        assert_eq!(find_in(text, 1000), Some(ann));
        assert_eq!(find_in(text, 7), None);
    }
}
