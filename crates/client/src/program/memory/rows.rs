//! Host rows: a rectangle of bytes in the program's memory, as staged copies take and give it.

/// Stands for an operation that has passed: no operation has that number.
pub(in crate::program) const NOTHING: u64 = 0;

/// Rows of bytes at regular distances in this process' memory.
#[derive(Clone, Copy)]
pub(crate) struct HostRows {
    pub(crate) address: u64,
    pub(crate) pitch: u64,
}

/// What is copied: `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) width: u64,
    pub(crate) height: u64,
}
