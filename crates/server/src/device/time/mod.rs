//! Time: what work takes on the device, by events and by CUPTI, and what submitting it takes.

pub(super) mod cupti;
pub(super) mod event_cost;
pub(super) mod submission_time;
pub(super) mod timing;
