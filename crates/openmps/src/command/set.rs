//! `openmps set`: other limits for a program that runs.

use crate::daemon;
use crate::output;
use anyhow::{Result, bail};
use control::directory::PipeDirectory;
use control::shell::Shell;
use cuda_api::settings::{Percentage, Priority, parse_size};
use serde_json::json;
use std::process::ExitCode;

/// Change what a program may have of the device, while it runs
///
/// Takes effect within a second, under load too. What the program has already stays: less memory
/// than it holds means that it gets no more. The number of SMs that it was told at its start stays.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps set 18903 --memory 2G       no more than 2 GiB of device memory
  openmps set 18903 --memory none     as much as there is
  openmps set 18903 --sms 30%         30 % of the device's SMs, rounded down
  openmps set id:7 --sms 16           16 SMs, for the client that ps lists with ID 7
  openmps set 18903 --priority 1      below normal
`openmps ps` lists programs; --json has their limits, and who set them.")]
pub(crate) struct Arguments {
    /// The program: its PID, or id: and the number that ps lists as its ID
    #[arg(value_name = "PID|id:ID")]
    client: String,
    /// Most device memory: a number with K, M or G; none: no limit
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<String>,
    /// Its SMs: a number, or a percentage of the device's
    #[arg(long, value_name = "NUMBER|PERCENT%", value_parser = sms)]
    sms: Option<String>,
    /// Its priority: 0 (normal) or 1 (below normal)
    #[arg(long, value_name = "0|1", value_parser = priority)]
    priority: Option<String>,
    /// Its server's PID, where several servers have a client of that ID
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn memory(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok(text.to_owned()),
        _ => parse_size(text).map(|_| text.to_owned()).map_err(|error| error.to_string()),
    }
}

fn sms(text: &str) -> Result<String, String> {
    let is_share = text.ends_with('%') && Percentage::parse(text).is_ok();
    match is_share || text.parse::<u32>().is_ok_and(|number| number > 0) {
        true => Ok(text.to_owned()),
        false => Err("a number above 0 is allowed, or a percentage up to 100%".to_owned()),
    }
}

fn priority(text: &str) -> Result<String, String> {
    match Priority::parse(text) {
        Ok(priority) => Ok(priority.number().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Arguments {
    /// The daemon's command; `None` if nothing is to be changed.
    fn command(&self) -> Option<String> {
        let values = [("memory", &self.memory), ("sms", &self.sms), ("priority", &self.priority)];
        let mut words: Vec<String> = values
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
            .collect();
        if words.is_empty() {
            return None;
        }
        words.extend(self.server.map(|pid| format!("server={pid}")));
        Some(format!("set {} {}", self.client, words.join(" ")))
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(command) = arguments.command() else {
        bail!("nothing is to be set: say --memory, --sms or --priority");
    };
    if arguments.client.split_whitespace().count() != 1 {
        bail!("{:?} is neither a PID nor id: and a number", arguments.client);
    }
    let directory = daemon::pipe_directory();
    if daemon::ask(&directory)?.is_none() {
        return Err(daemon::none_in(&directory));
    }
    let (text, status) = Shell::new(PipeDirectory::new(&directory)).ask(&command)?;
    if status != 0 {
        bail!("{}", text.trim());
    }
    if arguments.json {
        output::print(&format!("{}\n", json!({ "set": true, "client": arguments.client })))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn command(line: &str) -> Result<Option<String>, String> {
        let words = std::iter::once("set").chain(line.split_whitespace());
        let parsed = Line::try_parse_from(words);
        parsed.map(|line| line.arguments.command()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_for_is_the_daemon_s_command() {
        let said = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(command("42 --memory 2G"), said("set 42 memory=2G"));
        let all = "id:7 --sms 30% --memory none --priority normal --server 9";
        assert_eq!(command(all), said("set id:7 memory=none sms=30% priority=0 server=9"));
        assert_eq!(command("42"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_is_allowed() {
        for (line, part) in [
            ("42 --memory 2", "with K, M or G"),
            ("42 --sms 0", "above 0"),
            ("42 --sms 101%", "up to 100%"),
            ("42 --priority 2", "0 (normal) or 1 (below normal)"),
        ] {
            let text = command(line).unwrap_err();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
