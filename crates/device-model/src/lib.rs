//! Model of a device: a discrete-event simulation of clients that share one.
//!
//! What is modelled: SMs as room for threads, blocks that stay where they are until they end and take
//! longer on full SMs, green contexts whose blocks keep their places, streams that
//! run one thing after the other, priorities, copy engines, a session's time for a submission, the
//! delay until an end is seen. Which client may submit is decided by the server's own gate and policies
//! (crate `scheduling`). Not modelled: caches and memory traffic, clocks, faults.
//!
//! * [`mix`]: what clients do, as read from a file.
//! * [`device`]: where blocks are; [`engine`]: the events; [`outcome`]: the results.

#![forbid(unsafe_code)]

pub mod device;
pub mod engine;
pub mod mix;
pub mod outcome;

pub use engine::simulate;
pub use mix::{Mix, MixError};
pub use outcome::{ClientOutcome, Outcome};
