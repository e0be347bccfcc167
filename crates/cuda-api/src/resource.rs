//! Resources: parts of a device that programs ask for to hand them on, SMs in parts and memory as
//! files.
//!
//! A part of the SMs is a range of their numbers, which a resource carries where cuda.h has its
//! "internal padding". A program may write anything there: [`Partition::sms_of`] believes none of it. Parts
//! are all alike on a device without clusters; with them, the code that makes a green context
//! decides what can be had. dma-bufs are not offered; a wrong question has the answer that it has
//! everywhere.

use crate::CUresult;
use crate::CudaError;
use crate::constants::device_resource::{
    GROUP_BACKFILL, INVALID, SM, SPLIT_IGNORE_COSCHEDULING, SPLIT_MAX_POTENTIAL_CLUSTER_SIZE,
};
use crate::constants::range_handle::DMA_BUF_FD;
use crate::pointer::{In, Out};
use crate::types::{CUdevResource, CUdevSmGroupParams, CUdevSmResource, CUdeviceptr};
use alloc::vec::Vec;
use core::ffi::{c_int, c_uint};
use core::ops::Range;

/// Compute capability from which SMs are parted by clusters.
const WITH_CLUSTERS: c_int = 9;
/// Most groups that one call makes, and parts of one green context: more than any device has SMs.
pub const SM_GROUPS_MAX: usize = 1024;

/// How SMs can be parted: by the device's compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// SMs of the device.
    pub sms: c_uint,
    /// The smallest part that is possible.
    pub least: c_uint,
    /// What larger ones are multiples of.
    pub unit: c_uint,
    /// Most of the smallest parts that there are: fewer than would fit where the clusters that SMs
    /// stand in are not all alike.
    pub groups: c_uint,
}

impl CUdevResource {
    /// No resource at all, to be written over: its kind is CU_DEV_RESOURCE_TYPE_INVALID.
    pub const NONE: Self = Self {
        kind: INVALID,
        padding: [0; 92],
        sm: CUdevSmResource {
            smCount: 0,
            minSmPartitionSize: 0,
            smCoscheduledAlignment: 0,
            flags: 0,
            localityDomainId: 0,
        },
        reserved: [0; 20],
        nextResource: core::ptr::null_mut(),
    };
}

impl Partition {
    /// That of a device.
    pub fn of(sms: c_uint, compute_major: c_int) -> Self {
        let (least, unit) = match compute_major {
            WITH_CLUSTERS.. => (8, 8),
            8 => (4, 2),
            _ => (2, 2),
        };
        Self { sms, least, unit, groups: sms / least }
    }

    /// A range of SMs as programs see it.
    pub fn resource(&self, sms: Range<c_uint>) -> CUdevResource {
        let mut padding = [0; 92];
        padding[..4].copy_from_slice(&sms.start.to_ne_bytes());
        let sm = CUdevSmResource {
            smCount: sms.end - sms.start,
            minSmPartitionSize: self.least,
            smCoscheduledAlignment: self.unit,
            flags: 0,
            localityDomainId: 0,
        };
        let nextResource = core::ptr::null_mut();
        CUdevResource { kind: SM, padding, sm, reserved: [0; 20], nextResource }
    }

    /// As much of a type of resource as there is: all SMs, or those of a context.
    /// CUDA_ERROR_INVALID_RESOURCE_TYPE for another type.
    pub fn whole(&self, kind: c_uint, sms: &[Range<c_uint>]) -> Result<CUdevResource, CudaError> {
        if kind != SM {
            return Err(CudaError::INVALID_RESOURCE_TYPE);
        }
        let Some(first) = sms.first() else { return Ok(self.resource(0..self.sms)) };
        let mut resource = self.resource(first.clone());
        resource.sm.smCount = sms.iter().map(|part| part.end - part.start).sum();
        Ok(resource)
    }

    /// The SMs of a resource that a program hands back. CUDA_ERROR_INVALID_RESOURCE_TYPE for one
    /// that is no SMs, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for SMs that there are not.
    pub fn sms_of(&self, resource: &CUdevResource) -> Result<Range<c_uint>, CudaError> {
        if resource.kind != SM {
            return Err(CudaError::INVALID_RESOURCE_TYPE);
        }
        let [a, b, c, d, ..] = resource.padding;
        let start = c_uint::from_ne_bytes([a, b, c, d]);
        match start.checked_add(resource.sm.smCount) {
            Some(end) if end <= self.sms && end > start => Ok(start..end),
            _ => Err(CudaError::INVALID_RESOURCE_CONFIGURATION),
        }
    }

    /// cuDevSmResourceSplitByCount: as many equal groups as fit, at most `groups`, and what is
    /// left (of no SMs if there is nothing). One group may be all of them.
    pub fn split_by_count(
        &self,
        input: &CUdevResource,
        groups: usize,
        flags: c_uint,
        sms_min: c_uint,
    ) -> Result<(Vec<Range<c_uint>>, Range<c_uint>), CudaError> {
        /// One of them at most.
        const FLAGS: [c_uint; 3] = [0, SPLIT_IGNORE_COSCHEDULING, SPLIT_MAX_POTENTIAL_CLUSTER_SIZE];
        let whole = self.sms_of(input)?;
        let count = whole.end - whole.start;
        if !FLAGS.contains(&flags) || groups == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if sms_min > count {
            return Err(CudaError::INVALID_RESOURCE_CONFIGURATION);
        }
        let (least, unit) = match flags & SPLIT_IGNORE_COSCHEDULING {
            0 => (self.least, self.unit),
            _ => (2, 2),
        };
        let each = sms_min.max(least).next_multiple_of(unit).min(count);
        let fitting = match each == self.least && flags & SPLIT_IGNORE_COSCHEDULING == 0 {
            true => (count / each).min(self.groups),
            false => count / each,
        };
        let fitting = fitting.min(groups.min(SM_GROUPS_MAX) as c_uint);
        let part = |index: c_uint| whole.start + index * each..whole.start + (index + 1) * each;
        Ok(((0..fitting).map(part).collect(), whole.start + fitting * each..whole.end))
    }

    /// cuDevSmResourceSplit: groups of the wanted sizes one behind the other, and what is left. A
    /// size of 0 takes all that is left; the sizes found are written into `groups`.
    pub fn split(
        &self,
        input: &CUdevResource,
        flags: c_uint,
        groups: &mut [CUdevSmGroupParams],
    ) -> Result<(Vec<Range<c_uint>>, Range<c_uint>), CudaError> {
        let mut left = self.sms_of(input)?;
        if flags != 0 || groups.is_empty() || groups.len() > SM_GROUPS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut parts = Vec::new();
        for group in groups {
            let unit = match group.coscheduledSmCount {
                0 => self.unit,
                unit if unit % 2 == 0 && unit <= self.sms => unit,
                _ => return Err(CudaError::INVALID_VALUE),
            };
            let backfill = group.flags & GROUP_BACKFILL != 0;
            if group.flags & !GROUP_BACKFILL != 0 || group.smCount % 2 != 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            let available = left.end - left.start;
            let wanted = match group.smCount {
                0 if backfill => available,
                0 => available / unit * unit,
                wanted if backfill || wanted.is_multiple_of(unit) => wanted,
                _ => return Err(CudaError::INVALID_VALUE),
            };
            if wanted > available || wanted < unit {
                return Err(CudaError::INVALID_RESOURCE_CONFIGURATION);
            }
            group.smCount = wanted;
            parts.push(left.start..left.start + wanted);
            left.start += wanted;
        }
        Ok((parts, left))
    }

    /// Answers cuDevSmResourceSplitByCount.
    pub fn answer_split_by_count(
        &self,
        result: Out<CUdevResource>,
        groups: Out<c_uint>,
        input: In<CUdevResource>,
        remainder: Out<CUdevResource>,
        flags: c_uint,
        sms_min: c_uint,
    ) -> CUresult {
        let wanted = match result.is_null() {
            true => SM_GROUPS_MAX,
            false => groups.as_in().get()? as usize,
        };
        let (parts, left) = self.split_by_count(&input.get()?, wanted, flags, sms_min)?;
        groups.set(parts.len() as c_uint)?;
        self.give(&parts, left, result, remainder)
    }

    /// Answers cuDevSmResourceSplit.
    pub fn answer_split(
        &self,
        result: Out<CUdevResource>,
        groups: c_uint,
        input: In<CUdevResource>,
        remainder: Out<CUdevResource>,
        flags: c_uint,
        params: Out<CUdevSmGroupParams>,
    ) -> CUresult {
        let count = groups as usize;
        if count > SM_GROUPS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let params = params.array(count);
        let mut wanted = params.as_in().iter().collect::<Result<Vec<_>, _>>()?;
        let (parts, left) = self.split(&input.get()?, flags, &mut wanted)?;
        for (index, group) in wanted.into_iter().enumerate() {
            params.set(index, group)?;
        }
        self.give(&parts, left, result, remainder)
    }

    /// Hands parts to a program, and what is left if there is anything.
    fn give(
        &self,
        parts: &[Range<c_uint>],
        left: Range<c_uint>,
        result: Out<CUdevResource>,
        remainder: Out<CUdevResource>,
    ) -> CUresult {
        if !result.is_null() {
            let result = result.array(parts.len());
            for (index, part) in parts.iter().enumerate() {
                result.set(index, self.resource(part.clone()))?;
            }
        }
        let mut rest = self.resource(left.clone());
        if left.is_empty() {
            rest.kind = INVALID;
        }
        remainder.set_if_wanted(rest);
        Ok(())
    }

    /// What cuDevResourceGenerateDesc is given.
    pub fn read_parts(
        &self,
        resources: In<CUdevResource>,
        count: c_uint,
    ) -> Result<Vec<Range<c_uint>>, CudaError> {
        let count = count as usize;
        if count > SM_GROUPS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let read = resources.array(count).iter().collect::<Result<Vec<_>, _>>()?;
        self.describe(&read)
    }

    /// The SMs of what a green context is to be made of, in order and once each.
    pub fn describe(&self, resources: &[CUdevResource]) -> Result<Vec<Range<c_uint>>, CudaError> {
        if resources.is_empty() || resources.len() > SM_GROUPS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut parts = Vec::new();
        for resource in resources {
            parts.push(self.sms_of(resource)?);
        }
        parts.sort_unstable_by_key(|part| part.start);
        match parts.windows(2).all(|pair| pair[0].end <= pair[1].start) {
            true => Ok(parts),
            false => Err(CudaError::INVALID_RESOURCE_CONFIGURATION),
        }
    }
}

/// Host pages, whose size a range of addresses with a handle has to be a multiple of.
const HOST_PAGE_BYTES: u64 = 4096;

/// Checks what cuMemGetHandleForAddressRange is given, but for whose memory it is.
pub fn check_range_handle(
    pointer: CUdeviceptr,
    bytes: usize,
    handle_type: c_uint,
    flags: u64,
) -> Result<(), CudaError> {
    // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
    const FLAGS: u64 = 1;
    let whole = |n: u64| n.is_multiple_of(HOST_PAGE_BYTES);
    let good = handle_type == DMA_BUF_FD
        && flags & !FLAGS == 0
        && bytes != 0
        && whole(pointer.0)
        && whole(bytes as u64);
    if good { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn ranges_are_whole_pages() {
        let check = |at, bytes, kind| check_range_handle(CUdeviceptr(at), bytes, kind, 0).is_ok();
        assert!(check(0x2000, 0x1000, DMA_BUF_FD));
        let wrong = [(0x2001, 0x1000, 1), (0x2000, 5, 1), (0x2000, 0, 1), (0x2000, 0x1000, 2)];
        assert!(!wrong.into_iter().any(|(at, bytes, kind)| check(at, bytes, kind)));
    }

    /// As one answered: bench/h200/results/2026-11-21/capability.json, "splits".
    const H200: Partition = Partition { sms: 132, least: 8, unit: 8, groups: 15 };

    #[test]
    fn sms_follow_compute_capability() {
        assert_eq!(Partition { groups: 15, ..Partition::of(132, 9) }, H200);
        assert_eq!(Partition::of(16, 8), Partition { sms: 16, least: 4, unit: 2, groups: 4 });
        assert_eq!(H200.whole(SM, &[]).unwrap().sm.smCount, 132);
        assert_eq!(H200.whole(SM, &[8..16, 24..32]).unwrap().sm.smCount, 16);
        assert_eq!(H200.whole(7, &[]).err(), Some(CudaError::INVALID_RESOURCE_TYPE));
    }

    #[test]
    fn equal_groups_are_rounded_up_and_the_rest_is_left() {
        let all = H200.whole(SM, &[]).unwrap();
        let split = |groups, least| H200.split_by_count(&all, groups, 0, least);
        assert_eq!(split(2, 9), Ok((vec![0..16, 16..32], 32..132)));
        assert_eq!(split(99, 64).map(|(parts, left)| (parts.len(), left)), Ok((2, 128..132)));
        assert_eq!(split(99, 1).map(|(parts, left)| (parts.len(), left)), Ok((15, 120..132)));
        assert_eq!(split(99, 16).map(|(parts, left)| (parts.len(), left)), Ok((8, 128..132)));
        assert_eq!(H200.split_by_count(&all, 1, 3, 8), Err(CudaError::INVALID_VALUE));
        assert_eq!(split(1, 133), Err(CudaError::INVALID_RESOURCE_CONFIGURATION));
        let (whole, left) = split(1, 132).unwrap();
        assert_eq!((whole.len(), &whole[0], left), (1, &(0..132), 132..132));
        let fine = H200.split_by_count(&all, 2, SPLIT_IGNORE_COSCHEDULING, 3);
        assert_eq!(fine, Ok((vec![0..4, 4..8], 8..132)));
        let mut none = all;
        none.kind = 0;
        assert_eq!(H200.sms_of(&none), Err(CudaError::INVALID_RESOURCE_TYPE));
        none = H200.resource(130..134);
        assert_eq!(H200.sms_of(&none), Err(CudaError::INVALID_RESOURCE_CONFIGURATION));
    }

    #[test]
    fn groups_of_wanted_sizes_stand_one_behind_the_other() {
        let all = H200.whole(SM, &[]).unwrap();
        let group = |smCount, coscheduledSmCount, flags| CUdevSmGroupParams {
            smCount,
            coscheduledSmCount,
            flags,
            ..Default::default()
        };
        let mut groups = [group(10, 2, 0), group(0, 8, 0)];
        assert_eq!(H200.split(&all, 0, &mut groups), Ok((vec![0..10, 10..130], 130..132)));
        assert_eq!(groups[1].smCount, 120);
        let mut rest = [group(8, 4, 0), group(0, 2, GROUP_BACKFILL)];
        assert_eq!(H200.split(&all, 0, &mut rest).map(|(_, left)| left), Ok(132..132));
        let mut wrong = [group(10, 0, 0)];
        assert_eq!(H200.split(&all, 0, &mut wrong), Err(CudaError::INVALID_VALUE));
        let mut many = [group(136, 8, 0)];
        let error = Err(CudaError::INVALID_RESOURCE_CONFIGURATION);
        assert_eq!(H200.split(&all, 0, &mut many), error);
    }

    #[test]
    fn a_green_context_has_each_sm_once() {
        let parts = [H200.resource(16..24), H200.resource(0..8)];
        assert_eq!(H200.describe(&parts), Ok(vec![0..8, 16..24]));
        let twice = [H200.resource(0..8), H200.resource(4..12)];
        assert_eq!(H200.describe(&twice), Err(CudaError::INVALID_RESOURCE_CONFIGURATION));
        assert_eq!(H200.describe(&[]), Err(CudaError::INVALID_VALUE));
    }
}
