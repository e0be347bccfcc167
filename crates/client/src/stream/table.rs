//! Stream table: the streams, and how far each has come.
//!
//! A stream has a slot: the index of its handle, and of the completion word that the device
//! writes. Every operation posted to a stream gets the next number there ([`Streams::issue`]); a
//! fence makes the device write the number of the last operation before it into the word.
//!
//! Slot 0 is the legacy default stream; it exists always. A destroyed stream's slot is used again
//! only when all of its work has passed, so that a late write to the word cannot be mistaken.

use super::ahead::Ahead;
use crate::handles::Table;
use channel::region::STREAM_SLOTS;
use core::ffi::{c_int, c_uint};
use core::time::Duration;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUstream, CudaError};
use driver_common::stream_attributes::StreamAttributes;
use recovery::{Mark, Order, Progress, Words};
use std::collections::HashMap;

/// The legacy default stream's handle on the wire.
pub(crate) const LEGACY: Handle = Handle { kind: HandleKind::Stream, index: 0, generation: 0 };

/// The default stream of a stream's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnDefault {
    /// The legacy default stream, which contexts have in common.
    Legacy,
    /// The stream itself: its context has SMs of its own.
    Itself,
    /// Such a context's.
    Other(Handle),
}

/// What a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) context: u64,
    /// The green context whose SMs it has, else 0.
    pub(crate) green: u64,
    pub(crate) default: OwnDefault,
    pub(crate) flags: c_uint,
    pub(crate) priority: c_int,
}

impl Stream {
    /// The slot of the default stream with which the stream takes turns, if it is a blocking one.
    fn turns(&self) -> Option<u32> {
        let blocking = self.flags & cuda_api::constants::stream_flags::NON_BLOCKING == 0;
        match self.default {
            OwnDefault::Legacy if blocking => Some(LEGACY.index),
            OwnDefault::Other(stream) if blocking => Some(stream.index),
            _ => None,
        }
    }
}

/// The stream of a slot.
#[derive(Clone, Debug)]
struct Slot {
    /// The slot's present stream, or its last one.
    handle: Handle,
    /// How far it has come.
    progress: Progress,
    /// How long the last wait for one took that outlasted spinning.
    last_wait: Duration,
    /// The default stream's slot with which the stream takes turns.
    turns: Option<u32>,
    /// Of a default stream: operations posted to the streams that take turns with it, and how many of
    /// them a fence of its own covers (which waits for these streams).
    others_issued: u64,
    others_covered: u64,
    /// What comes before its operations.
    order: Order,
    /// Whether the program has waited for operations up to here may be known to it alone.
    unfollowed: u64,
    /// Operations that have passed by what the stream got to, also if the completion word does not say so.
    reached: u64,
    /// Launches in flight.
    ahead: Ahead,
}

impl Slot {
    fn new(handle: Handle) -> Self {
        Self {
            handle,
            progress: Progress::default(),
            last_wait: Duration::ZERO,
            turns: None,
            others_issued: 0,
            others_covered: 0,
            order: Order::default(),
            unfollowed: 0,
            reached: 0,
            ahead: Ahead::default(),
        }
    }
}

/// All streams of the process.
pub(crate) struct Streams {
    table: Table<Stream>,
    /// By number.
    slots: Vec<Slot>,
    /// Slots of destroyed streams with work outstanding.
    draining: Vec<u32>,
    /// Attributes that were set, by stream.
    attributes: HashMap<Handle, StreamAttributes>,
}

impl Streams {
    pub(crate) fn new(device: CUdevice) -> Self {
        Self {
            table: Table::on(HandleKind::Stream, device, 1, STREAM_SLOTS - 1),
            slots: vec![Slot::new(LEGACY)],
            draining: Vec::new(),
            attributes: HashMap::new(),
        }
    }

    /// Adds a stream. CUDA_ERROR_OUT_OF_MEMORY if all slots are taken.
    pub(crate) fn create(
        &mut self,
        stream: Stream,
        words: &impl Words,
    ) -> Result<Handle, CudaError> {
        self.reuse_drained(words);
        let handle = self.table.insert(stream)?;
        let slot = handle.index as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Slot::new(handle));
        }
        self.slots[slot].handle = handle;
        self.set_turns(slot, stream.turns());
        (self.slots[slot].others_issued, self.slots[slot].others_covered) = (0, 0);
        Ok(handle)
    }

    /// Sets with which default stream a slot's stream takes turns, which its last one did with another.
    fn set_turns(&mut self, slot: usize, turns: Option<u32>) {
        let of = &mut self.slots[slot];
        if of.turns == turns {
            return;
        }
        let before = of.turns.map(|default| (default, of.order.turn()));
        of.unfollowed = of.progress.issued();
        of.order = Order::default();
        of.turns = turns;
        if let Some((default, turn)) = before {
            let default = &mut self.slots[default as usize];
            default.unfollowed = default.unfollowed.max(turn);
        }
    }

    /// Takes a stream away. Its work goes on; the caller posts a last fence before.
    pub(crate) fn destroy(&mut self, handle: Handle, words: &impl Words) -> Option<Stream> {
        let stream = self.table.take_without_reuse(handle)?;
        self.draining.push(handle.index);
        self.attributes.remove(&handle);
        self.reuse_drained(words);
        Some(stream)
    }

    fn reuse_drained(&mut self, words: &impl Words) {
        let mut i = 0;
        while i < self.draining.len() {
            let slot = self.draining[i];
            if self.is_idle(slot, words) {
                self.table.reuse(slot);
                self.draining.swap_remove(i);
            } else {
                i += 1;
            }
        }
    }

    /// The slot's handle of a stream that the program made. CUDA_ERROR_INVALID_HANDLE if there is
    /// none (any more).
    #[inline(always)]
    pub(crate) fn lookup(&self, stream: CUstream) -> Result<Handle, CudaError> {
        let handle = self.table.decode(stream.0)?;
        self.table.get(handle).map(|_| handle).ok_or(CudaError::INVALID_HANDLE)
    }

    /// What a stream is; `None` for the legacy default stream.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Stream> {
        self.table.get(handle)
    }

    /// The handle of a slot's present stream, or its last one.
    pub(crate) fn handle_in(&self, slot: u32) -> Handle {
        self.slots.get(slot as usize).map_or(LEGACY, |of| of.handle)
    }

    /// The attributes of a stream.
    pub(crate) fn attributes(&self, handle: Handle) -> StreamAttributes {
        self.attributes.get(&handle).copied().unwrap_or_default()
    }

    /// Sets them.
    pub(crate) fn set_attributes(&mut self, handle: Handle, attributes: StreamAttributes) {
        self.attributes.insert(handle, attributes);
    }

    /// All streams but the legacy default stream.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &Stream)> {
        self.table.iter()
    }

    /// Counts an operation that was just posted to the slot's stream.
    #[inline(always)]
    pub(crate) fn issue(&mut self, slot: u32) -> Mark {
        let of = &mut self.slots[slot as usize];
        let (value, turns) = (of.progress.issue(), of.turns);
        if let Some(default) = turns {
            let default = &mut self.slots[default as usize];
            default.others_issued += 1;
            let turn = default.progress.issued();
            if turn != self.slots[slot as usize].order.turn() {
                self.take_turn(slot, value, turn);
            }
        }
        Mark { slot, value }
    }

    /// Counts a launch that was posted as that operation; true if a fence should follow.
    #[inline(always)]
    pub(crate) fn launched(&mut self, mark: Mark) -> bool {
        self.slots[mark.slot as usize].ahead.launched(mark.value)
    }

    /// What has to pass before another launch may go to the slot's stream, if that has as many in flight as
    /// may be.
    #[inline(always)]
    pub(crate) fn full_behind(&mut self, slot: u32, words: &impl Words) -> Option<Mark> {
        let Slot { ahead, progress, .. } = &mut self.slots[slot as usize];
        let passed = |value| progress.passed(Mark { slot, value }, words);
        ahead.full_behind(passed).map(|value| Mark { slot, value })
    }

    /// As [`Ahead::let_further`], of that operation's stream.
    pub(crate) fn let_further(&mut self, mark: Mark) -> bool {
        self.slots.get_mut(mark.slot as usize).is_none_or(|of| of.ahead.let_further(mark.value))
    }

    #[cold]
    fn take_turn(&mut self, slot: u32, value: u64, turn: u64) {
        self.slots[slot as usize].order.takes_turn(value, turn);
    }

    /// A stream has got past an operation: a host function behind it was run. If that `is_seen` the program has
    /// waited for it.
    pub(crate) fn reached(&mut self, mark: Mark, is_seen: bool) {
        if let Some(of) = self.slots.get_mut(mark.slot as usize) {
            of.reached = of.reached.max(mark.value);
        }
        if is_seen {
            self.waited_for(mark);
        }
    }

    /// True if it is known that an operation has passed, by the completion word or otherwise.
    pub(crate) fn has_passed(&mut self, mark: Mark, words: &impl Words) -> bool {
        let reached = self.slots.get(mark.slot as usize).map_or(0, |of| of.reached);
        reached >= mark.value || self.passed(mark, words)
    }

    /// Notes that a stream comes behind an operation of another one from one of its own on.
    pub(crate) fn comes_behind(&mut self, from: Mark, mark: Mark) {
        let has_waited = |of: &Slot| of.progress.waited() >= mark.value;
        if from.slot != mark.slot && !self.slots.get(mark.slot as usize).is_none_or(has_waited) {
            self.slots[from.slot as usize].order.comes_behind(from.value, mark);
        }
    }

    /// Notes that the program may come to know by means that are not followed here that an operation is done.
    pub(crate) fn not_followed(&mut self, mark: Mark) {
        if let Some(of) = self.slots.get_mut(mark.slot as usize) {
            of.unfollowed = of.unfollowed.max(mark.value);
        }
    }

    /// Operations that the program may have waited for by means that were not followed, the last of each slot.
    pub(crate) fn unfollowed(&self) -> impl Iterator<Item = Mark> {
        let slots = self.slots.iter().enumerate();
        let slots = slots.filter(|(_, of)| of.unfollowed > of.progress.waited());
        slots.map(|(slot, of)| Mark { slot: slot as u32, value: of.unfollowed })
    }

    /// Where the program has waited for a part of what it had posted, the last of that in each slot.
    pub(crate) fn splits(&self) -> impl Iterator<Item = Mark> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, of)| Some(Mark { slot: slot as u32, value: of.progress.split()? }))
    }

    /// True if it is known of all operations which others they come behind.
    pub(crate) fn know_their_order(&self) -> bool {
        self.slots.iter().all(|of| of.order.is_complete())
    }

    /// The fence that has to be posted so that `mark` can be waited for, and in which stream;
    /// `None` if one is underway. Given to [`Self::fenced`] when it is posted.
    pub(crate) fn fence_for(&self, mark: Mark) -> Option<(Handle, Mark)> {
        let of = self.slots.get(mark.slot as usize)?;
        let value = of.progress.fence_for(mark.value)?;
        Some((of.handle, Mark { value, ..mark }))
    }

    /// Counts a fence that was just posted.
    pub(crate) fn fenced(&mut self, fence: Mark) {
        let of = &mut self.slots[fence.slot as usize];
        of.progress.fenced(fence.value);
        of.others_covered = of.others_issued;
    }

    /// The number of the next operation, for one that is its own fence.
    pub(crate) fn next_value(&self, slot: u32) -> u64 {
        self.slots[slot as usize].progress.issued() + 1
    }

    /// True if the operation has passed, as far as the device has said.
    #[inline]
    pub(crate) fn passed(&mut self, mark: Mark, words: &impl Words) -> bool {
        self.slots.get_mut(mark.slot as usize).is_none_or(|of| of.progress.passed(mark, words))
    }

    /// How long the last wait for work of the slot's stream took that outlasted spinning.
    pub(crate) fn last_wait(&self, slot: u32) -> Duration {
        self.slots.get(slot as usize).map_or(Duration::ZERO, |of| of.last_wait)
    }

    /// Remembers how long a wait took.
    pub(crate) fn waited(&mut self, slot: u32, duration: Duration) {
        if let Some(of) = self.slots.get_mut(slot as usize) {
            of.last_wait = duration;
        }
    }

    /// The program has waited for an operation, and so for all that it came behind.
    pub(crate) fn waited_for(&mut self, mark: Mark) {
        let (mut next, mut with_it) = (Some(mark), Vec::new());
        while let Some(mark) = next {
            self.waited_for_one(mark, &mut with_it);
            next = with_it.pop();
        }
    }

    fn waited_for_one(&mut self, mark: Mark, with_it: &mut Vec<Mark>) {
        let Some(of) = self.slots.get_mut(mark.slot as usize) else { return };
        if of.progress.waited() >= mark.value {
            return;
        }
        of.progress.waited_for(mark.value);
        let turn = of.order.waited_for(mark.value, with_it);
        if let Some(default) = of.turns
            && turn > 0
        {
            with_it.push(Mark { slot: default, value: turn });
        }
        if of.others_issued > 0 {
            let others = self.slots.iter_mut().enumerate();
            for (slot, of) in others.filter(|(_, of)| of.turns == Some(mark.slot)) {
                let before = of.order.before_turn(mark.value);
                let value = before.unwrap_or_else(|| of.progress.issued());
                with_it.push(Mark { slot: slot as u32, value });
            }
        }
    }

    /// The program has waited for everything that was posted up to these marks, one a slot.
    pub(crate) fn waited_for_all(&mut self, ends: &[Mark]) {
        for end in ends {
            let Some(of) = self.slots.get_mut(end.slot as usize) else { continue };
            of.progress.waited_for(end.value);
            if of.progress.issued() == end.value {
                of.order.all_is_waited();
            }
        }
    }

    /// The last operations of streams that take turns with a default stream, which it comes behind now; of
    /// another stream there are none.
    pub(crate) fn ends_before(&self, default: u32) -> Vec<Mark> {
        if self.slots[default as usize].others_issued == 0 {
            return Vec::new();
        }
        let takes_turns = |slot: &u32| self.slots[*slot as usize].turns == Some(default);
        let slots = (0..self.slots.len() as u32).filter(takes_turns);
        slots.map(|slot| self.last(slot)).collect()
    }

    /// The last operation of each slot.
    pub(crate) fn ends(&self) -> Vec<Mark> {
        (0..self.slots.len() as u32).map(|slot| self.last(slot)).collect()
    }

    /// By slot: operations that the program has waited for.
    pub(crate) fn waited_values(&self) -> Vec<u64> {
        self.slots.iter().map(|of| of.progress.waited()).collect()
    }

    /// True if the slot's stream, which may be gone, takes turns with the legacy default stream.
    pub(crate) fn is_blocking(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|of| of.turns.is_some())
    }

    /// The last operations of streams with some that no fence covers.
    pub(crate) fn unfenced(&self) -> Vec<Mark> {
        let slots = self.slots.iter().enumerate().filter(|(_, of)| of.progress.is_unfenced());
        slots.map(|(slot, of)| Mark { slot: slot as u32, value: of.progress.posted() }).collect()
    }

    /// With a new server: no fence is underway, and what has passed is known.
    pub(crate) fn forget_fences(&mut self) {
        for of in &mut self.slots {
            of.progress.forget_fences();
            of.others_covered = 0;
        }
    }

    /// How far each slot's stream is known to have come.
    pub(crate) fn completed(&self) -> impl Iterator<Item = Mark> {
        let all = self.slots.iter().enumerate();
        all.map(|(slot, of)| Mark { slot: slot as u32, value: of.progress.completed() })
    }

    /// An operation was posted again.
    pub(crate) fn posted_again(&mut self, mark: Mark) {
        if let Some(of) = self.slots.get_mut(mark.slot as usize) {
            of.progress.posted_again(mark.value);
        }
    }

    /// All that is to be posted again was.
    pub(crate) fn all_is_posted(&mut self) {
        self.slots.iter_mut().for_each(|of| of.progress.all_is_posted());
    }

    /// An operation is to be posted again, whether it had passed or not: it passes once more.
    pub(crate) fn repeat(&mut self, mark: Mark) {
        if let Some(of) = self.slots.get_mut(mark.slot as usize) {
            of.progress.repeat(mark.value);
            of.reached = of.reached.min(mark.before().value);
        }
    }

    /// Everything that is outstanding is lost: it counts as passed, with nothing done. Where each
    /// stream is then.
    pub(crate) fn lose_all(&mut self) -> Vec<Mark> {
        self.slots.iter_mut().for_each(|of| of.progress.lose());
        self.completed().collect()
    }

    /// True if an operation was lost with its server, or one behind it was.
    pub(crate) fn was_lost(&self, mark: Mark) -> bool {
        self.slots.get(mark.slot as usize).is_some_and(|of| of.progress.was_lost(mark.value))
    }

    /// The last operation of a slot's stream.
    pub(crate) fn last(&self, slot: u32) -> Mark {
        Mark { slot, value: self.slots[slot as usize].progress.issued() }
    }

    fn is_idle(&mut self, slot: u32, words: &impl Words) -> bool {
        self.passed(self.last(slot), words)
    }

    /// Slots with work that has not passed.
    pub(crate) fn busy(&mut self, words: &impl Words) -> Vec<u32> {
        (0..self.slots.len() as u32).filter(|slot| !self.is_idle(*slot, words)).collect()
    }

    /// True if a default stream has to wait for work of streams that take turns with it, of which its
    /// last fence knew nothing.
    #[inline(always)]
    pub(crate) fn has_news(&mut self, default: u32, words: &impl Words) -> bool {
        let of = &self.slots[default as usize];
        of.others_covered < of.others_issued
            && (1..self.slots.len() as u32).any(|slot| {
                self.slots[slot as usize].turns == Some(default) && !self.is_idle(slot, words)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    struct Memory(RefCell<Vec<u32>>);

    impl Words for Memory {
        fn word(&self, slot: u32) -> u32 {
            self.0.borrow()[slot as usize]
        }
    }

    impl Memory {
        fn set(&self, slot: u32, value: u64) {
            self.0.borrow_mut()[slot as usize] = value as u32;
        }
    }

    fn stream(flags: c_uint) -> Stream {
        Stream { context: 1, green: 0, default: OwnDefault::Legacy, flags, priority: 0 }
    }

    #[test]
    fn work_has_passed_when_a_fence_behind_it_has() {
        let memory = Memory(RefCell::new(vec![0; 8]));
        let mut streams = Streams::new(0);
        let slot = streams.create(stream(0), &memory).unwrap().index;
        let first = streams.issue(slot);
        let second = streams.issue(slot);
        assert!(!streams.passed(first, &memory));
        let (handle, fence) = streams.fence_for(first).unwrap();
        assert_eq!((handle.index, fence), (slot, second));
        streams.fenced(fence);
        assert_eq!(streams.fence_for(second), None);
        let third = streams.issue(slot);
        memory.set(slot, fence.value);
        assert!(streams.passed(second, &memory));
        assert!(!streams.passed(third, &memory));
        // A word that is ahead of what was fenced is not believed.
        memory.set(slot, 1000);
        assert!(!streams.passed(third, &memory));
        assert_eq!(streams.busy(&memory), [slot]);
    }

    #[test]
    fn numbers_outlive_the_words_wrapping() {
        let memory = Memory(RefCell::new(vec![0; 8]));
        let mut streams = Streams::new(0);
        let slot = streams.create(stream(0), &memory).unwrap().index;
        let old = streams.issue(slot);
        for value in (0..20u64).map(|i| i << 30) {
            streams.slots[slot as usize].progress = Progress::at(value);
            let mark = streams.issue(slot);
            streams.fenced(mark);
            assert!(!streams.passed(mark, &memory));
            memory.set(slot, mark.value);
            assert!(streams.passed(mark, &memory) && streams.passed(old, &memory));
        }
    }

    #[test]
    fn a_slot_is_used_again_when_its_work_has_passed() {
        let memory = Memory(RefCell::new(vec![0; 8]));
        let mut streams = Streams::new(0);
        let a = streams.create(stream(0), &memory).unwrap();
        let mark = streams.issue(a.index);
        streams.fenced(mark);
        streams.destroy(a, &memory).unwrap();
        assert_eq!(streams.lookup(CUstream(a.to_word() as usize)), Err(CudaError::INVALID_HANDLE));
        let b = streams.create(stream(0), &memory).unwrap();
        assert_ne!(a.index, b.index);
        memory.set(a.index, mark.value);
        let c = streams.create(stream(0), &memory).unwrap();
        assert_eq!(c.index, a.index);
        assert!(streams.issue(c.index).value > mark.value);
    }

    #[test]
    fn the_legacy_stream_waits_for_blocking_streams_only() {
        let memory = Memory(RefCell::new(vec![0; 8]));
        let mut streams = Streams::new(0);
        let free = streams.create(stream(1), &memory).unwrap();
        let blocking = streams.create(stream(0), &memory).unwrap();
        streams.issue(free.index);
        assert!(!streams.has_news(LEGACY.index, &memory));
        streams.issue(blocking.index);
        assert!(streams.has_news(LEGACY.index, &memory));
        let mark = streams.issue(LEGACY.index);
        streams.fenced(mark);
        assert!(!streams.has_news(LEGACY.index, &memory));
    }
}
