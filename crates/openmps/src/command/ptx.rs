//! `openmps ptx`: what the software GPU makes of PTX, without running it.
//!
//! A command each for the verdict and for the stages; what both share is here: where PTX comes
//! from.

mod check;
mod dump;

use anyhow::{Context, Result};
use ptx::embedded::{self, Text};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Check PTX, or show what the software GPU makes of it
///
/// FILE is PTX text, a fatbin, or a program or library with PTX in it; `-` is standard input.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Arguments),
    Dump(dump::Arguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Dump(arguments) => dump::run(arguments),
    }
}

/// Which native code the software GPU would run here, if any.
fn native_flavour() -> Option<simt_jit::Flavour> {
    let setting = std::env::var(cuda_api::environment::OPENMPS_SOFT_SIMD).ok();
    simt_jit::Flavour::choose(setting.as_deref())
}

/// The PTX texts of a file, or of standard input for `-`.
fn read(file: &Path) -> Result<Vec<Text>> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes = std::fs::read(file).context("cannot be read")?;
    }
    Ok(embedded::texts(&bytes)?)
}

/// The text as the compiler takes it. Bytes that are no UTF-8 can stand in comments only, where
/// it does not matter what they become.
fn source(text: &Text) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&text.bytes)
}
