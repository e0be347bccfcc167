//! The `openmps` command.

fn main() {}
