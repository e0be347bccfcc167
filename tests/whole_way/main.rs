//! The whole way: unmodified programs, client library, daemon, server, software GPU.

mod coverage;
mod ends;
mod faults;
mod kernels;
mod results;
mod scale;
