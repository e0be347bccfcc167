//! Time by kind of request: what a session's thread did for its client, in the server's log when it ends.
//!
//! Counted in servers that were started with `OPENMPS_TRACE=calls`.

use channel::request::RequestName;
use cuda_api::environment::OPENMPS_TRACE;
use cuda_api::row_of_number;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Default)]
struct Row {
    times: u64,
    together: Duration,
    longest: Duration,
}

/// What was done for one client, by opcode.
#[derive(Default)]
pub struct Spent(BTreeMap<u16, Row>);

impl Spent {
    /// Nothing yet; `None` if it is not asked for.
    pub fn if_wanted() -> Option<Box<Self>> {
        let wanted = std::env::var(OPENMPS_TRACE).is_ok_and(|text| text == "calls");
        wanted.then(Box::default)
    }

    /// So many requests were carried out together that were begun then.
    pub fn add(&mut self, opcode: u16, times: u64, since: Instant) {
        let took = since.elapsed();
        let row = self.0.entry(opcode).or_default();
        row.times += times;
        row.together += took;
        row.longest = row.longest.max(took);
    }

    /// A line for each kind, what took most first.
    pub fn lines(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(opcode, row)| (std::cmp::Reverse(row.together), **opcode));
        let line = |(opcode, row): &(&u16, &Row)| {
            let name = match (RequestName::of(**opcode), row_of_number(**opcode)) {
                (Some(name), _) => format!("{name:?}"),
                (None, Some(row)) => row.symbol.to_owned(),
                (None, None) => format!("{opcode:#x}"),
            };
            let (together, longest) = (row.together.as_micros(), row.longest.as_micros());
            format!("{name} {} times, {together} us, longest {longest} us", row.times)
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_most_comes_first() {
        let mut spent = Spent::default();
        let now = Instant::now();
        let before = now.checked_sub(Duration::from_secs(60)).unwrap();
        spent.add(RequestName::Fence.opcode(), 1, now);
        spent.add(cuda_api::number::cuFuncSetAttribute, 1, before);
        spent.add(RequestName::Fence.opcode(), 1, now);
        let lines = spent.lines();
        assert!(lines[0].starts_with("cuFuncSetAttribute 1 times, 60"), "{lines:?}");
        assert!(lines[1].starts_with("Fence 2 times, "), "{lines:?}");
    }
}
