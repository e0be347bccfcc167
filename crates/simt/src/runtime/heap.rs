//! Device heap: allocator behind `malloc` and `free` in kernels.
//!
//! A first-fit free list over one allocation, kept on the host side where kernels
//! cannot break it. It is deliberately simple: device-side allocation is rare and slow on
//! hardware too.
//!
//! Invariant: `free` and `used` together tile the heap exactly.

use locks::Mutex;
use std::collections::BTreeMap;

/// Bytes of a heap, unless a program asks for others: CUDA's default (CU_LIMIT_MALLOC_HEAP_SIZE).
pub const HEAP_BYTES: u64 = 8 << 20;
/// Alignment of the heap and of every block, as CUDA promises for device malloc.
pub const HEAP_ALIGN: u64 = 16;

/// A heap.
#[derive(Debug)]
pub struct DeviceHeap {
    lists: Mutex<Lists>,
}

/// What an address is that cannot be given to `free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotABlock {
    /// Memory that is free: it was given before, or never taken.
    Free,
    /// Not the start of a block.
    Inside,
    /// No memory of this heap.
    Elsewhere,
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

    /// Has it be `bytes` at `address` from now on. False, and nothing is changed, if a block is in use.
    pub fn replace(&self, address: u64, bytes: u64) -> bool {
        let mut lists = self.lists.lock();
        let unused = lists.used.is_empty();
        if unused {
            lists.free = BTreeMap::from([(address, bytes)]);
        }
        unused
    }

    /// True if a block is in use.
    pub fn is_used(&self) -> bool {
        let lists = self.lists.lock();
        !lists.used.is_empty()
    }

    /// `malloc`: the address, or 0 if there is no room.
    pub fn allocate(&self, bytes: u64) -> u64 {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(HEAP_ALIGN) else { return 0 };
        let mut lists = self.lists.lock();
        let found = lists.free.iter().find(|&(_, &size)| size >= bytes).map(|(&a, &s)| (a, s));
        let Some((address, size)) = found else { return 0 };
        lists.free.remove(&address);
        if size > bytes {
            lists.free.insert(address + bytes, size - bytes);
        }
        lists.used.insert(address, bytes);
        address
    }

    /// `free`: of 0 it does nothing.
    ///
    /// # Errors
    /// What the address is instead of a block in use.
    pub fn release(&self, address: u64) -> Result<(), NotABlock> {
        if address == 0 {
            return Ok(());
        }
        let mut lists = self.lists.lock();
        let Some(mut bytes) = lists.used.remove(&address) else {
            let within = |blocks: &BTreeMap<u64, u64>| {
                let before = blocks.range(..=address).next_back();
                before.is_some_and(|(start, bytes)| address - start < *bytes)
            };
            return Err(match (within(&lists.free), within(&lists.used)) {
                (true, _) => NotABlock::Free,
                (_, true) => NotABlock::Inside,
                _ => NotABlock::Elsewhere,
            });
        };
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
        Ok(())
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
        assert_eq!(heap.release(c + 8), Err(NotABlock::Inside));
        assert_eq!((heap.release(b), heap.release(a), heap.release(0)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(heap.release(b), Err(NotABlock::Free), "freed twice");
        assert_eq!(heap.release(0x2000), Err(NotABlock::Elsewhere));
        assert_eq!(heap.allocate(48), 0x1000);
        assert_eq!((heap.release(0x1000), heap.release(c)), (Ok(()), Ok(())));
        assert_eq!(heap.allocate(64), 0x1000);
        assert!(heap.is_used() && !heap.replace(0x8000, 128), "a block is in use");
        assert_eq!(heap.release(0x1000), Ok(()));
        assert!(!heap.is_used() && heap.replace(0x8000, 128));
        assert_eq!((heap.allocate(128), heap.allocate(1)), (0x8000, 0));
    }
}
