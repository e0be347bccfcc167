//! `openmps plan`: what clients would get under some settings, by the model of a device.

use crate::output;
use anyhow::{Context, Result, bail};
use device_model::{Mix, Outcome, simulate};
use scheduling::Settings;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Longest simulation, seconds of the device's time.
const SECONDS_MAX: f64 = 600.0;
/// Settings that are compared if none are named.
const COMPARED: &[&str] = &[
    "preset=off",
    "preset=priorities",
    "preset=pause",
    "preset=floor",
    "preset=elastic",
    "preset=latency",
    "preset=balanced",
    "preset=throughput",
];

/// Simulate scheduling settings, without a device
///
/// Runs the server's own gate and policies on a model of a device: SMs, blocks, streams, priorities, copies.
/// Caches and memory traffic are not in it, so kernels beside each other take as long as alone; copies and graphs
/// go whole: slices and pieces change nothing. For each settings and each group of clients it prints latencies,
/// throughput, the share of the device, requests after their deadline, and for how much of the time the gate paused
/// a client.
///
/// Where a latency-critical client is never idle for long, classes share in space. The size of batch work's part is
/// found within some seconds: simulate at least 10 there.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps plan                                    the built-in mix: short requests beside long kernels
  openmps plan --print > mix.json                 the mix as a file, to be changed
  openmps plan mix.json --settings preset=balanced --settings 'policy=weighted in-flight=1ms'
  openmps plan mix.json --clients batch=500       500 clients of the group batch")]
pub(crate) struct Arguments {
    /// Device and clients, as --print writes them; the built-in mix without it
    mix: Option<PathBuf>,
    /// Settings of scheduling to compare: see docs/scheduling.md
    #[arg(long, value_name = "SETTINGS", value_parser = settings)]
    settings: Vec<String>,
    /// How many clients a group of the mix has
    #[arg(long, value_name = "GROUP=NUMBER", value_parser = count)]
    clients: Vec<(String, u32)>,
    /// Seconds of the device's time
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// What random numbers begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the mix as JSON, and simulate nothing
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn settings(text: &str) -> Result<String, String> {
    Settings::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn count(text: &str) -> Result<(String, u32), String> {
    let parsed =
        text.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)));
    parsed.ok_or_else(|| "a group and a number are wanted: batch=500".to_owned())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mix = mix(arguments)?;
    if arguments.print {
        output::print(&format!("{}\n", serde_json::to_string_pretty(&mix)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !(arguments.seconds > 0.0 && arguments.seconds <= SECONDS_MAX) {
        bail!("--seconds is above 0, and at most {SECONDS_MAX}");
    }
    let compared: Vec<String> = match arguments.settings.is_empty() {
        true => COMPARED.iter().map(|text| (*text).to_owned()).collect(),
        false => arguments.settings.clone(),
    };
    let mut outcomes = Vec::new();
    for text in &compared {
        let settings = Settings::parse(text)?;
        let outcome = simulate(&mix, &settings, arguments.seconds, arguments.seed)?;
        outcomes.push((text, outcome));
    }
    if arguments.json {
        let rows: Vec<_> = outcomes
            .iter()
            .map(|(text, outcome)| json!({ "settings": text, "clients": outcome.clients }))
            .collect();
        output::print(&format!("{}\n", json!({ "plans": rows })))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text: String = outcomes.iter().map(|(text, outcome)| table(text, outcome)).collect();
    let is_outside = |name: &&&str| arguments.settings.iter().any(|text| text.contains(**name));
    for name in ["slices=", "pieces="].iter().filter(is_outside) {
        text += &format!("{name}... is not in the model: copies and graphs go whole\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn mix(arguments: &Arguments) -> Result<Mix> {
    let mut mix = match &arguments.mix {
        None => Mix::prototype(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            serde_json::from_str(&text).with_context(|| path.display().to_string())?
        }
    };
    for (name, number) in &arguments.clients {
        let names: Vec<String> = mix.clients.iter().map(|client| client.name.clone()).collect();
        let Some(group) = mix.clients.iter_mut().find(|client| client.name == *name) else {
            bail!("no group of the mix is called {name:?}: there are {}", names.join(", "));
        };
        group.count = *number;
    }
    mix.check()?;
    Ok(mix)
}

fn table(settings: &str, outcome: &Outcome) -> String {
    let mut text = format!(
        "{settings}\n  {:12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>5} {:>6}\n",
        "GROUP", "REQ/S", "P50 US", "P99 US", "P99.9 US", "KERNELS/S", "DEVICE", "LATE", "HELD"
    );
    for client in &outcome.clients {
        text += &format!(
            "  {:12} {:>8.1} {:>8.0} {:>8.0} {:>8.0} {:>9.0} {:>4.0} % {:>5} {:>4.0} %\n",
            client.name,
            client.requests_per_s,
            client.p50_us,
            client.p99_us,
            client.p999_us,
            client.kernels_per_s,
            100.0 * client.device_share,
            client.late,
            100.0 * client.held
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_each_group_gets() {
        let settings = Settings::parse("preset=balanced").unwrap();
        let outcome = simulate(&Mix::prototype(), &settings, 0.05, 1).unwrap();
        let text = table("preset=balanced", &outcome);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[2].starts_with("  critical") && lines[3].starts_with("  batch"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn groups_are_counted() {
        assert_eq!(count("batch=500"), Ok(("batch".into(), 500)));
        assert!(count("batch").is_err() && count("batch=many").is_err());
    }
}
