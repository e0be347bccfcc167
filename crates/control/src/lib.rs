//! The control daemon and its shell: supervision of servers, users, commands, logs.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`program`] | `nvidia-cuda-mps-control` from its arguments to its exit status |
//! | [`options`] | its command line |
//! | [`command`] | the commands: one table |
//! | [`daemon`] | the daemon |
//! | [`shell`] | what sends commands to it |
//! | [`directory`] | the pipe directory and who owns it |
//! | [`locate`] | which of the directories is this user's |
//! | [`accounting`] | what clients have used |
//! | `named`, `configuration` | named servers and namespaces of protocol 3, and its file |
//! | `memacct` | limits of cgroups' device memory |
//! | [`log`] | control.log and server.log |
//! | [`status`], [`format`](mod@format) | what servers say, and how it is printed |
//! | [`report`] | all that the daemon knows, for programs |
//! | [`users`] | names of users |
//!
//! Invariants: it never loads a libcuda and knows no device but by what servers say; it knows no
//! program either, the caller says what to start ([`daemon::Programs`]). It trusts no client and
//! no shell: who they are comes from their sockets, what they say is bounded and checked.
#![forbid(unsafe_code)]

mod access;
pub mod accounting;
pub mod command;
mod configuration;
pub mod counts;
pub mod daemon;
pub mod directory;
pub mod error;
pub mod faults;
pub mod format;
pub mod locate;
pub mod log;
mod memacct;
mod named;
pub mod options;
mod partitions;
mod process;
pub mod program;
pub mod report;
mod settings;
pub mod shell;
pub mod status;
pub mod trace;
pub mod users;

/// The version number of NVIDIA's interface that this one follows, as its `-v` prints it.
pub const BINARY_VERSION: u32 = 13000;

/// The one of `known` that was probably meant by `word`, if any is near.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Wrong characters in a word that is still meant to be another: one in so many, two at least.
    const CHARACTERS_PER_SLIP: usize = 5;
    let slips = |name: &str| strsim::damerau_levenshtein(word, name);
    let slips_max = (word.len() / CHARACTERS_PER_SLIP).max(2);
    let near = known.map(|name| (slips(name), name)).min_by_key(|(slips, _)| *slips);
    near.filter(|(slips, name)| *slips <= slips_max && *slips < name.len()).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_pen_is_seen_and_a_foreign_word_is_not() {
        let known = ["get_server_list", "get_client_list", "ps", "quit"];
        let meant = |word| nearest(word, known.into_iter());
        assert_eq!(meant("get_server_lst"), Some("get_server_list"));
        assert_eq!(meant("get_clientlist"), Some("get_client_list"));
        assert_eq!(meant("quti"), Some("quit"));
        assert_eq!([meant("bogus"), meant(""), meant("lspart")], [None; 3]);
    }
}
