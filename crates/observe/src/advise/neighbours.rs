//! Neighbours: programs that were recorded so far, by how they would go beside one that is looked at.
//!
//! What a program wants of the SMs over time adds up; so does memory. What two do to each other's caches and
//! memory bandwidth no record says.

use super::Analysis;
use control::accounting::AccountingRecord;
use serde::Serialize;
use std::collections::BTreeMap;

/// Programs that are named.
const NAMED_MAX: usize = 3;
/// A shorter run says little: its start is most of it.
const WALL_MS_MIN: u64 = 1000;

/// A program that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Neighbour {
    /// Its command line.
    pub command: String,
    /// Share of the SMs that it had, over its time.
    pub sm_share: f64,
    /// Most device memory that it had, bytes.
    pub memory_bytes: u64,
    /// Share of the SMs that both want; beyond 1 they slow each other down.
    pub together: f64,
}

/// Those whose memory fits beside a program's: first those with which it leaves least of the device idle without a
/// loss, then those with which it loses least. `command` is its own, `sms` and `memory_bytes` are the device's.
pub fn neighbours(
    records: &[AccountingRecord],
    command: &str,
    of: &Analysis,
    (sms, memory_bytes): (u32, u64),
) -> Vec<Neighbour> {
    let is_known = |record: &&AccountingRecord| {
        let says_all = !record.lost && !record.uncounted;
        let long = record.wall_ms >= WALL_MS_MIN;
        says_all && long && record.sm_active_ns > 0 && record.command != command
    };
    // The last run of each says most of the next one.
    let last: BTreeMap<&str, &AccountingRecord> =
        records.iter().filter(is_known).map(|record| (record.command.as_str(), record)).collect();
    let fits = |record: &&&AccountingRecord| {
        record.peak_memory_bytes.saturating_add(of.memory_bytes) <= memory_bytes
    };
    let neighbour = |record: &&AccountingRecord| {
        let all = record.wall_ms as f64 * 1e6 * f64::from(sms.max(1));
        let sm_share = (record.sm_active_ns as f64 / all).min(1.0);
        Neighbour {
            command: control::log::printable(&record.command),
            sm_share,
            memory_bytes: record.peak_memory_bytes,
            together: of.sm_share + sm_share,
        }
    };
    let mut all: Vec<Neighbour> = last.values().filter(fits).map(neighbour).collect();
    let rank = |of: &Neighbour| match of.together <= 1.0 {
        true => -of.together,
        false => of.together,
    };
    all.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    all.truncate(NAMED_MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_fit_come_first_and_those_without_memory_not_at_all() {
        let record = |command: &str, share: f64, memory: u64| AccountingRecord {
            command: command.to_owned(),
            wall_ms: 2000,
            sm_active_ns: (share * 8.0 * 2e9) as u64,
            peak_memory_bytes: memory << 30,
            ..AccountingRecord::default()
        };
        let mut records = vec![
            record("./idle", 0.01, 1),
            record("./infer", 0.9, 1),
            record("./train", 0.9, 1),
            record("./large", 0.1, 7),
            record("./self", 0.3, 1),
            // Later, and what counts.
            record("./infer", 0.25, 1),
        ];
        records.push(AccountingRecord { lost: true, ..record("./lost", 0.1, 1) });
        records.push(AccountingRecord { wall_ms: 10, ..record("./short", 0.1, 1) });
        let analysis = Analysis { sm_share: 0.5, memory_bytes: 2 << 30, ..Analysis::default() };
        let found = neighbours(&records, "./self", &analysis, (8, 8 << 30));
        let seen: Vec<_> =
            found.iter().map(|of| (&*of.command, (100.0 * of.together).round())).collect();
        assert_eq!(seen, [("./infer", 75.0), ("./idle", 51.0), ("./train", 140.0)]);
    }
}
