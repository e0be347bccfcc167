//! libcuda.so.1: what a CUDA program loads in place of the driver library.
//!
//! It lives in other people's programs: no runtime, no logger, no signal handler, no allocator,
//! nothing on standard output; it exports cu* and nothing else; regardless of what a server does,
//! the program gets an error code, never a crash. The path of a call through it:
//!
//! | folder | what it is |
//! | --- | --- |
//! | [`entry`] | the exported symbols and where each one leads |
//! | [`api`] | the functions answered by hand, by the manual's chapters |
//! | [`graph`] | graphs and capture |
//! | [`program`] | what the program owns for life, on each device, and how it is carried out |
//! | [`context`], [`stream`], [`module`], [`memory`] | tables and bookkeeping that know no server |
//! | [`connection`] | one connection to one server: replaceable |
//! | [`boundary`], [`handles`], [`lock`], [`stderr`] | what all of them use |
//!
//! A folder names only those below it; `cargo test -p xtask` checks it.

mod api;
mod boundary;
mod connection;
mod context;
mod entry;
mod graph;
mod handles;
mod lock;
mod memory;
mod module;
mod program;
mod replay;
mod stderr;
mod stream;
#[cfg(test)]
mod tests;
