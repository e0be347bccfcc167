//! The ledger: which parts of which series have been run, a line of JSON each, so that a later run
//! goes on where this one ended.

use crate::series::{ALL, Series, Unit};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// What is known of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Done by parts that ended well.
    pub done: f64,
    /// What the parts in progress will do at most.
    under_way: f64,
    /// Parts that ended well.
    pub parts: u32,
    /// Parts that found something.
    pub findings: u32,
    /// Seconds that all parts took.
    pub seconds: f64,
}

/// A part of a series that is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The series.
    pub series: &'static Series,
    index: usize,
    /// How much of it.
    pub amount: f64,
    /// Seed of its draws.
    pub seed: u64,
}

/// How a part ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing was found in so much of the series.
    Well(f64),
    /// Something was found; the last words.
    Finding(String),
    /// The time was up before its end: it counts for nothing.
    CutShort,
}

/// The ledger.
pub struct Ledger {
    tallies: Vec<Tally>,
    /// Which series are run, and which share of each.
    chosen: Vec<bool>,
    share: f64,
    next_seed: u64,
    file: File,
}

impl Ledger {
    /// What a file has, which is made if there is none; for a `share` of the series in whose names one
    /// of `only` occurs, all if that is empty.
    ///
    /// # Errors
    ///
    /// The file can not be read and written, or a line of it is no line of a ledger.
    pub fn open(path: &Path, share: f64, only: &[String], seed: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut tallies = vec![Tally::default(); ALL.len()];
        for line in BufReader::new(&file).lines() {
            let line = line?;
            let bad = || io::Error::other(format!("{}: no part: {line}", path.display()));
            let part: Value = serde_json::from_str(&line).map_err(|_| bad())?;
            let at = ALL.iter().position(|series| part["series"] == series.name);
            let tally = &mut tallies[at.ok_or_else(bad)?];
            match part["finding"].is_null() {
                true => {
                    tally.done += part["done"].as_f64().ok_or_else(bad)?;
                    tally.parts += 1;
                }
                false => tally.findings += 1,
            }
            tally.seconds += part["seconds"].as_f64().unwrap_or(0.0);
        }
        let is_chosen =
            |series: &Series| only.is_empty() || only.iter().any(|part| series.name.contains(part));
        let chosen = ALL.iter().map(is_chosen).collect();
        Ok(Self { tallies, chosen, share, next_seed: seed, file })
    }

    /// The next part, of the series of which least has been done; `None` once all is done or under
    /// way. `minutes` are left for it.
    pub fn next(&mut self, minutes: f64) -> Option<Part> {
        let wanted = |index: usize| ALL[index].wanted * self.share;
        let begun = |index: usize| self.tallies[index].done + self.tallies[index].under_way;
        let open =
            (0..ALL.len()).filter(|&index| self.chosen[index] && begun(index) < wanted(index));
        let share_begun = |index: &usize| begun(*index) / wanted(*index);
        let index = open.min_by(|a, b| share_begun(a).total_cmp(&share_begun(b)))?;
        let series = &ALL[index];
        let left = wanted(index) - begun(index);
        let amount = match series.unit {
            Unit::Rounds => series.part.min(left.ceil()),
            Unit::Minutes => series.part.min(left).min(minutes),
        };
        self.tallies[index].under_way += amount;
        self.next_seed += 1;
        Some(Part { series, index, amount, seed: self.next_seed })
    }

    /// Writes down how a part ended that took so many seconds.
    ///
    /// # Errors
    ///
    /// The file can not be written.
    pub fn record(&mut self, part: &Part, outcome: &Outcome, seconds: f64) -> io::Result<()> {
        let tally = &mut self.tallies[part.index];
        tally.under_way -= part.amount;
        let mut line = json!({
            "series": part.series.name, "seed": part.seed,
            "seconds": (seconds * 10.0).round() / 10.0,
        });
        match outcome {
            Outcome::CutShort => return Ok(()),
            Outcome::Well(done) => {
                tally.done += done;
                tally.parts += 1;
                line["done"] = json!(done);
            }
            Outcome::Finding(words) => {
                tally.findings += 1;
                line["finding"] = json!(words);
            }
        }
        tally.seconds += seconds;
        // One call, so that a line is whole or not there.
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// True if a part has found something, in this run or an earlier one.
    pub fn has_findings(&self) -> bool {
        self.tallies.iter().any(|tally| tally.findings > 0)
    }

    /// True once all that is wanted is done.
    pub fn is_whole(&self) -> bool {
        let rows = self.tallies.iter().zip(ALL).zip(&self.chosen);
        let mut chosen = rows.filter(|(_, chosen)| **chosen);
        chosen.all(|((tally, series), _)| tally.done >= series.wanted * self.share)
    }

    /// A row a chosen series: what is wanted of it, what was done.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<22} {:>8} {:>8} {:>6} {:>8} {:>9}\n",
            "SERIES", "WANTED", "DONE", "PARTS", "TIME", "FINDINGS"
        );
        for ((tally, series), _) in
            self.tallies.iter().zip(ALL).zip(&self.chosen).filter(|(_, chosen)| **chosen)
        {
            let wanted = series.wanted * self.share;
            let amount = |amount: f64| match series.unit {
                Unit::Rounds => format!("{:.0}", amount.ceil()),
                Unit::Minutes => format!("{amount:.1}min"),
            };
            let seconds = tally.seconds as u64;
            let time = format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
            text += &format!(
                "{:<22} {:>8} {:>8} {:>6} {time:>8} {:>9}\n",
                series.name,
                amount(wanted),
                amount(tally.done),
                tally.parts,
                tally.findings
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the test's own, gone when it is dropped.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("openmps-ledger-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self, only: &str) -> Ledger {
            Ledger::open(&self.0, 0.1, &[only.to_owned()], 7).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_later_run_does_what_an_earlier_one_left() {
        let file = Scratch::new("later");
        let mut first = file.open("kill");
        let parts: Vec<Part> = std::iter::from_fn(|| first.next(9.0)).collect();
        // A tenth of four series: 300, 300, 300 and 100 rounds, in parts of 200 and 50.
        let amounts = |parts: &[Part]| parts.iter().map(|part| part.amount).sum::<f64>();
        assert_eq!((parts.len(), amounts(&parts)), (8, 1000.0));
        let seeds: std::collections::HashSet<u64> = parts.iter().map(|part| part.seed).collect();
        assert_eq!(seeds.len(), parts.len());
        first.record(&parts[0], &Outcome::Well(200.0), 60.0).unwrap();
        first.record(&parts[1], &Outcome::CutShort, 60.0).unwrap();
        first.record(&parts[2], &Outcome::Well(40.0), 60.0).unwrap();
        assert!(!first.is_whole() && !first.has_findings());
        drop(first);

        let mut second = file.open("kill");
        let parts: Vec<Part> = std::iter::from_fn(|| second.next(9.0)).collect();
        assert_eq!(amounts(&parts), 1000.0 - 240.0);
        for part in &parts {
            second.record(part, &Outcome::Well(part.amount), 1.0).unwrap();
        }
        assert!(second.is_whole() && second.next(9.0).is_none());
        assert!(second.table().contains("kill n_body"), "{}", second.table());
        assert!(!second.table().contains("bench"), "{}", second.table());
    }

    #[test]
    fn a_finding_stays() {
        let file = Scratch::new("finding");
        let mut first = file.open("openmps bench");
        let part = first.next(9.0).unwrap();
        first.record(&part, &Outcome::Finding("a wrong sum".into()), 1.0).unwrap();
        assert!(first.has_findings());
        drop(first);
        assert!(file.open("openmps bench").has_findings());
        assert!(std::fs::read_to_string(&file.0).unwrap().contains("a wrong sum"));
    }

    #[test]
    fn what_is_no_ledger_is_left_as_it_is() {
        let file = Scratch::new("other");
        std::fs::write(&file.0, "notes\n").unwrap();
        assert!(Ledger::open(&file.0, 1.0, &[], 1).is_err());
        assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "notes\n");
    }
}
