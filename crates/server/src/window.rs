//! Windows: the ranges of device and host addresses that belong to one client for its life.
//!
//! A client reserves both windows in its own process, so a number that is an address of device
//! memory there is never an address of anything else, and the server has both reserved for the
//! same client. Windows never overlap. This module only gives out numbers; reserving addresses
//! is the session's.
//!
//! The first windows are large enough for all of a device's memory; those of clients beyond, which share
//! the device with so many others, are smaller: a process has not addresses for more.

use channel::limits::{LARGE_WINDOWS, WINDOW_ANY};
use locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Most clients of a server at a time. NVIDIA's serves 48 or 60; a window is nothing but
/// addresses.
pub const CLIENTS_MAX: usize = channel::limits::WINDOWS_MAX as usize;

/// How often a client looks whether windows that it waits for are free.
const WAIT_PAUSE: Duration = Duration::from_millis(2);
/// How long memory of another device waits for windows that a session that ends may have.
const PEER_WAIT_MAX: Duration = Duration::from_secs(2);

/// First device window.
pub const DEVICE_BASE: u64 = 0x1000_0000_0000;
/// Length of a large device window, bytes: more than any device has.
pub const DEVICE_BYTES: u64 = 256 << 30;
/// Length of a small one.
pub const SMALL_DEVICE_BYTES: u64 = 16 << 30;
/// First host window, behind the last device window.
pub const HOST_BASE: u64 = 0x3000_0000_0000;
/// Length of a large host window, bytes: a client's pinned memory.
pub const HOST_BYTES: u64 = 64 << 30;
/// Length of a small one.
pub const SMALL_HOST_BYTES: u64 = 4 << 30;

/// First address of the arena, behind the last host window.
pub const ARENA_BASE: u64 = 0x3800_0000_0000;
/// Its length, bytes: what lies between the windows and where programs begin.
pub const ARENA_BYTES: u64 = 0x5400_0000_0000 - ARENA_BASE;

const _: () = assert!(HOST.end() <= ARENA_BASE && DEVICE.end() <= HOST_BASE);
// Programs, libraries and stacks of an x86-64 process lie from 0x5500_0000_0000 up.
const _: () = assert!(ARENA_BASE + ARENA_BYTES <= 0x5500_0000_0000);
const _: () = assert!(DEVICE_BYTES.is_power_of_two() && DEVICE_BASE.is_multiple_of(DEVICE_BYTES));
const _: () = assert!(SMALL_DEVICE_BYTES.is_power_of_two() && CLIENTS_MAX.is_multiple_of(64));

/// The windows of a kind: large ones, then small ones.
struct Row {
    base: u64,
    large: u64,
    small: u64,
}

const DEVICE: Row = Row { base: DEVICE_BASE, large: DEVICE_BYTES, small: SMALL_DEVICE_BYTES };
const HOST: Row = Row { base: HOST_BASE, large: HOST_BYTES, small: SMALL_HOST_BYTES };

impl Row {
    const fn small_base(&self) -> u64 {
        self.base + LARGE_WINDOWS as u64 * self.large
    }

    const fn end(&self) -> u64 {
        self.small_base() + (CLIENTS_MAX as u64 - LARGE_WINDOWS as u64) * self.small
    }

    /// The window with that number.
    fn window(&self, number: u32) -> AddressWindow {
        match number.checked_sub(LARGE_WINDOWS) {
            None => AddressWindow {
                base: self.base + u64::from(number) * self.large,
                bytes: self.large,
            },
            Some(small) => AddressWindow {
                base: self.small_base() + u64::from(small) * self.small,
                bytes: self.small,
            },
        }
    }

    /// The number of the window that an address is in.
    fn number(&self, address: u64) -> Option<u32> {
        let number = match address.checked_sub(self.small_base()) {
            None => address.checked_sub(self.base)? / self.large,
            Some(at) => u64::from(LARGE_WINDOWS) + at / self.small,
        };
        u32::try_from(number).ok().filter(|number| (*number as usize) < CLIENTS_MAX)
    }
}

/// The number of the client whose device window an address is in.
pub fn device_window_of(address: u64) -> Option<u32> {
    DEVICE.number(address)
}

/// One range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressWindow {
    /// First address.
    pub base: u64,
    /// Length, bytes.
    pub bytes: u64,
}

impl AddressWindow {
    /// True if the range lies in the window, all of it.
    pub fn contains(self, address: u64, bytes: u64) -> bool {
        address >= self.base && bytes <= self.bytes && address - self.base <= self.bytes - bytes
    }
}

/// A bit for each pair.
#[derive(Clone, Copy, Default)]
struct Taken([u64; CLIENTS_MAX / 64]);

impl Taken {
    fn has(&self, index: u32) -> bool {
        let word = self.0.get(index as usize / 64);
        word.is_none_or(|word| word & 1 << (index % 64) != 0)
    }

    fn set(&mut self, index: u32, taken: bool) {
        if let Some(word) = self.0.get_mut(index as usize / 64) {
            *word = *word & !(1 << (index % 64)) | u64::from(taken) << (index % 64);
        }
    }

    fn first_free(&self) -> Option<u32> {
        (0..CLIENTS_MAX as u32).find(|index| !self.has(*index))
    }
}

/// Which pairs are taken, and of which of them the daemon knows.
#[derive(Default)]
struct Pairs {
    taken: Taken,
    /// Pairs that the daemon has as this server's. Those for memory of another device are not among
    /// them: the daemon may give them to a client of this server before their release is reported, and
    /// would take that report for the client's.
    known: Taken,
}

/// All windows of a server.
#[derive(Clone, Default)]
pub struct DeviceWindows {
    pairs: Arc<Mutex<Pairs>>,
    /// Given back, and not reported to the daemon yet.
    free: Arc<Mutex<Vec<u32>>>,
    /// Clients that wait for windows of a session that is about to end.
    waiting: Arc<AtomicU32>,
}

impl DeviceWindows {
    /// Takes the pair of windows with that number, or for [`WINDOW_ANY`] the first free one;
    /// `None` if it is taken, or all are. Dropping the lease gives it back.
    pub fn take(&self, wanted: u32) -> Option<Lease> {
        self.take_as(wanted, true)
    }

    fn take_as(&self, wanted: u32, is_known: bool) -> Option<Lease> {
        let mut pairs = self.pairs();
        let index = if wanted == WINDOW_ANY { pairs.taken.first_free()? } else { wanted };
        if pairs.taken.has(index) {
            return None;
        }
        pairs.taken.set(index, true);
        pairs.known.set(index, is_known);
        Some(Lease { windows: self.clone(), index })
    }

    fn pairs(&self) -> MutexGuard<'_, Pairs> {
        self.pairs.lock()
    }

    /// As [`DeviceWindows::take`], for a client to which the daemon gave windows in which a session that ends still
    /// has memory of another device: waits for that end as long as `goes_on` says true.
    pub fn take_when_free(&self, wanted: u32, goes_on: impl Fn() -> bool) -> Option<Lease> {
        self.take_as_when_free(wanted, true, goes_on)
    }

    fn take_as_when_free(
        &self,
        wanted: u32,
        is_known: bool,
        goes_on: impl Fn() -> bool,
    ) -> Option<Lease> {
        let found = self.take_as(wanted, is_known);
        if found.is_some() {
            return found;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut found = None;
        while found.is_none() && goes_on() {
            std::thread::sleep(WAIT_PAUSE);
            found = self.take_as(wanted, is_known);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// True if a client waits for windows.
    pub fn are_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes the pair of windows of which one has this address, for memory of another device; `None`
    /// if it is taken, or no window has it. A session that ends may still have it: that is waited for.
    /// Its release is reported to the daemon only if [`DeviceWindows::report`] named it.
    pub fn take_at(&self, address: u64) -> Option<Lease> {
        // Host windows come after all device windows.
        let row = if address < HOST_BASE { DEVICE } else { HOST };
        let began = Instant::now();
        self.take_as_when_free(row.number(address)?, false, || began.elapsed() < PEER_WAIT_MAX)
    }

    /// Notes that a pair can be another client's.
    pub fn give_back(&self, index: u32) {
        self.free.lock().push(index);
    }

    /// The numbers of the pairs that were given back since the last call.
    pub fn given_back(&self) -> Vec<u32> {
        std::mem::take(&mut self.free.lock())
    }

    /// The numbers of the pairs taken, for a daemon that did not give them: it knows of each from here
    /// on.
    pub fn report(&self) -> Vec<u32> {
        let mut pairs = self.pairs();
        pairs.known = pairs.taken;
        (0..CLIENTS_MAX as u32).filter(|index| pairs.taken.has(*index)).collect()
    }

    /// Number of pairs taken.
    pub fn taken(&self) -> u32 {
        self.pairs().taken.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// A pair of windows, taken until this is dropped.
pub struct Lease {
    windows: DeviceWindows,
    index: u32,
}

impl Lease {
    /// The device window.
    pub fn device(&self) -> AddressWindow {
        DEVICE.window(self.index)
    }

    /// The host window.
    pub fn host(&self) -> AddressWindow {
        HOST.window(self.index)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut pairs = self.windows.pairs();
        pairs.taken.set(self.index, false);
        let is_known = pairs.known.has(self.index);
        drop(pairs);
        if is_known {
            self.windows.give_back(self.index);
        }
    }
}

/// Which share of the arena a server gives out first. A process that uses several devices has
/// reservations at several servers, and memory of one device is mapped at its address in another
/// device's server: where servers begin at different places, they seldom want the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaPart {
    /// The device's ordinal.
    pub ordinal: u32,
    /// Number of devices.
    pub of: u32,
}

impl ArenaPart {
    /// All addresses: there is one device.
    pub const ALL: Self = Self { ordinal: 0, of: 1 };

    /// Where the part of `length` begins.
    fn of(self, length: u64) -> u64 {
        u64::from(self.ordinal.min(self.of)) * (length / u64::from(self.of.max(1))) % length
    }
}

/// Addresses of which all clients' reservations are made (cuMemAddressReserve): a program may want
/// more of them than a window has, for memory that it maps later or never.
#[derive(Clone)]
pub struct Arena {
    /// Start to length.
    taken: Arc<Mutex<BTreeMap<u64, u64>>>,
    /// Where the search for a free place begins.
    first: u64,
}

impl Arena {
    /// The arena of the server of a device.
    pub fn new(part: ArenaPart) -> Self {
        Self { taken: Arc::default(), first: ARENA_BASE + part.of(ARENA_BYTES) }
    }

    /// Takes `bytes` bytes at a multiple of `alignment`, a power of two: at `wanted` if that is
    /// in the arena and free, else at the first place from where this server begins. `None` if there is no room.
    pub fn take(&self, wanted: u64, bytes: u64, alignment: u64) -> Option<ArenaLease> {
        let mut taken = self.taken.lock();
        let free = |address: u64| {
            let end = address.checked_add(bytes).filter(|end| *end <= ARENA_BASE + ARENA_BYTES)?;
            let before = taken.range(..end).next_back();
            let meets = before.is_some_and(|(start, length)| start + length > address);
            (address >= ARENA_BASE && address.is_multiple_of(alignment) && !meets)
                .then_some(address)
        };
        let from = |first: u64| {
            let ends = taken.range(first..).map(|(start, length)| start + length);
            let before = taken.range(..first).next_back().map(|(start, length)| start + length);
            let mut starts =
                std::iter::once(first).chain(before).chain(ends).filter(|start| *start >= first);
            starts.find_map(|start| free(start.checked_next_multiple_of(alignment)?))
        };
        let address = free(wanted).or_else(|| from(self.first)).or_else(|| from(ARENA_BASE))?;
        taken.insert(address, bytes);
        Some(ArenaLease { arena: self.clone(), address })
    }
}

/// A range of the arena, taken until this is dropped.
pub struct ArenaLease {
    arena: Arena,
    address: u64,
}

impl ArenaLease {
    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for ArenaLease {
    fn drop(&mut self) {
        let mut taken = self.arena.taken.lock();
        taken.remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_and_come_back() {
        let windows = DeviceWindows::default();
        let mut leases: Vec<Lease> = std::iter::from_fn(|| windows.take(WINDOW_ANY)).collect();
        assert_eq!(leases.len(), CLIENTS_MAX);
        for pair in leases.windows(2) {
            let (device, host) = (pair[0].device(), pair[0].host());
            assert_eq!(device.base + device.bytes, pair[1].device().base);
            assert_eq!(host.base + host.bytes, pair[1].host().base);
        }
        for (number, lease) in leases.iter().enumerate() {
            let (device, host) = (lease.device(), lease.host());
            let number = Some(number as u32);
            assert_eq!((device_window_of(device.base), HOST.number(host.base)), (number, number));
            assert_eq!(device_window_of(device.base + device.bytes - 1), number);
        }
        assert_eq!((leases[63].device().bytes, leases[64].device().bytes), (256 << 30, 16 << 30));
        let freed = leases.remove(7).device();
        assert_eq!((windows.given_back(), windows.given_back()), (vec![7], vec![]));
        assert!(windows.take(6).is_none(), "it is taken");
        assert!(windows.take(CLIENTS_MAX as u32).is_none(), "there is none");
        let again = windows.take(7).map(|l| l.device());
        assert_eq!(again, Some(freed));
        assert_eq!(windows.take(WINDOW_ANY).map(|l| l.device()), Some(freed));
        drop(leases);
        assert_eq!(windows.taken(), 0);
        for (address, number) in [
            (DEVICE_BASE + 3 * DEVICE_BYTES + 5, Some(3)),
            (HOST_BASE + 4 * HOST_BYTES, Some(4)),
            (DEVICE_BASE - 1, None),
            (ARENA_BASE + 1, None),
        ] {
            let base = number.map(|n| DEVICE_BASE + n * DEVICE_BYTES);
            assert_eq!(windows.take_at(address).map(|lease| lease.device().base), base);
        }
        let _own = windows.take(3).unwrap();
        assert!(windows.take_at(DEVICE_BASE + 3 * DEVICE_BYTES).is_none(), "another client's");
    }

    #[test]
    fn the_release_of_windows_for_another_devices_memory_is_no_clients() {
        let windows = DeviceWindows::default();
        let address = DEVICE_BASE + 2 * DEVICE_BYTES;
        drop(windows.take_at(address));
        assert_eq!(windows.given_back(), [], "the next client may have them already");
        drop(windows.take(2));
        assert_eq!(windows.given_back(), [2]);
        // A daemon that takes the server over is notified of them, and waits for their release.
        let peer = windows.take_at(address);
        assert_eq!(windows.report(), [2]);
        drop(peer);
        assert_eq!(windows.given_back(), [2]);
    }

    #[test]
    fn ranges_of_the_arena_are_disjoint_and_come_back() {
        const MIB: u64 = 1 << 20;
        let arena = Arena::new(ArenaPart::ALL);
        let first = arena.take(0, 2 * MIB, 2 * MIB).unwrap();
        assert_eq!(first.address(), ARENA_BASE);
        let second = arena.take(ARENA_BASE, 4 * MIB, 4 * MIB).unwrap();
        assert_eq!(second.address(), ARENA_BASE + 4 * MIB, "the wanted place is taken");
        let third = arena.take(ARENA_BASE + 2 * MIB, 2 * MIB, 2 * MIB).unwrap();
        assert_eq!(third.address(), ARENA_BASE + 2 * MIB, "the wanted place is free");
        drop(second);
        assert!(arena.take(0, ARENA_BYTES, MIB).is_none());
        assert!(arena.take(0, u64::MAX, MIB).is_none());
        assert!(arena.take(u64::MAX, MIB, 1 << 63).is_none());
        let rest = arena.take(0, ARENA_BYTES - 4 * MIB, MIB).unwrap();
        assert_eq!(rest.address(), ARENA_BASE + 4 * MIB);
        assert!(arena.take(0, MIB, MIB).is_none(), "all is taken");
    }

    #[test]
    fn arenas_of_two_devices_begin_at_different_places() {
        let arena = Arena::new(ArenaPart { ordinal: 1, of: 2 });
        let middle = ARENA_BASE + ARENA_BYTES / 2;
        let lease = arena.take(0, 1 << 21, 1 << 21).unwrap();
        assert_eq!(lease.address(), middle);
        let next = arena.take(0, 1 << 21, 1 << 21).unwrap();
        assert_eq!(next.address(), middle + (1 << 21));
        let large = arena.take(0, ARENA_BYTES / 2, 1 << 21).unwrap();
        assert_eq!(large.address(), ARENA_BASE, "behind its own part there is no room");
    }

    #[test]
    fn parts_begin_where_the_one_before_ends() {
        let starts =
            |of| (0..of).map(|ordinal| ArenaPart { ordinal, of }.of(128)).collect::<Vec<u64>>();
        assert_eq!(starts(1), [0]);
        assert_eq!(starts(4), [0, 32, 64, 96]);
        assert_eq!(starts(3), [0, 42, 84]);
        assert_eq!(starts(16).last(), Some(&120));
        assert_eq!(ArenaPart { ordinal: 9, of: 0 }.of(128), 0);
    }

    #[test]
    fn a_range_must_lie_inside_whole() {
        let window = AddressWindow { base: 0x1000, bytes: 0x100 };
        assert!(window.contains(0x1000, 0x100));
        assert!(window.contains(0x1100, 0));
        for (address, bytes) in
            [(0xfff, 1), (0x1000, 0x101), (0x1100, 1), (u64::MAX, 2), (0x1001, u64::MAX)]
        {
            assert!(!window.contains(address, bytes), "{address:#x} {bytes:#x}");
        }
    }
}
