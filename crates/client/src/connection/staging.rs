//! Staging: which copies use which part of the staging area, a ring of slices, given up in the
//! order of use.
//!
//! Pure bookkeeping. A slice is taken for one copy, and is free again once the stream of that
//! copy has passed it; because slices are given up oldest first, one slow stream can keep others
//! waiting for room, never anything wrong.

use recovery::Mark;
use std::collections::VecDeque;

/// What offsets and sizes of slices are multiples of: a cache line.
pub(crate) const SLICE_ALIGNMENT: u32 = 64;

/// No copy is split into smaller slices.
const SLICE_BYTES_MIN: u32 = 128 << 10;

/// So many of the largest slices fit at least: a few of a copy from the device, a few of one to it.
const SLICES_MIN: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Slice {
    offset: u32,
    /// What must have passed before the slice is free; `None` while the copy is not posted.
    until: Option<Mark>,
}

/// The staging area.
pub(crate) struct Staging {
    bytes: u32,
    /// Where the next slice starts, if there is room.
    next: u32,
    /// Slices in use, oldest first.
    slices: VecDeque<Slice>,
}

impl Staging {
    /// An unused area.
    pub(crate) const fn new(bytes: u32) -> Self {
        Self { bytes, next: 0, slices: VecDeque::new() }
    }

    /// Largest slice for a copy of that length: a quarter of it, so that copying into one overlaps
    /// with the device copying out of another, but neither so small that each costs more than it
    /// saves, nor so large that few fit.
    pub(crate) fn slice_bytes_max(&self, copy_bytes: u64) -> u32 {
        let quarter = u32::try_from(copy_bytes / 4).unwrap_or(u32::MAX);
        let largest = self.bytes / SLICES_MIN;
        quarter.clamp(SLICE_BYTES_MIN.min(largest), largest).next_multiple_of(SLICE_ALIGNMENT)
    }

    /// Takes a slice; `None` if there is no room before the oldest is given up. The slice must be
    /// given to [`Self::posted`].
    pub(crate) fn take(&mut self, bytes: u32) -> Option<u32> {
        let bytes = bytes.checked_next_multiple_of(SLICE_ALIGNMENT)?.max(SLICE_ALIGNMENT);
        let offset = match self.slices.front() {
            None if bytes <= self.bytes => 0,
            None => return None,
            // In use is the range from the oldest to `next`, perhaps around the end.
            Some(oldest) if oldest.offset < self.next => {
                if bytes <= self.bytes - self.next {
                    self.next
                } else if bytes <= oldest.offset {
                    0
                } else {
                    return None;
                }
            }
            Some(oldest) if bytes <= oldest.offset - self.next => self.next,
            Some(_) => return None,
        };
        self.slices.push_back(Slice { offset, until: None });
        self.next = offset + bytes;
        Some(offset)
    }

    /// Says when the slice at `offset` is free: once `until` has passed.
    pub(crate) fn posted(&mut self, offset: u32, until: Mark) {
        if let Some(slice) = self.slices.iter_mut().rev().find(|s| s.offset == offset) {
            slice.until = Some(until);
        }
    }

    /// What the oldest slice waits for; `None` if there is no slice or its copy is not posted.
    pub(crate) fn oldest(&self) -> Option<Mark> {
        self.slices.front()?.until
    }

    /// Gives up the slices whose marks have passed, oldest first.
    pub(crate) fn reclaim(&mut self, mut passed: impl FnMut(Mark) -> bool) {
        while let Some(slice) = self.slices.front() {
            match slice.until {
                Some(mark) if passed(mark) => self.slices.pop_front(),
                _ => break,
            };
        }
    }

    /// Takes all slices out, for the staging of a region in which they have the same places. A slice
    /// whose copy was not posted is free there: the thread that has it begins its copy again.
    pub(crate) fn take_all(&mut self) -> Self {
        let mut taken = core::mem::replace(self, Self::new(self.bytes));
        for slice in &mut taken.slices {
            slice.until.get_or_insert(Mark { slot: 0, value: 0 });
        }
        taken
    }

    /// Slices in use.
    pub(crate) fn in_use(&self) -> usize {
        self.slices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mark(value: u64) -> Mark {
        Mark { slot: 0, value }
    }

    #[test]
    fn room_comes_back_in_order() {
        let mut staging = Staging::new(256);
        let a = staging.take(100).unwrap();
        let b = staging.take(128).unwrap();
        assert_eq!((a, b, staging.take(1)), (0, 128, None));
        assert_eq!(staging.oldest(), None);
        staging.posted(b, mark(2));
        staging.reclaim(|_| true);
        assert_eq!(staging.in_use(), 2, "the oldest is not posted yet");
        staging.posted(a, mark(1));
        assert_eq!(staging.oldest(), Some(mark(1)));
        staging.reclaim(|m| m.value <= 1);
        assert_eq!((staging.in_use(), staging.take(128)), (1, Some(0)));
        assert_eq!(staging.take(64), None);
        assert_eq!(Staging::new(256).take(257), None);
        assert_eq!(Staging::new(256).take(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn slices_in_use_never_overlap(
            steps in prop::collection::vec((1u32..400, 0u64..4), 1..300)
        ) {
            let mut staging = Staging::new(1024);
            let mut value = 0;
            let mut in_use: Vec<(u64, u32, u32)> = Vec::new();
            for (bytes, behind) in steps {
                if let Some(offset) = staging.take(bytes) {
                    prop_assert!(offset + bytes <= 1024);
                    let end = offset + bytes;
                    let free = in_use.iter().all(|(_, start, stop)| end <= *start || *stop <= offset);
                    prop_assert!(free, "{offset}..{end} overlaps one of {in_use:?}");
                    value += 1;
                    staging.posted(offset, mark(value));
                    in_use.push((value, offset, end));
                }
                staging.reclaim(|m| m.value + behind <= value);
                in_use.retain(|(v, _, _)| v + behind > value);
            }
            staging.reclaim(|_| true);
            prop_assert_eq!(staging.in_use(), 0);
            prop_assert_eq!(staging.take(1024), Some(0));
        }
    }
}
