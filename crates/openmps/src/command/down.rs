//! `openmps down`: the end of this user's daemon.

use crate::daemon;
use crate::output;
use crate::seconds;
use anyhow::{Result, bail};
use control::directory::PipeDirectory;
use control::report::Report;
use control::shell::Shell;
use serde_json::json;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use std::path::Path;
use std::process::ExitCode;

/// Stop the daemon of this user and its servers
///
/// Waits until the programs that use it have ended; the daemon takes no new ones meanwhile. Ctrl-C ends
/// the wait and not the shutdown, which --cancel withdraws.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps down
  openmps down --timeout 10     end programs' sessions after 10 seconds
  openmps down --cancel         have a daemon stay that waits for programs to end")]
pub(crate) struct Arguments {
    /// Wait this long for programs, then end their sessions
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds::whole::<u32>)]
    timeout: Option<u32>,
    /// Withdraw a shutdown that waits for programs: the daemon stays and takes new ones again
    #[arg(long, conflicts_with = "timeout")]
    cancel: bool,
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
    if let Some(obstacle) = obstacle(&report, rustix::process::geteuid().as_raw()) {
        bail!("{obstacle}");
    }
    if arguments.cancel {
        return cancel(&directory, &report, arguments.json);
    }
    let clients = report.programs();
    if clients > 0 {
        tell_interrupted()?;
    }
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

/// Has a daemon stay that is on its way to its end.
fn cancel(directory: &Path, report: &Report, json: bool) -> Result<ExitCode> {
    let (text, status) = Shell::new(PipeDirectory::new(directory)).ask("cancel_quit")?;
    if status != 0 {
        bail!("{}", text.trim());
    }
    let pid = report.pid;
    output::print(&match json {
        true => {
            format!("{}\n", json!({ "stopped": false, "pid": pid, "pipe_directory": directory }))
        }
        false => format!("the daemon (PID {pid}) in {} stays\n", directory.display()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Has Ctrl-C say that the shutdown continues and how to cancel it, before it ends this command.
fn tell_interrupted() -> Result<()> {
    const INTERRUPTED: i32 = 128 + SIGINT;
    let mut signals = Signals::new([SIGINT])?;
    let body = move || {
        if signals.forever().next().is_some() {
            output::say(
                "the daemon goes on shutting down: it takes no new programs and ends with the last \
                 one; `openmps down --cancel` has it stay",
            );
            std::process::exit(INTERRUPTED);
        }
    };
    std::thread::Builder::new().name("interrupted".to_owned()).spawn(body)?;
    Ok(())
}

/// Why a user may not stop the daemon, if that is so.
fn obstacle(report: &Report, user: u32) -> Option<String> {
    (user != 0 && user != report.uid).then(|| {
        format!(
            "the daemon in {} is {}'s: only that user and root may stop it",
            report.pipe_directory.display(),
            control::users::name(report.uid)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_users_daemon_is_left_alone() {
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[]}"#;
        let of = |uid| Report { uid, ..serde_json::from_str(text).unwrap() };
        let roots = "the daemon in /p is root's: only that user and root may stop it";
        assert_eq!(obstacle(&of(0), 4_000_000).as_deref(), Some(roots));
        assert_eq!((obstacle(&of(0), 0), obstacle(&of(4_000_000), 4_000_000)), (None, None));
        assert_eq!(obstacle(&of(4_000_000), 0), None);
    }
}
