//! Series: what is run, how often, and in parts of which size.

/// What a series counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Rounds.
    Rounds,
    /// Minutes.
    Minutes,
}

/// One series.
#[derive(Debug)]
pub struct Series {
    /// Its name, unique.
    pub name: &'static str,
    /// The program beside this one that runs a part of it.
    pub runner: &'static str,
    /// That program's arguments.
    pub arguments: &'static [&'static str],
    /// What it counts.
    pub unit: Unit,
    /// How much of it makes the whole.
    pub wanted: f64,
    /// Most of it in one part.
    pub part: f64,
}

impl Series {
    const fn rounds(
        name: &'static str,
        arguments: &'static [&'static str],
        wanted: u32,
        part: u32,
    ) -> Self {
        let (wanted, part) = (wanted as f64, part as f64);
        Self { name, runner: "soak", arguments, unit: Unit::Rounds, wanted, part }
    }

    const fn faults(
        name: &'static str,
        arguments: &'static [&'static str],
        wanted: u32,
        part: u32,
    ) -> Self {
        let (wanted, part) = (wanted as f64, part as f64);
        Self { name, runner: "faults", arguments, unit: Unit::Rounds, wanted, part }
    }
}

const N_BODY: &str = "n_body --seconds 60";
const SPIN: &str = "spin --seconds 60";
const PIPELINE: &str = "pipeline --seconds 60";

/// All series. A round of `kill`, `terminate` and `leave` is two programs' ends.
pub const ALL: &[Series] = &[
    Series::rounds("kill n_body", &["--of", "kill", "--program", N_BODY], 3000, 200),
    Series::rounds("kill spin", &["--of", "kill", "--program", SPIN], 3000, 200),
    Series::rounds("kill pipeline", &["--of", "kill", "--program", PIPELINE], 3000, 200),
    Series::rounds("terminate n_body", &["--of", "terminate", "--program", N_BODY], 3000, 200),
    Series::rounds("terminate spin", &["--of", "terminate", "--program", SPIN], 3000, 200),
    Series::rounds("terminate pipeline", &["--of", "terminate", "--program", PIPELINE], 3000, 200),
    Series::rounds(
        "leave vector_add",
        &["--of", "leave", "--program", "vector_add --size 20000 --iterations 2"],
        2500,
        200,
    ),
    Series::rounds(
        "leave n_body",
        &["--of", "leave", "--program", "n_body --size 512 --iterations 2"],
        1250,
        200,
    ),
    Series::rounds(
        "leave pipeline",
        &["--of", "leave", "--program", "pipeline --iterations 2"],
        1250,
        200,
    ),
    Series::rounds(
        "up, run, down",
        &["--of", "restart", "--program", "vector_add --size 20000 --iterations 2"],
        500,
        25,
    ),
    Series::rounds("openmps bench", &["--of", "bench"], 100, 1),
    Series::faults("faults", &[], 1000, 55),
    Series::faults("class null-write", &["--of", "null-write"], 1000, 50),
    Series::faults("class null-read", &["--of", "null-read"], 1000, 50),
    Series::faults("class stray-write", &["--of", "stray-write"], 1000, 50),
    Series::faults("class neighbour", &["--of", "neighbour"], 1000, 50),
    Series::faults("class misaligned", &["--of", "misaligned"], 1000, 50),
    Series::faults("class trap", &["--of", "trap"], 1000, 50),
    Series::faults("class assert", &["--of", "assert"], 1000, 50),
    Series::faults("class stack", &["--of", "stack"], 1000, 50),
    Series::faults("class endless", &["--of", "endless"], 1000, 50),
    Series::faults("faults, two devices", &["--devices", "2"], 200, 55),
    Series::faults("faults, kill -9", &["--of", "kill"], 1000, 50),
    Series::faults("faults, upgrade", &["--of", "upgrade"], 100, 50),
    Series {
        name: "mix",
        runner: "soak",
        arguments: &[],
        unit: Unit::Minutes,
        wanted: 60.0,
        part: 3.0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parts_are_no_larger_than_the_whole() {
        let names: std::collections::HashSet<_> = ALL.iter().map(|series| series.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|series| 0.0 < series.part && series.part <= series.wanted));
    }

    #[test]
    fn the_whole_is_what_the_specification_says() {
        let wanted = |start: &str| {
            let of_kind = ALL.iter().filter(|series| series.name.starts_with(start));
            of_kind.map(|series| series.wanted).sum::<f64>()
        };
        let sums = ["kill", "terminate", "leave", "up", "openmps bench", "mix"].map(wanted);
        assert_eq!(sums, [9000.0, 9000.0, 5000.0, 500.0, 100.0, 60.0]);
        let classes = ALL.iter().filter(|series| series.name.starts_with("class "));
        assert!(classes.clone().count() == 9 && classes.clone().all(|of| of.wanted == 1000.0));
    }
}
