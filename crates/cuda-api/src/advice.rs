//! What a program has said about ranges of its managed memory (cuMemAdvise, cuMemPrefetchAsync),
//! and what cuMemRangeGetAttribute answers from it.
//!
//! Advice is advice: nothing here moves memory. It is kept so that a program reads back what it
//! set, by the manual's rules for ranges whose parts differ. Both sides of the seam keep it.

use crate::types::{CUdevice, CUmemLocation, CUresult};
use crate::{CudaError, constants::memory_location as location};
use alloc::collections::BTreeMap;
use core::ffi::c_int;

/// `CU_DEVICE_CPU`: the host where a device is asked for.
pub const DEVICE_CPU: CUdevice = -1;
/// `CU_DEVICE_INVALID`: no device, or not the same one everywhere.
pub const DEVICE_INVALID: CUdevice = -2;
/// Devices that [`Advice`] can name: a bit each, and one for the host.
pub const DEVICES_MAX: c_int = 63;

/// `CUmem_advise`.
mod advise {
    pub const SET_READ_MOSTLY: u32 = 1;
    pub const UNSET_READ_MOSTLY: u32 = 2;
    pub const SET_PREFERRED_LOCATION: u32 = 3;
    pub const UNSET_PREFERRED_LOCATION: u32 = 4;
    pub const SET_ACCESSED_BY: u32 = 5;
    pub const UNSET_ACCESSED_BY: u32 = 6;
}

/// `CUmem_range_attribute`.
mod attribute {
    pub const READ_MOSTLY: u32 = 1;
    pub const PREFERRED_LOCATION: u32 = 2;
    pub const ACCESSED_BY: u32 = 3;
    pub const LAST_PREFETCH_LOCATION: u32 = 4;
    pub const PREFERRED_LOCATION_TYPE: u32 = 5;
    pub const PREFERRED_LOCATION_ID: u32 = 6;
    pub const LAST_PREFETCH_LOCATION_TYPE: u32 = 7;
    pub const LAST_PREFETCH_LOCATION_ID: u32 = 8;
}

/// What was said about one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Advice {
    read_mostly: bool,
    preferred: CUmemLocation,
    prefetched: CUmemLocation,
    /// Bit 0 the host, bit 1 + n device n.
    accessed_by: u64,
}

/// The location that a device's number stands for in the functions' first versions.
pub fn location_of(device: CUdevice) -> CUmemLocation {
    match device {
        DEVICE_CPU => CUmemLocation { kind: location::HOST, id: 0 },
        _ => CUmemLocation { kind: location::DEVICE, id: device },
    }
}

/// The number that stands for a location; [`DEVICE_INVALID`] for none.
fn device_of(place: CUmemLocation) -> CUdevice {
    match place.kind {
        location::DEVICE => place.id,
        location::INVALID => DEVICE_INVALID,
        _ => DEVICE_CPU,
    }
}

fn bit_of(place: CUmemLocation) -> u64 {
    match place.kind {
        location::DEVICE => 2 << place.id.clamp(0, DEVICES_MAX - 1),
        _ => 1,
    }
}

/// CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_INVALID_DEVICE unless it is a place that memory can be
/// in, where there are that many devices.
pub fn check_location(place: CUmemLocation, devices: usize) -> CUresult {
    match place.kind {
        location::DEVICE if place.id >= 0 && (place.id as usize) < devices => Ok(()),
        location::DEVICE => Err(CudaError::INVALID_DEVICE),
        location::HOST | location::HOST_NUMA | location::HOST_NUMA_CURRENT => Ok(()),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Advice by ranges of addresses. A range about which nothing was said is not in it.
#[derive(Debug, Default)]
pub struct AdviceMap {
    /// Start to end and advice; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, Advice)>,
}

impl AdviceMap {
    /// Nothing was said.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// Makes `at` a boundary.
    fn split(&mut self, at: u64) {
        if let Some((_, (end, advice))) = self.ranges.range_mut(..at).next_back()
            && *end > at
        {
            let rest = (*end, *advice);
            *end = at;
            self.ranges.insert(at, rest);
        }
    }

    fn update(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut Advice)) {
        self.split(start);
        self.split(end);
        let mut at = start;
        while at < end {
            let next = self.ranges.range(at..end).next().map_or(end, |(next, _)| *next);
            if next > at {
                self.ranges.insert(at, (next, Advice::default()));
            }
            let Some((stop, advice)) = self.ranges.get_mut(&at) else { return };
            change(advice);
            at = *stop;
        }
    }

    /// Forgets what was said about a range whose memory is gone.
    pub fn forget(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        self.split(start);
        self.split(end);
        self.ranges.retain(|at, _| *at < start || *at >= end);
    }

    /// As cuMemAdvise for a range that was found to be managed memory. The location is looked at
    /// only by advice that is about one.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for advice that does not exist, and [`check_location`]'s.
    pub fn advise(
        &mut self,
        (start, bytes): (u64, u64),
        advice: u32,
        place: CUmemLocation,
        devices: usize,
    ) -> CUresult {
        let end = start.saturating_add(bytes);
        if matches!(
            advice,
            advise::SET_PREFERRED_LOCATION | advise::SET_ACCESSED_BY | advise::UNSET_ACCESSED_BY
        ) {
            check_location(place, devices)?;
        }
        match advice {
            advise::SET_READ_MOSTLY => self.update(start, end, |a| a.read_mostly = true),
            advise::UNSET_READ_MOSTLY => self.update(start, end, |a| a.read_mostly = false),
            advise::SET_PREFERRED_LOCATION => self.update(start, end, |a| a.preferred = place),
            advise::UNSET_PREFERRED_LOCATION => {
                self.update(start, end, |a| a.preferred = CUmemLocation::default());
            }
            advise::SET_ACCESSED_BY => {
                self.update(start, end, |a| a.accessed_by |= bit_of(place));
            }
            advise::UNSET_ACCESSED_BY => {
                self.update(start, end, |a| a.accessed_by &= !bit_of(place));
            }
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }

    /// As cuMemPrefetchAsync for a range that was found to be managed memory.
    ///
    /// # Errors
    /// [`check_location`]'s.
    pub fn prefetch(
        &mut self,
        (start, bytes): (u64, u64),
        place: CUmemLocation,
        devices: usize,
    ) -> CUresult {
        check_location(place, devices)?;
        self.update(start, start.saturating_add(bytes), |a| a.prefetched = place);
        Ok(())
    }

    /// What a value is all over a range; `None` if its parts differ.
    fn common<T: PartialEq>(
        &self,
        start: u64,
        bytes: u64,
        value: impl Fn(&Advice) -> T,
    ) -> Option<T> {
        let end = start.saturating_add(bytes);
        let first = self.ranges.range(..=start).next_back().filter(|(_, (stop, _))| *stop > start);
        let mut at = first.map_or(start, |(_, (stop, _))| *stop);
        let nothing = Advice::default();
        let common = value(first.map_or(&nothing, |(_, (_, advice))| advice));
        let mut rest = self.ranges.range(start..end).filter(|(next, _)| **next > start);
        // What stands at the start itself is the first; a gap says nothing.
        if first.is_none() {
            at = self.ranges.range(start..end).next().map_or(end, |(next, _)| *next);
        }
        while at < end {
            match rest.next() {
                Some((next, (stop, advice))) => {
                    if *next > at && value(&nothing) != common || value(advice) != common {
                        return None;
                    }
                    at = *stop;
                }
                None if value(&nothing) != common => return None,
                None => break,
            }
        }
        Some(common)
    }

    /// As cuMemRangeGetAttribute: gives the `bytes / 4` words of the answer to `set`, in order.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for an attribute that does not exist, or room for no answer.
    pub fn attribute(
        &self,
        (start, bytes): (u64, u64),
        number: u32,
        answer_bytes: usize,
        mut set: impl FnMut(usize, c_int) -> CUresult,
    ) -> CUresult {
        let words = answer_bytes / size_of::<c_int>();
        let whole = answer_bytes.is_multiple_of(size_of::<c_int>()) && words > 0;
        if !whole || (number != attribute::ACCESSED_BY && words != 1) {
            return Err(CudaError::INVALID_VALUE);
        }
        let preferred = || self.common(start, bytes, |a| a.preferred).unwrap_or_default();
        let prefetched = || self.common(start, bytes, |a| a.prefetched).unwrap_or_default();
        let id = |place: CUmemLocation| match place.kind {
            location::INVALID => DEVICE_INVALID,
            _ => place.id,
        };
        match number {
            attribute::READ_MOSTLY => {
                set(0, self.common(start, bytes, |a| a.read_mostly).unwrap_or(false).into())
            }
            attribute::PREFERRED_LOCATION => set(0, device_of(preferred())),
            attribute::LAST_PREFETCH_LOCATION => set(0, device_of(prefetched())),
            attribute::PREFERRED_LOCATION_TYPE => set(0, preferred().kind as c_int),
            attribute::PREFERRED_LOCATION_ID => set(0, id(preferred())),
            attribute::LAST_PREFETCH_LOCATION_TYPE => set(0, prefetched().kind as c_int),
            attribute::LAST_PREFETCH_LOCATION_ID => set(0, id(prefetched())),
            attribute::ACCESSED_BY => {
                let everywhere = (0..=DEVICES_MAX).filter(|bit| {
                    self.common(start, bytes, |a| a.accessed_by >> bit & 1) == Some(1)
                });
                let mut devices = everywhere.map(|bit| bit - 1);
                (0..words).try_for_each(|n| set(n, devices.next().unwrap_or(DEVICE_INVALID)))
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const DEVICE: CUmemLocation = CUmemLocation { kind: location::DEVICE, id: 0 };

    fn read(map: &AdviceMap, range: (u64, u64), number: u32, words: usize) -> Vec<c_int> {
        let mut answer = Vec::new();
        map.attribute(range, number, 4 * words, |_, value| {
            answer.push(value);
            Ok(())
        })
        .unwrap();
        answer
    }

    #[test]
    fn what_was_said_of_all_of_a_range_is_read_back() {
        let mut map = AdviceMap::new();
        assert_eq!(read(&map, (0, 100), attribute::READ_MOSTLY, 1), [0]);
        map.advise((100, 100), advise::SET_READ_MOSTLY, DEVICE, 1).unwrap();
        assert_eq!(read(&map, (100, 100), attribute::READ_MOSTLY, 1), [1]);
        assert_eq!(read(&map, (120, 10), attribute::READ_MOSTLY, 1), [1]);
        for beyond in [(99, 10), (100, 101), (0, 1000), (300, 10)] {
            assert_eq!(read(&map, beyond, attribute::READ_MOSTLY, 1), [0], "{beyond:?}");
        }
        map.advise((150, 10), advise::UNSET_READ_MOSTLY, DEVICE, 1).unwrap();
        assert_eq!(read(&map, (100, 50), attribute::READ_MOSTLY, 1), [1]);
        assert_eq!(read(&map, (100, 51), attribute::READ_MOSTLY, 1), [0]);
        assert_eq!(read(&map, (160, 40), attribute::READ_MOSTLY, 1), [1]);
    }

    #[test]
    fn locations_are_one_or_none() {
        let mut map = AdviceMap::new();
        let host = location_of(DEVICE_CPU);
        map.advise((0, 100), advise::SET_PREFERRED_LOCATION, DEVICE, 1).unwrap();
        map.advise((50, 50), advise::SET_PREFERRED_LOCATION, host, 1).unwrap();
        map.prefetch((0, 50), DEVICE, 1).unwrap();
        assert_eq!(read(&map, (0, 50), attribute::PREFERRED_LOCATION, 1), [0]);
        assert_eq!(read(&map, (50, 50), attribute::PREFERRED_LOCATION, 1), [DEVICE_CPU]);
        assert_eq!(read(&map, (0, 100), attribute::PREFERRED_LOCATION, 1), [DEVICE_INVALID]);
        assert_eq!(read(&map, (0, 50), attribute::PREFERRED_LOCATION_TYPE, 1), [1]);
        assert_eq!(read(&map, (0, 50), attribute::LAST_PREFETCH_LOCATION, 1), [0]);
        assert_eq!(read(&map, (0, 51), attribute::LAST_PREFETCH_LOCATION, 1), [DEVICE_INVALID]);
        let wrong = CUmemLocation { kind: location::DEVICE, id: 1 };
        assert_eq!(map.prefetch((0, 1), wrong, 1), Err(CudaError::INVALID_DEVICE));
        assert_eq!(map.advise((0, 1), 7, DEVICE, 1), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn all_devices_that_access_a_range_are_listed() {
        let mut map = AdviceMap::new();
        map.advise((0, 100), advise::SET_ACCESSED_BY, DEVICE, 2).unwrap();
        map.advise((0, 60), advise::SET_ACCESSED_BY, location_of(1), 2).unwrap();
        assert_eq!(read(&map, (0, 60), attribute::ACCESSED_BY, 3), [0, 1, DEVICE_INVALID]);
        assert_eq!(read(&map, (0, 100), attribute::ACCESSED_BY, 2), [0, DEVICE_INVALID]);
        map.advise((0, 100), advise::UNSET_ACCESSED_BY, DEVICE, 2).unwrap();
        assert_eq!(read(&map, (0, 60), attribute::ACCESSED_BY, 1), [1]);
        map.forget(0, 30);
        assert_eq!(read(&map, (0, 30), attribute::ACCESSED_BY, 1), [DEVICE_INVALID]);
        assert_eq!(read(&map, (30, 30), attribute::ACCESSED_BY, 1), [1]);
    }
}
