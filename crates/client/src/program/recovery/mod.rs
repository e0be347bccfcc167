//! Recovery: what a client does when its server is lost, and how the program learns of it.

pub(in crate::program) mod lost_at_work;
pub(in crate::program) mod recover;
pub(crate) mod replay;
pub(crate) mod reported;
