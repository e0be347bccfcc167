//! `openmps down`: the end of this user's daemon.

use crate::daemon;
use crate::output;
use crate::seconds;
use anyhow::{Result, bail};
use control::directory::PipeDirectory;
use control::report::Report;
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
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds::whole::<u32>)]
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
    if let Some(obstacle) = obstacle(&report, rustix::process::geteuid().as_raw()) {
        bail!("{obstacle}");
    }
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
