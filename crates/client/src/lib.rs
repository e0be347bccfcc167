//! libcuda.so.1: what a CUDA program loads in place of the driver library.
//!
//! It lives in other people's programs: no runtime, no logger, no signal handler, no allocator,
//! nothing on standard output; it exports cu* and nothing else; whatever a server does, the
//! program gets an error code, never a crash. The whole program's way through it:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`entry`] | the exported symbols and where each one leads |
//! | [`mode`] | how this process runs: attached, passing through, refused |
//! | [`boundary`] | what a program passes becomes types that need no further trust |
//! | [`attach`] | finding the daemon, the handshake, what is known of the server |
//! | [`api`] | the functions answered by hand, by the manual's chapters |

mod api;
mod attach;
mod boundary;
mod entry;
mod mode;
