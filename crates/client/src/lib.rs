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
//! | [`handshake`], [`attach`] | finding the daemon; what an attached process has |
//! | [`api`] | the functions answered by hand, by the manual's chapters |
//! | [`generic`] | the functions whose bodies follow from their rows |
//! | [`state`] | ring and tables, behind the one short lock |
//! | [`streams`], [`wait`] | how far each stream has come, and waiting for it |
//! | [`calls`], [`link`] | requests that are answered; whether the server is there |
//! | [`contexts`], [`current`], [`threads`] | contexts, which is current, per-thread streams |
//! | [`modules`], [`image`], [`jit`], [`params`] | images, their functions, a launch's parameters |
//! | [`memory`], [`boxes`] | device memory, pinned memory, copies |
//! | [`arrays`] | arrays, texture and surface objects |
//! | [`export_host`] | what the tables behind cuGetExportTable ask |
//! | [`hostfunc`] | functions of the program that a stream runs |
//! | [`graphs`], [`graph_exec`], [`graph_copy`] | graphs and capture |

mod api;
mod arrays;
mod attach;
mod boundary;
mod boxes;
mod calls;
mod contexts;
mod current;
mod entry;
mod export_host;
mod generic;
mod graph_copy;
mod graph_exec;
mod graphs;
mod handles;
mod handshake;
mod hostfunc;
mod image;
mod jit;
mod link;
mod lock;
mod memory;
mod mode;
mod modules;
mod params;
mod slow_start;
mod state;
mod stderr;
mod streams;
#[cfg(test)]
mod tests;
mod threads;
mod wait;
