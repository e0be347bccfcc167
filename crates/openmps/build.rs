//! The commit of which this build is, for `--version`: from Git, or from OPENMPS_COMMIT where the sources
//! are no checkout.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn main() {
    println!("cargo::rerun-if-env-changed=OPENMPS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A line is added there with each commit and checkout.
    if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
    let given = std::env::var("OPENMPS_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=OPENMPS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}
