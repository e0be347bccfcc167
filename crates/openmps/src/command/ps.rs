//! `openmps ps`: which programs use the device through this user's daemon, and how much.

mod screen;
mod table;

use crate::daemon;
use crate::output;
use anyhow::Result;
use observe::past::Past;
use observe::reading::Reading;
use screen::Screen;
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The first table of `--watch` comes after this time at the latest: the reader shall not look at
/// an empty terminal for the minutes that may lie between two tables.
const FIRST: Duration = Duration::from_secs(1);

/// List the programs that share the device, and what it does for them
///
/// Of the system's daemon you see your own programs; root sees all.
#[derive(clap::Args)]
#[command(after_help = "Columns:
  PID      its process; a dash for one of another PID namespace, where the daemon runs in one
  ID       its number at its server, which terminate_client takes as id:ID
  CLASS    latency (critical), normal or batch (best-effort): run --class
  SPACE    where classes share the SMs: those of a batch program; how long the work
           of a latency program takes beside batch work, in times of alone
  MEMORY   device memory that the program holds, and how much it may, if that is limited
  KERNELS  how many it has launched; with --watch, how many a second
  BUSY     for how long its kernels ran; with --watch, for how much of the time
  SMS      how many SMs they had while they ran
  WARPS    how many warps were resident on an SM that they had
  LANES    how many lanes of a warp took part in an instruction
A dash stands where the device does not count (a GPU), or where nothing ran.
On a narrow terminal WARPS, SMS, SERVER, LANES and USER are left out, in this order,
and long commands are cut: --wide shows all, as do files and pipes.

Examples:
  openmps ps
  openmps ps --watch
  openmps ps --json | jq '.servers[].clients[] | {pid, memory_bytes}'")]
pub(crate) struct Arguments {
    /// Print JSON: all that the daemon reports, counted since each program's start
    #[arg(long)]
    json: bool,
    /// Show all columns and whole command lines, however narrow the terminal is
    #[arg(long)]
    wide: bool,
    /// On a terminal, `openmps top`; elsewhere a table every so many seconds, until Ctrl-C
    #[arg(long, short, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    watch: Option<u16>,
}

/// What the daemon says, as JSON too.
fn ask() -> Result<(String, Reading)> {
    let directory = daemon::pipe_directory();
    match daemon::ask_for_text(&directory)? {
        Some((json, report)) => Ok((json, Reading { at: Instant::now(), report })),
        None => Err(daemon::none_in(&directory)),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let (Some(seconds), false, true) =
        (arguments.watch, arguments.json, std::io::stdout().is_terminal())
    {
        return super::top::show(Duration::from_secs(seconds.into()));
    }
    let me = rustix::process::geteuid().as_raw();
    let (json, now) = match ask() {
        // A program that reads JSON gets some; standard error says what to do about it.
        Err(error) if arguments.json => {
            let directory = daemon::pipe_directory();
            let nothing = json!({ "running": false, "pipe_directory": directory, "servers": [] });
            output::print(&format!("{nothing}\n"))?;
            return Err(error);
        }
        reading => reading?,
    };
    let shown = |now: &Reading, past: Option<&Past>| {
        let screen = Screen::now();
        let width = screen.width().filter(|_| !arguments.wide);
        screen.below(&table::table(now, past, me, width))
    };
    let Some(seconds) = arguments.watch else {
        output::print(&match arguments.json {
            true => json,
            false => shown(&now, None),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let interval = Duration::from_secs(seconds.into());
    let mut past = Past::default();
    past.take(&now);
    let mut pause = interval.min(FIRST);
    loop {
        std::thread::sleep(pause);
        let (json, now) = ask()?;
        output::print(&match arguments.json {
            true => json,
            false => shown(&now, Some(&past)),
        })?;
        past.take(&now);
        pause = interval;
    }
}
