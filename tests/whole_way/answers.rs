//! Answers of a real driver (`tests/answers`) beside ours: alone and through a daemon, on the software GPU.
//!
//! What differs stands in `deviations.tsv` with its reason: where (alone, daemon, both), the case and our
//! answer, either of which may end with `*`. A row that nothing needs any more fails too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Scene, dist, finish};

/// Parts of the table, asked one by one: the files in `cases`.
const PARTS: [&str; 4] = ["contexts.", "memory.", "modules.", "streams."];

type Answers = BTreeMap<String, String>;

/// A line of `deviations.tsv`.
struct Deviation {
    place: String,
    case: String,
    answer: String,
    reason: String,
}

impl Deviation {
    /// True if it allows this answer to this case there.
    fn allows(&self, place: &str, case: &str, answer: &str) -> bool {
        (self.place == "both" || self.place == place)
            && fits(&self.case, case)
            && fits(&self.answer, answer)
    }
}

/// True if a text is that of the pattern, which may end with `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

fn folder() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("answers")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn answers(text: &str) -> Answers {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns = lines.filter_map(|line| {
        let mut columns = line.splitn(3, '\t');
        Some((columns.next()?.to_owned(), columns.nth(1)?.to_owned()))
    });
    columns.collect()
}

fn deviations() -> Vec<Deviation> {
    let text = read("deviations.tsv");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows = lines.map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
        [place, case, answer, reason] => {
            let [place, case, answer, reason] = [place, case, answer, reason].map(str::to_owned);
            Deviation { place, case, answer, reason }
        }
        _ => panic!("deviations.tsv has four columns: {line}"),
    });
    rows.collect()
}

/// A real driver's answer is its end where it looked at what it should not: any answer is better.
fn is_end(answer: &str) -> bool {
    answer.starts_with("SIG") || answer == "no answer" || answer == "the process ended"
}

fn ours(scene: &Scene, alone: bool) -> Answers {
    let library = dist().join("lib/openmps/libcuda.so.1");
    let mut all = Answers::new();
    for part in PARTS {
        let mut recorder: Command = scene.command(Path::new("python3"));
        recorder.arg(folder().join("record.py")).arg("--library").arg(&library);
        recorder.args(["--only", part, "--jobs", "2"]);
        if alone {
            recorder.env("CUDA_MPS_PIPE_DIRECTORY", scene.file("empty"));
        }
        all.extend(answers(&finish(&mut recorder).expect_success().stdout));
    }
    all
}

/// Complaints about answers, and the rows of deviations that were needed.
fn compare(
    place: &str,
    real: &Answers,
    ours: &Answers,
    deviations: &[Deviation],
) -> (Vec<String>, BTreeSet<usize>) {
    let (mut complaints, mut needed) = (Vec::new(), BTreeSet::new());
    for (case, answer) in real {
        let own = ours.get(case).map_or("not asked", String::as_str);
        if own == answer || is_end(answer) && !is_end(own) {
            continue;
        }
        let mut rows = deviations.iter().enumerate();
        match rows.find(|(_, row)| row.allows(place, case, own)) {
            Some((index, _)) => {
                needed.insert(index);
            }
            None => complaints.push(format!("{place}\t{case}\t{own}\t{answer}")),
        }
    }
    (complaints, needed)
}

#[test]
fn answers_are_the_real_drivers_but_for_the_listed_ones() {
    let (real, deviations) = (answers(&read("recorded.tsv")), deviations());
    assert!(real.len() > 1500, "the table is there: {}", real.len());
    for row in &deviations {
        assert!(!row.reason.trim().is_empty(), "{}: a deviation has a reason", row.case);
        let known = real.keys().any(|case| fits(&row.case, case));
        assert!(known, "{}: a case of deviations.tsv that there is not", row.case);
    }
    let mut scene = Scene::new();
    let alone = compare("alone", &real, &ours(&scene, true), &deviations);
    scene.start_daemon();
    let daemon = compare("daemon", &real, &ours(&scene, false), &deviations);
    let complaints = [alone.0, daemon.0].concat();
    assert!(
        complaints.is_empty(),
        "{} answers differ: where, case, ours, the driver's:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    let used = |place: &str, row: &Deviation, index: usize, needed: &BTreeSet<usize>| {
        row.place != "both" && row.place != place || needed.contains(&index)
    };
    let rows = deviations.iter().enumerate();
    let unused: Vec<_> = rows
        .filter(|(index, row)| {
            !used("alone", row, *index, &alone.1) || !used("daemon", row, *index, &daemon.1)
        })
        .map(|(_, row)| format!("{}\t{}", row.place, row.case))
        .collect();
    assert!(
        unused.is_empty(),
        "rows of deviations.tsv that no longer differ there, or in one of both places:\n{}",
        unused.join("\n")
    );
}

#[test]
fn what_differs_and_what_no_longer_does_is_seen() {
    let real = answers("# a comment\na/one\tcuA\t0\na/two\tcuB\t1 x=2\na/end\tcuC\tSIGSEGV\n");
    let same = compare("alone", &real, &real.clone(), &[]);
    assert_eq!(same.0, ["alone\ta/end\tSIGSEGV\tSIGSEGV"; 0]);
    let mut other = real.clone();
    other.insert("a/two".into(), "7".into());
    other.insert("a/end".into(), "1".into());
    let (complaints, _) = compare("alone", &real, &other, &[]);
    assert_eq!(complaints, ["alone\ta/two\t7\t1 x=2"]);
    let row = |place: &str, case: &str, answer: &str| Deviation {
        place: place.into(),
        case: case.into(),
        answer: answer.into(),
        reason: "it is so".into(),
    };
    let rows = [row("daemon", "a/two", "7"), row("both", "a/*", "7")];
    let (complaints, needed) = compare("alone", &real, &other, &rows);
    assert!(complaints.is_empty());
    assert_eq!(needed, BTreeSet::from([1]), "the first row is for another place");
    other.remove("a/one");
    assert_eq!(compare("alone", &real, &other, &rows).0, ["alone\ta/one\tnot asked\t0"]);
}
