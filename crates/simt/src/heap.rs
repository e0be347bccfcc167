//! The device heap: what `malloc` and `free` in kernels work on.
//!
//! A first-fit free list over one allocation, kept on the host side where kernels
//! cannot break it. It is deliberately simple: device-side allocation is rare and slow on
//! hardware too.
//!
//! Invariant: `free` and `used` together tile the heap exactly.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Bytes of a heap, unless a program asks for others: CUDA's default (CU_LIMIT_MALLOC_HEAP_SIZE).
pub const HEAP_BYTES: u64 = 8 << 20;
/// Alignment of the heap and of every block, as CUDA promises for device malloc.
pub const HEAP_ALIGN: u64 = 16;

/// A heap.
#[derive(Debug)]
pub struct DeviceHeap {
    lists: Mutex<Lists>,
}

#[derive(Debug)]
struct Lists {
    /// Start and size of each free block.
    free: BTreeMap<u64, u64>,
    /// Start and size of each block in use.
    used: BTreeMap<u64, u64>,
}

impl DeviceHeap {
    /// A heap of `bytes` at `address`.
    pub fn new(address: u64, bytes: u64) -> Self {
        let lists = Lists { free: BTreeMap::from([(address, bytes)]), used: BTreeMap::new() };
        Self { lists: Mutex::new(lists) }
    }

    /// `malloc`: the address, or 0 if there is no room.
    pub fn allocate(&self, bytes: u64) -> u64 {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(HEAP_ALIGN) else { return 0 };
        let mut lists = self.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = lists.free.iter().find(|&(_, &size)| size >= bytes).map(|(&a, &s)| (a, s));
        let Some((address, size)) = found else { return 0 };
        lists.free.remove(&address);
        if size > bytes {
            lists.free.insert(address + bytes, size - bytes);
        }
        lists.used.insert(address, bytes);
        address
    }

    /// `free`: false if `address` is not of a block in use. 0 is allowed and does nothing.
    pub fn release(&self, address: u64) -> bool {
        if address == 0 {
            return true;
        }
        let mut lists = self.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(mut bytes) = lists.used.remove(&address) else { return false };
        let mut start = address;
        if let Some(next) = lists.free.remove(&(address + bytes)) {
            bytes += next;
        }
        let before = lists.free.range(..address).next_back().map(|(&a, &s)| (a, s));
        if let Some((previous, size)) = before
            && previous + size == address
        {
            start = previous;
            bytes += size;
        }
        lists.free.insert(start, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_and_merge() {
        let heap = DeviceHeap::new(0x1000, 64);
        let a = heap.allocate(10);
        let b = heap.allocate(32);
        let c = heap.allocate(16);
        assert_eq!((a, b, c), (0x1000, 0x1010, 0x1030));
        assert_eq!(heap.allocate(1), 0);
        assert!(heap.release(b) && heap.release(a) && heap.release(0));
        assert!(!heap.release(b), "freed twice");
        assert_eq!(heap.allocate(48), 0x1000);
        assert!(heap.release(0x1000) && heap.release(c));
        assert_eq!(heap.allocate(64), 0x1000);
    }
}
