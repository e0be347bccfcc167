//! Checked range: addresses that belong to the session that uses them.

/// A range of device or host addresses that belongs, whole, to the session that uses it.
///
/// What takes one may pass it to a provider without another look: only a session's table of ranges makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedRange {
    address: u64,
    bytes: u64,
}

impl CheckedRange {
    /// A range that belongs to the session.
    ///
    /// # Safety
    /// The session's own mappings must cover every byte, and none of them may be unmapped while work that was
    /// given the range can still run.
    pub(crate) const unsafe fn new_unchecked(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// A range of no bytes.
    pub(crate) const fn empty(address: u64) -> Self {
        Self { address, bytes: 0 }
    }

    /// Bytes of the range from `offset` on, which are in it: else those that are.
    pub const fn part(self, offset: u64, bytes: u64) -> Self {
        let offset = if offset < self.bytes { offset } else { self.bytes };
        let rest = self.bytes - offset;
        Self { address: self.address + offset, bytes: if bytes < rest { bytes } else { rest } }
    }

    /// First address.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Length, bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}
