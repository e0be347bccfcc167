//! The order in which a thread of the program may take the client's locks.

/// Ranks, lowest first. (Graphs and captures have a lock of their own in crate graph, before all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Making a connection, for the first time or in place of one that is lost.
    Connecting,
    /// Loading a library of another device.
    Libraries,
    /// Looking a function up by its name.
    Finding,
    /// Memory, arrays, host functions: one of them at a time.
    Objects,
    /// What a device's server knows of other devices.
    Peers,
    /// The one call that is in flight.
    Calls,
    /// Staging.
    Staging,
    /// The ring and the tables of what may be put into it.
    Submission,
    /// What is only ever looked up or changed: contexts, links, descriptions of green contexts.
    Leaf,
}

impl locks::Rank for Rank {
    #[inline(always)]
    fn number(self) -> u8 {
        self as u8
    }
}

/// A mutex with its place in the order.
pub(crate) type Lock<T> = locks::RankedMutex<Rank, T>;

/// A lock that this thread holds.
pub(crate) type Guard<'a, T> = locks::MutexGuard<'a, T>;
