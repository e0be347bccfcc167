//! Scheduling: which client's work may go to the device, and when.
//!
//! Nothing here knows a device, a thread or a clock: times are nanoseconds that the caller says. So
//! the same gate and policies run in the server and in the model of a device, and are tested on
//! recorded arrivals.
//!
//! * [`class`], [`client`]: what is set for a client; [`rules`]: for whom it is set by the operator.
//! * [`settings`]: which mechanisms are on, and which policy decides.
//! * [`account`]: the state that policies decide over; [`admission`]: their answers; [`policy`]: the policies; [`gate`]: the verdict.
//! * [`arrivals`]: when a client's next request is due; [`predict`]: what is assumed of work that was not timed; [`pieces`]: where a graph is cut;
//!   [`space`]: when classes share in space, and how many SMs batch work has then.

#![forbid(unsafe_code)]

pub mod account;
pub mod admission;
pub mod arrivals;
pub mod class;
pub mod client;
pub mod gate;
pub mod pieces;
pub mod policy;
pub mod predict;
pub mod rules;
pub mod settings;
pub mod space;
pub mod units;

pub use account::ClientId;
pub use class::Class;
pub use client::ClientSettings;
pub use gate::{Core, Hold, Verdict};
pub use policy::Policy;
pub use predict::Predicted;
pub use settings::Settings;
