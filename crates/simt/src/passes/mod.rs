//! Passes over the SIMT IR, one a file, in the order in which they run.

pub(super) mod accumulators;
pub(super) mod affine;
pub(super) mod chains;
pub(super) mod cleanup;
pub(super) mod dce;
pub(super) mod dominators;
pub(super) mod factors;
pub(super) mod facts;
pub(super) mod fields;
pub(super) mod inline;
pub(super) mod leaving;
pub(super) mod liveness;
pub(super) mod loops;
pub(super) mod order;
pub(super) mod promote;
pub(super) mod regions;
pub(super) mod registers;
pub(super) mod shape;
pub(super) mod split;
pub(super) mod waiters;
