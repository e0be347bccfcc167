//! Checked range: addresses that belong to the session that uses them.

/// A range of device or host addresses that belongs, whole, to the session that uses it.
///
/// Making one is a promise: the session's own mappings cover every byte, and none of them is
/// unmapped while work that was given the range can still run. Only a session's table of ranges
/// makes them; what takes one may pass it to a provider without another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedRange {
    address: u64,
    bytes: u64,
}

impl CheckedRange {
    /// Vouches for a range; see the type.
    pub(crate) const fn vouched(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
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
