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

/// The user's name, or its number where there is none.
pub fn name(uid: u32) -> String {
    find(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_among_broken_ones() {
        let text = "#:\nbroken\nroot:x:0:0::/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\n";
        let ann = User { name: "ann".into(), uid: 1000, gid: 100, home: "/home/ann".into() };
        assert_eq!(find_in(text, 1000), Some(ann));
        assert_eq!(find_in(text, 7), None);
    }
}
