//! Staging: which copies use which part of the staging area.
//!
//! Pure bookkeeping. A slice is taken for one copy, and is free again once the stream of that copy has passed it,
//! also while others are in use. A stream has at most half of what the others leave: one that does not move
//! never has all, and copies of other streams go on.

use recovery::Mark;

/// What offsets and sizes of slices are multiples of: a cache line.
pub(crate) const SLICE_ALIGNMENT: u32 = 64;

/// No copy is split into smaller slices.
const SLICE_BYTES_MIN: u32 = 128 << 10;

/// So many of the largest slices fit at least: a few of a copy from the device, a few of one to it.
const SLICES_MIN: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Slice {
    offset: u32,
    bytes: u32,
    /// The slot of the copy's stream.
    stream: u32,
    /// What must have passed before the slice is free; `None` while the copy is not posted.
    until: Option<Mark>,
}

/// Why there is no slice now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The stream has its part of all: its oldest copy has to pass.
    Behind(Mark),
    /// Other threads' or other streams' copies take the room.
    OfOthers,
}

/// The staging area.
pub(crate) struct Staging {
    bytes: u32,
    /// Slices in use, by their places.
    slices: Vec<Slice>,
}

impl Staging {
    /// An unused area.
    pub(crate) const fn new(bytes: u32) -> Self {
        Self { bytes, slices: Vec::new() }
    }

    /// Largest slice for a copy of that length: a quarter of it, so that copying into one overlaps
    /// with the device copying out of another, but neither so small that each costs more than it
    /// saves, nor so large that few fit.
    pub(crate) fn slice_bytes_max(&self, copy_bytes: u64) -> u32 {
        let quarter = u32::try_from(copy_bytes / 4).unwrap_or(u32::MAX);
        let largest = self.bytes / SLICES_MIN;
        quarter.clamp(SLICE_BYTES_MIN.min(largest), largest).next_multiple_of(SLICE_ALIGNMENT)
    }

    /// Takes a slice for a copy of the slot's stream. The slice must be given to [`Self::posted`].
    pub(crate) fn take(&mut self, bytes: u32, stream: u32) -> Result<u32, Full> {
        let aligned = bytes.checked_next_multiple_of(SLICE_ALIGNMENT).ok_or(Full::OfOthers)?;
        let bytes = aligned.max(SLICE_ALIGNMENT);
        let in_use = |own: bool| -> u32 {
            let slices = self.slices.iter().filter(|slice| (slice.stream == stream) == own);
            slices.map(|slice| slice.bytes).sum()
        };
        let (own, others) = (in_use(true), in_use(false));
        let is_too_much = own > 0 && own + bytes > (self.bytes - others) / 2;
        let place = if is_too_much { None } else { self.gap(bytes) };
        let Some((at, offset)) = place else {
            let posted = self.slices.iter().filter(|slice| slice.stream == stream);
            let oldest = posted.filter_map(|slice| slice.until).min_by_key(|mark| mark.value);
            return Err(oldest.map_or(Full::OfOthers, Full::Behind));
        };
        self.slices.insert(at, Slice { offset, bytes, stream, until: None });
        Ok(offset)
    }

    /// The first gap of so many bytes: its place among the slices, and its offset.
    fn gap(&self, bytes: u32) -> Option<(usize, u32)> {
        let ends = self.slices.iter().map(|slice| slice.offset + slice.bytes);
        let begins = std::iter::once(0).chain(ends);
        let stops = self.slices.iter().map(|slice| slice.offset).chain([self.bytes]);
        let mut gaps = begins.zip(stops).enumerate();
        gaps.find(|(_, (begin, stop))| stop - begin >= bytes).map(|(at, (begin, _))| (at, begin))
    }

    /// Says when the slice at `offset` is free: once `until` has passed.
    pub(crate) fn posted(&mut self, offset: u32, until: Mark) {
        if let Some(slice) = self.slices.iter_mut().find(|s| s.offset == offset) {
            slice.until = Some(until);
        }
    }

    /// Gives up the slices whose marks have passed.
    pub(crate) fn reclaim(&mut self, mut passed: impl FnMut(Mark) -> bool) {
        self.slices.retain(|slice| !slice.until.is_some_and(&mut passed));
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

    /// What has to pass before slices are free, of all whose copies are posted.
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> {
        self.slices.iter().filter_map(|slice| slice.until)
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
    fn room_comes_back_as_copies_pass() {
        let mut staging = Staging::new(256);
        let take = |staging: &mut Staging, bytes, stream| staging.take(bytes, stream);
        let a = take(&mut staging, 100, 1).unwrap();
        let b = take(&mut staging, 64, 2).unwrap();
        assert_eq!((a, b, take(&mut staging, 128, 3)), (0, 128, Err(Full::OfOthers)));
        staging.posted(b, mark(2));
        staging.reclaim(|_| true);
        assert_eq!(staging.in_use(), 1, "the other one is not posted yet");
        assert_eq!(take(&mut staging, 64, 3), Ok(128), "room comes back out of order");
        assert_eq!(Staging::new(256).take(257, 0), Err(Full::OfOthers));
        assert_eq!(Staging::new(256).take(u32::MAX, 0), Err(Full::OfOthers));
    }

    #[test]
    fn a_stream_that_does_not_move_leaves_room_for_others() {
        let mut staging = Staging::new(1 << 20);
        for stream in 0..4 {
            let mut taken = 0;
            let full = loop {
                match staging.take(64, stream) {
                    Ok(slice) => staging.posted(slice, Mark { slot: stream, value: 1 + taken }),
                    Err(full) => break full,
                }
                taken += 1;
            };
            assert!(taken > 0, "stream {stream}");
            assert_eq!(full, Full::Behind(Mark { slot: stream, value: 1 }), "its own oldest copy");
        }
        assert!(staging.take(64, 9).is_ok());
    }

    proptest! {
        #[test]
        fn slices_in_use_never_overlap(
            steps in prop::collection::vec((1u32..400, 0u64..4, 0u32..3), 1..300)
        ) {
            let mut staging = Staging::new(1024);
            let mut value = 0;
            let mut in_use: Vec<(u64, u32, u32)> = Vec::new();
            for (bytes, behind, stream) in steps {
                if let Ok(offset) = staging.take(bytes, stream) {
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
            prop_assert_eq!(staging.take(1024, 0), Ok(0));
        }
    }
}
