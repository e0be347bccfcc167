//! Operations that both instruction sets share: predicates, votes, atomics, carries.

pub(crate) mod address_space;
pub(crate) mod atomics;
pub(crate) mod carry;
pub(crate) mod predicate;
pub(crate) mod warp_vote;
