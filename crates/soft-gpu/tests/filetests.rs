//! Tests of the engine without a device: PTX in, results out, in this process and thread.

#[path = "filetests/harness.rs"]
mod harness;
#[path = "filetests/programs.rs"]
mod programs;
