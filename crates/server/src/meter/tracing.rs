//! A session's part in the trace of a provider that keeps records itself: turning them on and off, and
//! taking them.

use crate::device::Share;
use crate::trace_log::TraceLog;
use channel::message::{StreamCounts, TraceEntry};

/// Records that are taken of a provider at a time.
const RECORDS_AT_ONCE: usize = 4096;

/// The session's state.
#[derive(Default)]
pub struct Tracing {
    is_on: bool,
}

impl Tracing {
    /// True if work is recorded now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins or ends as the log wants it. True if it has just begun.
    pub fn follow(&mut self, log: &TraceLog, share: &Share) -> bool {
        log.end_if_forgotten();
        let wanted = log.is_on();
        if self.is_on == wanted {
            return false;
        }
        self.is_on = wanted;
        if share.is_tenant() {
            // A tenant that has ended is not traced any more.
            let _ = share.set_trace(wanted);
        }
        wanted
    }

    /// Gives the log what the provider has recorded. `streams` lists the streams' numbers with their slots.
    pub fn collect(
        &mut self,
        log: &TraceLog,
        share: &Share,
        streams: impl FnOnce() -> Vec<(u64, u32)>,
        client: u32,
    ) {
        if !self.is_on || !share.is_tenant() {
            return;
        }
        let numbers = streams();
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
}
