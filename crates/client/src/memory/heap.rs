//! Heap: sub-allocation of a window of addresses, chunk by chunk.
//!
//! Pure bookkeeping: a heap knows which addresses of its window are backed by chunks, and which
//! of those are handed out; its owner creates and releases the chunks. Device memory and
//! pinned host memory are both heaps.
//!
//! Invariants: blocks do not overlap and lie in one chunk each; every byte of a chunk is in
//! exactly one block or one free range; two free ranges of a chunk never touch.

use std::collections::{BTreeMap, BTreeSet};

/// What addresses and sizes of blocks are multiples of: what cuMemAlloc promises (256), and what
/// drivers give (512).
pub(crate) const BLOCK_ALIGNMENT: u64 = 512;
/// What addresses and sizes of chunks are multiples of: a large page of a device.
pub(crate) use channel::limits::CHUNK_GRANULARITY_BYTES as CHUNK_ALIGNMENT;

/// A block that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block<T> {
    /// Where it starts.
    pub(crate) address: u64,
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    /// What its owner keeps with it.
    pub(crate) tag: T,
}

/// A window of addresses with its chunks and blocks.
pub(crate) struct Heap<T> {
    /// Chunks are at least that large.
    chunk_bytes_min: u64,
    /// Parts of the window without a chunk: address to bytes.
    unbacked: BTreeMap<u64, u64>,
    /// Chunks: address to bytes.
    chunks: BTreeMap<u64, u64>,
    /// Free ranges of chunks: address to bytes, and by size.
    free: BTreeMap<u64, u64>,
    free_by_size: BTreeSet<(u64, u64)>,
    blocks: BTreeMap<u64, Block<T>>,
    used_bytes: u64,
}

/// `bytes` rounded up to a multiple of a power of two; `None` if that is out of range.
fn round_up(bytes: u64, multiple: u64) -> Option<u64> {
    bytes.checked_add(multiple - 1).map(|b| b & !(multiple - 1))
}

impl<T: Copy> Heap<T> {
    /// A heap without chunks in the window at `base`, a multiple of [`CHUNK_ALIGNMENT`].
    pub(crate) fn new(base: u64, bytes: u64, chunk_bytes_min: u64) -> Self {
        let bytes = bytes & !(CHUNK_ALIGNMENT - 1);
        Self {
            chunk_bytes_min,
            unbacked: BTreeMap::from([(base, bytes)]),
            chunks: BTreeMap::new(),
            free: BTreeMap::new(),
            free_by_size: BTreeSet::new(),
            blocks: BTreeMap::new(),
            used_bytes: 0,
        }
    }

    /// Gives out a block from the smallest free range that has room; `None` if there is none.
    pub(crate) fn allocate(&mut self, bytes: u64, tag: T) -> Option<u64> {
        let size = round_up(bytes, BLOCK_ALIGNMENT)?;
        let (range, address) = *self.free_by_size.range((size, 0)..).next()?;
        self.remove_free(address);
        if range > size {
            self.add_free(address + size, range - size);
        }
        self.blocks.insert(address, Block { address, bytes, tag });
        self.used_bytes += size;
        Some(address)
    }

    /// Where a chunk may go that has room for a block: address and bytes, to be created and then
    /// given to [`Self::add_chunk`]. `None` if the window is full.
    pub(crate) fn place_for_chunk(&self, block_bytes: u64) -> Option<(u64, u64)> {
        let bytes = round_up(block_bytes, CHUNK_ALIGNMENT)?.max(self.chunk_bytes_min);
        let (address, _) = self.unbacked.iter().find(|(_, room)| **room >= bytes)?;
        Some((*address, bytes))
    }

    /// Takes a chunk in, at a place that [`Self::place_for_chunk`] gave just now.
    pub(crate) fn add_chunk(&mut self, address: u64, bytes: u64) {
        if let Some(room) = self.unbacked.remove(&address)
            && room > bytes
        {
            self.unbacked.insert(address + bytes, room - bytes);
        }
        self.chunks.insert(address, bytes);
        self.add_free(address, bytes);
    }

    /// Takes addresses of the window without a chunk that are to be none of the heap's for a while;
    /// `None` if there is no room.
    pub(crate) fn take_addresses(&mut self, bytes: u64) -> Option<u64> {
        let taken = round_up(bytes, CHUNK_ALIGNMENT)?;
        // From the end, so that chunks stay together.
        let (&start, &room) = self.unbacked.iter().rev().find(|(_, room)| **room >= taken)?;
        self.unbacked.remove(&start);
        if room > taken {
            self.unbacked.insert(start, room - taken);
        }
        Some(start + room - taken)
    }

    /// Gives back what [`Self::take_addresses`] gave.
    pub(crate) fn give_addresses(&mut self, address: u64, bytes: u64) {
        if let Some(taken) = round_up(bytes, CHUNK_ALIGNMENT) {
            self.return_to_window(address, taken);
        }
    }

    /// Takes a block back; `None` if no block starts there.
    pub(crate) fn free(&mut self, address: u64) -> Option<Block<T>> {
        let block = self.blocks.remove(&address)?;
        let mut size = round_up(block.bytes, BLOCK_ALIGNMENT)?;
        self.used_bytes -= size;
        let mut start = address;
        let (chunk, chunk_bytes) = self.chunk_of(address)?;
        if let Some((&before, &bytes)) = self.free.range(chunk..address).next_back()
            && before + bytes == address
        {
            self.remove_free(before);
            start = before;
            size += bytes;
        }
        let end = start + size;
        if end < chunk + chunk_bytes
            && let Some(&bytes) = self.free.get(&end)
        {
            self.remove_free(end);
            size += bytes;
        }
        self.add_free(start, size);
        Some(block)
    }

    /// Bytes of the smallest chunk without a block.
    pub(crate) fn smallest_empty_chunk(&self) -> Option<u64> {
        let empty = |(address, bytes): &(&u64, &u64)| self.free.get(*address) == Some(*bytes);
        self.chunks.iter().filter(empty).map(|(_, bytes)| *bytes).min()
    }

    /// Takes out of the heap all chunks without a block but `keep` of the smallest: to be
    /// released by the caller.
    pub(crate) fn take_empty_chunks(&mut self, keep: usize) -> Vec<u64> {
        let mut empty: Vec<(u64, u64)> = self
            .chunks
            .iter()
            .filter(|(address, bytes)| self.free.get(*address) == Some(*bytes))
            .map(|(address, bytes)| (*bytes, *address))
            .collect();
        empty.sort_unstable();
        let taken: Vec<u64> = empty.iter().skip(keep).map(|(_, address)| *address).collect();
        for &address in &taken {
            self.remove_free(address);
            let Some(bytes) = self.chunks.remove(&address) else { continue };
            self.return_to_window(address, bytes);
        }
        taken
    }

    /// The block in which an address lies.
    pub(crate) fn find(&self, address: u64) -> Option<&Block<T>> {
        let (_, block) = self.blocks.range(..=address).next_back()?;
        (address - block.address < block.bytes).then_some(block)
    }

    /// The block that starts at an address, to be changed.
    pub(crate) fn block_mut(&mut self, address: u64) -> Option<&mut Block<T>> {
        self.blocks.get_mut(&address)
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block<T>> {
        self.blocks.values()
    }

    /// Bytes handed out, with what rounding added.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes of all chunks.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunks.values().sum()
    }

    /// Start and length of the chunk in which an address of a block lies.
    pub(crate) fn chunk_of(&self, address: u64) -> Option<(u64, u64)> {
        self.chunks.range(..=address).next_back().map(|(a, b)| (*a, *b))
    }

    fn add_free(&mut self, address: u64, bytes: u64) {
        self.free.insert(address, bytes);
        self.free_by_size.insert((bytes, address));
    }

    fn remove_free(&mut self, address: u64) {
        if let Some(bytes) = self.free.remove(&address) {
            self.free_by_size.remove(&(bytes, address));
        }
    }

    fn return_to_window(&mut self, address: u64, bytes: u64) {
        let (mut start, mut size) = (address, bytes);
        if let Some((&before, &room)) = self.unbacked.range(..address).next_back()
            && before + room == address
        {
            self.unbacked.remove(&before);
            start = before;
            size += room;
        }
        if let Some(room) = self.unbacked.remove(&(start + size)) {
            size += room;
        }
        self.unbacked.insert(start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 0x1000_0000_0000;
    const WINDOW: u64 = 64 << 20;
    const CHUNK_MIN: u64 = 8 << 20;

    fn heap() -> Heap<u32> {
        Heap::new(BASE, WINDOW, CHUNK_MIN)
    }

    fn allocate(heap: &mut Heap<u32>, bytes: u64) -> Option<u64> {
        heap.allocate(bytes, 0).or_else(|| {
            let (address, chunk_bytes) = heap.place_for_chunk(bytes)?;
            heap.add_chunk(address, chunk_bytes);
            heap.allocate(bytes, 0)
        })
    }

    #[test]
    fn chunks_are_made_when_missing_and_given_up_when_empty() {
        let mut heap = heap();
        assert_eq!(heap.allocate(1, 0), None);
        assert_eq!(heap.place_for_chunk(1), Some((BASE, CHUNK_MIN)));
        let small = allocate(&mut heap, 1).unwrap();
        let large = allocate(&mut heap, (20 << 20) + 1).unwrap();
        assert_eq!((small, large), (BASE, BASE + CHUNK_MIN));
        assert_eq!(heap.chunk_bytes(), CHUNK_MIN + (22 << 20));
        assert_eq!(heap.place_for_chunk(60 << 20), None);
        assert_eq!(heap.place_for_chunk(u64::MAX), None);
        assert!(heap.take_empty_chunks(0).is_empty());
        assert_eq!(heap.free(small + 1), None);
        assert_eq!(heap.free(small).map(|b| b.bytes), Some(1));
        assert_eq!(heap.free(small), None);
        heap.free(large).unwrap();
        assert_eq!(heap.take_empty_chunks(1), [large]);
        assert_eq!(heap.take_empty_chunks(0), [small]);
        assert_eq!(heap.place_for_chunk(WINDOW), Some((BASE, WINDOW)));
    }

    #[test]
    fn addresses_can_be_taken_out_of_the_window_and_given_back() {
        let mut heap = heap();
        let taken = heap.take_addresses(1).unwrap();
        assert_eq!(taken, BASE + WINDOW - CHUNK_ALIGNMENT);
        assert_eq!(heap.place_for_chunk(WINDOW), None);
        assert_eq!(heap.take_addresses(WINDOW), None);
        let rest = heap.take_addresses(WINDOW - CHUNK_ALIGNMENT).unwrap();
        assert_eq!((rest, allocate(&mut heap, 1)), (BASE, None));
        heap.give_addresses(taken, 1);
        heap.give_addresses(rest, WINDOW - CHUNK_ALIGNMENT);
        assert_eq!(heap.place_for_chunk(WINDOW), Some((BASE, WINDOW)));
    }

    #[test]
    fn an_address_is_found_in_the_bytes_that_were_asked_for() {
        let mut heap = heap();
        let a = allocate(&mut heap, 100).unwrap();
        assert_eq!(heap.find(a + 99).map(|b| b.address), Some(a));
        assert_eq!(heap.find(a + 100), None);
        assert_eq!(heap.find(a - 1), None);
    }

    proptest! {
        /// Against a model that only remembers what was handed out.
        #[test]
        fn blocks_never_overlap_and_everything_comes_back(
            steps in prop::collection::vec((any::<bool>(), 1u64..12 << 20, any::<usize>()), 1..200)
        ) {
            let mut heap = heap();
            let mut model: Vec<(u64, u64)> = Vec::new();
            for (allocates, bytes, pick) in steps {
                if allocates || model.is_empty() {
                    if let Some(address) = allocate(&mut heap, bytes) {
                        prop_assert_eq!(address % BLOCK_ALIGNMENT, 0);
                        prop_assert!(address >= BASE && address + bytes <= BASE + WINDOW);
                        for (other, size) in &model {
                            prop_assert!(address + bytes <= *other || *other + size <= address);
                        }
                        model.push((address, bytes));
                    }
                } else {
                    let (address, bytes) = model.swap_remove(pick % model.len());
                    prop_assert_eq!(heap.find(address + bytes - 1).map(|b| b.address), Some(address));
                    prop_assert_eq!(heap.free(address).map(|b| b.bytes), Some(bytes));
                }
                let free: u64 = heap.free.values().sum();
                prop_assert_eq!(free + heap.used_bytes(), heap.chunk_bytes());
                prop_assert_eq!(heap.free.len(), heap.free_by_size.len());
            }
            for (address, _) in model {
                prop_assert!(heap.free(address).is_some());
            }
            heap.take_empty_chunks(0);
            prop_assert_eq!(heap.place_for_chunk(WINDOW), Some((BASE, WINDOW)));
        }
    }
}
