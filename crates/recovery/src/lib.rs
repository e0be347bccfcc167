//! Rules of recovery: which client gets which server, whose a fault was, and what a program's work
//! in flight becomes.
//!
//! Decisions alone: no process is started here, no socket is written to and no clock is read. The
//! daemon (`control`), the server and the client do what is decided here, and so does the simulator
//! in `tests/simulation`, with a clock of its own.

#![forbid(unsafe_code)]

mod attempts;
mod attribution;
mod ending;
mod in_flight;
mod journal;
mod mark;
mod order;
mod progress;
pub mod servers;
mod session_end;
mod sort;

pub use attempts::{Attempts, Obstacle};
pub use attribution::{Attribution, AttributionState, Candidate, Evidence, Part, attribute};
pub use ending::{ClientAdmission, Ending};
pub use in_flight::InFlight;
pub use journal::{Journal, Posted};
pub use mark::Mark;
pub use order::Order;
pub use progress::{Progress, Words};
pub use session_end::End;
pub use sort::{Access, Again, Operation, ReplayDecision, ReplayPolicy, sort};
