//! Content-defined chunks: cuts a sequence of launches into pieces that come again when the sequence does.
//!
//! Where a piece ends depends on the launches in it alone, and not on when they came: a program that
//! repeats a sequence has the same pieces again, wherever the first of them began. The same launches of
//! another stream are another chunk: a graph's launch waits for the one before it, in whichever stream that
//! is. Knows no provider.

use super::fill::Fill;
use crate::session::stream::work_in_flight::OPERATIONS_PER_MARK;
use channel::request::LaunchKernel;
use std::collections::HashMap;

/// Fewest launches of a chunk that ends by what is in it: a graph's launch takes the driver as long as 20 kernels in
/// it.
pub const LAUNCHES_MIN: usize = 16;
/// Most launches of a chunk.
pub const LAUNCHES_MAX: usize = 96;

// A sequence that goes as one graph has fewer launches than a mark.
const _: () = assert!(LAUNCHES_MAX < OPERATIONS_PER_MARK as usize);
/// A launch ends a chunk if its hash is the least of so many: a sequence with a shorter period has one.
const WINDOW: usize = 32;
/// Most chunks that are remembered, of a client.
const CHUNKS_MAX: usize = 512;
/// Chunks after which one that was not among them is unused.
const UNUSED_MIN: u64 = 1024;

/// Flags of a fill's key, which no launch has.
const FLAGS_OF_FILL: u32 = u32::MAX;

/// What must be the same of two launches for one to stand for the other: all but the values of its
/// parameters, and its stream, which is the chunk's. Of a fill it is all but its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchKey {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    flags: u32,
    parameter_bytes: u32,
}

impl LaunchKey {
    /// Of a launch.
    pub fn of(launch: &LaunchKernel<'_>) -> Self {
        Self {
            function: launch.function.0 as u64,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            flags: launch.flags,
            parameter_bytes: launch.parameters.len() as u32,
        }
    }

    /// Of a fill.
    pub fn of_fill(fill: Fill) -> Self {
        let Fill { address, value, element_bytes, count } = fill;
        Self {
            function: address,
            grid: [value, element_bytes, 0],
            block: [count as u32, (count >> 32) as u32, 0],
            shared_bytes: 0,
            flags: FLAGS_OF_FILL,
            parameter_bytes: 0,
        }
    }

    /// A hash of it.
    pub fn hash(&self) -> u64 {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [gx, gy, gz] = self.grid;
        let [bx, by, bz] = self.block;
        let words = [
            self.function,
            pair(gx, gy),
            pair(gz, bx),
            pair(by, bz),
            pair(self.shared_bytes, self.flags),
            self.parameter_bytes.into(),
        ];
        words.into_iter().fold(0, join)
    }
}

/// A hash with one more word. Equal hashes are compared, so that it only has to be fast.
pub fn join(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The launches of one stream since the last chunk's end.
#[derive(Debug, Default)]
pub struct Chunk {
    stream: u64,
    keys: Vec<LaunchKey>,
    /// Of each launch.
    hashes: Vec<u64>,
    hash: u64,
}

impl Chunk {
    /// The stream of its launches.
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Says which stream the launches of an empty chunk are of.
    pub fn set_stream(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// What it is found by.
    fn hash(&self) -> u64 {
        join(self.hash, self.stream)
    }

    /// Launches in it.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a launch; true if the chunk ends with it.
    pub fn add(&mut self, key: LaunchKey) -> bool {
        let hash = key.hash();
        let window = self.hashes.len().saturating_sub(WINDOW);
        let is_least = self.hashes[window..].iter().all(|before| hash <= *before);
        self.keys.push(key);
        self.hashes.push(hash);
        self.hash = join(self.hash, hash);
        self.len() >= LAUNCHES_MAX || is_least && self.len() >= LAUNCHES_MIN
    }

    /// Its last launches, as a chunk.
    pub fn last(&self, launches: usize) -> Self {
        let mut last = Self { stream: self.stream, ..Self::default() };
        for key in &self.keys[self.len().saturating_sub(launches)..] {
            last.add(*key);
        }
        last
    }

    /// Begins another one, of the same stream.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.hashes.clear();
        self.hash = 0;
    }
}

/// A chunk that was seen.
#[derive(Debug)]
pub struct SeenChunk<T> {
    stream: u64,
    keys: Vec<LaunchKey>,
    /// How often before this time.
    pub before: u32,
    /// When it was seen last, counted in chunks.
    last: u64,
    /// What is kept with it.
    pub kept: T,
}

/// Chunks that were seen, with something kept for each.
#[derive(Debug)]
pub struct Chunks<T> {
    seen: HashMap<u64, SeenChunk<T>>,
    /// Chunks so far.
    now: u64,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { seen: HashMap::new(), now: 0 }
    }
}

impl<T: Default> Chunks<T> {
    /// A chunk has ended: what is known of it.
    pub fn ended(&mut self, chunk: &Chunk) -> &mut SeenChunk<T> {
        self.now += 1;
        let hash = chunk.hash();
        if self.seen.len() >= CHUNKS_MAX && !self.seen.contains_key(&hash) {
            // The half that was not seen for longest.
            let mut last: Vec<u64> = self.seen.values().map(|seen| seen.last).collect();
            let (_, median, _) = last.select_nth_unstable(CHUNKS_MAX / 2);
            let median = *median;
            self.seen.retain(|_, seen| seen.last > median);
        }
        let new = |now| SeenChunk {
            stream: chunk.stream,
            keys: chunk.keys.clone(),
            before: 0,
            last: now,
            kept: T::default(),
        };
        let seen = self.seen.entry(hash).or_insert_with(|| new(self.now));
        if seen.stream != chunk.stream || seen.keys != chunk.keys {
            *seen = new(self.now);
        } else if seen.last != self.now {
            (seen.before, seen.last) = (seen.before.saturating_add(1), self.now);
        }
        seen
    }

    /// Forgets the chunk that was not seen for longest of those for which `has_some` says true, if that is
    /// [`UNUSED_MIN`] chunks ago: what comes in turns is not forgotten for what comes in the same turns.
    pub fn forget_oldest(&mut self, has_some: impl Fn(&T) -> bool) {
        let with_some = self.seen.iter().filter(|(_, seen)| has_some(&seen.kept));
        let oldest = with_some.min_by_key(|(_, seen)| seen.last);
        if let Some((hash, _)) = oldest.filter(|(_, seen)| self.now - seen.last >= UNUSED_MIN) {
            let hash = *hash;
            self.seen.remove(&hash);
        }
    }

    /// Forgets those of a stream.
    pub fn forget_stream(&mut self, stream: u64) {
        self.seen.retain(|_, seen| seen.stream != stream);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::{CUfunction, CUstream};

    fn key(kernel: usize) -> LaunchKey {
        LaunchKey::of(&LaunchKernel {
            function: CUfunction(kernel),
            stream: CUstream::NULL,
            grid: [1 + kernel as u32 % 7, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            flags: 0,
            parameters: &[],
        })
    }

    /// Chunks of a sequence, by how often each was there before.
    fn chunks(kernels: impl Iterator<Item = usize>) -> Vec<(usize, u32)> {
        let (mut chunk, mut seen, mut all) = (Chunk::default(), Chunks::<()>::default(), vec![]);
        for kernel in kernels {
            if chunk.add(key(kernel)) {
                all.push((chunk.len(), seen.ended(&chunk).before));
                chunk.clear();
            }
        }
        all
    }

    #[test]
    fn a_sequence_that_comes_again_has_the_same_chunks_wherever_it_began() {
        // 150 kernels a step; what comes before the first step differs.
        for first in 0..40 {
            let steps = (0..20).flat_map(|_| (0..150).map(|at| at * at % 89));
            let all = chunks((1000..1000 + first).chain(steps));
            let (_, late) = all.split_at(all.len() / 2);
            assert!(late.iter().all(|(_, before)| *before > 0), "{first}: {all:?}");
            assert!(late.iter().all(|(len, _)| (LAUNCHES_MIN..=LAUNCHES_MAX).contains(len)));
        }
    }

    #[test]
    fn the_last_launches_of_a_chunk_are_the_chunk_that_they_would_be() {
        let chunk = |kernels: std::ops::Range<usize>| {
            let mut chunk = Chunk::default();
            for kernel in kernels {
                chunk.add(key(kernel));
            }
            chunk
        };
        let mut seen = Chunks::<()>::default();
        assert_eq!(seen.ended(&chunk(3..9)).before, 0);
        assert_eq!(seen.ended(&chunk(0..9).last(6)).before, 1);
        assert_eq!(seen.ended(&chunk(3..9).last(6)).before, 2);
        assert_eq!(seen.ended(&chunk(3..9).last(5)).before, 0);
    }

    #[test]
    fn the_same_launches_of_another_stream_are_another_chunk() {
        let mut seen = Chunks::<()>::default();
        let ended = |seen: &mut Chunks<()>, stream| {
            let mut chunk = Chunk::default();
            chunk.set_stream(stream);
            (3..9).for_each(|kernel| {
                chunk.add(key(kernel));
            });
            [seen.ended(&chunk).before, seen.ended(&chunk.last(4)).before]
        };
        assert_eq!([ended(&mut seen, 1), ended(&mut seen, 2)], [[0, 0]; 2]);
        assert_eq!([ended(&mut seen, 1), ended(&mut seen, 2)], [[1, 1]; 2]);
        seen.forget_stream(2);
        assert_eq!([ended(&mut seen, 1), ended(&mut seen, 2)], [[2, 2], [0, 0]]);
    }

    #[test]
    fn a_sequence_of_few_kernels_ends_chunks_by_what_is_in_it_too() {
        for first in 0..40 {
            let all = chunks((0..40 * 15).map(|at| first + at % 15));
            let (_, late) = all.split_at(2);
            assert!(late.iter().all(|seen| seen.0 == 30 && seen.1 > 0), "{first}: {all:?}");
        }
    }

    #[test]
    fn one_kernel_alone_comes_in_chunks_too() {
        for kernel in 0..40 {
            let all = chunks(std::iter::repeat_n(kernel, 4 * LAUNCHES_MAX));
            assert!(all.len() >= 4 && all[1..].iter().all(|(_, before)| *before > 0), "{all:?}");
        }
    }

    #[test]
    fn another_shape_or_length_of_parameters_is_another_launch() {
        let same = key(3);
        let fill = Fill { address: 4096, value: 0, element_bytes: 4, count: 16 };
        let others = [
            LaunchKey::of_fill(fill),
            LaunchKey::of_fill(Fill { address: 8192, ..fill }),
            LaunchKey::of_fill(Fill { value: 1, ..fill }),
            LaunchKey::of_fill(Fill { element_bytes: 2, ..fill }),
            LaunchKey::of_fill(Fill { count: 16 << 32, ..fill }),
            LaunchKey { parameter_bytes: 8, ..same },
            LaunchKey { grid: [2, 4, 1], ..same },
            LaunchKey { block: [64, 1, 1], ..same },
            LaunchKey { shared_bytes: 4, ..same },
            LaunchKey { flags: 256, ..same },
            LaunchKey { function: 9, ..same },
        ];
        let mut seen = Chunks::<()>::default();
        let mut ended = |other| {
            let mut chunk = Chunk::default();
            (1..LAUNCHES_MIN).for_each(|_| assert!(!chunk.add(same)));
            chunk.add(other);
            seen.ended(&chunk).before
        };
        assert_eq!((ended(same), ended(same)), (0, 1));
        assert!(others.iter().all(|other| ended(*other) == 0));
        assert_eq!(ended(same), 2);
    }

    #[test]
    fn what_is_kept_of_an_unused_chunk_goes_before_that_of_others() {
        let chunk = |kernel| {
            let mut chunk = Chunk::default();
            chunk.add(key(kernel));
            chunk
        };
        let mut seen = Chunks::<u32>::default();
        for kernel in 0..4 {
            seen.ended(&chunk(kernel)).kept = kernel as u32;
        }
        let kept = |seen: &Chunks<u32>| {
            let mut kept: Vec<u32> = seen.seen.values().map(|seen| seen.kept).collect();
            kept.sort_unstable();
            kept
        };
        seen.forget_oldest(|kept| *kept > 0);
        assert_eq!(kept(&seen), [0, 1, 2, 3], "they came a moment ago");
        for _ in 0..UNUSED_MIN {
            seen.ended(&chunk(1));
        }
        seen.forget_oldest(|kept| *kept > 0);
        assert_eq!(kept(&seen), [0, 1, 3], "nothing is kept of the oldest");
        seen.forget_oldest(|kept| *kept > 0);
        seen.forget_oldest(|kept| *kept > 0);
        assert_eq!(kept(&seen), [0, 1]);
    }

    #[test]
    fn what_was_not_seen_for_long_is_forgotten() {
        let mut seen = Chunks::<u32>::default();
        for number in 0..2 * CHUNKS_MAX {
            let mut chunk = Chunk::default();
            chunk.add(key(7));
            seen.ended(&chunk).kept = 1;
            chunk.add(key(number + 100));
            seen.ended(&chunk);
        }
        assert!(seen.seen.len() <= CHUNKS_MAX);
        let mut often = Chunk::default();
        often.add(key(7));
        assert_eq!(seen.ended(&often).kept, 1);
    }
}
