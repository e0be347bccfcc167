//! Access to the daemon: which users' programs it serves, and by whose servers.

use crate::users;
use thiserror::Error;

/// A user or a group that `--allow` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    User(u32),
    Group(u32),
}

/// Why `--allow` was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllowError {
    /// No such user.
    #[error("there is no user {0:?}: --allow wants a user's name or id, or @ and a group's")]
    User(String),
    /// No such group.
    #[error("there is no group {0:?}: --allow wants a user's name or id, or @ and a group's")]
    Group(String),
}

impl Allowed {
    /// Reads `ann`, `1000`, `@video`, `@44`; several with commas between.
    pub fn parse(text: &str) -> Result<Vec<Allowed>, AllowError> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(Allowed::parse_one).collect()
    }

    fn parse_one(word: &str) -> Result<Allowed, AllowError> {
        if let Some(group) = word.strip_prefix('@') {
            let gid = group.parse().ok().or_else(|| users::group_id(group));
            return gid.map(Allowed::Group).ok_or_else(|| AllowError::Group(group.to_owned()));
        }
        let uid = word.parse().ok().or_else(|| users::find_by_name(word).map(|user| user.uid));
        uid.map(Allowed::User).ok_or_else(|| AllowError::User(word.to_owned()))
    }

    /// True if it means a user whose process has that group.
    fn holds(&self, uid: u32, gid: u32) -> bool {
        match self {
            Allowed::User(user) => *user == uid,
            Allowed::Group(group) => *group == gid || users::groups(uid).contains(group),
        }
    }
}

/// How users share a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// All programs are clients of servers of the daemon's own user.
    pub multiuser: bool,
    /// Servers of one user at a time: others wait until the last program of that user has ended.
    pub one_user: bool,
    /// Whose programs are served; none: those of all users.
    pub allowed: Vec<Allowed>,
}

impl Access {
    /// True if programs of a user may come. Root and the daemon's owner always may.
    pub fn lets_in(&self, owner: u32, uid: u32, gid: u32) -> bool {
        let named = || self.allowed.iter().any(|allowed| allowed.holds(uid, gid));
        uid == 0 || uid == owner || self.allowed.is_empty() || named()
    }

    /// The user whose servers serve a user's programs.
    pub fn server_user(&self, owner: u32, uid: u32) -> u32 {
        if self.multiuser { owner } else { uid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_named_or_numbered() {
        let read = Allowed::parse("root,4000000, @0").unwrap();
        assert_eq!(read, [Allowed::User(0), Allowed::User(4_000_000), Allowed::Group(0)]);
        for (wrong, part) in [("no_such_user_here", "no user"), ("@no_such_group_here", "no group")]
        {
            assert!(Allowed::parse(wrong).unwrap_err().to_string().contains(part));
        }
    }

    #[test]
    fn who_is_not_named_stays_out() {
        let allowed = vec![Allowed::User(1000), Allowed::Group(44)];
        let access = Access { allowed, ..Access::default() };
        assert!(access.lets_in(7, 1000, 1) && access.lets_in(7, 4_000_001, 44));
        assert!(access.lets_in(7, 7, 1) && access.lets_in(7, 0, 0), "owner and root");
        assert!(!access.lets_in(7, 4_000_001, 45));
        assert!(Access::default().lets_in(7, 4_000_001, 45));
        assert_eq!(access.server_user(0, 1000), 1000);
        assert_eq!(Access { multiuser: true, ..access }.server_user(0, 1000), 0);
    }
}
