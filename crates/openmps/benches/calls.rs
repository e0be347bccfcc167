//! `cargo bench -p openmps`: runs `openmps bench` of an optimised installation.

use std::os::unix::process::CommandExt;
use std::process::Command;

fn main() {
    // cargo passes --bench; what a user adds after `--` is for `openmps bench`.
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let error = Command::new(env!("CARGO"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["run", "--quiet", "--package", "xtask", "--", "bench"])
        .args(arguments)
        .exec();
    panic!("cargo does not start: {error}");
}
