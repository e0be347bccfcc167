//! Development tasks: `cargo xtask --help`.

fn main() {}
