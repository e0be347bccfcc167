//! Pending records: those that were taken from the ring and cannot go to the device yet, by stream.
//!
//! A stream has room for so many operations, and a client for so much work; a record beyond that waits here, and the
//! client's other streams go on. What goes is decided by CUDA's own order alone: records of a stream go in the order in
//! which they came, a default stream takes turns with its blocking streams, a wait for an event goes behind the
//! records of that event that came before it, and a record behind the waits. This module knows no device: it keeps
//! the records and says which may be tried.
//!
//! Invariant: a record whose stream has others here, or that comes behind others by these rules, is never carried
//! out before them.

use crate::scheduling::GateAnswer;
use channel::request::{
    Copy3D, DestroyStream, DeviceToHost, Fence, GraphLaunch, HostFunc, HostToDevice, LaunchKernel,
    Notify, RecordEvent, RequestName, WaitEvent,
};
use channel::ring::Record;
use cuda_api::number;
use scheduling::Hold;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

/// Most that a session keeps, bytes. One that has more takes nothing from its ring until some of it went.
const BYTES_MAX: usize = 64 << 20;
/// What a record takes beside its words, bytes.
const RECORD_BYTES: usize = 128;
/// Records whose room is kept for the next ones.
const SPARE_MAX: usize = 64;

/// Why a record does not go now.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Deferral {
    /// Its stream, or the client, has as much in flight as may be.
    Room,
    /// The gate that all sessions share holds it.
    Gate(Hold, GateAnswer),
}

/// How a stream is ordered with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Turns {
    /// A default stream: behind and before the work of its blocking streams.
    Default,
    /// A blocking stream, with that default stream.
    With(u64),
    /// With none.
    Free,
}

/// What a record does with an event or a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Use {
    /// Records the event.
    Records(u64),
    /// Waits for the event.
    WaitsFor(u64),
    /// Launches the graph: launches are in no order among each other.
    Launches(u64),
}

impl Use {
    /// The word of the event or graph.
    fn word(self) -> u64 {
        match self {
            Self::Records(word) | Self::WaitsFor(word) | Self::Launches(word) => word,
        }
    }

    fn records(self) -> bool {
        matches!(self, Self::Records(_))
    }
}

/// The stream of a record, and what else it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Target {
    pub stream: u64,
    pub uses: Option<Use>,
}

impl Target {
    /// Of a record that belongs to a stream; `None` of another one, which need not wait for any that are here.
    pub fn of(record: &Record) -> Option<Self> {
        macro_rules! in_stream {
            ($request:ty) => {{
                let request: $request = record.decode().ok()?;
                Some(Self { stream: request.stream.0 as u64, uses: None })
            }};
        }
        match RequestName::of(record.opcode()) {
            Some(RequestName::LaunchKernel) => in_stream!(LaunchKernel<'_>),
            Some(RequestName::HostToDevice) => in_stream!(HostToDevice),
            Some(RequestName::DeviceToHost) => in_stream!(DeviceToHost),
            Some(RequestName::Copy3D) => in_stream!(Copy3D),
            Some(RequestName::Fence) => in_stream!(Fence),
            Some(RequestName::Notify) => in_stream!(Notify),
            Some(RequestName::HostFunc) => in_stream!(HostFunc),
            Some(RequestName::DestroyStream) => in_stream!(DestroyStream),
            Some(RequestName::RecordEvent) => {
                let RecordEvent { stream, event, .. } = record.decode().ok()?;
                let uses = Some(Use::Records(event.0 as u64));
                Some(Self { stream: stream.0 as u64, uses })
            }
            Some(RequestName::WaitEvent) => {
                let WaitEvent { stream, event } = record.decode().ok()?;
                let uses = Some(Use::WaitsFor(event.0 as u64));
                Some(Self { stream: stream.0 as u64, uses })
            }
            Some(RequestName::GraphLaunch) => {
                let GraphLaunch { stream, graph } = record.decode().ok()?;
                let uses = Some(Use::Launches(graph.0 as u64));
                Some(Self { stream: stream.0 as u64, uses })
            }
            Some(_) => None,
            None => stream_of_row(record).map(|stream| Self { stream, uses: None }),
        }
    }
}

/// True if a record is of work for which the gate is asked.
pub(in crate::session) fn asks(record: &Record) -> bool {
    match RequestName::of(record.opcode()) {
        Some(name) => matches!(
            name,
            RequestName::LaunchKernel
                | RequestName::HostToDevice
                | RequestName::DeviceToHost
                | RequestName::Copy3D
                | RequestName::GraphLaunch
        ),
        None => !matches!(
            record.opcode(),
            number::cuStreamWriteValue32_v2
                | number::cuStreamWriteValue64_v2
                | number::cuStreamWaitValue32_v2
                | number::cuStreamWaitValue64_v2
        ),
    }
}

/// The stream of a row that is forwarded, if it has one.
fn stream_of_row(record: &Record) -> Option<u64> {
    let words = record.words();
    let at = match record.opcode() {
        number::cuMemcpyDtoDAsync_v2
        | number::cuMemsetD8Async
        | number::cuMemsetD16Async
        | number::cuMemsetD32Async => 3,
        number::cuMemsetD2D8Async | number::cuMemsetD2D16Async | number::cuMemsetD2D32Async => 5,
        number::cuStreamWriteValue32_v2
        | number::cuStreamWriteValue64_v2
        | number::cuStreamWaitValue32_v2
        | number::cuStreamWaitValue64_v2 => 0,
        _ => return None,
    };
    words.get(at).copied()
}

/// A record that waits.
pub(in crate::session) struct PendingRecord {
    number: u64,
    pub record: Record,
    uses: Option<Use>,
    /// When it was tried first.
    pub since: Option<Instant>,
}

struct Queue {
    turns: Turns,
    waiting: VecDeque<PendingRecord>,
}

impl Queue {
    /// True if it has a record that came before that one.
    fn has_before(&self, number: u64) -> bool {
        self.waiting.front().is_some_and(|first| first.number < number)
    }
}

/// The records of a session that wait.
#[derive(Default)]
pub(in crate::session) struct Pending {
    /// By stream. None is empty.
    queues: BTreeMap<u64, Queue>,
    /// By event and graph, with the records' numbers, in order.
    uses: HashMap<u64, VecDeque<(u64, Use)>>,
    /// How many have come.
    last: u64,
    bytes: usize,
    spare: Vec<Record>,
    /// Why the one that was tried last did not go.
    reason: Option<(Deferral, Instant)>,
}

impl Pending {
    /// True if none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// True if nothing more should be taken from the ring.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// True if a stream has records here.
    pub fn has(&self, stream: u64) -> bool {
        self.queues.contains_key(&stream)
    }

    /// True if some record here uses an event or a graph.
    pub fn uses(&self, word: u64) -> bool {
        self.uses.contains_key(&word)
    }

    /// True if some record here records an event.
    pub fn records(&self, event: u64) -> bool {
        self.uses.get(&event).is_some_and(|all| all.iter().any(|(_, of)| of.records()))
    }

    /// Why the record that was tried last did not go, and when it was tried first.
    pub fn reason(&self) -> Option<(Deferral, Instant)> {
        self.reason
    }

    /// True if a record that comes now has to wait for some of these.
    pub fn comes_behind(&self, target: Target, turns: Turns) -> bool {
        self.has(target.stream) || self.is_behind((target.stream, turns), target.uses, u64::MAX)
    }

    /// True if a record of that number waits for one of another stream.
    fn is_behind(&self, (stream, turns): (u64, Turns), uses: Option<Use>, number: u64) -> bool {
        let takes_turns = match turns {
            Turns::Free => false,
            Turns::With(default) => {
                self.queues.get(&default).is_some_and(|queue| queue.has_before(number))
            }
            Turns::Default => self
                .queues
                .values()
                .any(|queue| queue.turns == Turns::With(stream) && queue.has_before(number)),
        };
        takes_turns || uses.is_some_and(|uses| self.is_used_before(uses, number))
    }

    fn is_used_before(&self, uses: Use, number: u64) -> bool {
        let Some(all) = self.uses.get(&uses.word()) else { return false };
        let before = all.iter().take_while(|(other, _)| *other < number);
        before.into_iter().any(|(_, other)| other.records() || uses.records())
    }

    /// Keeps a record that cannot go now, or comes behind one. Leaves room for another in its place. It was tried
    /// `since` then, if it was.
    pub fn push(
        &mut self,
        target: Target,
        turns: Turns,
        record: &mut Record,
        since: Option<Instant>,
    ) {
        self.last += 1;
        let number = self.last;
        let record = std::mem::replace(record, self.spare.pop().unwrap_or_default());
        self.bytes += bytes_of(&record);
        if let Some(uses) = target.uses {
            self.uses.entry(uses.word()).or_default().push_back((number, uses));
        }
        let queue = self.queues.entry(target.stream);
        let queue = queue.or_insert_with(|| Queue { turns, waiting: VecDeque::new() });
        queue.waiting.push_back(PendingRecord { number, record, uses: target.uses, since });
    }

    /// The streams with records here, that whose first one came first before the others.
    pub fn streams(&self) -> Vec<u64> {
        let first = |queue: &Queue| queue.waiting.front().map_or(u64::MAX, |first| first.number);
        let mut streams: Vec<_> = self.queues.iter().map(|(s, queue)| (first(queue), *s)).collect();
        streams.sort_unstable();
        streams.into_iter().map(|(_, stream)| stream).collect()
    }

    /// True if the gate holds the client: it lets records through in the order in which they came.
    pub fn is_held(&self) -> bool {
        matches!(self.reason, Some((Deferral::Gate(..), _)))
    }

    /// Takes the first record of a stream, if it waits for no other stream's: to be given back, or done.
    pub fn take(&mut self, stream: u64) -> Option<PendingRecord> {
        let queue = self.queues.get(&stream)?;
        let first = queue.waiting.front()?;
        if self.is_behind((stream, queue.turns), first.uses, first.number) {
            return None;
        }
        self.queues.get_mut(&stream)?.waiting.pop_front()
    }

    /// Gives a record back that did not go.
    pub fn give_back(&mut self, stream: u64, waiting: PendingRecord) {
        if let Some(queue) = self.queues.get_mut(&stream) {
            queue.waiting.push_front(waiting);
        }
    }

    /// A record that was taken was carried out. The word of an event or graph that no record here uses any more, if it
    /// used one.
    pub fn done(&mut self, stream: u64, waiting: PendingRecord) -> Option<u64> {
        self.reason = None;
        self.bytes = self.bytes.saturating_sub(bytes_of(&waiting.record));
        if self.queues.get(&stream).is_some_and(|queue| queue.waiting.is_empty()) {
            self.queues.remove(&stream);
        }
        let mut unused = None;
        if let Some(uses) = waiting.uses
            && let Some(all) = self.uses.get_mut(&uses.word())
        {
            all.retain(|(number, _)| *number != waiting.number);
            if all.is_empty() {
                self.uses.remove(&uses.word());
                unused = Some(uses.word());
            }
        }
        if self.spare.len() < SPARE_MAX {
            self.spare.push(waiting.record);
        }
        unused
    }

    /// The records are tried anew.
    pub fn forget_reason(&mut self) {
        self.reason = None;
    }

    /// Notes why a record did not go that was tried first then.
    pub fn set_reason(&mut self, deferral: Deferral, since: Instant) {
        self.reason = Some((deferral, since));
    }
}

fn bytes_of(record: &Record) -> usize {
    RECORD_BYTES + 8 * record.words().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: u64 = 0;
    const STREAMS: u64 = 5;

    /// Streams 1 and 2 take turns with stream 0; the others are free.
    fn turns(stream: u64) -> Turns {
        match stream {
            DEFAULT => Turns::Default,
            1 | 2 => Turns::With(DEFAULT),
            _ => Turns::Free,
        }
    }

    /// A record's number in place of a payload.
    fn numbered(number: usize) -> Record {
        let mut record = Record::new();
        record.words_mut().push(number as u64);
        record
    }

    /// By CUDA's rules: whether a later record goes behind an earlier one.
    fn is_ordered(earlier: Target, later: Target) -> bool {
        let take_turns = |a: Target, b: Target| {
            a.stream == DEFAULT && matches!(turns(b.stream), Turns::With(DEFAULT))
        };
        let events = match (earlier.uses, later.uses) {
            (Some(a), Some(b)) => a.word() == b.word() && (a.records() || b.records()),
            _ => false,
        };
        earlier.stream == later.stream
            || take_turns(earlier, later)
            || take_turns(later, earlier)
            || events
    }

    fn target() -> impl Strategy<Value = Target> {
        let uses = prop_oneof![
            4 => Just(None),
            1 => (10u64..12).prop_map(|event| Some(Use::Records(event))),
            1 => (10u64..12).prop_map(|event| Some(Use::WaitsFor(event))),
            1 => Just(Some(Use::Launches(20))),
        ];
        (0..STREAMS, uses).prop_map(|(stream, uses)| Target { stream, uses })
    }

    /// Carries out what can be while those streams stand still.
    fn advance(pending: &mut Pending, stands: &[bool], went: &mut Vec<usize>) {
        loop {
            let before = went.len();
            for stream in pending.streams() {
                while let Some(waiting) = pending.take(stream) {
                    if stands[stream as usize] {
                        pending.give_back(stream, waiting);
                        break;
                    }
                    went.push(waiting.record.words()[0] as usize);
                    pending.done(stream, waiting);
                }
            }
            if went.len() == before {
                return;
            }
        }
    }

    proptest! {
        /// What CUDA orders goes in order, and nothing waits that neither stands still nor comes behind what does.
        #[test]
        fn records_go_by_cudas_order_and_wait_for_no_other_reason(
            steps in prop::collection::vec(
                (target(), prop::collection::vec(any::<bool>(), STREAMS as usize)), 1..60)
        ) {
            let mut pending = Pending::default();
            let (mut went, mut all) = (Vec::new(), Vec::<Target>::new());
            for (number, (target, stands)) in steps.iter().enumerate() {
                all.push(*target);
                let turns = turns(target.stream);
                if pending.comes_behind(*target, turns) || stands[target.stream as usize] {
                    pending.push(*target, turns, &mut numbered(number), None);
                } else {
                    went.push(number);
                }
                advance(&mut pending, stands, &mut went);
                let mut waits = vec![false; all.len()];
                for later in 0..all.len() {
                    let is_behind = (0..later).any(|e| waits[e] && is_ordered(all[e], all[later]));
                    waits[later] = !went.contains(&later);
                    prop_assert_eq!(
                        waits[later] && !is_behind && !stands[all[later].stream as usize], false,
                        "{} waits for nothing", later
                    );
                }
            }
            advance(&mut pending, &[false; STREAMS as usize], &mut went);
            prop_assert!(pending.is_empty() && pending.uses.is_empty() && pending.bytes == 0);
            prop_assert_eq!(went.len(), all.len());
            let place = |number: usize| went.iter().position(|n| *n == number);
            for later in 0..all.len() {
                for earlier in 0..later {
                    if is_ordered(all[earlier], all[later]) {
                        prop_assert!(place(earlier) < place(later), "{} {}", earlier, later);
                    }
                }
            }
        }
    }
}
