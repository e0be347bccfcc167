//! `openmps upgrade`: servers and daemon of this version in place of those that run, under their programs.

use crate::daemon;
use crate::output;
use anyhow::{Context, Result, bail};
use control::directory::PipeDirectory;
use control::report::{ReleaseReport, Report};
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
  openmps upgrade --check                whether and how far that would go; nothing changes
  /opt/openmps-2/bin/openmps upgrade     to the version in that directory

Programs, servers and daemon understand each other if they are of the same release or of two that follow
each other.")]
pub(crate) struct Arguments {
    /// Say what would happen, and change nothing; the exit status is 1 if programs would not go on
    #[arg(long)]
    check: bool,
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
    if arguments.check {
        return check(&report, arguments.json);
    }
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

/// What an upgrade would do.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
struct Forecast {
    /// Servers and programs can go over to this build.
    programs_go_on: bool,
    /// The daemon itself becomes this build too.
    daemon_goes_over: bool,
    /// Sentences for people.
    said: Vec<String>,
}

/// What a daemon of before 0.2, which does not say what it is, speaks.
fn of_before(version: &str) -> ReleaseReport {
    ReleaseReport { build: version.to_owned(), protocol_min: 2, protocol_max: 2, handover: 2 }
}

/// What would come of this build in the place of the daemon's.
fn foresee(report: &Report, ours: &ReleaseReport) -> Forecast {
    let theirs = match report.release.protocol_max {
        0 => of_before(&report.version),
        _ => report.release.clone(),
    };
    let versions = |of: &ReleaseReport| match of.protocol_min == of.protocol_max {
        true => format!("protocol {}", of.protocol_max),
        false => format!("protocol {} to {}", of.protocol_min, of.protocol_max),
    };
    let mut said = vec![format!(
        "the daemon is {} ({}), this is {} ({})",
        theirs.build,
        versions(&theirs),
        ours.build,
        versions(ours)
    )];
    let common = theirs.protocol_max.min(ours.protocol_max);
    let programs_go_on = common >= theirs.protocol_min.max(ours.protocol_min);
    if !programs_go_on {
        said.push(
            "they have no version in common: end the programs, stop the daemon (`openmps down`) \
             and start this one"
                .to_owned(),
        );
        return Forecast { programs_go_on, daemon_goes_over: false, said };
    }
    let servers = report.servers.len();
    let programs = report.programs();
    said.push(format!(
        "{servers} server(s) would be replaced, and {programs} program(s) go on by protocol {common}"
    ));
    // A program reads its own version of what is handed over, and the one before.
    let daemon_goes_over = (theirs.handover..=theirs.handover + 1).contains(&ours.handover);
    said.push(match daemon_goes_over {
        true => "the daemon would become this build, with its sockets and settings".to_owned(),
        false => format!(
            "the daemon itself would stay: it hands over by version {}, and this build takes over \
             version {}",
            theirs.handover, ours.handover
        ),
    });
    Forecast { programs_go_on, daemon_goes_over, said }
}

/// Says what would happen.
fn check(report: &Report, json: bool) -> Result<ExitCode> {
    let forecast = foresee(report, &ReleaseReport::of_this_build());
    match json {
        true => output::print_json(&forecast)?,
        false => output::print(&format!("{}\n", forecast.said.join("\n")))?,
    }
    Ok(if forecast.programs_go_on { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(release: ReleaseReport) -> Report {
        let text = r#"{"version": "0.1.0", "pid": 1, "uid": 0, "pipe_directory": "/run/x",
            "log_directory": null, "clients_waiting": 0, "servers": []}"#;
        let report: Report = serde_json::from_str(text).expect("a report of 0.1");
        Report { release, ..report }
    }

    fn release(min: u16, max: u16, handover: u32) -> ReleaseReport {
        ReleaseReport { build: format!("x{max}"), protocol_min: min, protocol_max: max, handover }
    }

    #[test]
    fn a_check_says_what_neighbouring_and_distant_releases_come_to() {
        let of = |theirs: ReleaseReport, ours: ReleaseReport| {
            let Forecast { programs_go_on, daemon_goes_over, said } =
                foresee(&report(theirs), &ours);
            (programs_go_on, daemon_goes_over, said.join("\n"))
        };
        let (programs, daemon, said) = of(release(2, 3, 2), release(3, 4, 2));
        assert!(programs && daemon && said.contains("by protocol 3"), "{said}");
        let (programs, daemon, said) = of(release(2, 3, 2), release(4, 5, 2));
        assert!(!programs && !daemon, "{said}");
        assert!(said.contains("protocol 2 to 3") && said.contains("protocol 4 to 5"), "{said}");
        let (programs, daemon, said) = of(release(2, 3, 2), release(3, 4, 4));
        assert!(programs && !daemon && said.contains("takes over version 4"), "{said}");
        // One of 0.1 says nothing of this; one that is older than the daemon takes nothing over.
        let (programs, daemon, said) = of(ReleaseReport::default(), release(2, 3, 2));
        assert!(programs && daemon && said.contains("daemon is 0.1.0 (protocol 2)"), "{said}");
        assert!(!of(release(2, 3, 3), release(2, 3, 2)).1);
    }
}
