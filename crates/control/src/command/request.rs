//! A command as it was given, and why one fails.

use crate::daemon::Daemon;

/// A command as it was given.
pub(crate) struct Request<'a> {
    pub daemon: &'a Daemon,
    /// The words after the name.
    pub arguments: Vec<&'a str>,
    /// The user that asks.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The user that asks is root or the daemon's owner, by the privileged socket.
    pub owner: bool,
}

impl Request<'_> {
    /// Users see what is theirs; root and the daemon's owner see all.
    pub fn sees(&self, uid: u32) -> bool {
        self.owner || self.uid == uid
    }

    /// Who may give privileged commands.
    pub fn owner_text(&self) -> String {
        match self.daemon.owner() {
            0 => "root, whose daemon this is".to_owned(),
            user => {
                let name = crate::users::name(user);
                format!("root and for {name}, whose daemon this is")
            }
        }
    }

    /// No arguments are wanted.
    pub fn no_arguments(&self, name: &str) -> Result<(), Failure> {
        match self.arguments.first() {
            None => Ok(()),
            Some(word) => Err(Failure(format!("{name} takes no argument, but {word:?} was given"))),
        }
    }
}

/// Why a command failed: all its output, without the last line's end.
#[derive(Debug)]
pub(crate) struct Failure(pub String);

impl<T: std::fmt::Display> From<T> for Failure {
    fn from(reason: T) -> Failure {
        Failure(reason.to_string())
    }
}
