//! What the installation says of itself is true of its files.

use std::process::Command;
use tests::{Scene, dist};

#[test]
fn coverage_counts_what_the_library_exports() {
    let report = Scene::new().openmps(&["coverage", "--json"]).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    let parts: u64 =
        ["local", "post", "call", "special", "unsupported"].iter().map(|n| number(n)).sum();
    assert_eq!(parts, number("total"));

    let library = dist().join("lib/openmps/libcuda.so.1");
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let symbols = String::from_utf8(symbols.expect("nm, which comes with a linker").stdout);
    let symbols = symbols.expect("symbols are ASCII");
    let mut exported: Vec<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let mut listed: Vec<&str> = report["functions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| f["name"].as_str().expect("a name"))
        .collect();
    listed.sort_unstable();
    assert_eq!(exported, listed, "cu* and nothing else");
}

#[test]
fn doctor_finds_the_software_gpu() {
    let report = Scene::new().openmps(&["doctor", "--json"]).expect_success();
    assert!(report.stdout.contains("software GPU"), "{}", report.stdout);
}
