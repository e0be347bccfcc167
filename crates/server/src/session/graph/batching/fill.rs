//! Fills in a chunk: memory sets of elements in a row, each a node of the chunk's graph.
//!
//! Libraries clear a few bytes between kernels, the same ones each time. A fill that has not come before ends a
//! chunk, so that one at ever other addresses keeps no chunk from coming again.

use channel::ring::Record;
use cuda_api::number;

/// Different fills that are remembered, of a client.
const SEEN_MAX: usize = 64;

/// Sets memory to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Where it begins.
    pub address: u64,
    /// What each element is set to.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element_bytes: u32,
    /// Elements.
    pub count: u64,
}

impl Fill {
    /// The fill that a request is, and its stream.
    pub fn of(record: &Record) -> Option<(Self, u64)> {
        let element_bytes = match record.opcode() {
            number::cuMemsetD8Async => 1,
            number::cuMemsetD16Async => 2,
            number::cuMemsetD32Async => 4,
            _ => return None,
        };
        let [address, value, count, stream] = *record.words() else { return None };
        let value = u32::try_from(value).ok()?;
        Some((Self { address, value, element_bytes, count }, stream))
    }

    /// Bytes that it writes.
    pub fn bytes(self) -> u64 {
        self.count.saturating_mul(self.element_bytes.into())
    }
}

/// The last fills that were new, by hash.
#[derive(Debug, Default)]
pub struct FillsSeen {
    hashes: Vec<u64>,
    next: usize,
}

impl FillsSeen {
    /// Notes a fill with that hash. True if it came before.
    pub fn came_before(&mut self, hash: u64) -> bool {
        if self.hashes.contains(&hash) {
            return true;
        }
        match self.hashes.get_mut(self.next) {
            Some(oldest) => *oldest = hash,
            None => self.hashes.push(hash),
        }
        self.next = (self.next + 1) % SEEN_MAX;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_comes_again_while_it_is_one_of_the_last() {
        let mut seen = FillsSeen::default();
        assert_eq!([7, 9, 7, 9].map(|hash| seen.came_before(hash)), [false, false, true, true]);
        (100..100 + SEEN_MAX as u64).for_each(|hash| {
            seen.came_before(hash);
        });
        assert!(!seen.came_before(7));
        assert!(seen.hashes.len() <= SEEN_MAX);
    }
}
