//! `openmps set`: other limits or another class for a program that runs, another policy for all.

use crate::daemon;
use crate::device_description;
use crate::output;
use anyhow::{Context, Result, bail};
use control::directory::PipeDirectory;
use control::shell::Shell;
use cuda_api::extension::Extension;
use cuda_api::settings::{Counting, Percentage, Priority, parse_size};
use provider::compute_mode::{self, ComputeMode};
use provider::device_faults::{self, DeviceFault};
use scheduling::{ClientSettings, Settings};
use serde_json::json;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Change what a program may have of the device, while it runs
///
/// Takes effect within a second, under load too. What the program has already stays: with a limit below
/// its memory it gets no more. The number of SMs that it saw at its start stays.
#[derive(clap::Args, Default)]
#[command(after_help = "Examples:
  openmps set 18903 --memory 2G       no more than 2 GiB of device memory
  openmps set 18903 --memory none     as much as there is
  openmps set 18903 --sms 30%         30 % of the device's SMs, rounded down
  openmps set 18903 --sms none        the SMs that it was given at first
  openmps set id:7 --sms 16           16 SMs, for the client that ps lists with ID 7
  openmps set 18903 --priority 1      below normal
  openmps set 18903 --class batch     its work waits while latency-critical work is there
  openmps set 18903 --weight 3        three parts of device time under policy weighted
  openmps set --scheduling policy=weighted
  openmps set --scheduling preset=latency,in-flight=100us
  openmps set --counters off          servers count and time no launches: what that costs
  openmps set --compute-mode EXCLUSIVE_PROCESS
                                      one process at a time has contexts on the software GPU
  openmps set --xid 79 --device 1     an error of the software GPU, for programs that watch it by NVML
`openmps ps` lists programs; --json has their limits, and who set them.")]
pub(crate) struct Arguments {
    /// The program: its PID, or id: and the number that ps lists as its ID
    #[arg(value_name = "PID|id:ID", value_parser = client, required_unless_present_any = ["scheduling", "counters", "compute_mode", "xid"])]
    client: Option<String>,
    /// Most device memory: a number with K, M or G; none: no limit
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<String>,
    /// Its SMs: a number, or a percentage of the device's; none: those that it was given at first
    #[arg(long, value_name = "NUMBER|PERCENT%", value_parser = sms)]
    sms: Option<String>,
    /// Its priority: 0 (normal) or 1 (below normal)
    #[arg(long, value_name = "0|1", value_parser = priority)]
    priority: Option<String>,
    /// Its class: latency (critical), normal or batch (best-effort)
    #[arg(long, value_name = "CLASS", value_parser = scheduled("class"))]
    class: Option<String>,
    /// Its weight under policy weighted: 1 to 1000
    #[arg(long, value_name = "NUMBER", value_parser = scheduled("weight"))]
    weight: Option<String>,
    /// Within which time a request of it should be done, under policy deadline; none: whenever
    #[arg(long, value_name = "TIME", value_parser = scheduled("deadline"))]
    deadline: Option<String>,
    /// Device time that it may have in each second, under policy quota; none: any
    #[arg(long, value_name = "TIME", value_parser = scheduled("quota"))]
    quota: Option<String>,
    /// How all servers keep classes apart, instead of a program's settings: see docs/scheduling.md
    #[arg(long, value_name = "SETTINGS", value_parser = server_scheduling)]
    #[arg(conflicts_with_all = ["client", "memory", "sms", "priority", "class", "weight", "deadline", "quota"])]
    scheduling: Option<String>,
    /// What all servers count of launches, instead of a program's settings: off; sampled (a sample is
    /// timed by events); every (all are timed); cupti (NVIDIA's CUPTI, in short windows)
    #[arg(long, value_name = "WORD", value_parser = counters)]
    #[arg(conflicts_with_all = ["client", "memory", "sms", "priority", "class", "weight", "deadline", "quota", "scheduling"])]
    counters: Option<Counting>,
    /// Who may have contexts on the software GPU, instead of a program's settings: DEFAULT,
    /// EXCLUSIVE_PROCESS (one process; with a daemon its server) or PROHIBITED
    #[arg(long, value_name = "MODE", value_parser = ComputeMode::parse, conflicts_with = "client")]
    compute_mode: Option<ComputeMode>,
    /// Report an error of the software GPU by NVML's events, to try what watches it: an Xid such as 79 (the device
    /// is gone) or 48 (memory). The device itself goes on
    #[arg(long, value_name = "XID", conflicts_with_all = ["client", "compute_mode"])]
    xid: Option<u32>,
    /// The device whose compute mode or error is meant
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    device: u32,
    /// Its server's PID, where several servers have a client of that ID
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn client(text: &str) -> Result<String, String> {
    match text.strip_prefix("id:").unwrap_or(text).parse::<u32>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a PID is allowed, or id: and an ID; `openmps ps` lists them".to_owned()),
    }
}

fn memory(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok(text.to_owned()),
        _ => parse_size(text).map(|_| text.to_owned()).map_err(|error| error.to_string()),
    }
}

fn sms(text: &str) -> Result<String, String> {
    if text == "none" {
        return Ok(text.to_owned());
    }
    let is_share = text.ends_with('%') && Percentage::parse(text).is_ok();
    match is_share || text.parse::<u32>().is_ok_and(|number| number > 0) {
        true => Ok(text.to_owned()),
        false => Err("a number above 0 is allowed, a percentage up to 100%, or none".to_owned()),
    }
}

fn priority(text: &str) -> Result<String, String> {
    match Priority::parse(text) {
        Ok(priority) => Ok(priority.number().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks a setting of a client's scheduling.
fn scheduled(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |value| match ClientSettings::parse(&format!("{name}={value}")) {
        Ok(_) if !value.contains([' ', ',']) => Ok(value.to_owned()),
        Ok(_) => Err("one value is allowed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn server_scheduling(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("one setting at least is needed, such as policy=fair".to_owned());
    }
    match Settings::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn counters(text: &str) -> Result<Counting, String> {
    Counting::parse(text).map_err(|error| error.to_string())
}

impl Arguments {
    /// What can be set of a program, and to what it is.
    fn values(&self) -> [(&'static str, &Option<String>); 7] {
        [
            ("memory", &self.memory),
            ("sms", &self.sms),
            ("priority", &self.priority),
            ("class", &self.class),
            ("weight", &self.weight),
            ("deadline", &self.deadline),
            ("quota", &self.quota),
        ]
    }

    /// The daemon's command; `None` if nothing is to be changed.
    fn command(&self) -> Option<String> {
        if let Some(settings) = &self.scheduling {
            return Some(format!("schedule {settings}"));
        }
        if let Some(counting) = self.counters {
            return Some(format!("counters {}", counting.name()));
        }
        let mut words: Vec<String> = self
            .values()
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
            .collect();
        if words.is_empty() {
            return None;
        }
        words.extend(self.server.map(|pid| format!("server={pid}")));
        Some(format!("set {} {}", self.client.as_ref()?, words.join(" ")))
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(mode) = arguments.compute_mode {
        return set_compute_mode(arguments.device, mode, arguments.json);
    }
    if let Some(xid) = arguments.xid {
        return report_xid(arguments.device, xid, arguments.json);
    }
    let Some(command) = arguments.command() else {
        bail!("nothing is to be set: say {}", options().join(", "));
    };
    let directory = daemon::pipe_directory();
    if daemon::ask(&directory)?.is_none() {
        return Err(daemon::none_in(&directory));
    }
    let (text, status) = Shell::new(PipeDirectory::new(&directory)).ask(&command)?;
    if status != 0 {
        bail!("{}", text.trim());
    }
    // What is set, but has no effect.
    let notes: Vec<&str> = text.lines().filter(|_| arguments.client.is_some()).collect();
    notes.iter().for_each(|note| eprintln!("openmps set: {note}"));
    if arguments.json {
        let set = json!({ "set": true, "client": arguments.client, "notes": notes });
        output::print(&format!("{set}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What can be set of a program, as on the command line.
fn options() -> Vec<String> {
    Arguments::default().values().map(|(name, _)| format!("--{name}")).to_vec()
}

/// Sets the software GPU's compute mode, which needs no daemon.
fn set_compute_mode(device: u32, mode: ComputeMode, as_json: bool) -> Result<ExitCode> {
    let found = provider::Choice::from_environment()?.resolve()?;
    if found.is_vendor() {
        bail!("a GPU's compute mode is set by: nvidia-smi -i {device} -c {}", mode.name());
    }
    let provider = found.load()?;
    let directory = provider.extension().and_then(|extension| meeting_place(extension, device));
    let Some(directory) = directory else {
        bail!("there is no software GPU {device}, or no directory in which its processes meet");
    };
    compute_mode::set(&directory, mode)
        .with_context(|| format!("the compute mode cannot be set in {}", directory.display()))?;
    if as_json {
        let set = json!({ "set": true, "device": device, "compute_mode": mode.name() });
        output::print(&format!("{set}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes an error of the software GPU down, for programs that wait for NVML's events.
fn report_xid(device: u32, xid: u32, as_json: bool) -> Result<ExitCode> {
    let found = provider::Choice::from_environment()?.resolve()?;
    if found.is_vendor() {
        bail!("a GPU's errors are its driver's to report: --xid is for the software GPU");
    }
    let provider = found.load()?;
    let directory = provider.extension().and_then(|extension| meeting_place(extension, device));
    let Some(directory) = directory else {
        bail!("there is no software GPU {device}, or no directory in which its processes meet");
    };
    device_faults::write(&directory, DeviceFault { device, xid })
        .with_context(|| format!("the error cannot be written down in {}", directory.display()))?;
    if as_json {
        output::print(&format!("{}\n", json!({ "set": true, "device": device, "xid": xid })))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory in which a device's processes meet.
fn meeting_place(extension: &Extension, device: u32) -> Option<PathBuf> {
    let description = device_description::describe(extension, i32::try_from(device).ok()?)?;
    let directory = CStr::from_bytes_until_nul(&description.shared_directory).ok()?;
    let directory = PathBuf::from(OsStr::from_bytes(directory.to_bytes()));
    Some(directory).filter(|directory| !directory.as_os_str().is_empty())
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
        assert_eq!(command("42 --memory 2GiB"), said("set 42 memory=2GiB"));
        let all = "id:7 --sms 30% --memory none --priority normal --server 9";
        assert_eq!(command(all), said("set id:7 memory=none sms=30% priority=0 server=9"));
        assert_eq!(command("42 --sms none"), said("set 42 sms=none"));
        assert_eq!(command("42"), Ok(None));
        assert_eq!(command("42 --class batch --weight 3"), said("set 42 class=batch weight=3"));
        let schedule = command("--scheduling policy=fair,in-flight=1ms");
        assert_eq!(schedule, said("schedule policy=fair,in-flight=1ms"));
        assert_eq!(command("--counters cupti"), said("counters cupti"));
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_is_allowed() {
        for (line, part) in [
            ("abc --sms 1", "`openmps ps` lists them"),
            ("id: --sms 1", "`openmps ps` lists them"),
            ("42 --memory 2", "with K, M or G"),
            ("42 --sms 0", "above 0"),
            ("42 --sms 101%", "up to 100%"),
            ("42 --priority 2", "0 (normal) or 1 (below normal)"),
            ("42 --class urgent", "latency, normal or batch"),
            ("42 --deadline 5", "5ms"),
            ("--scheduling policy=best", "classes, weighted, fair, deadline and quota"),
            ("42 --scheduling policy=fair", "cannot be used with"),
            ("--counters some", "off, sampled, every or cupti"),
        ] {
            let text = command(line).unwrap_err();
            assert!(text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn nothing_is_no_setting() {
        let names = "--memory, --sms, --priority, --class, --weight, --deadline, --quota";
        assert_eq!(options().join(", "), names);
        for empty in ["", " "] {
            let line = Line::try_parse_from(["set", "--scheduling", empty]);
            let error = line.err().expect("an error").to_string();
            assert!(error.contains("one setting at least"), "{error}");
        }
    }
}
