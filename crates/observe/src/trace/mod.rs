//! Traces: each kernel and copy of each client, as files for Perfetto and chrome://tracing.

pub mod nvtx;
mod perfetto;
mod recorder;
#[cfg(test)]
mod tests;
mod write;

pub use recorder::{RecordedClient, Recorder, Recording};
pub use write::{chrome, perfetto};
