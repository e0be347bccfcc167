//! Streams of a client: their order, what is submitted to them, what waits for its turn, and what is in flight.

pub(super) mod admission;
pub(super) mod callbacks;
pub(super) mod code_in_flight;
pub(super) mod copies;
pub(super) mod events;
pub(super) mod fences;
pub(super) mod order;
pub(super) mod pending;
pub(super) mod posts;
pub(super) mod queues;
pub(super) mod slot;
pub(super) mod submission;
pub(super) mod table;
pub(super) mod waiting;
pub(super) mod watchdog;
pub(super) mod work_in_flight;
