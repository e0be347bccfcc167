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
//! | `v3` | protocol 3: named servers and namespaces, its file, partitions of SMs, limits of cgroups' memory |
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
mod activation;
mod cgroup;
pub mod command;
pub mod counts;
pub mod daemon;
pub mod directory;
pub mod error;
pub mod fault_budget;
pub mod faults;
pub mod format;
pub mod locate;
pub mod log;
pub mod options;
mod process;
pub mod program;
pub mod report;
mod settings;
pub mod settings_file;
pub mod shell;
pub mod status;
pub mod trace;
pub mod users;
mod v3;

/// The version number of NVIDIA's interface that this one follows, as its `-v` prints it.
pub const BINARY_VERSION: u32 = 13000;

pub use cuda_api::nearest::nearest;
