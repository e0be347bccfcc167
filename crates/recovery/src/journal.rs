//! Journal: which operation of which stream each record of the ring is, until it is done.
//!
//! A record that the server has taken stays where it is in the ring until its operation is known to
//! be done, or is copied out before its place is written again. So the ring, with the few words that
//! are noted here at each push, holds all that was posted and is not known to be done.

use crate::Mark;
use channel::region::Region;
use channel::ring::{RingMemory, stored_record};
use core::marker::PhantomData;
use std::collections::{BTreeMap, VecDeque};

/// Most words that are kept of records whose place in the ring was needed.
const KEPT_WORDS_MAX: usize = 2 << 20;

/// One operation of a stream.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its record begins, as the ring counts.
    position: u64,
    mark: Mark,
}

/// An operation with its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Which operation of which stream it is.
    pub mark: Mark,
    /// The record's opcode.
    pub opcode: u16,
    /// The record's payload.
    pub words: Vec<u64>,
    /// The server had taken it.
    pub taken: bool,
}

/// What was posted through one ring.
#[derive(Debug)]
pub struct Journal<M = Region> {
    /// In the order of the ring.
    entries: VecDeque<Entry>,
    /// Operations whose records were copied out.
    kept: Vec<Posted>,
    kept_words: usize,
    /// Operations were forgotten that were not known to be done.
    incomplete: bool,
    /// The last operation of each slot that was forgotten, done, before the program waited for it.
    unwaited: BTreeMap<u32, u64>,
    /// The ring may be written up to here before it is looked through again.
    limit: u64,
    ring: PhantomData<fn(M)>,
}

impl<M: RingMemory> Default for Journal<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: RingMemory> Journal<M> {
    /// The ring is looked through when so much of it has been written.
    const PART_BYTES: u64 = M::RING_BYTES / 4;
    /// What one record and the pad before it take at most.
    const MARGIN_BYTES: u64 = 2 * M::RECORD_BYTES_MAX;

    /// Of a ring that is new.
    pub fn new() -> Self {
        Self {
            ring: PhantomData,
            entries: VecDeque::with_capacity(1024),
            kept: Vec::new(),
            kept_words: 0,
            incomplete: false,
            unwaited: BTreeMap::new(),
            limit: Self::PART_BYTES,
        }
    }

    /// Notes an operation whose record was pushed at that position of the ring.
    #[inline(always)]
    pub fn note(&mut self, position: u64, mark: Mark) {
        self.entries.push_back(Entry { position, mark });
    }

    /// True if the ring must be looked through ([`Self::look_through`]) before more is pushed.
    #[inline(always)]
    pub fn is_due(&self, head: u64) -> bool {
        head >= self.limit
    }

    /// Forgets operations that are done, and copies out those that are not and whose places are
    /// needed next.
    #[cold]
    pub fn look_through(
        &mut self,
        head: u64,
        ring: &M,
        mut done: impl FnMut(Mark) -> bool,
        waited: impl Fn(Mark) -> bool,
    ) {
        self.limit = head + Self::PART_BYTES;
        // What lies before this may be written over until the next time.
        let needed = (self.limit + Self::MARGIN_BYTES).saturating_sub(M::RING_BYTES);
        let (words, unwaited) = (&mut self.kept_words, &mut self.unwaited);
        self.kept.retain(|posted| {
            let stays = !done(posted.mark);
            if !stays {
                *words -= posted.words.len();
                if !waited(posted.mark) {
                    note_last(unwaited, posted.mark);
                }
            }
            stays
        });
        while let Some(entry) = self.entries.front().copied() {
            let is_done = done(entry.mark);
            if !is_done && entry.position >= needed {
                break;
            }
            self.entries.pop_front();
            if is_done {
                if !waited(entry.mark) {
                    note_last(&mut self.unwaited, entry.mark);
                }
                continue;
            }
            match stored_record(ring, entry.position) {
                Some((opcode, words)) if self.kept_words + words.len() <= KEPT_WORDS_MAX => {
                    self.kept_words += words.len();
                    self.kept.push(Posted { mark: entry.mark, opcode, words, taken: true });
                }
                _ => {
                    self.incomplete = true;
                    note_last(&mut self.unwaited, entry.mark);
                }
            }
        }
    }

    /// Keeps an operation that was posted through the ring before, and is done.
    pub fn keep(&mut self, posted: Posted) {
        match self.kept_words + posted.words.len() <= KEPT_WORDS_MAX {
            true => {
                self.kept_words += posted.words.len();
                self.kept.push(posted);
            }
            false => note_last(&mut self.unwaited, posted.mark),
        }
    }

    /// Notes that the program may have waited for an operation by a call that is not known here.
    pub fn note_unwaited(&mut self, mark: Mark) {
        note_last(&mut self.unwaited, mark);
    }

    /// Notes that it is not known of all operations whether they are done.
    pub fn note_incomplete(&mut self) {
        self.incomplete = true;
    }

    /// True if no operation was forgotten that the program has not waited for.
    pub fn is_whole(&self, waited: impl Fn(Mark) -> bool) -> bool {
        self.unwaited.iter().all(|(slot, value)| waited(Mark { slot: *slot, value: *value }))
    }

    /// All operations that are noted, in their order, and whether that is all that were posted and
    /// not known to be done. `tail` is how far the server had taken records.
    pub fn take(&mut self, ring: &M, tail: u64) -> (Vec<Posted>, bool) {
        let mut all = std::mem::take(&mut self.kept);
        for entry in self.entries.drain(..) {
            match stored_record(ring, entry.position) {
                Some((opcode, words)) => {
                    let taken = entry.position < tail;
                    all.push(Posted { mark: entry.mark, opcode, words, taken });
                }
                None => self.incomplete = true,
            }
        }
        let complete = !self.incomplete;
        // What the program has not waited for is missing in the next ring's journal too.
        let unwaited = std::mem::take(&mut self.unwaited);
        *self = Self { unwaited, ..Self::new() };
        (all, complete)
    }
}

/// Notes an operation of a slot, unless a later one is.
fn note_last(last: &mut BTreeMap<u32, u64>, mark: Mark) {
    let value = last.entry(mark.slot).or_default();
    *value = mark.value.max(*value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::ring::Producer;
    use channel::wait::SpinPolicy;

    fn mark(value: u64) -> Mark {
        Mark { slot: 1, value }
    }

    #[test]
    fn what_is_not_done_is_found_again_however_much_was_pushed_since() {
        let (region, _file) = Region::create().unwrap();
        let mut ring = Producer::new(region.clone(), SpinPolicy::NONE);
        let mut consumer = channel::ring::Consumer::new(region.clone(), SpinPolicy::NONE).unwrap();
        let mut record = channel::ring::Record::new();
        let mut journal = Journal::new();
        // One operation in a thousand never gets done; much more is pushed than the ring holds.
        let lasting = |value: u64| value.is_multiple_of(1000);
        let done_before = 49_000;
        for value in 1..50_000u64 {
            if journal.is_due(ring.head()) {
                journal.look_through(
                    ring.head(),
                    &region,
                    |m| m.value < done_before.min(value) && !lasting(m.value),
                    |_| true,
                );
            }
            ring.push(5, &[value; 9], &[], &|| true).unwrap();
            journal.note(ring.last_position(), mark(value));
            if value < 49_990 {
                assert!(consumer.pop(&mut record).unwrap());
            }
        }
        let (all, complete) = journal.take(&region, consumer.tail());
        assert!(complete);
        let found = |value| {
            let posted = all.iter().find(|posted| posted.mark.value == value)?;
            assert_eq!((posted.opcode, &posted.words[..]), (5, &[value; 9][..]));
            Some(posted.taken)
        };
        for value in (1000..49_000).step_by(1000) {
            assert_eq!(found(value), Some(true), "{value}");
        }
        for value in 49_000..50_000 {
            assert_eq!(found(value), Some(value < 49_990), "{value}");
        }
        assert!(all.is_sorted_by_key(|posted| posted.mark.value));
    }
}
