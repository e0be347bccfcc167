//! Streams: those of a client.
//!
//! The place of a stream's handle is its slot: the index of its completion word. Slot 0 is the
//! legacy default stream, which is there from the start; all others are the client's to make.
//! Every piece of work enters its stream through [`Streams::enter`], which keeps the order with
//! the legacy stream and remembers that the stream is busy. A context with SMs of its own has a default
//! stream of its own, which is to that context's streams what the legacy stream is to all others.

use crate::device::{Event, Share, Stream};
use crate::meter::{ClientCounters, Submitted};
use crate::scheduling::Member;
use crate::session::handles::Table;
use crate::session::policy::limits::Terms;
use crate::session::stream::code_in_flight::{Code, CodeInFlight};
use crate::session::stream::order::{Blocking, Join, StreamOrder};
use crate::session::stream::pending::Turns;
use crate::session::stream::queues::Queues;
use crate::session::stream::slot::{Load, Made, StreamSlot, has_passed};
use channel::region::{Region, STREAM_SLOTS};
use cuda_api::constants::stream_flags;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CU_STREAM_LEGACY, CudaError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The legacy default stream's handle.
const LEGACY: Handle = Handle { kind: HandleKind::Stream, index: 0, generation: 0 };

/// Whether work goes ahead of what the stream's default-stream order would make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Something that other streams may have to wait for.
    Ordered,
    /// A mark behind what is there already: it waits, and no stream has to wait for it.
    Mark,
}

/// Where a stream is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The client can use it.
    Here,
    /// The client has destroyed it, and its work goes on.
    Leaving,
    /// It has no work (any more) and cannot be used, if it ever was.
    Gone,
}

/// All streams of a client.
pub struct Streams {
    share: Rc<Share>,
    table: Table<StreamSlot>,
    order: StreamOrder<u64>,
    /// By the default streams of contexts that have one of their own.
    orders: BTreeMap<u64, StreamOrder<u64>>,
    busy: Vec<u64>,
    /// Streams that the client has destroyed and whose work goes on.
    leaving: Vec<StreamSlot>,
    slots: usize,
    queues: Queues,
    terms: Terms,
    /// Why streams are not on the client's SMs, if they cannot be.
    unkept: Option<CudaError>,
    region: Region,
    counters: Arc<ClientCounters>,
    scheduling: Arc<Member>,
    /// The provider has no stream that leaves SMs free.
    no_floor: bool,
}

impl Streams {
    /// The legacy stream is made at its first use. `region` has the completion words.
    pub fn new(
        share: &Rc<Share>,
        terms: Terms,
        region: &Region,
        counters: &Arc<ClientCounters>,
        scheduling: &Arc<Member>,
    ) -> Self {
        let slots = STREAM_SLOTS as usize;
        Self {
            share: share.clone(),
            table: Table::new(HandleKind::Stream, slots),
            order: StreamOrder::new(),
            orders: BTreeMap::new(),
            busy: Vec::new(),
            leaving: Vec::new(),
            slots,
            queues: Queues::new(terms.queues),
            terms,
            unkept: None,
            region: region.clone(),
            counters: counters.clone(),
            scheduling: scheduling.clone(),
            no_floor: false,
        }
    }

    /// The slot that a stream's word stands for; the word may be that of a stream that was
    /// never made.
    pub fn slot_of(word: u64) -> Result<u32, CudaError> {
        let handle = Handle::from_word(resolve(word)).filter(|h| h.kind == HandleKind::Stream);
        handle.map(|h| h.index).ok_or(CudaError::INVALID_HANDLE)
    }

    /// Makes a stream, on some of the device's SMs if they are said, in the context with that default
    /// stream (its own word if it is that).
    pub fn create(
        &mut self,
        word: u64,
        flags: u32,
        priority: i32,
        sms: Option<Range<u32>>,
        default: u64,
    ) -> Result<(), CudaError> {
        let default = resolve(default);
        if flags & !stream_flags::NON_BLOCKING != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = self.table.vacant(word)?;
        if handle.index == LEGACY.index {
            return Err(CudaError::INVALID_HANDLE);
        }
        if !self.has_room() {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let is_default = default == word;
        if default != LEGACY.to_word() && !is_default && !self.orders.contains_key(&default) {
            return Err(CudaError::INVALID_HANDLE);
        }
        let blocking = flags & stream_flags::NON_BLOCKING == 0 && !is_default;
        self.add(handle, (priority, sms), blocking.then(Blocking::default), default)?;
        if is_default {
            self.orders.insert(word, StreamOrder::new());
        }
        Ok(())
    }

    /// The priority that a stream has for which the client wants one.
    fn priority_of(&self, wanted: i32) -> i32 {
        let (least, greatest) = self.share.device().stream_priorities();
        let of_class = match self.scheduling.has_priorities() {
            true => self.scheduling.class().stream_priority(wanted, least, greatest),
            false => wanted,
        };
        // A tenant has its client's priority itself.
        match self.share.is_tenant() {
            true => of_class,
            false => self.terms.stream_priority(of_class, least, greatest),
        }
    }

    /// The priority of a launch that the client wants so many levels above the least one; `None`
    /// where the device has no priorities.
    pub fn priority_of_launch(&self, levels: u32) -> Option<i32> {
        let (least, greatest) = self.share.device().stream_priorities();
        let wanted = least.saturating_sub_unsigned(levels).max(greatest);
        (greatest < least).then(|| self.priority_of(wanted))
    }

    /// A stream of the provider's, on the client's terms.
    fn make(&mut self, made: &Made) -> Result<Stream, CudaError> {
        if let Some(own) = &made.sms {
            match Stream::on_sms(&self.share, made.priority, self.terms.within(own.clone())) {
                // A share need not have whole groups of the device's.
                Err(CudaError::INVALID_RESOURCE_CONFIGURATION) if self.terms.sms.is_some() => {}
                stream => return stream,
            }
        }
        let device = self.share.device();
        if made.free_sms > 0
            && let Some(sms) = device.sms_of_streams(self.terms.sms.clone(), made.free_sms)
        {
            return Stream::on_sms(&self.share, made.priority, sms);
        }
        // A tenant has its share itself.
        let wanted = !self.share.is_tenant() && self.unkept.is_none();
        let share = self.terms.sms.clone().filter(|_| wanted);
        if let Some(sms) = device.sms_of_streams(share, 0) {
            match Stream::on_sms(&self.share, made.priority, sms) {
                Ok(stream) => return Ok(stream),
                Err(error) => self.unkept = Some(error),
            }
        }
        Stream::new(&self.share, made.priority)
    }

    /// True if a stream's kernels may run on all SMs that the client's graphs may run on: it was made on
    /// no others, and the client has no share but as a tenant.
    pub fn has_all_sms(&self, word: u64) -> bool {
        let plain = |slot: &StreamSlot| slot.made.sms.is_none() && slot.made.free_sms == 0;
        let shared = self.terms.sms.is_some() && !self.share.is_tenant();
        !shared && self.table.get(resolve(word)).is_ok_and(plain)
    }

    /// Why the client's share of SMs is not kept, if it is not.
    pub fn unkept(&self) -> Option<CudaError> {
        self.unkept
    }

    /// Goes on with other streams of the provider's, on other terms: each begins when the one before
    /// it has done its work.
    pub fn set_terms(&mut self, terms: Terms) -> Result<(), CudaError> {
        self.terms = terms;
        self.unkept = None;
        if self.share.is_tenant() {
            return Ok(());
        }
        let mut words = Vec::new();
        self.table.each_mut(|slot| words.push(slot.word));
        for word in words {
            let before = self.table.get(word)?.made.clone();
            let made = Made { priority: self.priority_of(before.wanted), free_sms: 0, ..before };
            let stream = self.make(&made)?;
            let slot = self.table.get_mut(word)?;
            if slot.busy {
                let event = Event::for_order(&self.share)?;
                slot.stream.record(&event)?;
                stream.wait(&event)?;
            }
            // The old one ends with its work.
            slot.stream = stream;
            slot.made = made;
            slot.other = None;
        }
        Ok(())
    }

    /// From its next work on, a stream's blocks keep off so many SMs, if the provider can do that:
    /// its next work waits for what it has now. Not for a stream whose SMs the client has chosen.
    pub fn keep_free(&mut self, word: u64, free_sms: u32) -> Result<(), CudaError> {
        let word = resolve(word);
        if word == LEGACY.to_word() {
            self.legacy()?;
        }
        let slot = self.table.get(word)?;
        if slot.made.free_sms == free_sms || slot.made.sms.is_some() || self.no_floor {
            return Ok(());
        }
        let made = Made { free_sms, ..slot.made.clone() };
        let kept = slot.other.as_ref().is_some_and(|(free, _)| *free == free_sms);
        let fresh = if kept { None } else { Some(self.make(&made)) };
        if let Some(Err(_)) = fresh {
            // A device that is not parted, or not in such parts.
            self.no_floor = true;
            return Ok(());
        }
        let share = self.share.clone();
        let slot = self.table.get_mut(word)?;
        let next = match (slot.other.take(), fresh) {
            (_, Some(Ok(stream))) => stream,
            (Some((_, stream)), _) => stream,
            (None, _) => return Ok(()),
        };
        if slot.busy {
            let event = Event::for_order(&share)?;
            slot.stream.record(&event)?;
            next.wait(&event)?;
        }
        let before = std::mem::replace(&mut slot.stream, next);
        slot.other = Some((slot.made.free_sms, before));
        slot.made = made;
        Ok(())
    }

    /// A stream on the SMs of the client's share, where streams keep that; `None` if it has all.
    pub fn on_share(&mut self) -> Result<Option<&Stream>, CudaError> {
        if self.share.is_tenant() || self.terms.sms.is_none() {
            return Ok(None);
        }
        self.legacy()?;
        Ok(Some(&self.table.get(LEGACY.to_word())?.stream))
    }

    /// True if a stream can be made. Streams that are leaving count as long as they have work,
    /// so that a client cannot make streams without end.
    pub fn has_room(&self) -> bool {
        self.leaving.len() < self.slots
    }

    fn add(
        &mut self,
        handle: Handle,
        (wanted, sms): (i32, Option<Range<u32>>),
        blocking: Option<Blocking>,
        default: u64,
    ) -> Result<(), CudaError> {
        let made = Made { wanted, priority: self.priority_of(wanted), sms, free_sms: 0 };
        let slot = StreamSlot {
            stream: self.make(&made)?,
            made,
            other: None,
            load: Load::default(),
            counters: self.counters.stream(handle.to_word()),
            code_in_flight: CodeInFlight::default(),
            word: handle.to_word(),
            default,
            blocking,
            join: None,
            busy: false,
            kernels_since_fence: 0,
            kept: None,
            last_wait: Duration::ZERO,
            watch: None,
            submitted_kernels: 0,
            watched_kernels: 0,
        };
        self.table.put(handle, slot);
        Ok(())
    }

    /// Destroys a stream for the client. Its work goes on, and the legacy stream still waits
    /// for it; the provider's stream goes when that work is done.
    pub fn destroy(&mut self, word: u64) -> Result<(), CudaError> {
        if resolve(word) == LEGACY.to_word() {
            return Err(CudaError::INVALID_HANDLE);
        }
        let (blocking, default) = (self.table.get(word)?.blocking, self.table.get(word)?.default);
        if let Some(blocking) = blocking
            && self.order_of(default).is_some()
        {
            if blocking.is_dirty() {
                self.have_default(default)?;
                self.set_busy(default)?;
                let event = self.record_join(word)?;
                self.table.get(default)?.stream.wait(&event)?;
            }
            if let Some(order) = self.order_of(default) {
                order.forget(word);
            }
        }
        self.orders.remove(&word);
        let mut slot = self.table.take(word)?;
        self.counters.stream_gone(word);
        if slot.busy {
            // No thread looks at a fence of a stream that no client has.
            let given = slot.give_fence();
            self.busy.retain(|w| *w != word);
            self.leaving.push(slot);
            given?;
        }
        Ok(())
    }

    /// Operations of a stream that are not known to be done; none of one that is not there.
    #[inline]
    pub fn queued_in(&self, word: u64) -> u32 {
        self.table.get(resolve(word)).map_or(0, |slot| slot.stream.queued())
    }

    /// A stream's handle, and how it is ordered with others; one that is not there is with none.
    pub(in crate::session) fn turns(&self, word: u64) -> (u64, Turns) {
        let word = resolve(word);
        let turns = match self.table.get(word) {
            _ if word == LEGACY.to_word() => Turns::Default,
            Ok(slot) if slot.blocking.is_some() => Turns::With(slot.default),
            Ok(slot) if slot.default == word => Turns::Default,
            _ => Turns::Free,
        };
        (word, turns)
    }

    /// A stream's slot, if the stream is there; nothing is submitted.
    pub fn slot_mut(&mut self, word: u64) -> Option<&mut StreamSlot> {
        self.table.get_mut(resolve(word)).ok()
    }

    /// The stream for a new piece of work, with the waits in place that its order needs.
    pub fn enter(&mut self, word: u64, work: Work) -> Result<&mut StreamSlot, CudaError> {
        let word = resolve(word);
        if word == LEGACY.to_word() {
            self.legacy()?;
        }
        let (blocking, default) = {
            let slot = self.table.get(word)?;
            (slot.blocking, slot.default)
        };
        // An idle stream may be replaced here: what has to wait is the stream that takes its place.
        self.set_busy(word)?;
        if word == default {
            while let Some(other) = self.order_of(default).and_then(|order| order.before_legacy()) {
                self.wait_behind(word, other)?;
                let Self { table, order, orders, .. } = self;
                if let Some(order) = order_of(order, orders, default)
                    && let Some(blocking) = &mut table.get_mut(other)?.blocking
                {
                    order.legacy_waits(other, blocking);
                }
            }
            if let Some(order) = self.order_of(default).filter(|_| work == Work::Ordered) {
                order.legacy_submitted();
            }
        } else if let Some(blocking) = blocking
            && let Some(order) = self.order_of(default)
        {
            let join = order.before_blocking(&blocking);
            if join != Join::Nothing {
                self.join_default(word, default, join == Join::RecordAndWait)?;
            }
            let Self { table, order, orders, .. } = self;
            if let Some(order) = order_of(order, orders, default)
                && let Some(blocking) = &mut table.get_mut(word)?.blocking
            {
                order.blocking_waits(blocking);
                if work == Work::Ordered {
                    order.blocking_submitted(word, blocking);
                }
            }
        }
        if let Some(before) = self.queues.before(word) {
            self.wait_for_stream(word, before)?;
        }
        self.queues.enter(word);
        let slot = self.table.get_mut(word)?;
        slot.give_fence()?;
        Ok(slot)
    }

    /// Has a stream's next work wait for what another one has in flight. One that is gone, or has
    /// nothing, is not waited for.
    fn wait_for_stream(&mut self, word: u64, other: u64) -> Result<(), CudaError> {
        if !self.table.get(other).is_ok_and(|slot| slot.busy) {
            return Ok(());
        }
        self.wait_behind(word, other)
    }

    /// Has a stream, which counts as busy, wait for all that another one has.
    fn wait_behind(&mut self, word: u64, other: u64) -> Result<(), CudaError> {
        let event = self.record_join(other)?;
        let waited = self.table.get(word)?.stream.wait(&event);
        self.table.get_mut(other)?.join = Some(event);
        waited
    }

    /// The provider's numbers of the streams that are or may be at work, and their slots.
    pub fn numbers(&mut self) -> Vec<(u64, u32)> {
        let mut numbers = Vec::new();
        let mut add = |slot: &StreamSlot| {
            if let Ok(number) = slot.stream.number() {
                numbers.push((number, slot.index()));
            }
        };
        self.table.iter().for_each(&mut add);
        self.leaving.iter().for_each(&mut add);
        numbers
    }

    /// What was submitted to a stream, if there is such a one.
    pub fn counters(&self, word: u64) -> Option<&Submitted> {
        self.table.get(resolve(word)).ok().map(|slot| &*slot.counters)
    }

    /// Where a stream is in its life. The legacy stream is always there.
    pub fn presence(&self, word: u64) -> Presence {
        let word = resolve(word);
        if word == LEGACY.to_word() || self.table.get(word).is_ok() {
            Presence::Here
        } else if self.leaving.iter().any(|slot| slot.word == word) {
            Presence::Leaving
        } else {
            Presence::Gone
        }
    }

    /// A stream that is leaving.
    pub fn leaving(&mut self, word: u64) -> Result<&mut StreamSlot, CudaError> {
        let found = self.leaving.iter_mut().find(|slot| slot.word == word);
        found.ok_or(CudaError::INVALID_HANDLE)
    }

    fn set_busy(&mut self, word: u64) -> Result<(), CudaError> {
        let slot = self.table.get(word)?;
        if slot.busy {
            return Ok(());
        }
        // A stream without work can be another one: its client's class may have changed.
        let priority = self.priority_of(slot.made.wanted);
        if priority != slot.made.priority {
            let made = Made { priority, ..slot.made.clone() };
            let stream = self.make(&made)?;
            let slot = self.table.get_mut(word)?;
            (slot.stream, slot.made, slot.other) = (stream, made, None);
        }
        let slot = self.table.get_mut(word)?;
        slot.busy = true;
        self.share.in_flight().makes_progress(slot.stream.raw());
        self.busy.push(word);
        self.share.in_flight().set_busy(true);
        Ok(())
    }

    fn legacy(&mut self) -> Result<(), CudaError> {
        match self.table.get(LEGACY.to_word()) {
            Ok(_) => {}
            Err(_) => self.add(LEGACY, (0, None), None, LEGACY.to_word())?,
        }
        Ok(())
    }

    /// The order around a default stream; `None` when it is gone.
    fn order_of(&mut self, default: u64) -> Option<&mut StreamOrder<u64>> {
        order_of(&mut self.order, &mut self.orders, default)
    }

    /// A default stream that is made at its first use is there.
    fn have_default(&mut self, default: u64) -> Result<(), CudaError> {
        if default == LEGACY.to_word() { self.legacy() } else { Ok(()) }
    }

    /// Records a stream's own event behind all of its work. The event leaves its slot, so that
    /// the caller can hand it to another stream.
    fn record_join(&mut self, word: u64) -> Result<Event, CudaError> {
        let share = self.share.clone();
        let slot = self.table.get_mut(word)?;
        let event = match slot.join.take() {
            Some(event) => event,
            None => Event::for_order(&share)?,
        };
        slot.stream.record(&event)?;
        Ok(event)
    }

    /// Has a stream wait for its default stream's event, recorded anew if so or if it is not there.
    fn join_default(&mut self, word: u64, default: u64, record: bool) -> Result<(), CudaError> {
        let kept = if record { None } else { self.table.get_mut(default)?.join.take() };
        let event = match kept {
            Some(event) => event,
            None => {
                let event = self.record_join(default)?;
                if let Some(order) = self.order_of(default) {
                    order.legacy_recorded();
                }
                event
            }
        };
        let waited = self.table.get(word)?.stream.wait(&event);
        self.table.get_mut(default)?.join = Some(event);
        waited
    }

    /// Looks which streams still have work; true if some have. `idle` is called for each that was
    /// busy and is not any more. An error is that of a stream's work.
    pub fn poll(&mut self, mut idle: impl FnMut(&mut StreamSlot)) -> Result<bool, CudaError> {
        let mut failure = None;
        let region = &self.region;
        let mut is_busy = |slot: &mut StreamSlot| match slot.stream.is_idle() {
            Ok(true) => {
                slot.busy = false;
                slot.end_watch();
                if let Some(kept) = slot.take_fence() {
                    let index = Handle::from_word(slot.word).map(|handle| handle.index);
                    if let Some(word) = index.and_then(|index| region.completion_word(index)) {
                        word.store(kept.value);
                    }
                }
                idle(slot);
                false
            }
            Ok(false) => true,
            Err(error) => {
                failure = Some(error);
                true
            }
        };
        let table = &mut self.table;
        self.busy.retain(|word| table.get_mut(*word).is_ok_and(&mut is_busy));
        self.leaving.retain_mut(is_busy);
        self.share.in_flight().set_busy(self.may_be_busy());
        match failure {
            None => Ok(self.may_be_busy()),
            Some(error) => Err(error),
        }
    }

    /// True if work was submitted since [`Streams::poll`] last found none.
    #[inline]
    pub fn may_be_busy(&self) -> bool {
        !self.busy.is_empty() || !self.leaving.is_empty()
    }

    /// The streams that may have work.
    pub fn busy_slots(&mut self, mut each: impl FnMut(&mut StreamSlot)) {
        for word in &self.busy {
            if let Ok(slot) = self.table.get_mut(*word) {
                each(slot);
            }
        }
        self.leaving.iter_mut().for_each(each);
    }

    /// Indices of the slots that may have work, whose completion words a thread may wait for.
    pub fn busy_indices(&self) -> impl Iterator<Item = u32> {
        let leaving = self.leaving.iter().map(|slot| slot.word);
        let words = self.busy.iter().copied().chain(leaving);
        words.filter_map(|word| Handle::from_word(word).map(|h| h.index))
    }

    /// Code in streams whose work is not known to be done, by what the device has written (good after a fault
    /// too): the last of each stream, and how often the rarest of all had been launched before.
    pub fn code_in_flight(&mut self) -> (Vec<Code>, Option<u32>) {
        let region = self.region.clone();
        let (mut codes, mut least) = (Vec::new(), None::<u32>);
        self.busy_slots(|slot| {
            let index = slot.index();
            let rarest = slot.code_in_flight.rarest(|fence| has_passed(&region, index, fence));
            if let Some((code, before)) = rarest {
                least = Some(least.map_or(before, |least| least.min(before)));
                if !codes.contains(&code) {
                    codes.push(code);
                }
            }
        });
        (codes, least)
    }

    /// Drops all streams. Their work must have ended.
    pub fn clear(&mut self) {
        self.busy.clear();
        self.leaving.clear();
        self.share.in_flight().set_busy(false);
        self.order = StreamOrder::new();
        self.orders.clear();
        self.table.clear();
    }
}

/// The order around a default stream; `None` when it is gone.
fn order_of<'a>(
    legacy: &'a mut StreamOrder<u64>,
    own: &'a mut BTreeMap<u64, StreamOrder<u64>>,
    default: u64,
) -> Option<&'a mut StreamOrder<u64>> {
    match default == LEGACY.to_word() {
        true => Some(legacy),
        false => own.get_mut(&default),
    }
}

/// The literals of the legacy default stream stand for its handle.
fn resolve(word: u64) -> u64 {
    if word == 0 || word == CU_STREAM_LEGACY.0 as u64 { LEGACY.to_word() } else { word }
}
