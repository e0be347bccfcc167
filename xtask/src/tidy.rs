//! House rules: those that a machine can check, as ordinary tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file that is no table and no test.
const LINES_MAX: usize = 800;

/// Crates in which `unsafe` does not occur at all.
const SAFE_CRATES: &[&str] = &["ptx", "control"];

pub(crate) fn tracked(pattern: &str) -> Vec<PathBuf> {
    let root = crate::root();
    let output = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern])
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files failed");
    String::from_utf8(output.stdout)
        .expect("paths are UTF-8")
        .lines()
        .map(|line| root.join(line))
        .filter(|path| path.is_file())
        .collect()
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_table_or_test(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.contains("/tests") || path.contains("generated") || path.ends_with("table.rs")
}

#[test]
fn source_files_open_with_what_they_are_and_stay_short() {
    let mut complaints = Vec::new();
    for path in tracked("*.rs") {
        let text = read(&path);
        if !text.starts_with("//!") {
            complaints.push(format!("{}: does not open with //!", path.display()));
        }
        let lines = text.lines().count();
        if lines > LINES_MAX && !is_table_or_test(&path) {
            complaints.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn safe_crates_forbid_unsafe() {
    for name in SAFE_CRATES {
        let path = crate::root().join("crates").join(name).join("src/lib.rs");
        assert!(read(&path).contains("#![forbid(unsafe_code)]"), "{}", path.display());
    }
}

/// How often a line of code begins an unsafe block or implementation. Texts and comments are not read.
fn unsafe_begun(line: &str) -> usize {
    let line = line.replace("\\\"", "");
    let code: Vec<&str> = line.split('"').step_by(2).collect();
    let code = code.join("\"");
    let code = code.split("//").next().unwrap_or_default();
    let begins = |rest: &str| rest.starts_with('{') || rest.starts_with("impl");
    code.split("unsafe ").skip(1).filter(|rest| begins(rest)).count()
}

/// Complaints about the lines of a file: unsafe blocks and implementations without a SAFETY comment of their own, and
/// SAFETY comments without one of those. A comment stands above the line, or above the first of two.
fn unsafe_complaints(text: &str) -> Vec<(usize, &'static str)> {
    let (mut complaints, mut comment, mut lines_since) = (Vec::new(), None, 0);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") {
            if trimmed.starts_with(concat!("// SAFE", "TY")) {
                complaints.extend(comment.replace(number).map(|at| (at, "of no unsafe block")));
                lines_since = 0;
            }
            continue;
        }
        lines_since += 1;
        match unsafe_begun(line) {
            0 => {}
            1 if comment.is_some() => comment = None,
            1 => complaints.push((number, "an unsafe block without a comment")),
            _ => complaints.push((number, "several unsafe blocks in a line")),
        }
        if lines_since >= 2 {
            complaints.extend(comment.take().map(|at| (at, "of no unsafe block")));
        }
    }
    complaints.extend(comment.map(|at| (at, "of no unsafe block")));
    complaints
}

#[test]
fn each_unsafe_block_has_one_safety_comment() {
    let mut complaints = Vec::new();
    for path in tracked("*.rs") {
        for (line, complaint) in unsafe_complaints(&read(&path)) {
            complaints.push(format!("{}:{}: {complaint}", path.display(), line + 1));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn unsafe_blocks_and_their_comments_are_told_apart() {
    let comment = concat!("// SAFE", "TY: why\n");
    let of = |text: &str| {
        unsafe_complaints(&text.replace("WHY\n", comment))
            .into_iter()
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("WHY\n// more\nlet a =\n    unsafe { f() };\n"), [0; 0]);
    assert_eq!(of("WHY\nunsafe impl Send for A {}\n"), [0; 0]);
    assert_eq!(of("let a = unsafe { f() };\n"), [0], "no comment");
    assert_eq!(of("WHY\nlet a = unsafe { f() };\nlet b = unsafe { f() };\n"), [2], "one of two");
    assert_eq!(of("WHY\nlet a = [unsafe { f() }, unsafe { g() }];\n"), [1, 0], "one for two");
    assert_eq!(of("WHY\nfn f() {\n}\nWHY\nunsafe { f() }\n"), [0], "a stray comment");
    assert_eq!(of("WHY\nWHY\nunsafe { f() }\n"), [0], "two comments");
    assert_eq!(
        of("unsafe fn f();\nunsafe extern \"C\" { }\nlet a = \"unsafe { f() }\";\n"),
        [0; 0]
    );
}

#[test]
fn nothing_is_left_to_do_in_the_code() {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME")];
    for path in tracked("*.rs") {
        let text = read(&path);
        for word in words {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// Functions that a launch goes through on its way down, by file of crate client.
const WAY_OF_A_LAUNCH: &[(&str, &str)] = &[
    ("api/launch.rs", "cuLaunchKernel"),
    ("program/launch/mod.rs", "launch"),
    ("program/launch/posting.rs", "launch"),
    ("program/launch/submission.rs", "launch_now"),
    ("module/kernel_params.rs", "fill"),
];

/// A layer names only those below it, so the one way back up is a function that it is given.
#[test]
fn the_way_of_a_launch_goes_down() {
    for (file, function) in WAY_OF_A_LAUNCH {
        let text = read(&crate::root().join("crates/client/src").join(file));
        let start = text.find(&format!("fn {function}(")).expect("a function of the way");
        let end = text[start..].find('{').expect("a body") + start;
        let signature = &text[start..end];
        let is_called_back =
            ["impl Fn", "impl for<", "&dyn", "fn("].map(|way| signature.contains(way));
        assert!(!is_called_back.contains(&true), "client/src/{file}: {signature}");
    }
}
