//! `openmps up`: this user's daemon, started if it does not run.

use crate::daemon;
use crate::libraries::Libraries;
use crate::output;
use crate::seconds;
use anyhow::Result;
use cuda_api::environment::{
    OPENMPS_HOLD_MAX, OPENMPS_ISOLATE_LONG, OPENMPS_KERNEL_TIMEOUT_S, OPENMPS_SCHEDULING,
    OPENMPS_STANDBY, OPENMPS_WARM, Values,
};
use serde_json::json;
use std::process::ExitCode;

/// Start the daemon of this user, unless it runs
///
/// Exits with 1 if one runs that was started without the options given here.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps up
  openmps up --scheduling slowdown=1.5,least=20%
  CUDA_MPS_PIPE_DIRECTORY=/run/gpu0 openmps up     one of several daemons
  sudo nvidia-cuda-mps-control -d                  one for all users of the machine")]
pub(crate) struct Arguments {
    /// Keep a server with a made context ready, to replace a lost one at once; it takes the device memory
    /// of a context
    #[arg(long)]
    standby: bool,
    /// Terminate a program one of whose streams makes no progress for this long; 0 or unset: never
    #[arg(long, value_name = "SECONDS", value_parser = seconds::whole::<u64>)]
    kernel_timeout: Option<u64>,
    /// Move a program whose kernels run for longer, a time such as 1s, to a server of its own, so that no
    /// other program's call waits for them; the driver time-slices servers
    #[arg(long, value_name = "TIME", value_parser = time)]
    isolate_long: Option<String>,
    /// Pause programs for at most this, a time such as 2ms, for another program's call that waits for all
    /// of their work, as loading code does on NVIDIA's driver. They then run for as long, and so on. The
    /// call's own time comes on top. Default: 10ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    hold_max: Option<String>,
    /// Device memory for code that programs used before and that servers load when they start: a
    /// number of bytes, or one with K, M or G; 0: none. Default on NVIDIA's driver: 256M
    #[arg(long, value_name = "SIZE", value_parser = warm)]
    warm: Option<String>,
    /// How servers keep classes apart, such as slowdown=1.5,least=20%: see docs/scheduling.md
    #[arg(long, value_name = "SETTINGS", value_parser = super::set::server_scheduling)]
    scheduling: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<String, String> {
    match scheduling::units::duration_ns(text).is_some_and(|ns| ns >= 1_000_000) {
        true => Ok(text.to_owned()),
        false => Err("not a time of at least 1ms with its unit, such as 1s or 500ms".to_owned()),
    }
}

fn warm(text: &str) -> Result<String, String> {
    match Values::Budget.accept(text) && !text.trim().is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!("not {}", Values::Budget)),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut environment = Vec::new();
    if arguments.standby {
        environment.push((OPENMPS_STANDBY, "1".to_owned()));
    }
    if let Some(seconds) = arguments.kernel_timeout {
        environment.push((OPENMPS_KERNEL_TIMEOUT_S, seconds.to_string()));
    }
    if let Some(long) = &arguments.isolate_long {
        environment.push((OPENMPS_ISOLATE_LONG, long.clone()));
    }
    if let Some(hold) = &arguments.hold_max {
        environment.push((OPENMPS_HOLD_MAX, hold.clone()));
    }
    if let Some(warm) = &arguments.warm {
        environment.push((OPENMPS_WARM, warm.clone()));
    }
    if let Some(settings) = &arguments.scheduling {
        environment.push((OPENMPS_SCHEDULING, settings.clone()));
    }
    let (report, started) = daemon::find_or_start_with(&Libraries::find()?, &environment)?;
    let not_applied = match started {
        true => Vec::new(),
        false => daemon::not_applied(&report, &environment),
    };
    if !not_applied.is_empty() {
        output::say(format_args!(
            "the daemon runs already, and was not started with {}: `openmps down` it first",
            not_applied.join(", ")
        ));
    } else if !started {
        daemon::say_what_has_no_effect(&report, false);
    }
    let directory = report.pipe_directory.display();
    if arguments.json {
        let report = json!({
            "started": started,
            "applied": not_applied.is_empty(),
            "pid": report.pid,
            "pipe_directory": report.pipe_directory,
            "log_directory": report.log_directory,
            "version": report.version,
        });
        output::print(&format!("{report}\n"))?;
    } else if started {
        output::print(&format!(
            "started a daemon (PID {}) in {directory}\n\
             run programs with `openmps run -- PROGRAM`, stop it with `openmps down`\n",
            report.pid
        ))?;
    } else {
        output::print(&format!("a daemon runs already (PID {}) in {directory}\n", report.pid))?;
    }
    Ok(if not_applied.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
