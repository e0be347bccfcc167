//! Documents: the commands of every document run as they stand there, against a daemon on the software GPU.
//!
//! How a block is marked says [`markdown`]. Commands within sentences, tables and indented lines are not run: it is
//! looked at whether there are such commands and options.

mod markdown;
mod session;
mod transcript;

use markdown::{Block, Kind};
use session::Session;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::Scene;

/// Documents without commands for readers: what happened, and texts that others are made of.
const LEFT_OUT: &[&str] = &["CHANGELOG.md", "bench/h200/report.md", "bench/performance/report.md"];

/// How many blocks are marked as not to be run: one more needs a reason that a reviewer sees here too.
const NOT_RUN: usize = 21;

fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("tests lie in the root").to_path_buf()
}

/// The documents' texts, by path from the root.
fn texts() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"])
        .output()
        .expect("git lists the documents");
    let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let names =
        listed.lines().filter(|name| !LEFT_OUT.contains(name) && !name.contains("/results/"));
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join(name)).expect("a document");
        (name.to_owned(), text)
    };
    names.map(read).collect()
}

/// The documents that have blocks, with these.
fn documents() -> Vec<(String, Vec<Block>)> {
    let blocks = |(name, text): (String, String)| {
        let blocks = markdown::blocks(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, blocks)
    };
    texts().into_iter().map(blocks).filter(|(_, blocks)| !blocks.is_empty()).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[test]
fn commands_of_documents_run_as_they_stand() {
    let (mut complaints, mut run, mut left_out) = (Vec::new(), 0, Vec::new());
    for (name, blocks) in documents() {
        let mut session = Session::new(&root());
        for block in blocks {
            let place = format!("{name}:{}", block.line);
            let missing = block.needs.iter().find(|program| !is_installed(program));
            match (&block.kind, missing) {
                (Kind::Text, _) => continue,
                (Kind::NotRun(reason), _) => left_out.push(format!("{place}: {reason}")),
                (_, Some(program)) => left_out.push(format!("{place}: no {program} is here")),
                _ => {
                    run += 1;
                    println!("{place}");
                    if let Err(error) = session.run(&block) {
                        complaints.push(format!("{place}: {error}"));
                    }
                }
            }
        }
    }
    println!("{run} blocks run, {} not:\n{}", left_out.len(), left_out.join("\n"));
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    assert!(run >= 10, "only {run} blocks run");
}

#[test]
fn blocks_that_are_not_run_are_counted() {
    let mut reasons = Vec::new();
    for (name, blocks) in documents() {
        for block in blocks {
            if let Kind::NotRun(reason) = block.kind {
                assert!(reason.len() > 10, "{name}:{}: no reason", block.line);
                reasons.push(format!("{name}:{}: {reason}", block.line));
            }
        }
    }
    assert_eq!(reasons.len(), NOT_RUN, "{}", reasons.join("\n"));
}

/// The words of a line from `openmps` on, if they stand in backquotes or the line is indented.
fn named_commands(line: &str) -> Vec<&str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let indented = line.strip_prefix("    ").into_iter();
    quoted.chain(indented).filter_map(|text| text.strip_prefix("openmps ")).collect()
}

/// The options in a text that are openmps' own and not those of a program behind ` -- `.
fn options(text: &str) -> impl Iterator<Item = String> {
    let own = text.split(" -- ").next().unwrap_or_default();
    own.split("--").skip(1).filter_map(|rest| {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let name: String = rest.chars().take_while(|c| is_of_name(*c)).collect();
        (!name.is_empty()).then(|| format!("--{name}"))
    })
}

/// Complaints about a command as a document names it; `help` gives the help of words, if there is such a command.
fn wrong_with(text: &str, help: &mut impl FnMut(&[&str]) -> Option<String>) -> Option<String> {
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<&str> = text.split_whitespace().take_while(is_name).collect();
    let first = words.first()?;
    let Some(mut found) = help(&[first]) else { return Some(format!("no command {first}")) };
    // Commands of commands: their help has the options.
    if let Some(inner) = words.get(1).and_then(|second| help(&[first, second])) {
        found = inner;
    }
    let has = |option: &String| {
        found.split([' ', ',', '\n', '[', '=']).any(|word| word == option.as_str())
    };
    options(text).find(|option| !has(option)).map(|option| format!("no option {option} of {first}"))
}

#[test]
fn commands_that_documents_name_exist() {
    let scene = Scene::new();
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut help = |words: &[&str]| -> Option<String> {
        let ask = || {
            let answer = scene.openmps(&[words, &["--help"]].concat());
            // `openmps ps x --help` is the help of ps.
            let usage = format!("Usage: openmps {}", words.join(" "));
            (answer.status == 0 && answer.stdout.contains(&usage)).then_some(answer.stdout)
        };
        known.entry(words.join(" ")).or_insert_with(ask).clone()
    };
    let (mut complaints, mut seen) = (Vec::new(), 0);
    for (name, text) in texts() {
        for (number, line) in (1..).zip(text.lines()) {
            for command in named_commands(line) {
                seen += 1;
                if let Some(wrong) = wrong_with(command, &mut help) {
                    complaints.push(format!("{name}:{number}: openmps {command}: {wrong}"));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(seen > 50, "only {seen} commands are named");
}

#[test]
fn wrong_commands_are_found() {
    let mut help = |words: &[&str]| match words {
        ["ps"] => {
            Some("Usage: openmps ps\n  -w, --watch [<SECONDS>]\n      --json  Print\n".to_owned())
        }
        _ => None,
    };
    let mut wrong = |text: &str| wrong_with(text, &mut help);
    for right in ["ps", "ps --watch=3 --json", "ps --json -- ./x --steps 3", "PROGRAM"] {
        assert_eq!(wrong(right), None, "{right}");
    }
    assert_eq!(wrong("pss --json").as_deref(), Some("no command pss"));
    assert_eq!(wrong("ps [--json|--csv]").as_deref(), Some("no option --csv of ps"));
    assert_eq!(named_commands("with `openmps ps --x` and `y`"), ["ps --x"]);
    assert_eq!(named_commands("    openmps top   words"), ["top   words"]);
}
