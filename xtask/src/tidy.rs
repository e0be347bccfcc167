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
    ("program/launch.rs", "launch"),
    ("program/submission.rs", "launch"),
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
