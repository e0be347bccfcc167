//! Intervals of positions in a function.

/// First and last position, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveInterval {
    /// First.
    pub start: u32,
    /// Last.
    pub end: u32,
}

/// Where the blocks of a function are.
pub(crate) struct BlockSpans {
    /// By block: the position of its start.
    pub(crate) starts: Vec<u32>,
    /// By block: the position of its end.
    pub(crate) ends: Vec<u32>,
}
