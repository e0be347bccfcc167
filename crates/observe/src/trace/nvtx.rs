//! Ranges that programs have marked by NVTX, as the injected library has written them: a line each,
//! `process thread domain start end name`, times of CLOCK_MONOTONIC in ns.

use std::path::Path;

/// A range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The program's process.
    pub pid: u32,
    /// The thread that it began in.
    pub thread: u32,
    /// Its domain, in which a thread's ranges lie within each other; `None`: it may overlap others.
    pub domain: Option<String>,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// What the program calls it.
    pub name: String,
}

/// The range of a line; `None` if it is none.
fn range(line: &str) -> Option<Range> {
    let mut words = line.splitn(6, ' ');
    let range = Range {
        pid: words.next()?.parse().ok()?,
        thread: words.next()?.parse().ok()?,
        domain: Some(words.next()?.to_owned()).filter(|domain| domain != "-"),
        start_ns: words.next()?.parse().ok()?,
        end_ns: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
    };
    (range.start_ns <= range.end_ns).then_some(range)
}

/// All ranges of the files of a directory. Lines that were not written to their end are left out.
pub fn read(directory: &Path) -> std::io::Result<Vec<Range>> {
    let mut ranges = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "nvtx") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            ranges.extend(text.lines().filter_map(range));
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ranges_and_torn_ones_are_left_out() {
        let whole = range("7 8 a 100 200 forward pass 1").expect("a range");
        assert_eq!((whole.pid, whole.thread, &*whole.name), (7, 8, "forward pass 1"));
        assert_eq!(whole.domain.as_deref(), Some("a"));
        assert_eq!(range("7 8 - 1 2 x").map(|range| range.domain), Some(None));
        assert_eq!([range("7 8 a 100"), range("7 8 a 200 100 x"), range("")], [None, None, None]);
    }
}
