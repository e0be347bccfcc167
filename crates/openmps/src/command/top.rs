//! `openmps top`: devices, clients and their kernels, live.

use crate::daemon;
use crate::output;
use crate::signals;
use anstream::{AutoStream, ColorChoice};
use anyhow::Result;
use observe::source::{DaemonSource, ReportSource};
use observe::top;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Show live what devices and clients do: GPU utilisation next to SM activity
///
/// A share of the SMs, busy time, memory, kernels a second, queue and history of each client; its
/// kernels, with time and shape; keys to set its share or to end it. Where standard output is no
/// terminal, one frame is printed. NO_COLOR is heeded.
#[derive(clap::Args)]
#[command(after_help = "Keys:
  up, down  choose a client     enter, k  its kernels     l  set its share of the SMs
            or a kernel
  s  sort by another column     /  filter                 x  end it, after asking
  tab  one device after another h  what columns mean      q  quit

Examples:
  openmps top
  openmps top --interval 5
  openmps top --json | jq '.clients[] | {pid, sm_share, busy}'")]
pub(crate) struct Arguments {
    /// Seconds between two looks
    #[arg(long, short, value_name = "SECONDS", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=3600))]
    interval: u16,
    /// Print what happened in one interval as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let interval = Duration::from_secs(arguments.interval.into());
    if !arguments.json {
        return show(interval);
    }
    let (_, mut source) = source()?;
    let rates = top::rates_of(&mut source, interval)?;
    output::print_json(&rates)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the screen, or prints a frame of it where there is no terminal.
pub(crate) fn show(interval: Duration) -> Result<ExitCode> {
    let (_, mut source) = source()?;
    let stdout = io::stdout();
    if stdout.is_terminal() && io::stdin().is_terminal() {
        let colours = AutoStream::choice(&stdout) != ColorChoice::Never;
        // Raw mode leaves Ctrl-C to the keys, and not SIGTERM.
        let ended = Arc::new(AtomicBool::new(false));
        signals::note(&ended)?;
        top::run(Box::new(source), interval, colours, &ended)?;
    } else {
        output::print(&top::print_once(&mut source, interval)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The daemon of this user, which must run; and what it says now.
pub(crate) fn source() -> Result<(control::report::Report, DaemonSource)> {
    let directory = daemon::pipe_directory();
    let report = daemon::ask(&directory)?.ok_or_else(|| daemon::none_in(&directory))?;
    let mut source = DaemonSource::new(&directory);
    // Whether it is of this version is said at once.
    source.report()?;
    Ok((report, source))
}
