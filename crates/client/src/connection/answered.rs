//! Round trips: how many requests of each kind were answered, and how long the program waited.
//!
//! Counted if asked for (`OPENMPS_TRACE=calls`): a call of the program's that should cost no answer is
//! found by it, on a software GPU as on hardware.

use channel::request::RequestName;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use locks::Mutex;
use std::collections::BTreeMap;
use std::time::Instant;

static WANTED: AtomicBool = AtomicBool::new(false);
static COUNTS: Mutex<BTreeMap<Kind, Count>> = Mutex::new(BTreeMap::new());

/// What the program waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The answer to a request with that opcode.
    Answer(u16),
    /// A place in a stream's work.
    Work,
}

#[derive(Clone, Copy, Default)]
struct Count {
    times: u64,
    longest: Duration,
    together: Duration,
}

/// Counts from now on.
pub(crate) fn begin() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Waits for the answer to a request, and counts that if it is asked for.
#[inline]
pub(super) fn counted<T>(opcode: u16, wait: impl FnOnce() -> T) -> T {
    count(Kind::Answer(opcode), wait)
}

/// As [`counted`], for a wait until work is done.
#[inline]
pub(crate) fn counted_work<T>(wait: impl FnOnce() -> T) -> T {
    count(Kind::Work, wait)
}

#[inline]
fn count<T>(kind: Kind, wait: impl FnOnce() -> T) -> T {
    if !WANTED.load(Ordering::Relaxed) {
        return wait();
    }
    let start = Instant::now();
    let result = wait();
    let took = start.elapsed();
    let mut counts = COUNTS.lock();
    let count = counts.entry(kind).or_default();
    count.times += 1;
    count.longest = count.longest.max(took);
    count.together += took;
    result
}

/// A line for each kind, the most frequent first.
pub(crate) fn lines() -> Vec<String> {
    let counts = COUNTS.lock();
    let mut rows: Vec<(Kind, Count)> = counts.iter().map(|(kind, count)| (*kind, *count)).collect();
    rows.sort_by_key(|(kind, count)| (core::cmp::Reverse(count.times), *kind));
    let line = |(kind, count): &(Kind, Count)| {
        let (together, longest) = (count.together.as_micros(), count.longest.as_micros());
        format!("waited {} times for {kind}: {together} us, longest {longest} us", count.times)
    };
    rows.iter().map(line).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Answer(opcode) = self else { return f.write_str("work") };
        match RequestName::of(*opcode) {
            Some(name) => write!(f, "the answer to {name:?}"),
            None => match cuda_api::row_of_number(*opcode) {
                Some(row) => write!(f, "the answer to {}", row.symbol),
                None => write!(f, "the answer to request {opcode:#x}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_named_by_their_requests() {
        let reserve = RequestName::ReserveAddresses.opcode();
        assert_eq!(Kind::Answer(reserve).to_string(), "the answer to ReserveAddresses");
        let row = cuda_api::number::cuFuncSetAttribute;
        assert_eq!(Kind::Answer(row).to_string(), "the answer to cuFuncSetAttribute");
    }

    #[test]
    fn what_is_counted_is_listed() {
        assert_eq!(counted(0xfffe, || 7), 7);
        begin();
        counted(0xfffe, || ());
        counted(0xfffe, || ());
        let lines = lines();
        let own: Vec<&String> = lines.iter().filter(|line| line.contains("0xfffe")).collect();
        assert!(matches!(&own[..], [line] if line.starts_with("waited 2 times for")), "{lines:?}");
    }
}
