//! Which bytes of device memory anybody has written, for finding reads of others.
//!
//! Kept on request only. What is not tracked counts as written: constant banks, memory that the
//! host shares, and all that programs map themselves.
//!
//! Invariant: areas do not overlap.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that one word of an area's account stands for.
const WORD_BYTES: u64 = 64;

/// The account.
#[derive(Debug, Default)]
pub struct WrittenBytes {
    /// By first address.
    areas: Mutex<BTreeMap<u64, Area>>,
}

#[derive(Debug)]
struct Area {
    bytes: u64,
    /// A bit a byte.
    written: Vec<u64>,
}

/// A byte that nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Its address.
    pub address: u64,
    /// Where the area starts that it is in.
    pub area: u64,
    /// The area's size, bytes.
    pub area_bytes: u64,
}

impl Area {
    /// The words that hold a range of bytes, each with the bits that stand for it.
    fn words(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
        (from / WORD_BYTES..to.div_ceil(WORD_BYTES)).map(move |word| {
            let start = word * WORD_BYTES;
            let low = from.saturating_sub(start);
            let high = (to - start).min(WORD_BYTES);
            (word as usize, u64::MAX >> (WORD_BYTES - (high - low)) << low)
        })
    }
}

impl WrittenBytes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Area>> {
        self.areas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody has written `bytes` from `start` on: fresh memory.
    pub fn track(&self, start: u64, bytes: u64) {
        let written = vec![0; bytes.div_ceil(WORD_BYTES) as usize];
        self.lock().insert(start, Area { bytes, written });
    }

    /// The area that starts there is no longer looked at.
    pub fn forget(&self, start: u64) {
        self.lock().remove(&start);
    }

    /// Somebody writes these bytes.
    pub fn write(&self, address: u64, bytes: u64) {
        let mut areas = self.lock();
        let end = address.saturating_add(bytes);
        let first = areas.range(..=address).next_back().map_or(address, |(start, _)| *start);
        for (start, area) in areas.range_mut(first..end) {
            let from = address.saturating_sub(*start);
            let to = (end - start).min(area.bytes);
            if from < to {
                Area::words(from, to).for_each(|(word, bits)| area.written[word] |= bits);
            }
        }
    }

    /// The first byte of these that is known not to be written.
    pub fn unwritten(&self, address: u64, bytes: u64) -> Option<Unwritten> {
        let areas = self.lock();
        let (start, area) = areas.range(..=address).next_back()?;
        let from = address - start;
        let to = from.saturating_add(bytes).min(area.bytes);
        if from >= to {
            return None;
        }
        let (word, bits) = Area::words(from, to)
            .map(|(word, bits)| (word as u64, bits & !area.written[word]))
            .find(|(_, bits)| *bits != 0)?;
        let address = start + word * WORD_BYTES + u64::from(bits.trailing_zeros());
        Some(Unwritten { address, area: *start, area_bytes: area.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_to_the_byte() {
        let account = WrittenBytes::default();
        account.track(1000, 200);
        account.track(2000, 10);
        let at = |address| Some(Unwritten { address, area: 1000, area_bytes: 200 });
        assert_eq!(account.unwritten(1000, 4), at(1000));
        account.write(1000, 4);
        account.write(1063, 67);
        assert_eq!(account.unwritten(1000, 4), None);
        assert_eq!(account.unwritten(1000, 8), at(1004));
        assert_eq!(account.unwritten(1063, 67), None);
        assert_eq!(account.unwritten(1062, 2), at(1062));
        assert_eq!(account.unwritten(1120, 20), at(1130));
        // Before, between and behind the areas nothing is known.
        assert_eq!(account.unwritten(500, 8), None);
        assert_eq!(account.unwritten(1200, 8), None);
        assert_eq!(account.unwritten(1999, 1), None);
        // A write over all of them.
        account.write(0, u64::MAX);
        assert_eq!(account.unwritten(1000, 200).or(account.unwritten(2000, 10)), None);
        account.track(1000, 8);
        assert!(account.unwritten(1000, 8).is_some(), "fresh again");
        account.forget(1000);
        assert_eq!(account.unwritten(1000, 8), None);
    }
}
