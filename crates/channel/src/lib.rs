//! How client, daemon and server talk: shared region, ring, doorbells, sockets, messages.
//!
//! This is the only crate that touches memory which a peer can write. What it offers is safe to
//! call: regardless of what the peer does to that memory, a caller gets a value or an error, never
//! undefined behaviour and never an endless loop.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`region`] | layout of the shared region, its creation and its checked opening |
//! | [`ring`] | the ring in it: [`Producer`](ring::Producer) and [`Consumer`](ring::Consumer) |
//! | [`reply`] | the way back of a call |
//! | [`wait`] | adaptive waiting: spin, then sleep on a futex |
//! | [`memfd`] | sealed memory files, mappings at fixed addresses, reserved windows |
//! | [`pool_file`] | what stands for a pool of memory in another process |
//! | [`discovery`] | in which directory the daemon is |
//! | [`socket`] | SOCK_SEQPACKET sockets with file descriptors and credentials |
//! | [`signals`] | blocking signals in a thread |
//! | [`system`] | what the operating system refuses a process |
//! | [`userfaultfd`] | descriptors that hold up writers to pages |
//! | [`limits`] | limits that both sides keep to |
//! | [`log_line`] | what a line of a log looks like |
//! | [`message`] | what is said on the sockets |
//! | [`request`] | what is said on the ring |
//!
//! Invariants:
//! * No reference to plain data ever points into the region: words are reached by atomics, bulk by
//!   volatile copies into private memory, and only the private copy is validated and used.
//! * Every length and count that arrives has a named maximum and is checked before memory is
//!   taken for it.
//! * The crate lives in other people's programs: no allocator, logger, signal handler, thread or
//!   panic of its own, and no dependency but libc, rustix, locks and cuda-api.
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod codec;
#[cfg(test)]
mod corpus;
pub mod discovery;
pub mod limits;
pub mod log_line;
pub mod memfd;
pub mod message;
pub mod oracle;
pub mod payload;
pub mod per_thread;
pub mod pool_file;
mod processor;
pub mod region;
pub mod reply;
pub mod request;
pub mod ring;
pub mod shared;
pub mod signals;
pub mod socket;
pub mod system;
pub mod userfaultfd;
pub mod wait;

/// Version of everything in this crate that two processes must agree on: messages, region,
/// requests. Raised with every change that an older peer would misread; `corpus/` has what each
/// looked like.
///
/// | version | since |
/// | --- | --- |
/// | 2 | 0.1: a structure has its fields and nothing else |
/// | 3 | 0.2: structures may grow, peers say which versions they speak |
pub const PROTOCOL_VERSION: u16 = 3;
/// The oldest version that this build speaks too: that of the release before.
pub const PROTOCOL_VERSION_MIN: u16 = 2;
const _: () = assert!(PROTOCOL_VERSION_MIN + 1 == PROTOCOL_VERSION);
/// The build that this is, for people.
static BUILD: std::sync::OnceLock<&'static str> = std::sync::OnceLock::new();

/// The build that this is: its release, and the commit if the program has said it.
pub fn build() -> &'static str {
    BUILD.get().unwrap_or(&env!("CARGO_PKG_VERSION"))
}

/// Says of which build this program is. The first word counts.
pub fn name_build(build: &'static str) {
    let _ = BUILD.set(build);
}
