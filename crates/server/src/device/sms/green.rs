//! Green contexts of the provider's: for streams whose blocks stay on some SMs.
//!
//! A client names SMs by number. Which SMs those are at the device is the provider's to say: it
//! parts all of them in equal groups, always in the same way, and the numbers count along these.
//!
//! Making one waits for the context. So those of a device whose clients share a context are kept for
//! later clients ([`KeptGreenContexts`](crate::device::sms::green_contexts::KeptGreenContexts)), and made ahead while
//! nothing is in flight. Where there are tenants, each has its own.

use crate::device::safe_calls::{Owned, SafeCalls};
use crate::device::sms::green_contexts::GreenContext;
use crate::device::{ContextCall, Device, Share};
use cuda_api::constants::device_resource::{GREEN_DEFAULT_STREAM, SM, SPLIT_IGNORE_COSCHEDULING};
use cuda_api::resource::SM_GROUPS_MAX;
use cuda_api::{CUdevResource, CUdevResourceDesc, CUdevice, CUresult, CudaError};
use std::ops::Range;
use std::sync::Arc;

/// What the provider calls some SMs: whole groups if it can, for kernels with clusters run in these only.
fn describe(device: &Device, sms: &Range<u32>) -> Result<Owned<CUdevResourceDesc>, CudaError> {
    let mut parts = parts_of(device, sms, 0)
        .or_else(|_| one_part(device, sms).map(|part| vec![part]))
        .or_else(|_| parts_of(device, sms, SPLIT_IGNORE_COSCHEDULING))?;
    let mut description = Owned::default();
    device.calls().cuDevResourceGenerateDesc(&mut description, &mut parts)?;
    Ok(description)
}

/// Makes a green context by `call`, which waits for the context in its own way.
fn create(
    device: &Device,
    sms: &Range<u32>,
    call: impl FnOnce(&mut dyn FnMut() -> CUresult) -> CUresult,
) -> Result<GreenContext, CudaError> {
    let description = describe(device, sms)?;
    let (calls, ordinal) = (device.calls(), device.ordinal());
    let mut raw = Owned::default();
    // It is `ContextCall::CreateGreenContext` to those who call this.
    call(&mut || {
        calls.cuGreenCtxCreate(&mut raw, description.live(), ordinal, GREEN_DEFAULT_STREAM)
    })?;
    Ok(GreenContext { calls, raw })
}

impl Share {
    /// A green context of the provider's for streams on those SMs, for this share's life.
    /// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for SMs that the provider does not part so;
    /// CUDA_ERROR_NOT_SUPPORTED if it has no green contexts.
    pub(in crate::device) fn green_context(
        &self,
        sms: Range<u32>,
    ) -> Result<Arc<GreenContext>, CudaError> {
        let kept = &self.device().green_contexts;
        self.greens.get(&sms, || {
            if let Some(green) = kept.find(&sms).filter(|_| !self.is_tenant()) {
                return Ok(green);
            }
            let green = create(self.device(), &sms, |make| {
                self.unless_it_ends(ContextCall::CreateGreenContext, make)
            })?;
            Ok(match self.is_tenant() {
                true => Arc::new(green),
                false => kept.keep(sms.clone(), green),
            })
        })
    }
}

impl Device {
    /// Makes the green context of some SMs for clients that come, unless there is one, if nothing is in
    /// flight now: else CUDA_ERROR_NOT_READY. For a provider without tenants. True if it was made.
    pub fn make_green_context_ahead(&self, sms: Range<u32>) -> Result<bool, CudaError> {
        let kept = &self.green_contexts;
        if kept.find(&sms).is_some() {
            return Ok(false);
        }
        // A description stays for good: none is made in vain.
        if !self.is_quiet() {
            return Err(CudaError::NOT_READY);
        }
        let green = create(self, &sms, |make| {
            self.if_quiet(ContextCall::CreateGreenContext, make)
                .unwrap_or(Err(CudaError::NOT_READY))
        })?;
        kept.keep(sms, green);
        kept.trim();
        Ok(true)
    }

    /// The SMs that streams are made on which keep to a share (`None`: all of the device) and off so many
    /// SMs of it; `None`: all.
    pub fn sms_of_streams(&self, share: Option<Range<u32>>, free_sms: u32) -> Option<Range<u32>> {
        if free_sms == 0 {
            return share.map(|sms| self.whole_groups(sms));
        }
        let all = self.sms();
        let share = share.unwrap_or(0..all);
        let end = share.end.min(all.saturating_sub(free_sms)).max(share.start + 1);
        Some(self.whole_groups(share.start..end))
    }

    /// The nearest SMs to these, no more of them, that make up whole groups of those that the provider
    /// schedules together; one group at least. Kernels with clusters run in such groups only.
    fn whole_groups(&self, sms: Range<u32>) -> Range<u32> {
        // A provider with tenants runs clusters on any SMs.
        if self.has_tenants() {
            return sms;
        }
        let Some(groups) = self.group_of_sms() else { return sms };
        let of_size =
            |size: u32| split(self, 0, size).map_or(0, |(parts, _)| of_size(&parts, size));
        whole_groups(sms, groups, self.sms(), of_size)
    }

    /// The smallest groups of SMs that the provider schedules together; `None` if it parts none.
    pub(in crate::device) fn group_of_sms(&self) -> Option<Groups> {
        let (groups, _) = split(self, 0, 0).ok()?;
        let sms = groups.first()?.sm.smCount;
        Some(Groups { sms, count: groups.len() as u32 })
    }
}

/// Groups of SMs, one like the other.
#[derive(Clone, Copy)]
pub(in crate::device) struct Groups {
    /// SMs of each.
    pub(in crate::device) sms: u32,
    count: u32,
}

/// The nearest SMs to these that are whole groups. There may be fewer groups than would fit, as the device's SMs do
/// not stand together in groups: an H200 has 15 of 8 SMs, though 132. Beyond these, `of_size` says how many larger
/// groups of one size there are: four of 32, with all of 128 SMs.
fn whole_groups(
    sms: Range<u32>,
    groups: Groups,
    all: u32,
    of_size: impl FnOnce(u32) -> u32,
) -> Range<u32> {
    let (count, size) = (sms.end.saturating_sub(sms.start), groups.sms);
    if size < 2 || sms == (0..all) {
        return sms;
    }
    let in_groups = size * groups.count;
    let first = sms.start - sms.start % size;
    let wanted = (count - count % size).max(size);
    let is_larger_one = || first.is_multiple_of(wanted) && first / wanted < of_size(wanted);
    if first + wanted <= in_groups || is_larger_one() {
        return first..first + wanted;
    }
    in_groups - wanted.min(in_groups)..in_groups
}

/// Most of the smallest groups that the provider parts a device's SMs into.
pub(in crate::device) fn groups_of_sms(
    calls: SafeCalls,
    ordinal: CUdevice,
) -> Result<u32, CudaError> {
    let (mut all, mut groups) = (CUdevResource::NONE, 0);
    calls.cuDeviceGetDevResource(ordinal, &mut all, SM)?;
    calls.cuDevSmResourceSplitByCount(None, &mut groups, &all, None, 0, 0)?;
    Ok(groups)
}

/// All SMs as the provider parts them, in groups of at least so many: these, and what is left over.
fn split(
    device: &Device,
    flags: u32,
    sms_min: u32,
) -> Result<(Vec<CUdevResource>, CUdevResource), CudaError> {
    let calls = device.calls();
    let (mut all, mut rest) = (CUdevResource::NONE, CUdevResource::NONE);
    let mut parts = Box::new([CUdevResource::NONE; SM_GROUPS_MAX]);
    calls.cuDeviceGetDevResource(device.ordinal(), &mut all, SM)?;
    let (mut count, groups, left) = (all.sm.smCount, Some(&mut *parts), Some(&mut rest));
    calls.cuDevSmResourceSplitByCount(groups, &mut count, &all, left, flags, sms_min)?;
    let mut parts = parts.to_vec();
    parts.truncate(count as usize);
    Ok((parts, rest))
}

/// How many of some groups have so many SMs: all or none.
fn of_size(groups: &[CUdevResource], sms: u32) -> u32 {
    let is_exact = groups.iter().all(|group| group.sm.smCount == sms);
    if is_exact { groups.len() as u32 } else { 0 }
}

/// The provider's resource that is some SMs: one of groups of that size.
fn one_part(device: &Device, sms: &Range<u32>) -> Result<CUdevResource, CudaError> {
    let none = CudaError::INVALID_RESOURCE_CONFIGURATION;
    let size = sms.end.checked_sub(sms.start).filter(|size| *size > 0).ok_or(none)?;
    let (groups, _) = split(device, 0, size)?;
    let is_group = sms.start.is_multiple_of(size) && sms.start / size < of_size(&groups, size);
    groups.get((sms.start / size) as usize).copied().filter(|_| is_group).ok_or(none)
}

/// The provider's resources that make up some SMs.
fn parts_of(
    device: &Device,
    sms: &Range<u32>,
    flags: u32,
) -> Result<Vec<CUdevResource>, CudaError> {
    let (mut parts, rest) = split(device, flags, 0)?;
    if rest.kind == SM && rest.sm.smCount > 0 {
        parts.push(rest);
    }
    let mut first = 0;
    parts.retain(|part| {
        let own = first..first + part.sm.smCount;
        first = own.end;
        sms.start <= own.start && own.end <= sms.end
    });
    let found: u32 = parts.iter().map(|part| part.sm.smCount).sum();
    match found == sms.end.saturating_sub(sms.start) && found > 0 {
        true => Ok(parts),
        false => Err(CudaError::INVALID_RESOURCE_CONFIGURATION),
    }
}

#[cfg(test)]
mod tests {
    use super::{Groups, whole_groups};

    #[test]
    fn shares_are_whole_groups_and_no_more_than_they_were() {
        // As an H200 parts its SMs: bench/h200/results/2026-11-21/capability.json, "splits".
        let groups = Groups { sms: 8, count: 15 };
        let of_size = |size| match size {
            8 => 15,
            16 => 8,
            32 => 4,
            64 => 2,
            96 | 120 | 128 => 1,
            _ => 0,
        };
        for (sms, expected) in [
            (0..132, 0..132),
            (0..32, 0..32),
            (0..66, 0..64),
            (66..132, 64..128),
            (96..128, 96..128),
            (0..124, 0..120),
            (0..130, 0..128),
            (8..136, 0..120),
            (34..132, 24..120),
            (0..2, 0..8),
            (112..128, 112..128),
            (120..128, 112..120),
            (130..132, 112..120),
        ] {
            assert_eq!(whole_groups(sms.clone(), groups, 132, of_size), expected, "{sms:?}");
        }
        assert_eq!(whole_groups(3..5, Groups { sms: 1, count: 8 }, 8, |_| 0), 3..5);
    }
}
