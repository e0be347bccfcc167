//! Windows: the ranges of device and host addresses that belong to one client for its life.
//!
//! A client reserves both windows in its own process, so a number that is an address of device
//! memory there is never an address of anything else, and the server has both reserved for the
//! same client. Windows never overlap. This module only gives out numbers; reserving addresses
//! is the session's.

use std::sync::{Arc, Mutex, PoisonError};

/// Most clients of a server at a time. NVIDIA's serves 48 or 60; a window is nothing but
/// addresses, and 128 of them take 40 TiB of the 128 TiB that a process has.
pub const CLIENTS_MAX: usize = 128;

/// First device window.
pub const DEVICE_BASE: u64 = 0x1000_0000_0000;
/// Length of a device window, bytes: more than any device has.
pub const DEVICE_BYTES: u64 = 256 << 30;
/// First host window, behind the last device window.
pub const HOST_BASE: u64 = 0x3000_0000_0000;
/// Length of a host window, bytes: a client's pinned memory.
pub const HOST_BYTES: u64 = 64 << 30;

const _: () = assert!(DEVICE_BASE + CLIENTS_MAX as u64 * DEVICE_BYTES <= HOST_BASE);
// Programs, libraries and stacks of an x86-64 process lie from 0x5500_0000_0000 up.
const _: () = assert!(HOST_BASE + CLIENTS_MAX as u64 * HOST_BYTES <= 0x5500_0000_0000);
const _: () = assert!(DEVICE_BYTES.is_power_of_two() && DEVICE_BASE.is_multiple_of(DEVICE_BYTES));
const _: () = assert!(CLIENTS_MAX <= u128::BITS as usize);

/// One range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First address.
    pub base: u64,
    /// Length, bytes.
    pub bytes: u64,
}

impl Window {
    /// True if the range lies in the window, all of it.
    pub fn contains(self, address: u64, bytes: u64) -> bool {
        address >= self.base && bytes <= self.bytes && address - self.base <= self.bytes - bytes
    }
}

/// All windows of a server.
#[derive(Clone, Default)]
pub struct Windows {
    taken: Arc<Mutex<u128>>,
}

impl Windows {
    /// Takes the first free pair of windows; `None` if all are taken. Dropping the lease gives
    /// it back.
    pub fn take(&self) -> Option<Lease> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let index = taken.trailing_ones();
        if index as usize >= CLIENTS_MAX {
            return None;
        }
        *taken |= 1 << index;
        Some(Lease { windows: self.clone(), index })
    }

    /// Number of pairs taken.
    pub fn taken(&self) -> u32 {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).count_ones()
    }
}

/// A pair of windows, taken until this is dropped.
pub struct Lease {
    windows: Windows,
    index: u32,
}

impl Lease {
    /// The device window.
    pub fn device(&self) -> Window {
        let base = DEVICE_BASE + u64::from(self.index) * DEVICE_BYTES;
        Window { base, bytes: DEVICE_BYTES }
    }

    /// The host window.
    pub fn host(&self) -> Window {
        let base = HOST_BASE + u64::from(self.index) * HOST_BYTES;
        Window { base, bytes: HOST_BYTES }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut taken = self.windows.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken &= !(1 << self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_and_come_back() {
        let windows = Windows::default();
        let mut leases: Vec<Lease> = std::iter::from_fn(|| windows.take()).collect();
        assert_eq!(leases.len(), CLIENTS_MAX);
        for pair in leases.windows(2) {
            assert_eq!(pair[0].device().base + DEVICE_BYTES, pair[1].device().base);
            assert_eq!(pair[0].host().base + HOST_BYTES, pair[1].host().base);
        }
        let freed = leases.remove(7).device();
        assert_eq!(windows.take().map(|l| l.device()), Some(freed));
        drop(leases);
        assert_eq!(windows.taken(), 0);
    }

    #[test]
    fn a_range_must_lie_inside_whole() {
        let window = Window { base: 0x1000, bytes: 0x100 };
        assert!(window.contains(0x1000, 0x100));
        assert!(window.contains(0x1100, 0));
        for (address, bytes) in
            [(0xfff, 1), (0x1000, 0x101), (0x1100, 1), (u64::MAX, 2), (0x1001, u64::MAX)]
        {
            assert!(!window.contains(address, bytes), "{address:#x} {bytes:#x}");
        }
    }
}
