//! `cargo bench`: builds an optimised installation and runs `openmps bench` in it.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Command::new(env!("CARGO"))
        .current_dir(&root)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist", "--release"])
        .output();
    let output = match built {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            eprintln!("cargo xtask dist: {}", String::from_utf8_lossy(&output.stderr));
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("cargo does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let text = String::from_utf8_lossy(&output);
    let dist = Path::new(text.lines().last().unwrap_or_default());
    // cargo passes --bench; what a user adds after `--` is for `openmps bench`.
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match Command::new(dist.join("bin/openmps")).arg("bench").args(arguments).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
