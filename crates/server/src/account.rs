//! What is held of a memory, in bytes, and how much of it may be.
//!
//! All device memory of a session is charged to its account, and what the server holds of its own
//! memory for clients' images to one that all sessions share. What is charged is given back with its
//! [`Charge`], which lies beside what it is for: nothing is subtracted by hand.
//!
//! A client's account may be part of groups' (a cgroup's, a namespace's or a user's): what is charged to it is charged
//! there too. A client that finds the device full and has a group within its soft limit asks for room, which the
//! daemon makes by ending a program that is beyond its.

use channel::message::MemoryGroup;
use cuda_api::{CUresult, CudaError};
use locks::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A charge that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was to be charged, bytes.
    pub wanted_bytes: u64,
    /// What was charged already, bytes.
    pub used_bytes: u64,
    /// What may be charged, bytes.
    pub limit_bytes: u64,
    /// Whose limit it was: 0 the account's own, 1 that of the group above it, and so on.
    pub level: u32,
    /// How many charges were refused so far, this one too.
    pub count: u32,
}

/// Pauses before the device is tried again, ms: 10 s in all, in which the daemon may have to end several
/// clients on a busy machine.
const ROOM_PAUSES_MS: [u64; 10] = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000];

/// Asks for room on the device; false if there is no use in waiting for it.
type AskForRoom = Box<dyn Fn() -> bool + Send + Sync>;

/// The accounts of all groups that have clients.
#[derive(Default)]
pub struct Groups(Mutex<BTreeMap<String, Weak<MemoryAccount>>>);

impl Groups {
    /// The account of a group, for as much as is said now.
    pub fn account(&self, group: &MemoryGroup) -> Arc<MemoryAccount> {
        let mut groups = self.0.lock();
        groups.retain(|_, account| account.strong_count() > 0);
        if let Some(account) = groups.get(&group.name).and_then(Weak::upgrade) {
            account.set_limit(group.hard_bytes);
            return account;
        }
        let account = MemoryAccount::new(group.hard_bytes);
        groups.insert(group.name.clone(), Arc::downgrade(&account));
        account
    }
}

type Listener = Box<dyn Fn(Refusal) + Send + Sync>;

/// An account.
pub struct MemoryAccount {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    refusals: AtomicU32,
    /// The last charge was refused.
    refused: AtomicBool,
    /// The next charge is the refused one, tried again.
    retries: AtomicBool,
    /// What is charged its owner has had before, at another server.
    is_restoring: AtomicBool,
    listener: OnceLock<Listener>,
    /// The groups' accounts, each with its soft limit, bytes.
    groups: Vec<(Arc<MemoryAccount>, AtomicU64)>,
    room: OnceLock<AskForRoom>,
}

/// Bytes that are charged to an account as long as this lives.
pub struct Charge {
    account: Arc<MemoryAccount>,
    bytes: u64,
    of_groups: Vec<Charge>,
}

impl MemoryAccount {
    /// An account with nothing charged, for so many bytes.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Self::of_groups(limit_bytes, None)
    }

    /// An account that is part of groups', each with its soft limit in bytes.
    pub fn of_groups(
        limit_bytes: u64,
        groups: impl IntoIterator<Item = (Arc<MemoryAccount>, u64)>,
    ) -> Arc<Self> {
        let groups = groups.into_iter().map(|(group, soft_bytes)| (group, soft_bytes.into()));
        Arc::new(Self {
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            refusals: AtomicU32::new(0),
            refused: AtomicBool::new(false),
            retries: AtomicBool::new(false),
            is_restoring: AtomicBool::new(false),
            listener: OnceLock::new(),
            groups: groups.collect(),
            room: OnceLock::new(),
        })
    }

    /// Another soft limit of one of its groups, bytes.
    pub fn set_soft_limit(&self, group: &Arc<MemoryAccount>, soft_bytes: u64) {
        for (_, soft) in self.groups.iter().filter(|(of, _)| Arc::ptr_eq(of, group)) {
            soft.store(soft_bytes, Ordering::Release);
        }
    }

    /// Has `ask` ask for room on the device when that is full and a group is within its soft limit.
    pub fn ask_for_room(&self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        if !self.groups.is_empty() {
            let _ = self.room.set(Box::new(ask));
        }
    }

    /// Makes something that takes device memory. Where there is none and a group is within its soft
    /// limit, room is asked for, and it is tried again for some seconds.
    pub fn with_room<T>(
        &self,
        mut make: impl FnMut() -> Result<T, CudaError>,
    ) -> Result<T, CudaError> {
        let mut made = make();
        let Some(ask) = self.room.get() else { return made };
        let is_within = |(group, soft): &(Arc<MemoryAccount>, AtomicU64)| {
            let soft_bytes = soft.load(Ordering::Acquire);
            soft_bytes > 0 && group.used_bytes() <= soft_bytes
        };
        for pause_ms in ROOM_PAUSES_MS {
            let is_full = matches!(made, Err(CudaError::OUT_OF_MEMORY));
            if !is_full || !self.groups.iter().any(is_within) || !ask() {
                break;
            }
            std::thread::sleep(Duration::from_millis(pause_ms));
            made = make();
        }
        made
    }

    /// Has `listener` notified of refusals: the 1st, 2nd, 4th, 8th and so on, because programs that may
    /// have no more ask again and again. Only the first listener counts.
    pub fn tell_refusals(&self, listener: impl Fn(Refusal) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// The owner tries again what was refused last: should it be refused once more, that is the same refusal.
    pub fn retries(&self) {
        self.retries.store(self.refused.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// From now on it is for so many bytes; what is charged stays charged.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Release);
        self.refusals.store(0, Ordering::Relaxed);
    }

    /// What may be charged, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Acquire)
    }

    /// From now on what is charged is what its owner has had at another server, which no limit takes away; or not
    /// any more.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.is_restoring.store(is_restoring, Ordering::Release);
    }

    /// Charges so many bytes more. CUDA_ERROR_OUT_OF_MEMORY if that would be more than it is for.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, CudaError> {
        self.charge_what(bytes, !self.is_restoring.load(Ordering::Acquire))
    }

    /// As [`Self::charge`], for what is new in any case.
    pub fn charge_new(self: &Arc<Self>, bytes: u64) -> Result<Charge, CudaError> {
        self.charge_what(bytes, true)
    }

    fn charge_what(self: &Arc<Self>, bytes: u64, is_new: bool) -> Result<Charge, CudaError> {
        let charged = self.try_charge(bytes, is_new).map_err(|refusal| self.refuse(refusal))?;
        self.refused.store(false, Ordering::Relaxed);
        self.retries.store(false, Ordering::Relaxed);
        Ok(charged)
    }

    /// Charges here and in the accounts above, or nowhere.
    fn try_charge(self: &Arc<Self>, bytes: u64, is_new: bool) -> Result<Charge, Refusal> {
        let above = |refusal: Refusal| Refusal { level: refusal.level + 1, ..refusal };
        let of_groups = self.groups.iter().map(|(group, _)| group.try_charge(bytes, is_new));
        let of_groups: Vec<Charge> = of_groups.collect::<Result<_, _>>().map_err(above)?;
        let limit_bytes = if is_new { self.limit_bytes() } else { u64::MAX };
        let more = |used: u64| used.checked_add(bytes).filter(|all| *all <= limit_bytes);
        let charged = self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let refusal = |used_bytes| Refusal {
            wanted_bytes: bytes,
            used_bytes,
            limit_bytes,
            level: 0,
            count: 0,
        };
        let used_bytes = charged.map_err(refusal)?;
        self.peak_bytes.fetch_max(used_bytes.saturating_add(bytes), Ordering::Relaxed);
        Ok(Charge { account: self.clone(), bytes, of_groups })
    }

    /// Counts a refusal, and says it if it is none of one that was said.
    fn refuse(&self, refusal: Refusal) -> CudaError {
        if !self.retries.swap(false, Ordering::Relaxed) {
            self.refused.store(true, Ordering::Relaxed);
            let count = self.refusals.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if let (true, Some(notify)) = (count.is_power_of_two(), self.listener.get()) {
                notify(Refusal { count, ..refusal });
            }
        }
        CudaError::OUT_OF_MEMORY
    }

    /// True if so many bytes could be charged with nothing else being so.
    pub fn could_hold(&self, bytes: u64) -> bool {
        bytes <= self.limit_bytes()
    }

    /// What is charged, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// The most that was charged at a time, bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// How much is free for its owner of a memory with so many bytes free.
    pub fn free(&self, free_bytes: u64) -> u64 {
        let groups = self.groups.iter();
        let free_bytes = groups.fold(free_bytes, |free_bytes, (group, _)| group.free(free_bytes));
        free_bytes.min(self.limit_bytes().saturating_sub(self.used_bytes()))
    }
}

impl Charge {
    /// What it charges, bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges so many bytes more, as long as this lives.
    ///
    /// # Errors
    /// CUDA_ERROR_OUT_OF_MEMORY if that would be more than the account is for: nothing is charged then.
    pub fn grow(&mut self, bytes: u64) -> CUresult {
        let mut more = self.account.charge_new(bytes)?;
        self.take(&mut more);
        Ok(())
    }

    /// Takes over what another charge of the same account has, in the accounts above too.
    fn take(&mut self, other: &mut Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        for (own, other) in self.of_groups.iter_mut().zip(&mut other.of_groups) {
            own.take(other);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use locks::Mutex;

    #[test]
    fn charges_come_back_and_the_limit_holds() {
        let account = MemoryAccount::new(100);
        let first = account.charge(60).unwrap();
        assert_eq!(account.charge(41).err(), Some(CudaError::OUT_OF_MEMORY));
        assert_eq!(account.charge(u64::MAX).err(), Some(CudaError::OUT_OF_MEMORY));
        let second = account.charge(40).unwrap();
        assert_eq!((account.used_bytes(), account.free(500)), (100, 0));
        drop(first);
        assert_eq!((account.used_bytes(), account.free(50)), (40, 50));
        drop(second);
        assert_eq!(account.used_bytes(), 0);
        assert!(account.could_hold(100) && !account.could_hold(101));
    }

    #[test]
    fn a_lower_limit_takes_nothing_away_and_gives_nothing_more() {
        let account = MemoryAccount::new(u64::MAX);
        let _held = account.charge(60).unwrap();
        account.set_limit(50);
        assert_eq!(
            (account.charge(1).err(), account.free(500)),
            (Some(CudaError::OUT_OF_MEMORY), 0)
        );
        account.set_limit(61);
        assert!(account.charge(1).is_ok());
    }

    #[test]
    fn clients_of_a_group_share_its_hard_limit() {
        let groups = Groups::default();
        let limits = |hard_bytes| MemoryGroup { name: "/a".into(), soft_bytes: 50, hard_bytes };
        let group = groups.account(&limits(100));
        let one = MemoryAccount::of_groups(u64::MAX, Some((group.clone(), 50)));
        let two = MemoryAccount::of_groups(70, Some((groups.account(&limits(100)), 50)));
        let held = one.charge(60).unwrap();
        assert_eq!(two.charge(41).err(), Some(CudaError::OUT_OF_MEMORY), "the group's limit");
        assert_eq!((two.used_bytes(), group.used_bytes()), (0, 60));
        assert_eq!(two.free(500), 40);
        drop(held);
        assert_eq!(two.charge(71).err(), Some(CudaError::OUT_OF_MEMORY), "its own");
        assert_eq!(group.used_bytes(), 0, "what was charged there for it came back");
        groups.account(&limits(10));
        assert!(one.charge(11).is_err() && one.charge(10).is_ok());
    }

    #[test]
    fn a_client_counts_for_each_of_its_groups() {
        let [cgroup, namespace] = [100, 60].map(MemoryAccount::new);
        let both = [(cgroup.clone(), 0), (namespace.clone(), 0)];
        let one = MemoryAccount::of_groups(u64::MAX, both);
        let two = MemoryAccount::of_groups(u64::MAX, [(cgroup.clone(), 0)]);
        let mut held = one.charge(40).unwrap();
        assert!(one.charge(21).is_err() && two.charge(60).is_ok());
        assert_eq!((cgroup.used_bytes(), one.free(500)), (40, 20));
        held.grow(20).unwrap();
        assert_eq!((cgroup.used_bytes(), namespace.used_bytes()), (60, 60));
        drop(held);
        assert_eq!((cgroup.used_bytes(), namespace.used_bytes()), (0, 0));
    }

    #[test]
    fn room_is_asked_for_within_the_soft_limit_only() {
        let group = MemoryAccount::new(u64::MAX);
        let account = MemoryAccount::of_groups(u64::MAX, Some((group, 50)));
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        account.ask_for_room(move || count.fetch_add(1, Ordering::Relaxed) < 3);
        let tries = |account: &MemoryAccount, full: u32| {
            let mut left = full;
            account.with_room(|| match left {
                0 => Ok(()),
                _ => {
                    left -= 1;
                    Err(CudaError::OUT_OF_MEMORY)
                }
            })
        };
        assert_eq!(tries(&account, 2), Ok(()));
        assert_eq!(asked.swap(0, Ordering::Relaxed), 2);
        assert_eq!(tries(&account, 9), Err(CudaError::OUT_OF_MEMORY), "no use in waiting");
        assert_eq!(asked.swap(0, Ordering::Relaxed), 4);
        let held = account.charge(51).unwrap();
        assert_eq!(tries(&account, 1), Err(CudaError::OUT_OF_MEMORY), "beyond the soft limit");
        account.set_soft_limit(&held.of_groups[0].account, 60);
        assert_eq!(tries(&account, 1), Ok(()), "it was raised");
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        let alone = MemoryAccount::new(u64::MAX);
        alone.ask_for_room(|| true);
        assert_eq!(tries(&alone, 1), Err(CudaError::OUT_OF_MEMORY), "of no group");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn refusals_are_reported_less_and_less_often() {
        let account = MemoryAccount::new(10);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let listener = reported.clone();
        account.tell_refusals(move |refusal| listener.lock().push(refusal.count));
        for _ in 0..9 {
            assert!(account.charge(11).is_err());
        }
        assert_eq!(*reported.lock(), [1, 2, 4, 8]);
        account.set_limit(5);
        assert!(account.charge(6).is_err());
        assert_eq!(reported.lock().last(), Some(&1));
    }

    #[test]
    fn a_refusal_that_is_tried_again_is_one() {
        let account = MemoryAccount::new(10);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let listener = reported.clone();
        account.tell_refusals(move |refusal| listener.lock().push(refusal.count));
        // Nothing was refused: the first refusal is a new one.
        account.retries();
        for count in 1..=2 {
            assert!(account.charge(11).is_err());
            account.retries();
            assert!(account.charge(11).is_err());
            assert_eq!(reported.lock().last(), Some(&count));
        }
        assert!(account.charge(11).is_err());
        account.retries();
        assert!(account.charge(10).is_ok(), "there was room then");
        assert!(account.charge(11).is_err());
        assert_eq!(*reported.lock(), [1, 2, 4]);
    }

    #[test]
    fn what_its_owner_has_had_before_no_limit_takes_away() {
        let group = MemoryAccount::new(100);
        let account = MemoryAccount::of_groups(10, Some((group.clone(), 100)));
        account.set_restoring(true);
        let before = account.charge(120).map(|charge| charge.bytes);
        assert_eq!(before, Ok(120));
        let _kept = account.charge(120);
        assert!(account.charge_new(1).is_err());
        account.set_restoring(false);
        assert!(account.charge(1).is_err());
        assert_eq!((account.used_bytes(), group.used_bytes()), (120, 120));
    }
}
