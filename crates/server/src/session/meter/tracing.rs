//! A session's part in the trace: who records its work, and where the records come from.
//!
//! A provider with tenants keeps records itself, which are taken from it. Elsewhere each piece of
//! work is timed by events: their times count from an event of the session's own, whose place on the
//! host's clock follows from what is known of the others: no work begins before it is submitted.

use crate::device::{Event, Share, Timed};
use crate::session::streams::Streams;
use crate::trace_log::{TraceLog, now_ns};
use channel::message::{StreamCounts, TraceEntry};
use std::rc::Rc;

/// Records that are taken of a provider at a time.
const RECORDS_AT_ONCE: usize = 4096;
/// An event is the beginning of the clock for so long: times between events are floats of
/// milliseconds, which are good to a microsecond so far.
const CLOCK_NS_MAX: u64 = 4_000_000_000;

/// What a record says of a piece of work before its time is known.
#[derive(Debug, Default)]
pub struct Subject {
    /// All but the times.
    pub entry: TraceEntry,
    /// The kernel's name.
    pub name: String,
}

/// The beginning of the clock of events.
struct Clock {
    event: Event,
    host_ns: u64,
}

/// The session's state.
#[derive(Default)]
pub struct Tracing {
    is_on: bool,
    clock: Option<Clock>,
    ended: Vec<(TraceEntry, String)>,
    launches: u64,
}

impl Tracing {
    /// True if work is recorded now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The number of the next launch.
    pub fn next_launch(&mut self) -> u64 {
        self.launches += 1;
        self.launches
    }

    /// Begins or ends as the log wants it. True if it has just begun.
    pub fn follow(&mut self, log: &TraceLog, share: &Share) -> bool {
        log.end_if_forgotten();
        let wanted = log.is_on();
        if self.is_on == wanted {
            return false;
        }
        self.is_on = wanted;
        self.clock = None;
        if share.is_tenant() {
            // A tenant that has ended is not traced any more.
            let _ = share.set_trace(wanted);
        }
        wanted
    }

    /// Gives the log what the provider has recorded.
    pub fn collect(&mut self, log: &TraceLog, share: &Share, streams: &mut Streams, client: u32) {
        if !self.is_on {
            return;
        }
        if share.is_tenant() {
            let numbers = streams.numbers();
            let slot = |number: u64| {
                let known = numbers.iter().find(|(of, _)| *of == number);
                known.map_or(StreamCounts::PAST_STREAMS, |(_, slot)| *slot)
            };
            loop {
                let records = share.take_trace(RECORDS_AT_ONCE);
                let taken = records.len();
                log.add(records.into_iter().map(|record| {
                    let entry = TraceEntry {
                        kind: record.kind,
                        client,
                        stream: slot(record.stream),
                        sm: record.sm,
                        launch: record.launch,
                        submitted_ns: record.submitted_ns,
                        start_ns: record.start_ns,
                        end_ns: record.end_ns,
                        bytes: record.bytes,
                        grid_x: record.grid[0],
                        grid_y: record.grid[1],
                        grid_z: record.grid[2],
                        block_x: record.block[0],
                        block_y: record.block[1],
                        block_z: record.block[2],
                        name: 0,
                    };
                    (entry, crate::device::text(&record.name))
                }));
                if taken < RECORDS_AT_ONCE {
                    break;
                }
            }
        }
        if !self.ended.is_empty() {
            log.add(self.ended.drain(..));
        }
    }

    /// Work that is timed by events is about to be submitted: sees that there is a clock.
    pub fn before(&mut self, share: &Rc<Share>, record: impl FnOnce(&Event) -> bool) {
        let now = now_ns();
        let is_old = |clock: &Clock| now.saturating_sub(clock.host_ns) > CLOCK_NS_MAX;
        if self.clock.as_ref().is_none_or(is_old)
            && let Ok(event) = Event::new(share, 0)
            && record(&event)
        {
            self.clock = Some(Clock { event, host_ns: now });
        }
    }

    /// Work that is timed by events has ended.
    pub fn ended<T>(&mut self, timed: &Timed<T>, subject: Subject, start: &Event) {
        let Some(clock) = &mut self.clock else { return };
        // Of an older clock's time nothing is known.
        let Ok(ms) = clock.event.elapsed_ms(start) else { return };
        let since = (f64::from(ms) * 1e6) as i64;
        let mut start_ns = clock.host_ns.saturating_add_signed(since);
        let submitted_ns = subject.entry.submitted_ns;
        if start_ns < submitted_ns {
            clock.host_ns += submitted_ns - start_ns;
            start_ns = submitted_ns;
        }
        let entry = TraceEntry { start_ns, end_ns: start_ns + timed.device_ns, ..subject.entry };
        self.ended.push((entry, subject.name));
    }

    /// Gives the events back.
    pub fn clear(&mut self) {
        self.clock = None;
    }
}
