//! Observability: what a person looks at, made of what a control daemon reports.
//!
//! | module | what it makes |
//! | --- | --- |
//! | [`source`] | asks a daemon |
//! | [`rates`] | reports become rates and shares |
//! | [`reading`] | what the daemon said at one time |
//! | [`past`] | what a report is compared with |
//! | [`names`] | kernels' names as their sources have them |
//! | [`top`] | the screen of `openmps top` |
//! | [`trace`] | traces that Perfetto reads |
//! | [`metrics`] | what Prometheus scrapes |
//! | [`web`] | the page of `openmps web` |
//! | [`advise`] | what sharing would gain |
//!
//! Invariant: it reads reports and sends commands of the control daemon, and nothing else; programs that
//! are looked at need not take part.
#![forbid(unsafe_code)]

pub mod advise;
pub mod metrics;
pub mod names;
pub mod past;
pub mod rates;
pub mod reading;
pub mod source;
pub mod top;
pub mod trace;
pub mod web;
