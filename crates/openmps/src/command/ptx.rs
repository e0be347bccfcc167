//! `openmps ptx`: what the software GPU makes of PTX, without running it.
//!
//! A command each for the verdict and for the stages; what both share is here: where PTX comes
//! from.

mod check;
mod dump;

use anyhow::{Context, Result};
use ptx::embedded::{self, Text};
use std::fs::File;
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
pub(crate) fn native_isa() -> Option<simt_jit::SimdIsa> {
    let setting = std::env::var(cuda_api::environment::OPENMPS_SOFT_SIMD).ok();
    simt_jit::SimdIsa::choose(setting.as_deref())
}

/// Most bytes of a file: libraries with kernels for many devices have up to two gigabytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Most bytes of what does not say how long it is, as standard input and devices.
const STREAM_BYTES_MAX: u64 = 256 << 20;

/// The PTX texts of a file, or of standard input for `-`.
fn read(file: &Path) -> Result<Vec<Text>> {
    if file.as_os_str() == "-" {
        let bytes = read_at_most(std::io::stdin().lock(), 0, STREAM_BYTES_MAX);
        return Ok(embedded::texts(&bytes.context("cannot read standard input")?)?);
    }
    let opened = File::open(file).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.context("cannot be read")?;
    let most = if metadata.is_file() { FILE_BYTES_MAX } else { STREAM_BYTES_MAX };
    Ok(embedded::texts(&read_at_most(file, metadata.len(), most).context("cannot be read")?)?)
}

/// All that there is to read, of which so much is expected.
fn read_at_most(source: impl Read, expected: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if expected <= most {
        bytes.try_reserve_exact(expected as usize)?;
        source.take(most + 1).read_to_end(&mut bytes)?;
    }
    if expected.max(bytes.len() as u64) > most {
        let message = format!("it has more than {} MiB", most >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text as the compiler takes it. Bytes that are no UTF-8 can stand in comments only, where
/// it does not matter what they become.
fn source(text: &Text) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&text.bytes)
}
