//! Partition of the device's SMs: which of them a client's kernels may have.
//!
//! The mechanism for shares, static partitions and all other ways to give a client some SMs: a
//! number of SMs is turned into a range of the device's own ([`SmPlaces`]), and the provider keeps
//! kernels there: one with tenants for all that the tenant launches, others by the streams' green
//! contexts.

use crate::device::Device;
use cuda_api::attributes::{COMPUTE_CAPABILITY_MAJOR, MULTIPROCESSOR_COUNT};
use cuda_api::{CUresult, CudaError};
use locks::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// SMs of a device, as far as parts of them go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmCount {
    /// All of them.
    pub all: u32,
    /// Parts are whole multiples of so many.
    pub step: u32,
}

/// How many clients each SM was given to. Clients with a share of a device get neighbouring SMs, where
/// the fewest others are: a share is a cap, so SMs may be given out several times.
#[derive(Debug)]
pub struct SmPlaces {
    count: SmCount,
    clients: Mutex<Vec<u32>>,
}

/// A client's SMs, until this is dropped.
#[derive(Debug)]
pub struct SmLease {
    places: Arc<SmPlaces>,
    sms: Range<u32>,
}

impl SmPlaces {
    /// Nothing is given out.
    pub fn new(count: SmCount) -> Arc<Self> {
        Arc::new(Self { count, clients: Mutex::new(vec![0; count.all as usize]) })
    }

    /// How many SMs there are.
    pub fn count(&self) -> SmCount {
        self.count
    }

    /// How many SMs a client gets that is to have so many: all, or as many as whole steps have at most.
    fn given(&self, sms: u32) -> u32 {
        let SmCount { all, step } = self.count;
        let whole = all - all % step.max(1);
        if sms >= all { all } else { sms.min(whole).max(1) }
    }

    /// So many SMs, at most all: those that the fewest clients have, the lowest of these.
    pub fn take(self: &Arc<Self>, sms: u32) -> SmLease {
        let sms = self.given(sms);
        let mut clients = self.clients.lock();
        let first = least_used(&clients, sms, self.count.step);
        let taken = first..first + sms;
        clients[first as usize..(first + sms) as usize].iter_mut().for_each(|n| *n += 1);
        SmLease { places: self.clone(), sms: taken }
    }

    /// Those that the next clients with so many SMs get, the next one's first: at most so many, and each
    /// once.
    pub fn next(&self, sms: u32, most: usize) -> Vec<Range<u32>> {
        let sms = self.given(sms);
        let mut clients = self.clients.lock().clone();
        let mut found: Vec<Range<u32>> = Vec::new();
        while found.len() < most {
            let first = least_used(&clients, sms, self.count.step);
            if found.iter().any(|of| of.start == first) {
                break;
            }
            clients[first as usize..(first + sms) as usize].iter_mut().for_each(|n| *n += 1);
            found.push(first..first + sms);
        }
        found
    }

    /// Just these SMs; CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION if the device has not all of them.
    pub fn take_these(self: &Arc<Self>, sms: Range<u32>) -> Result<SmLease, CudaError> {
        if sms.is_empty() || sms.end > self.count.all {
            return Err(CudaError::INVALID_RESOURCE_CONFIGURATION);
        }
        let mut clients = self.clients.lock();
        clients[sms.start as usize..sms.end as usize].iter_mut().for_each(|n| *n += 1);
        Ok(SmLease { places: self.clone(), sms })
    }
}

/// The first of so many SMs, neighbours, that the fewest clients have; the lowest of these.
fn least_used(clients: &[u32], sms: u32, step: u32) -> u32 {
    let load = |first: u32| {
        let of = &clients[first as usize..(first + sms) as usize];
        (of.iter().copied().max().unwrap_or(0), of.iter().map(|n| u64::from(*n)).sum::<u64>())
    };
    let starts = (0..=clients.len() as u32 - sms).step_by(step.max(1) as usize);
    starts.min_by_key(|first| load(*first)).unwrap_or(0)
}

impl SmLease {
    /// The SMs, by number.
    pub fn sms(&self) -> Range<u32> {
        self.sms.clone()
    }

    /// True if these are all of the device.
    pub fn is_all(&self) -> bool {
        self.sms == (0..self.places.count.all)
    }

    /// Gives the SMs back before it is dropped, so that it can be taken anew where they are.
    pub fn give_back(&mut self) {
        let mut clients = self.places.clients.lock();
        let own = self.sms.start as usize..self.sms.end as usize;
        clients[own].iter_mut().for_each(|n| *n = n.saturating_sub(1));
        self.sms = 0..0;
    }
}

impl Drop for SmLease {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Device {
    /// How many SMs there are, and in what steps they can be given out: one by one on the software GPU;
    /// elsewhere in the groups that streams are kept on ([`Device::sms_of_streams`]), so that a client has as
    /// many as it is shown; by twos from compute capability 7.0 on if the provider parts none, as two SMs share
    /// what launches blocks.
    pub fn sm_count(&self) -> SmCount {
        let number = |which: u32| self.info().attributes.get(which as usize).copied().unwrap_or(0);
        let all = number(MULTIPROCESSOR_COUNT).max(1) as u32;
        let by_twos = || if number(COMPUTE_CAPABILITY_MAJOR) >= 7 { 2 } else { 1 };
        let step = match self.has_tenants() {
            true => 1,
            false => self.group_of_sms().map_or_else(by_twos, |group| group.sms),
        };
        SmCount { all, step }
    }

    /// Keeps all kernels of a tenant on those SMs (`None`: on any), and makes them `less_urgent` than
    /// their streams say. CUDA_ERROR_NOT_SUPPORTED if the provider has no tenants: then streams on
    /// those SMs do it ([`Stream::on_sms`](crate::device::Stream::on_sms)). For any thread.
    pub fn limit_tenant(&self, tenant: u64, sms: Option<Range<u32>>, less_urgent: i32) -> CUresult {
        let extension = self.extension().ok_or(CudaError::NOT_SUPPORTED)?;
        let sms: Vec<u32> = sms.into_iter().flatten().collect();
        extension.tenant_limit(tenant, &sms, less_urgent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread_over_the_sms() {
        let places = SmPlaces::new(SmCount { all: 8, step: 1 });
        let leases: Vec<SmLease> = (0..4).map(|_| places.take(2)).collect();
        let ranges: Vec<Range<u32>> = leases.iter().map(SmLease::sms).collect();
        assert_eq!(ranges, [0..2, 2..4, 4..6, 6..8]);
        let all = places.take(8);
        assert!(all.is_all() && !leases[0].is_all());
        drop(leases);
        let one = places.take(3);
        assert_eq!((one.sms(), places.take(99).sms()), (0..3, 0..8));
        assert_eq!(places.take(4).sms(), 3..7, "beside the other one");
    }

    #[test]
    fn the_next_clients_sms_are_known() {
        let places = SmPlaces::new(SmCount { all: 8, step: 1 });
        let _first = places.take(2);
        let next = places.next(2, 9);
        assert_eq!(next, [2..4, 4..6, 6..8, 0..2]);
        let taken: Vec<SmLease> = (0..4).map(|_| places.take(2)).collect();
        assert_eq!(taken.iter().map(SmLease::sms).collect::<Vec<_>>(), next);
        assert_eq!((places.next(8, 9).len(), places.next(3, 1).len()), (1, 1));
    }

    #[test]
    fn shares_begin_at_whole_steps() {
        let places = SmPlaces::new(SmCount { all: 132, step: 8 });
        let leases: Vec<SmLease> = (0..4).map(|_| places.take(32)).collect();
        let ranges: Vec<Range<u32>> = leases.iter().map(SmLease::sms).collect();
        assert_eq!(ranges, [0..32, 32..64, 64..96, 96..128]);
        assert_eq!((places.take(130).sms(), places.take(132).sms()), (0..128, 0..132));
        let invalid = CudaError::INVALID_RESOURCE_CONFIGURATION;
        assert_eq!(places.take_these(130..134).err(), Some(invalid));
        assert_eq!(places.take_these(8..16).unwrap().sms(), 8..16);
    }
}
