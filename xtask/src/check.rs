//! Quick checks of a change, in minutes on a tree that was built before; `.ci/run` is the full check.

use crate::dist::run;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Crates whose unit tests need no device and end within seconds.
const QUICK: &[&str] = &[
    "cuda-api",
    "channel",
    "control",
    "export-tables",
    "graph",
    "provider",
    "ptx",
    "recovery",
    "scheduling",
];

fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let begin = Instant::now();
    println!("== cargo {}", arguments.join(" "));
    run(Command::new(env!("CARGO")).current_dir(root).args(arguments))?;
    println!("   {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Format, clippy, house rules and the unit tests of [`QUICK`].
pub(crate) fn check(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--", "--check"])?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    // They are no part of the workspace.
    cargo(root, &["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--bins"])?;
    tidy(root)?;
    let packages = QUICK.iter().flat_map(|name| ["--package", name]);
    let arguments: Vec<&str> = ["test", "--quiet", "--lib"].into_iter().chain(packages).collect();
    cargo(root, &arguments)?;
    // Among them: the pages of commands are what `--help` says.
    cargo(root, &["test", "--quiet", "--package", "openmps", "--bins"])
}

/// The tests of xtask.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    cargo(root, &["test", "--quiet", "--package", "xtask"])
}
