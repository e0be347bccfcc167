//! `openmps down`: the end of this user's daemon.

use crate::daemon;
use crate::output;
use anyhow::{Result, bail};
use control::directory::PipeDirectory;
use control::shell::Shell;
use serde_json::json;
use std::process::ExitCode;

/// Stop the daemon of this user and its servers
///
/// Waits until the programs that use it have ended.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps down
  openmps down --timeout 10     end programs' sessions after 10 seconds")]
pub(crate) struct Arguments {
    /// Wait this long for programs, then end their sessions
    #[arg(long, short, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = daemon::pipe_directory();
    let Some(report) = daemon::ask(&directory)? else {
        output::print(&match arguments.json {
            true => format!("{}\n", json!({ "stopped": false, "pipe_directory": directory })),
            false => format!("no daemon runs in {}\n", directory.display()),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let clients = report.programs();
    if clients > 0 && !arguments.json {
        let advice = match arguments.timeout {
            Some(seconds) => format!("for at most {seconds} s"),
            None => "(--timeout limits that)".to_owned(),
        };
        output::say(format_args!("waiting for {clients} program(s) {advice}"));
    }
    let command = match arguments.timeout {
        Some(seconds) => format!("quit -t {seconds}"),
        None => "quit".to_owned(),
    };
    let (text, status) = Shell::new(PipeDirectory::new(&directory)).ask(&command)?;
    if status != 0 {
        bail!("{}", text.trim());
    }
    let pid = report.pid;
    output::print(&match arguments.json {
        true => {
            format!("{}\n", json!({ "stopped": true, "pid": pid, "pipe_directory": directory }))
        }
        false => format!("stopped the daemon (PID {pid}) in {}\n", directory.display()),
    })?;
    Ok(ExitCode::SUCCESS)
}
