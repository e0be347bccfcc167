//! `openmps upgrade`: servers and daemon of this version in place of those that run, under their programs.

use crate::daemon;
use crate::output;
use anyhow::{Context, Result, bail};
use control::directory::PipeDirectory;
use control::shell::Shell;
use serde_json::json;
use std::process::ExitCode;

/// Put servers and daemon of this version of openmps in place of those that run
///
/// Programs run on: the work in flight of each is finished, and it continues at a new server. Nothing is
/// lost and nothing repeated. Then the daemon becomes the new version too, in the same process, with its
/// sockets, servers and settings; one with named servers or partitions stays.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps upgrade                        after a new version was installed
  /opt/openmps-2/bin/openmps upgrade     to the version in that directory")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = daemon::pipe_directory();
    let Some(report) = daemon::ask(&directory)? else {
        return Err(daemon::none_in(&directory));
    };
    let program = std::env::current_exe().context("finding this program")?;
    let line = format!("upgrade {}", program.display());
    if program.display().to_string().contains(char::is_whitespace) {
        bail!("{} has a blank in its path, which the daemon does not take", program.display());
    }
    let (text, status) = Shell::new(PipeDirectory::new(&directory)).ask(&line)?;
    if status != 0 {
        bail!("{}", text.trim());
    }
    output::print(&match arguments.json {
        true => format!(
            "{}\n",
            json!({ "servers": report.servers.len(), "said": text.trim(), "program": program })
        ),
        false => text,
    })?;
    Ok(ExitCode::SUCCESS)
}
