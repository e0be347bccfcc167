//! The addresses that belong to a session, and the check of every address that a client names.

use crate::device::CheckedRange;
use cuda_api::CudaError;
use std::collections::BTreeMap;

/// What stands behind a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A chunk of device memory.
    Chunk,
    /// A global variable of a module.
    Global,
    /// Pinned host memory, which the device reaches at the same address.
    Host,
    /// Physical memory that the client has mapped, or that another client shares. Mappings side
    /// by side count as one range, as they do for programs that make one array of several.
    Mapping,
}

/// Disjoint ranges by their first address.
#[derive(Default)]
pub struct Ranges {
    by_base: BTreeMap<u64, (u64, Backing)>,
    version: u64,
}

impl Ranges {
    /// Adds a range; INVALID_VALUE if it is empty, wraps, or meets another one.
    pub fn add(&mut self, base: u64, bytes: u64, backing: Backing) -> Result<(), CudaError> {
        let end = base.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let before = self.by_base.range(..end).next_back();
        let meets = before.is_some_and(|(b, (n, _))| b + n > base);
        if bytes == 0 || meets {
            return Err(CudaError::INVALID_VALUE);
        }
        self.by_base.insert(base, (bytes, backing));
        Ok(())
    }

    /// Takes out the range that begins at `base`, if it has that backing.
    pub fn remove(&mut self, base: u64, backing: Backing) -> bool {
        match self.by_base.get(&base) {
            Some((_, b)) if *b == backing => {
                self.version += 1;
                self.by_base.remove(&base).is_some()
            }
            _ => false,
        }
    }

    /// Takes out everything.
    pub fn clear(&mut self) {
        self.version += 1;
        self.by_base.clear();
    }

    /// Grows whenever a range is taken out: a check that passed still holds while it is the same.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Checks that one range of the session, or mappings side by side, cover all of these bytes.
    /// No bytes at all are covered by any address.
    pub fn check(&self, address: u64, bytes: u64) -> Result<CheckedRange, CudaError> {
        self.find(address, bytes, |_| true)
    }

    /// As [`Ranges::check`], for a range of host memory.
    pub fn check_host(&self, address: u64, bytes: u64) -> Result<CheckedRange, CudaError> {
        self.find(address, bytes, |backing| backing == Backing::Host)
    }

    /// How many of the bytes from `address` on one range of the session, or mappings side by side,
    /// cover: at most `bytes`, 0 if the first is not the session's.
    pub fn covered(&self, address: u64, bytes: u64) -> u64 {
        let end = address.saturating_add(bytes);
        match self.end_of_cover(address, end, |_| true) {
            Some(covered) => covered.min(end) - address,
            None => 0,
        }
    }

    fn find(
        &self,
        address: u64,
        bytes: u64,
        fits: impl Fn(Backing) -> bool,
    ) -> Result<CheckedRange, CudaError> {
        if bytes == 0 {
            return Ok(CheckedRange::empty(address));
        }
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        match self.end_of_cover(address, end, fits) {
            // SAFETY: mappings cover it, and who takes one away has seen the client's streams idle before.
            Some(covered) if covered >= end => unsafe {
                Ok(CheckedRange::new_unchecked(address, bytes))
            },
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Where the range of an address ends; of mappings side by side the first end at `wanted` or
    /// behind it. `None` if no range that fits has the address.
    fn end_of_cover(
        &self,
        address: u64,
        wanted: u64,
        fits: impl Fn(Backing) -> bool,
    ) -> Option<u64> {
        let (base, (length, backing)) = self.by_base.range(..=address).next_back()?;
        let mut covered = base + length;
        if covered <= address || !fits(*backing) {
            return None;
        }
        while covered < wanted && *backing == Backing::Mapping {
            match self.by_base.get(&covered) {
                Some((length, Backing::Mapping)) => covered += length,
                _ => break,
            }
        }
        Some(covered)
    }
}

/// Length of `height` rows of `width` bytes that are `pitch` bytes apart, from the first byte to
/// the last one.
pub fn extent_of_rows(pitch: u64, width: u64, height: u64) -> Result<u64, CudaError> {
    if width == 0 || height == 0 {
        return Ok(0);
    }
    if height > 1 && pitch < width {
        return Err(CudaError::INVALID_VALUE);
    }
    pitch
        .checked_mul(height - 1)
        .and_then(|rows| rows.checked_add(width))
        .ok_or(CudaError::INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_reach_to_the_last_byte_of_the_last_one() {
        assert_eq!(extent_of_rows(100, 60, 3), Ok(260));
        assert_eq!(extent_of_rows(0, 60, 1), Ok(60));
        assert_eq!(extent_of_rows(100, 0, 3), Ok(0));
        assert_eq!(extent_of_rows(10, 60, 2), Err(CudaError::INVALID_VALUE));
        assert_eq!(extent_of_rows(u64::MAX, 60, 3), Err(CudaError::INVALID_VALUE));
        assert_eq!(extent_of_rows(1 << 40, 1 << 39, 1 << 40), Err(CudaError::INVALID_VALUE));
    }

    proptest! {
        /// Against a model in which each byte is looked at by itself.
        #[test]
        fn a_check_passes_if_one_range_or_mappings_have_every_byte(
            ranges in prop::collection::vec((0u64..200, 0u64..40, 0u8..4), 0..12),
            checks in prop::collection::vec((0u64..250, 0u64..50), 1..40),
        ) {
            let mut table = Ranges::default();
            const KINDS: [Backing; 4] =
                [Backing::Chunk, Backing::Global, Backing::Host, Backing::Mapping];
            // All mappings are one owner: they count as one range where they touch.
            const MAPPING: usize = 1000;
            let mut owner = [0usize; 300];
            for (number, (base, bytes, backing)) in ranges.into_iter().enumerate() {
                let backing = KINDS[backing as usize];
                let place = base as usize..(base + bytes) as usize;
                let free = bytes > 0 && owner[place.clone()].iter().all(|o| *o == 0);
                prop_assert_eq!(table.add(base, bytes, backing).is_ok(), free);
                if free {
                    let mapping = backing == Backing::Mapping;
                    owner[place].fill(if mapping { MAPPING } else { number + 1 });
                }
            }
            for (address, bytes) in checks {
                let place = &owner[address as usize..(address + bytes) as usize];
                let good = place.iter().all(|o| *o != 0 && *o == place[0]);
                prop_assert_eq!(table.check(address, bytes).is_ok(), good);
                let covered = place.iter().take_while(|o| **o != 0 && **o == place[0]).count();
                prop_assert_eq!(table.covered(address, bytes), covered as u64);
            }
        }

        #[test]
        fn no_address_makes_it_panic(address: u64, bytes: u64, base: u64, length: u64) {
            let mut table = Ranges::default();
            let _ = table.add(base, length, Backing::Chunk);
            prop_assert!(table.covered(address, bytes) <= bytes);
            if let Ok(range) = table.check(address, bytes) {
                let inside = address >= base && address - base <= length;
                prop_assert!(range.bytes() == 0 || inside);
            }
        }
    }
}
