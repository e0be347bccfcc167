//! Output: standard output and standard error of a command.
//!
//! What a command prints is its result: if it cannot be printed, the command has failed. A reader
//! that has enough (`head`) ends it too, but quietly. Nothing here panics, as `println!` would.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Standard output's reader has enough: a command ends, and has not failed.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(crate) struct Closed;

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    print_to(&mut io::stdout().lock(), text)
}

/// Prints a value as JSON over several lines.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints what is no text on standard output.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    print_bytes_to(&mut io::stdout().lock(), bytes)
}

/// Prints text on a terminal or file that stands for standard output.
pub(crate) fn print_to(output: &mut dyn Write, text: &str) -> Result<()> {
    print_bytes_to(output, text.as_bytes())
}

fn print_bytes_to(output: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        written => written.context("writing to standard output"),
    }
}

/// Says something on standard error, for a person. Standard error may be closed: an error is
/// ignored.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "openmps: {message}");
}
