//! Tenants: the parties that share one context and are kept apart.
//!
//! Everything that is made belongs to one tenant: streams, mappings, modules, registrations. A
//! kernel may touch its tenant's memory only, and a fault corrupts only its tenant. A process that
//! binds no tenant is tenant 0 throughout, and then a fault poisons the process as on hardware.

use locks::{Mutex, RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::device::execution::account::Account;
use crate::device::memory::variable_place::VariablePlace;
use crate::device::printf::PrintfFifo;
use crate::device::slab::Key;
use crate::device::stream::host::HostCalls;
use crate::error::{Error, Result};
use cuda_api::extension::PlaceManaged;
use simt::kernel::{Range, RangeMap, RangeSource};

/// Identity of a tenant: 0 is the one that always exists; others are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(pub u64);

/// Bytes of a tenant's name: a process's number and what it runs.
const NAME_BYTES_MAX: usize = 64;

/// One party: its address space, its error.
pub struct Tenant {
    /// Who it is.
    pub id: TenantId,
    /// What it is called, if it was given a name.
    name: Mutex<String>,
    /// What was done for it, in [`crate::device::execution::core::Core::accounts`].
    pub(super) account: Key<Account>,
    /// The device whose memory and SMs it has.
    pub device: u32,
    /// Tenants of one program, one on each device, have the same number here.
    pub family: TenantId,
    /// What its kernels may touch.
    pub space: Arc<Space>,
    /// What its copies and fills may touch: memory of all devices that the program uses.
    pub copies: Arc<Space>,
    /// What its kernels printed.
    pub printf: Arc<PrintfFifo>,
    /// What its failed assertions say.
    pub assertions: PrintfFifo,
    /// Who says where managed variables lie, and with which data.
    managed: Mutex<Option<(PlaceManaged, u64)>>,
    /// Where variables of its modules lie.
    pub variables: Mutex<VariablePlace>,
    error: AtomicU32,
    fault: Mutex<Option<String>>,
    ended: AtomicBool,
    /// Functions of its program that are in progress.
    pub(super) host_calls: HostCalls,
    /// Unmappings that wait for its blocks to return; blocks give way at once while not 0.
    pub(super) unmaps_pending: AtomicU32,
    pub(super) memory_bytes: AtomicU64,
    /// Bytes of the heap that its kernels' `malloc` takes from; 0: as its context says.
    pub heap_bytes: AtomicU64,
    /// Bytes of a thread's stack; 0: as its context says.
    pub stack_bytes: AtomicU64,
}

impl Tenant {
    /// A tenant alone on a device.
    pub(super) fn new(id: TenantId, account: Key<Account>, device: u32) -> Arc<Self> {
        let space: Arc<Space> = Arc::default();
        Self::make(id, account, device, id, (space.clone(), space), Arc::default())
    }

    /// A program's tenant on one of several devices; `first` is the one on the first device.
    pub(super) fn of_program(
        id: TenantId,
        account: Key<Account>,
        device: u32,
        copies: Arc<Space>,
        first: Option<&Self>,
    ) -> Arc<Self> {
        let family = first.map_or(id, |first| first.id);
        let printf = first.map_or_else(Arc::default, |first| first.printf.clone());
        Self::make(id, account, device, family, (Arc::default(), copies), printf)
    }

    fn make(
        id: TenantId,
        account: Key<Account>,
        device: u32,
        family: TenantId,
        (space, copies): (Arc<Space>, Arc<Space>),
        printf: Arc<PrintfFifo>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            account,
            name: Mutex::default(),
            device,
            family,
            space,
            copies,
            printf,
            assertions: PrintfFifo::default(),
            managed: Mutex::new(None),
            variables: Mutex::default(),
            error: AtomicU32::new(0),
            fault: Mutex::new(None),
            ended: AtomicBool::new(false),
            host_calls: HostCalls::default(),
            unmaps_pending: AtomicU32::new(0),
            memory_bytes: AtomicU64::new(0),
            heap_bytes: AtomicU64::new(0),
            stack_bytes: AtomicU64::new(0),
        })
    }

    /// Says what it is called; at most [`NAME_BYTES_MAX`] are kept, for one field of a line.
    pub fn set_name(&self, name: &str) {
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        let name = name[..end].replace(char::is_control, " ");
        *self.name.lock() = name;
    }

    /// What it is called; its number if it was given no name.
    pub fn name(&self) -> String {
        let name = self.name.lock();
        if name.is_empty() { self.id.0.to_string() } else { name.clone() }
    }

    /// Says who places this tenant's managed variables: a function, and the data it wants.
    pub fn place_managed(&self, place: Option<(PlaceManaged, u64)>) {
        *self.managed.lock() = place;
    }

    /// Asks for a place for managed variables; `None` if it has no function that gives places. Its
    /// address is 0 if there is no room.
    pub fn managed_place(&self, bytes: u64) -> Option<u64> {
        let (place, data) = (*self.managed.lock())?;
        // SAFETY: the caller that gave the function and its data promises that they are good while
        // the tenant loads modules.
        Some(unsafe { place(data as *mut _, bytes) })
    }

    /// The error that every call of this tenant returns from now on, if there is one.
    pub fn sticky(&self) -> Result {
        Error::from_code(self.error.load(Ordering::Acquire)).map_or(Ok(()), Err)
    }

    /// Refuses what a tenant with an error, or one that was ended, may not do any more.
    pub fn alive(&self) -> Result {
        if self.ended() {
            return Err(Error::CONTEXT_IS_DESTROYED);
        }
        self.sticky()
    }

    /// What went wrong, in words; the first fault only.
    pub fn fault_text(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Makes `error` sticky; the first one stays. Returns true if it was the first.
    pub(super) fn poison(&self, error: Error, text: Option<String>) -> bool {
        let first = self
            .error
            .compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if first && let Some(text) = text {
            *self.fault.lock() = Some(text);
        }
        first
    }

    /// From now on nothing more is done for this tenant.
    pub(super) fn mark_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// True after [`crate::device::Device::end_tenant`].
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// True if what is done for it now is to stop: it has ended, or its memory is to be unmapped.
    pub(super) fn wants_worker_back(&self) -> bool {
        self.ended() || self.unmaps_pending.load(Ordering::Acquire) > 0
    }
}

/// A word of a tenant's memory, aligned and mapped while this lives. Others access it atomically, or from
/// outside of Rust.
pub struct Word<'a> {
    _mapped: RwLockReadGuard<'a, ()>,
    place: Place<'a>,
}

enum Place<'a> {
    Wide(&'a AtomicU64),
    Narrow(&'a AtomicU32),
}

impl Word<'_> {
    /// Its value, before what happened behind its being written.
    pub fn load(&self) -> u64 {
        match self.place {
            Place::Wide(word) => word.load(Ordering::Acquire),
            Place::Narrow(word) => word.load(Ordering::Acquire).into(),
        }
    }

    /// Stores a value, of which a word of 4 bytes has the lower half.
    pub fn store(&self, value: u64) {
        match self.place {
            Place::Wide(word) => word.store(value, Ordering::Release),
            Place::Narrow(word) => word.store(value as u32, Ordering::Release),
        }
    }
}

/// What one tenant's work may touch.
///
/// Invariant: memory inside of a range stays mapped while a thread holds [`Space::access`]; a
/// thread that takes a range away holds the lock exclusively while it unmaps.
#[derive(Default)]
pub struct Space {
    ranges: RwLock<RangeMap>,
    version: AtomicU64,
    access: RwLock<()>,
}

impl Space {
    /// Keeps all ranges mapped while the guard lives. Held while a block runs or a copy moves
    /// bytes, so for a millisecond at most.
    pub fn access(&self) -> RwLockReadGuard<'_, ()> {
        self.access.read()
    }

    /// As [`Space::access`], `None` if it would have to wait for an unmapping.
    pub fn try_access(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.access.try_read()
    }

    /// Writes bytes, if the range is the tenant's; false if it is not. No Rust reference points there.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let _mapped = self.access();
        let own = self.contains(address, bytes.len() as u64);
        if own {
            // SAFETY: the range is the tenant's, and stays mapped while `_mapped` lives.
            unsafe { (address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
        }
        own
    }

    /// Writes zeros, if the range is the tenant's; false if it is not.
    pub fn clear(&self, address: u64, bytes: u64) -> bool {
        let _mapped = self.access();
        let own = self.contains(address, bytes);
        if own {
            // SAFETY: as in `write`.
            unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        }
        own
    }

    /// A word of 4 or 8 bytes; `None` if that would have to wait for an unmapping, and nothing in it if
    /// it is not the tenant's or not aligned.
    pub fn try_word(&self, address: u64, bytes: u64) -> Option<Option<Word<'_>>> {
        let mapped = self.try_access()?;
        let own = address.is_multiple_of(bytes) && self.contains(address, bytes);
        // SAFETY: it is the tenant's, aligned, and stays mapped as long as the word has the guard.
        let place = own.then(|| unsafe {
            match bytes {
                8 => Place::Wide(AtomicU64::from_ptr(address as *mut u64)),
                _ => Place::Narrow(AtomicU32::from_ptr(address as *mut u32)),
            }
        });
        Some(place.map(|place| Word { _mapped: mapped, place }))
    }

    /// Waits until no thread touches memory, then runs `unmap` alone.
    pub(super) fn exclusively<R>(&self, unmap: impl FnOnce() -> R) -> R {
        let _alone = self.access.write();
        unmap()
    }

    pub(super) fn publish(&self, ranges: Vec<Range>) {
        let map = RangeMap::new(coalesce(ranges));
        *self.ranges.write() = map;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes with every change of the ranges.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// True if all of `address..address + bytes` is the tenant's. Programs' copies may write to
    /// constant banks, kernels may not, so writability is not asked here.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let map = self.ranges();
        let mut next = address;
        loop {
            match map.find(next) {
                Some(range) if end <= range.end => return true,
                Some(range) => next = range.end,
                None => return false,
            }
        }
    }
}

impl RangeSource for Space {
    fn ranges(&self) -> RangeMap {
        self.ranges.read().clone()
    }
}

/// Sorts ranges and joins those that touch and have the same rights, so that an access across two
/// mappings side by side is one access.
fn coalesce(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_by_key(|r| r.start);
    let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start && last.writable == range.writable => {
                last.end = range.end;
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, writable: bool) -> Range {
        Range { start, end, writable }
    }

    #[test]
    fn neighbours_with_the_same_rights_are_one_range() {
        let joined = coalesce(vec![
            range(20, 30, true),
            range(10, 20, true),
            range(30, 40, false),
            range(50, 60, true),
        ]);
        assert_eq!(joined, [range(10, 30, true), range(30, 40, false), range(50, 60, true)]);
    }

    #[test]
    fn containment_crosses_neighbours_but_not_holes() {
        let space = Space::default();
        space.publish(vec![range(10, 20, true), range(20, 30, false), range(40, 50, true)]);
        assert!(space.contains(10, 20));
        assert!(space.contains(19, 2));
        assert!(!space.contains(25, 10));
        assert!(!space.contains(9, 1));
        assert!(!space.contains(u64::MAX, 2));
        assert!(space.contains(49, 1));
    }

    #[test]
    fn only_the_first_error_sticks() {
        let tenant = Tenant::new(TenantId(1), Key::from_parts(0, 1), 0);
        assert_eq!(tenant.sticky(), Ok(()));
        assert!(tenant.poison(Error::ILLEGAL_ADDRESS, Some("first".into())));
        assert!(!tenant.poison(Error::LAUNCH_FAILED, Some("second".into())));
        assert_eq!(tenant.sticky(), Err(Error::ILLEGAL_ADDRESS));
        assert_eq!(tenant.fault_text().as_deref(), Some("first"));
    }
}
