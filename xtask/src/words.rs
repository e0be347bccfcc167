//! Words test: comments and documents name the thing or the actor, as an ordinary test.
//!
//! Not here: names, texts in quotes and what is in backquotes, such as the user `nobody`.

use crate::tidy::{read, tracked};

/// Words that name no thing and no actor.
const VAGUE_WORDS: &[&str] =
    &["nobody", "somebody", "everybody", "everyone", "whoever", "whatever", "what goes on"];

/// Words that a standard term of the field has replaced, for documents: `ARCHITECTURE.md`, "Terms", has the terms.
/// Names of variables, settings and commands stand in backquotes, where nothing is looked at. Comments of the folders in
/// [`RENAMED`] do without them too.
pub(crate) const RETIRED_WORDS: &[&str] = &[
    // Waiting: poll interval, CPU oversubscription, predictive polling, quiescent point, pause.
    "nap",
    "naps",
    "napping",
    "doze",
    "dozes",
    "crowd",
    "crowds",
    "crowded",
    "rhythm",
    "rhythms",
    "moment",
    "moments",
    "hold",
    "holds",
    "held",
    "holding",
    // Launch batching: launch sequence.
    "stretch",
    "stretches",
    // Fault attribution: candidate, evidence, faulting client, unaffected client, corrupted context.
    "trial",
    "plea",
    "pleas",
    "judge",
    "guilt",
    "guilty",
    "innocent",
    "innocents",
    "culprit",
    "culprits",
    "accused",
    "suspect",
    "suspects",
    "spoiled",
    "spoils",
    "quarantine",
    "quarantined",
    // Recovery: server key, recovery ordering, restore, in doubt, in flight, report, stalled.
    "seat",
    "seats",
    "precedence",
    "declares",
    "uncertain",
    "under way",
    "told",
    "gets on",
    "get on",
    "got on",
    // Others: requested limits, per-thread variant, module preload, mode or path, 3-D copy, doorbell, effects, leaked
    // objects, throttled.
    "box",
    "boxes",
    "bell",
    "bells",
    "hands",
    "leftovers",
    "shallow",
    "wish",
    "wishes",
    "twin",
    "twins",
    "warm list",
    "warm lists",
    "way",
    "ways",
    "vouched",
    "hurry",
];

/// Crates whose comments do without this one too: a list that grows.
const PLAIN_CRATES: &[&str] = &["ptx", "simt", "simt-interpreter", "simt-jit"];
const SO_MANY: &[&str] = &["so many"];

/// Folders whose comments do without [`RETIRED_WORDS`]: a list that grows with the renames.
const RENAMED: &[&str] = &[
    "crates/device-model",
    "crates/driver-common",
    "crates/graph",
    "crates/nvtx",
    "crates/runtime-compilers",
    "tests/scale",
];

/// Words of [`RETIRED_WORDS`] that comments of the folders in [`RENAMED_IN_PART`] do without. The others have plain
/// meanings there: a thread holds a lock, a condition holds, a block gives way.
const REPLACED_WORDS: &[&str] = &[
    "bell",
    "bells",
    "box",
    "boxes",
    "crowd",
    "culprit",
    "guilty",
    "hands",
    "innocent",
    "moment",
    "moments",
    "nap",
    "naps",
    "plea",
    "seat",
    "seats",
    "stretch",
    "stretches",
    "suspect",
    "twin",
    "twins",
    "under way",
    "wish",
    "wishes",
];

/// Folders whose comments do without [`REPLACED_WORDS`]: a list that grows with the renames.
const RENAMED_IN_PART: &[&str] = &[
    "bench/kernels",
    "crates/client",
    "crates/control",
    "crates/export-tables",
    "crates/nvml",
    "crates/ptx",
    "crates/ptx-reference",
    "crates/recovery",
    "crates/server",
    "crates/soft-gpu",
    "samples",
];

/// Endings of files with comments, and the mark that a comment begins with.
const COMMENTS: &[(&str, &str)] = &[
    ("rs", "//"),
    ("cu", "//"),
    ("ptx", "//"),
    ("c", "//"),
    ("h", "//"),
    ("cl", "//"),
    ("js", "//"),
    ("py", "#"),
    ("sh", "#"),
    ("toml", "#"),
];

/// Scripts whose names have no ending.
const SCRIPTS: &[&str] = &[".ci/*", "fuzz/run", "fuzz/hours"];

/// Number of the user `nobody`: a line that names the number may name the user.
const NOBODY: &str = "65534";

/// Measured results, which are kept as they were printed.
const RESULTS: &str = "bench/h200/results";

/// The words of `words` that a text has outside of backquotes.
pub(crate) fn found_in(
    text: &str,
    words: &'static [&'static str],
) -> impl Iterator<Item = &'static str> {
    let plain: Vec<&str> = text.split('`').step_by(2).collect();
    let plain = plain.join("`").to_lowercase();
    let is_user = plain.contains(NOBODY);
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    words.iter().copied().filter(move |word| {
        plain.match_indices(word).any(|(at, _)| {
            let before = plain[..at].chars().next_back();
            let after = plain[at + word.len()..].chars().next();
            !is_letter(before) && !is_letter(after)
        }) && !(is_user && *word == "nobody")
    })
}

/// The comment of a line, if it has one; without a mark all of the line is read.
fn comment<'a>(line: &'a str, mark: Option<&str>) -> Option<&'a str> {
    match mark {
        Some(mark) => line.split_once(mark).map(|(_, comment)| comment),
        None => Some(line),
    }
}

/// Complaints about the files of a pattern: where, and which word. Comments begin with `mark`.
fn complaints(pattern: &str, words: &'static [&'static str], mark: Option<&str>) -> Vec<String> {
    let mut complaints = Vec::new();
    for path in tracked(pattern) {
        if path.to_string_lossy().contains(RESULTS) {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let Some(text) = comment(line, mark) else { continue };
            for word in found_in(text, words) {
                complaints.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    complaints
}

#[test]
fn comments_name_things() {
    let mut found = Vec::new();
    for (ending, mark) in COMMENTS {
        found.extend(complaints(&format!("*.{ending}"), VAGUE_WORDS, Some(mark)));
    }
    for script in SCRIPTS {
        found.extend(complaints(script, VAGUE_WORDS, Some("#")));
    }
    for name in PLAIN_CRATES {
        found.extend(complaints(&format!("crates/{name}/*.rs"), SO_MANY, Some("//")));
    }
    assert!(found.is_empty(), "name the thread, process, client, user ...:\n{}", found.join("\n"));
}

#[test]
fn comments_of_renamed_folders_have_no_retired_words() {
    let of = |folder: &&str| complaints(&format!("{folder}/*.rs"), RETIRED_WORDS, Some("//"));
    let found: Vec<String> = RENAMED.iter().flat_map(of).collect();
    assert!(found.is_empty(), "ARCHITECTURE.md, Terms, has the terms:\n{}", found.join("\n"));
}

#[test]
fn comments_of_folders_renamed_in_part_have_no_replaced_words() {
    let of = |folder: &&str| complaints(&format!("{folder}/*.rs"), REPLACED_WORDS, Some("//"));
    let found: Vec<String> = RENAMED_IN_PART.iter().flat_map(of).collect();
    assert!(found.is_empty(), "ARCHITECTURE.md, Terms, has the terms:\n{}", found.join("\n"));
    assert!(REPLACED_WORDS.iter().all(|word| RETIRED_WORDS.contains(word)));
}

#[test]
fn documents_name_things() {
    let found = complaints("*.md", VAGUE_WORDS, None);
    assert!(found.is_empty(), "name the thread, process, client, user ...:\n{}", found.join("\n"));
}

#[test]
fn vague_words_are_found_and_names_are_not() {
    let found = |text: &str| found_in(text, VAGUE_WORDS).collect::<Vec<_>>();
    assert_eq!(found("wakes Nobody, and somebody else waits"), ["nobody", "somebody"]);
    assert_eq!(found("everybody's memory, whoever's it is"), ["everybody", "whoever"]);
    assert_eq!(found("Whatever it is, everyone sees it"), ["everyone", "whatever"]);
    assert_eq!(found("shows what goes on now"), ["what goes on"]);
    assert_eq!(found("the user `nobody` and [`SetBy::Nobody`]"), [""; 0]);
    assert_eq!(found("the user nobody (65534), as the system calls it"), [""; 0]);
    assert_eq!(found("a call of nobody_waits"), [""; 0]);
    assert_eq!(found("`a` nobody `b`"), ["nobody"]);

    let slashes = "//";
    let code = format!("let nobody = 1; {slashes} why");
    assert_eq!(comment(&code, Some(slashes)), Some(" why"));
    assert_eq!(comment("let nobody = 1;", Some(slashes)), None);
    assert_eq!(comment("a document", None), Some("a document"));
}
