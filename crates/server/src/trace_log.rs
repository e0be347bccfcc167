//! The trace: records of what clients' work was and when, kept while a reader asks for them.
//!
//! Sessions add what has ended; the daemon asks from a number on, again and again. So several can read
//! the same records, and one that goes away needs not say so: when no reader has asked for a while,
//! no more is recorded. What is not read in time is lost, which readers see by the numbers.

use channel::message::{TRACE_CLIENTS_MAX, TRACE_RECORDS_MAX, TraceClient, TraceEntry, TracePart};
use locks::{Mutex, MutexGuard};
use rustix::time::ClockId;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most records that are kept: some seconds of many clients' work, in some ten megabytes.
const RECORDS_MAX: usize = 262_144;
/// Records in one answer, which the daemon takes in whole.
const RECORDS_PER_ANSWER_MAX: usize = 65_536;
/// So long after the last question recording ends, ns.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Time of CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Default)]
struct Records {
    /// Number of the first one that is kept, less 1.
    before: u64,
    kept: VecDeque<Kept>,
    /// Lost since the last one that is kept.
    lost: u64,
    names: HashSet<Arc<str>>,
    clients: BTreeMap<u32, TraceClient>,
}

struct Kept {
    entry: TraceEntry,
    name: Arc<str>,
    /// Pieces of work before it that could not be recorded.
    lost_before: u64,
}

/// The records of a server.
#[derive(Default)]
pub struct TraceLog {
    /// Recording ends then, ns; 0: nothing is recorded.
    until_ns: AtomicU64,
    records: Mutex<Records>,
}

impl TraceLog {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    /// True if work is to be recorded. To be asked for each launch.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.until_ns.load(Ordering::Relaxed) != 0
    }

    /// Ends recording if no reader has asked for a while.
    pub fn end_if_forgotten(&self) {
        if self.is_on() && self.until_ns.load(Ordering::Relaxed) < now_ns() {
            self.until_ns.store(0, Ordering::Relaxed);
            let mut records = self.lock();
            records.before += records.kept.len() as u64;
            let before = records.before;
            *records = Records { before, ..Records::default() };
        }
    }

    /// Says who a client is that records will be of.
    pub fn introduce(&self, client: TraceClient) {
        self.lock().clients.insert(client.client, client);
    }

    /// Some pieces of work could not be recorded.
    pub fn lost(&self, number: u64) {
        if number > 0 {
            self.lock().lost += number;
        }
    }

    /// Adds what has ended.
    pub fn add<N: AsRef<str> + Into<Arc<str>>>(
        &self,
        entries: impl IntoIterator<Item = (TraceEntry, N)>,
    ) {
        let mut records = self.lock();
        for (entry, name) in entries {
            let name = match records.names.get(name.as_ref()) {
                Some(known) => known.clone(),
                None => {
                    let name: Arc<str> = name.into();
                    records.names.insert(name.clone());
                    name
                }
            };
            if records.kept.len() >= RECORDS_MAX {
                records.kept.pop_front();
                records.before += 1;
            }
            let lost_before = std::mem::take(&mut records.lost);
            records.kept.push_back(Kept { entry, name, lost_before });
        }
    }

    /// The records from a number on, as parts of an answer, the last of which says so; `from` 0 means
    /// those to come. Recording goes on for a while.
    pub fn read(&self, from: u64) -> Vec<TracePart> {
        self.until_ns.store(now_ns() + PATIENCE_NS, Ordering::Relaxed);
        let records = self.lock();
        let end = records.before + records.kept.len() as u64 + 1;
        let from = if from == 0 || from > end { end } else { from };
        let first = from.max(records.before + 1);
        let skipped = (first - records.before - 1) as usize;
        let taken = records.kept.iter().skip(skipped).take(RECORDS_PER_ANSWER_MAX);
        let next = first + taken.len() as u64;
        let who: BTreeSet<u32> = taken.clone().map(|kept| kept.entry.client).collect();
        let unrecorded: u64 = taken.clone().map(|kept| kept.lost_before).sum();
        let clients: Vec<TraceClient> =
            who.iter().filter_map(|client| records.clients.get(client).cloned()).collect();
        let part = || TracePart { more: true, next, ..TracePart::default() };
        let mut parts: Vec<TracePart> = clients
            .chunks(TRACE_CLIENTS_MAX)
            .map(|clients| TracePart { clients: clients.to_vec(), ..part() })
            .collect();
        let mut current = part();
        for Kept { entry, name, .. } in taken {
            if !current.add(entry, name) {
                parts.push(std::mem::replace(&mut current, part()));
                current.add(entry, name);
            }
        }
        debug_assert!(current.records.len() <= TRACE_RECORDS_MAX);
        parts.push(TracePart { more: false, lost: first - from + unrecorded, ..current });
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(client: u32, launch: u64) -> (TraceEntry, String) {
        let entry = TraceEntry { client, launch, ..TraceEntry::default() };
        (entry, format!("kernel {}", launch % 100))
    }

    fn launches(parts: &[TracePart]) -> Vec<u64> {
        parts.iter().flat_map(|part| part.records.iter().map(|record| record.launch)).collect()
    }

    #[test]
    fn a_reader_gets_each_record_once_and_with_its_name() {
        let log = TraceLog::default();
        assert!(!log.is_on());
        let next = log.read(0).last().unwrap().next;
        assert!(log.is_on());
        log.introduce(TraceClient { client: 7, pid: 70, command_line: "x".into() });
        log.add((0..1000).map(|launch| record(7, launch)));
        let parts = log.read(next);
        assert_eq!(launches(&parts), (0..1000).collect::<Vec<_>>());
        for part in &parts {
            for record in &part.records {
                assert_eq!(
                    part.names[record.name as usize],
                    format!("kernel {}", record.launch % 100)
                );
            }
        }
        assert_eq!(parts[0].clients[0].pid, 70);
        assert!(parts.iter().rev().skip(1).all(|part| part.more));
        let last = parts.last().unwrap();
        assert!(!last.more);
        log.add([record(7, 1000)]);
        assert_eq!(launches(&log.read(last.next)), [1000]);
    }

    #[test]
    fn what_is_lost_is_counted() {
        let log = TraceLog::default();
        let next = log.read(0).last().unwrap().next;
        log.add((0..RECORDS_MAX as u64 + 5).map(|launch| record(1, launch)));
        let parts = log.read(next);
        assert_eq!(parts.iter().map(|part| part.lost).sum::<u64>(), 5);
        assert_eq!(launches(&parts)[0], 5);
    }

    #[test]
    fn what_could_not_be_recorded_is_counted() {
        let log = TraceLog::default();
        let next = log.read(0).last().unwrap().next;
        log.lost(3);
        log.add([record(1, 7)]);
        let parts = log.read(next);
        let lost: u64 = parts.iter().map(|part| part.lost).sum();
        assert_eq!((lost, parts.last().unwrap().records.len()), (3, 1));
    }
}
