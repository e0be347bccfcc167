//! Green contexts of the provider's: for streams whose blocks stay on some SMs.
//!
//! A client names SMs by number. Which SMs those are at the device is the provider's to say: it
//! parts all of them in equal groups, always in the same way, and the numbers count along these.

use super::{ContextCall, Device, Share};
use cuda_api::constants::device_resource::{GREEN_DEFAULT_STREAM, SM, SPLIT_IGNORE_COSCHEDULING};
use cuda_api::resource::SM_GROUPS_MAX;
use cuda_api::{CUdevResource, CUdevResourceDesc, CUdevice, CUgreenCtx, CudaError, DriverTable};
use std::ops::Range;

fn create(share: &Share, sms: Range<u32>) -> Result<CUgreenCtx, CudaError> {
    let device = share.device();
    let mut parts = match parts_of(device, &sms, 0) {
        Err(CudaError::INVALID_RESOURCE_CONFIGURATION) => {
            parts_of(device, &sms, SPLIT_IGNORE_COSCHEDULING)?
        }
        parts => parts?,
    };
    let (mut description, mut green) = (CUdevResourceDesc::NULL, CUgreenCtx::NULL);
    let (t, count) = (device.table(), parts.len() as u32);
    // SAFETY: the list is as long as said, the locals are written; the description is one of the
    // provider's.
    unsafe { t.cuDevResourceGenerateDesc(&mut description, parts.as_mut_ptr(), count)? };
    let ordinal = device.ordinal();
    // SAFETY: as above.
    share.unless_it_ends(ContextCall::CreateGreenContext, || unsafe {
        t.cuGreenCtxCreate(&mut green, description, ordinal, GREEN_DEFAULT_STREAM)
    })?;
    Ok(green)
}

impl Share {
    /// A green context of the provider's for streams on those SMs, for this share's life.
    /// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for SMs that the provider does not part so;
    /// CUDA_ERROR_NOT_SUPPORTED if it has no green contexts.
    pub(super) fn green_context(&self, sms: Range<u32>) -> Result<CUgreenCtx, CudaError> {
        self.greens.get(&sms, || create(self, sms.clone()))
    }

    /// The nearest SMs to these, no more of them, that make up whole groups of those that the provider
    /// schedules together; one group at least. Kernels with clusters run in such groups only.
    pub(crate) fn whole_groups(&self, sms: Range<u32>) -> Range<u32> {
        // A provider with tenants runs clusters on any SMs.
        if self.is_tenant() {
            return sms;
        }
        let device = self.device();
        let all = device.sms();
        let size = match parts_of(device, &(0..all), 0) {
            Ok(parts) => parts.first().map_or(1, |part| part.sm.smCount),
            Err(_) => 1,
        };
        whole_groups(sms, size, all)
    }
}

fn whole_groups(sms: Range<u32>, size: u32, all: u32) -> Range<u32> {
    let count = sms.end.saturating_sub(sms.start);
    if size < 2 || sms == (0..all) {
        return sms;
    }
    let first = sms.start - sms.start % size;
    let wanted = (count - count % size).max(size);
    // The device's last SMs may be no whole group.
    let end = (first + wanted).min(all - all % size);
    end.saturating_sub(wanted)..end
}

/// Most of the smallest groups that the provider parts a device's SMs into.
pub(super) fn groups_of_sms(t: &DriverTable, ordinal: CUdevice) -> Result<u32, CudaError> {
    let (mut all, mut groups) = (CUdevResource::NONE, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the locals are written; without a place for them no groups are.
    unsafe {
        t.cuDeviceGetDevResource(ordinal, &mut all, SM)?;
        t.cuDevSmResourceSplitByCount(none, &mut groups, &all, none, 0, 0)?;
    }
    Ok(groups)
}

/// The provider's resources that make up some SMs.
fn parts_of(
    device: &Device,
    sms: &Range<u32>,
    flags: u32,
) -> Result<Vec<CUdevResource>, CudaError> {
    let t = device.table();
    let (mut all, mut rest) = (CUdevResource::NONE, CUdevResource::NONE);
    let mut parts = vec![CUdevResource::NONE; SM_GROUPS_MAX];
    let mut count = parts.len() as u32;
    // SAFETY: the locals are written, the list has as many places as said.
    unsafe {
        t.cuDeviceGetDevResource(device.ordinal(), &mut all, SM)?;
        count = count.min(all.sm.smCount);
        let (result, count) = (parts.as_mut_ptr(), &mut count);
        t.cuDevSmResourceSplitByCount(result, count, &all, &mut rest, flags, 0)?;
    }
    parts.truncate(count as usize);
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
    use super::whole_groups;

    #[test]
    fn shares_are_whole_groups_and_no_more_than_they_were() {
        for (sms, expected) in [
            (0..132, 0..132),
            (0..32, 0..32),
            (0..66, 0..64),
            (66..132, 64..128),
            (0..124, 0..120),
            (34..132, 32..128),
            (0..2, 0..8),
            (130..132, 120..128),
        ] {
            assert_eq!(whole_groups(sms.clone(), 8, 132), expected, "{sms:?}");
        }
        assert_eq!(whole_groups(3..5, 1, 8), 3..5);
    }
}
