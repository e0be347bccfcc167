//! Initialisation tracking, for checks: which bytes of device memory have been written, and which
//! were freed.
//!
//! Kept on request only. What is not tracked counts as written and in use: constant banks, memory
//! of other processes, pinned host memory. What the host writes by itself, in memory that it
//! shares with the device, is seen by a pattern that such memory is filled with: where it is gone,
//! written.
//!
//! Invariant: areas do not overlap.

use locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// Bytes that one word of an area's account stands for.
const WORD_BYTES: u64 = 64;
/// Bytes of the pattern that is looked at at once.
pub const PATTERN_BYTES: u64 = 8;

/// What an aligned word of memory at this address holds while it is not initialised, of memory that the
/// host writes too. Nothing that programs are likely to write.
pub fn pattern(address: u64) -> u64 {
    (address ^ 0x5ac3_96e1_0f7d_b82d).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

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
    /// Filled with the pattern: the host writes there too.
    shared: bool,
    freed: bool,
}

/// A byte that must not be accessed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misused {
    /// Its address.
    pub address: u64,
    /// Where the area starts that it is in.
    pub area: u64,
    /// The area's size, bytes.
    pub area_bytes: u64,
    /// What is wrong.
    pub why: Misuse,
}

/// Why a byte must not be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// It was not written.
    Unwritten,
    /// No kernel wrote it, but the host may have: then the [`pattern`] is gone.
    UnwrittenByKernels,
    /// It was freed.
    Freed,
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

type Areas = BTreeMap<u64, Area>;

/// Removes what overlaps with a range.
fn clear(areas: &mut Areas, start: u64, bytes: u64) {
    let end = start.saturating_add(bytes);
    let before = areas.range(..start).next_back();
    let first = before.filter(|(at, area)| **at + area.bytes > start).map_or(start, |(at, _)| *at);
    let overlapping: Vec<u64> = areas.range(first..end).map(|(at, _)| *at).collect();
    overlapping.iter().for_each(|at| drop(areas.remove(at)));
}

impl WrittenBytes {
    fn lock(&self) -> MutexGuard<'_, Areas> {
        self.areas.lock()
    }

    /// `bytes` from `start` on are not initialised: fresh memory.
    pub fn track(&self, start: u64, bytes: u64) {
        self.add(start, bytes, false);
    }

    /// The same of memory that the host writes too, and that was filled with the [`pattern`].
    pub fn track_shared(&self, start: u64, bytes: u64) {
        self.add(start, bytes, true);
    }

    fn add(&self, start: u64, bytes: u64, shared: bool) {
        let written = vec![0; bytes.div_ceil(WORD_BYTES) as usize];
        let mut areas = self.lock();
        clear(&mut areas, start, bytes);
        areas.insert(start, Area { bytes, written, shared, freed: false });
    }

    /// These bytes are no longer looked at.
    pub fn forget(&self, start: u64, bytes: u64) {
        clear(&mut self.lock(), start, bytes);
    }

    /// The area that starts there was freed, and must not be used until it is tracked again.
    pub fn free(&self, start: u64) {
        if let Some(area) = self.lock().get_mut(&start) {
            area.freed = true;
            area.written = Vec::new();
        }
    }

    /// These bytes are written.
    pub fn write(&self, address: u64, bytes: u64) {
        let mut areas = self.lock();
        let end = address.saturating_add(bytes);
        let first = areas.range(..=address).next_back().map_or(address, |(start, _)| *start);
        for (start, area) in areas.range_mut(first..end).filter(|(_, area)| !area.freed) {
            let from = address.saturating_sub(*start);
            let to = (end - start).min(area.bytes);
            if from < to {
                Area::words(from, to).for_each(|(word, bits)| area.written[word] |= bits);
            }
        }
    }

    /// The first byte of these that a kernel must not read, or write.
    pub fn misused(&self, address: u64, bytes: u64, reads: bool) -> Option<Misused> {
        let areas = self.lock();
        let (start, area) = areas.range(..=address).next_back()?;
        let from = address - start;
        let to = from.saturating_add(bytes).min(area.bytes);
        if from >= to {
            return None;
        }
        let (at, why) = if area.freed {
            (from, Misuse::Freed)
        } else if reads {
            let (word, bits) = Area::words(from, to)
                .map(|(word, bits)| (word as u64, bits & !area.written[word]))
                .find(|(_, bits)| *bits != 0)?;
            let why = if area.shared { Misuse::UnwrittenByKernels } else { Misuse::Unwritten };
            (word * WORD_BYTES + u64::from(bits.trailing_zeros()), why)
        } else {
            return None;
        };
        Some(Misused { address: start + at, area: *start, area_bytes: area.bytes, why })
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
        let unwritten = |address, bytes| account.misused(address, bytes, true);
        let why = Misuse::Unwritten;
        let at = |address| Some(Misused { address, area: 1000, area_bytes: 200, why });
        assert_eq!(unwritten(1000, 4), at(1000));
        assert_eq!(account.misused(1000, 4, false), None, "writing is what is wanted");
        account.write(1000, 4);
        account.write(1063, 67);
        assert_eq!(unwritten(1000, 4), None);
        assert_eq!(unwritten(1000, 8), at(1004));
        assert_eq!(unwritten(1063, 67), None);
        assert_eq!(unwritten(1062, 2), at(1062));
        assert_eq!(unwritten(1120, 20), at(1130));
        // Before, between and behind the areas nothing is known.
        assert_eq!(unwritten(500, 8), None);
        assert_eq!(unwritten(1200, 8), None);
        assert_eq!(unwritten(1999, 1), None);
        // A write over all of them.
        account.write(0, u64::MAX);
        assert_eq!(unwritten(1000, 200).or(unwritten(2000, 10)), None);
        account.track(1000, 8);
        assert!(unwritten(1000, 8).is_some(), "fresh again");
        account.forget(1004, 1);
        assert_eq!(unwritten(1000, 8), None);
    }

    #[test]
    fn what_was_freed_is_uninitialized_until_it_is_given_out_again() {
        let account = WrittenBytes::default();
        account.track(1000, 200);
        account.track_shared(2000, 64);
        account.write(1000, 200);
        account.free(1000);
        account.free(1001);
        account.write(1000, 200);
        for reads in [true, false] {
            let found = account.misused(1010, 4, reads).unwrap();
            assert_eq!((found.address, found.area, found.why), (1010, 1000, Misuse::Freed));
        }
        // A part of it, where less is wanted.
        account.track(1100, 20);
        assert_eq!(account.misused(1010, 4, false), None);
        assert_eq!(account.misused(1100, 4, true).map(|m| m.why), Some(Misuse::Unwritten));
        let shared = account.misused(2000, 8, true).map(|m| m.why);
        assert_eq!(shared, Some(Misuse::UnwrittenByKernels));
    }

    #[test]
    fn no_two_words_near_each_other_have_one_pattern() {
        let patterns = (0..1000).map(|n| pattern(0x1000 + n * PATTERN_BYTES));
        assert_eq!(patterns.collect::<std::collections::BTreeSet<_>>().len(), 1000);
        assert_ne!(pattern(0), 0);
    }
}
