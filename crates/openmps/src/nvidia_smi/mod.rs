//! nvidia-smi: what programs of clusters ask NVIDIA's of that name, where there is no NVIDIA driver.
//!
//! It knows the questions that device plugins, schedulers' prologs and launchers ask, and answers them by NVML. What
//! it does not know it refuses by name. It is not installed where NVIDIA's would be: only a driver root has it.

mod log;
pub(crate) mod nvml;
mod query;

use log::Form;
use nvml::{Device, Limits, NO_LIMIT, Nvml, NvmlError};
use provider::compute_mode::ComputeMode;
use query::{Format, Query, Row, What};
use std::io::Write;
use std::process::ExitCode;

/// The name by which it is started.
pub(crate) const NAME: &str = "nvidia-smi";

/// NVIDIA's exit statuses.
const BAD_ARGUMENT: u8 = 2;
const NO_PERMISSION: u8 = 4;
const NOT_SUPPORTED: u8 = 3;
const NOT_FOUND: u8 = 6;
const NO_LIBRARY: u8 = 12;
const OTHER: u8 = 255;

const HELP: &str = "nvidia-smi of openmps: what clusters ask NVIDIA's, on the software GPU

    nvidia-smi [OPTIONS]                      Print the devices and their processes
    nvidia-smi -q [-x] [-i ID]                Print all that is known of the devices; -x: as XML
    nvidia-smi -L                             List the devices and their UUIDs
    nvidia-smi [-i ID] -c MODE                Set the compute mode: 0 or DEFAULT, 2 or PROHIBITED,
                                              3 or EXCLUSIVE_PROCESS
    nvidia-smi --query-gpu=FIELDS --format=csv[,noheader][,nounits]
    nvidia-smi --query-compute-apps=FIELDS --format=csv[,noheader][,nounits]
    nvidia-smi memory-limits --get -n CGROUP [-i ID]
    nvidia-smi memory-limits --set -n CGROUP [-i ID] [--soft-limit MIB] [--hard-limit MIB]

    -i, --id ID          Index, UUID or PCI bus ID; several after commas. Without it: all
    --help-query-gpu, --help-query-compute-apps    List the fields
    -h, --help; --version

CGROUP is a directory below /sys/fs/cgroup. Memory limits need a daemon of protocol 3.
";

/// What ends the program before its time.
struct Stop {
    status: u8,
    text: String,
}

impl Stop {
    fn usage(text: impl Into<String>) -> Stop {
        let text = format!("{}\nPlease run 'nvidia-smi -h' for help.", text.into());
        Stop { status: BAD_ARGUMENT, text }
    }
}

impl From<NvmlError> for Stop {
    fn from(error: NvmlError) -> Stop {
        let status = match error.code() {
            3 => NOT_SUPPORTED,
            4 => NO_PERMISSION,
            6 => NOT_FOUND,
            12 => NO_LIBRARY,
            _ => OTHER,
        };
        Stop { status, text: error.to_string() }
    }
}

/// What is to be done.
enum Task {
    Summary,
    List,
    Log(Form),
    Help,
    Version,
    Fields(What),
    Mode(u32),
    Query(Query),
    Limits { set: bool, cgroup: String, soft: u64, hard: u64 },
}

struct Options {
    task: Task,
    /// Devices by their names; none: all.
    ids: Vec<String>,
    format: Option<Format>,
}

/// Runs the program.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let answered = parse(&arguments).and_then(|options| answer(&options));
    match answered {
        // The reader may have enough.
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Stop { status, text }) => {
            // NVIDIA's prints what is wrong there too, and scripts look for it.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::from(status)
        }
    }
}

/// The words of the command line, `--key=value` taken apart.
struct Words<'a> {
    words: std::slice::Iter<'a, String>,
    value: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn next_option(&mut self) -> Option<&'a str> {
        let word = self.words.next()?;
        match word.split_once('=') {
            Some((key, value)) if key.starts_with('-') => {
                self.value = Some(value);
                Some(key)
            }
            _ => {
                self.value = None;
                Some(word)
            }
        }
    }

    /// The value of the option that was just read.
    fn value(&mut self, option: &str) -> Result<&'a str, Stop> {
        let value = self.value.take().or_else(|| self.words.next().map(String::as_str));
        value.ok_or_else(|| Stop::usage(format!("Option {option} wants a value.")))
    }
}

fn parse(arguments: &[String]) -> Result<Options, Stop> {
    if arguments.first().is_some_and(|word| word == "memory-limits") {
        return parse_limits(&arguments[1..]);
    }
    let mut words = Words { words: arguments.iter(), value: None };
    let mut options = Options { task: Task::Summary, ids: Vec::new(), format: None };
    let (mut tasks, mut xml) = (0, false);
    while let Some(option) = words.next_option() {
        let task = match option {
            "-i" | "--id" => {
                let ids = words.value(option)?.split(',').map(str::trim).map(str::to_owned);
                options.ids.extend(ids);
                continue;
            }
            "--format" => {
                options.format = Some(Format::parse(words.value(option)?).map_err(Stop::usage)?);
                continue;
            }
            "-x" | "--xml-format" if words.value.is_none() => {
                xml = true;
                continue;
            }
            "-q" | "--query" => Task::Log(Form::Text),
            "-L" | "--list-gpus" => Task::List,
            "-h" | "--help" => Task::Help,
            "--version" => Task::Version,
            "--help-query-gpu" => Task::Fields(What::Gpu),
            "--help-query-compute-apps" => Task::Fields(What::Apps),
            "-c" | "--compute-mode" => Task::Mode(mode(words.value(option)?)?),
            "--query-gpu" => of_query(What::Gpu, words.value(option)?)?,
            "--query-compute-apps" => of_query(What::Apps, words.value(option)?)?,
            other => {
                return Err(Stop::usage(format!(
                    "Invalid combination of input arguments. {other} is not known to this nvidia-smi, which \
                     is openmps's and answers what clusters ask on the software GPU."
                )));
            }
        };
        if words.value.is_some() {
            return Err(Stop::usage(format!("Option {option} takes no value.")));
        }
        tasks += 1;
        options.task = task;
    }
    let is_query = matches!(options.task, Task::Query(_));
    match &mut options.task {
        Task::Log(form) if xml => *form = Form::Xml,
        _ if xml => return Err(Stop::usage("-x is for -q.")),
        _ => {}
    }
    match (tasks, is_query, options.format) {
        (2.., _, _) => Err(Stop::usage("Invalid combination of input arguments.")),
        (_, true, None) => Err(Stop::usage(
            "\"--format=\" must be specified: csv, with noheader and nounits after commas.",
        )),
        (_, false, Some(_)) => Err(Stop::usage("--format is for a query.")),
        _ => Ok(options),
    }
}

fn of_query(what: What, fields: &str) -> Result<Task, Stop> {
    Query::parse(what, fields).map(Task::Query).map_err(|text| Stop { status: BAD_ARGUMENT, text })
}

/// Reads a compute mode.
fn mode(text: &str) -> Result<u32, Stop> {
    // NVIDIA's drivers have it no more.
    if ["1", "EXCLUSIVE_THREAD"].contains(&text.to_ascii_uppercase().as_str()) {
        return Err(Stop::usage("EXCLUSIVE_THREAD was deprecated: use EXCLUSIVE_PROCESS."));
    }
    match ComputeMode::parse(text) {
        Ok(mode) => Ok(mode.number().cast_unsigned()),
        Err(_) => Err(Stop::usage(format!(
            "\"{text}\" is no compute mode: 0 or DEFAULT, 2 or PROHIBITED, 3 or EXCLUSIVE_PROCESS."
        ))),
    }
}

fn parse_limits(arguments: &[String]) -> Result<Options, Stop> {
    let mut words = Words { words: arguments.iter(), value: None };
    let (mut set, mut cgroup, mut soft, mut hard) = (None, None, 0, NO_LIMIT);
    let mut ids = Vec::new();
    let mib = |option: &str, text: &str| {
        let bytes = text.parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20));
        bytes.ok_or_else(|| {
            Stop::usage(format!("{option} wants MiB, a whole number, not {text:?}."))
        })
    };
    while let Some(option) = words.next_option() {
        match option {
            "-g" | "--get" => set = Some(false),
            "-s" | "--set" => set = Some(true),
            "-n" | "--namespace" => cgroup = Some(words.value(option)?.to_owned()),
            "-i" | "--id" => ids.extend(words.value(option)?.split(',').map(str::to_owned)),
            "--soft-limit" => soft = mib(option, words.value(option)?)?,
            "--hard-limit" => hard = mib(option, words.value(option)?)?,
            "-h" | "--help" => return Ok(Options { task: Task::Help, ids, format: None }),
            other => return Err(Stop::usage(format!("memory-limits has no {other}."))),
        }
    }
    let (Some(set), Some(cgroup)) = (set, cgroup) else {
        return Err(Stop::usage(
            "memory-limits wants --get or --set, and -n with a cgroup's directory.",
        ));
    };
    Ok(Options { task: Task::Limits { set, cgroup, soft, hard }, ids, format: None })
}

fn answer(options: &Options) -> Result<String, Stop> {
    match &options.task {
        Task::Help => return Ok(HELP.to_owned()),
        Task::Version => {
            return Ok(format!(
                "NVIDIA-SMI version  : openmps {}\n",
                crate::version::LONG.as_str()
            ));
        }
        Task::Fields(what) => return Ok(what.names().collect::<Vec<_>>().join("\n") + "\n"),
        _ => {}
    }
    let nvml = Nvml::load()?;
    let all = nvml.devices()?;
    let devices = chosen(&nvml, &all, &options.ids)?;
    match &options.task {
        Task::List => list(&nvml, &devices),
        Task::Log(form) => Ok(log::print(&nvml, &devices, all.len(), *form)?),
        Task::Mode(mode) => set_mode(&nvml, &devices, *mode),
        Task::Query(query) => {
            let rows = rows(&nvml, &devices, all.len(), query.what())?;
            Ok(query.print(&rows, options.format.unwrap_or_default())?)
        }
        Task::Limits { set, cgroup, soft, hard } => {
            let wanted = set.then_some(Limits { soft: *soft, hard: *hard, used: 0 });
            limits(&nvml, &devices, cgroup, wanted)
        }
        Task::Summary | Task::Help | Task::Version | Task::Fields(_) => summary(&nvml, &devices),
    }
}

/// The devices that were named, with their indices.
fn chosen(nvml: &Nvml, all: &[Device], ids: &[String]) -> Result<Vec<(usize, Device)>, Stop> {
    let numbered = || all.iter().copied().enumerate();
    if ids.is_empty() {
        return Ok(numbered().collect());
    }
    let mut found = Vec::new();
    for id in ids {
        let mut one = None;
        for (index, device) in numbered() {
            let bus = nvml.pci_bus_id(device)?;
            let same_bus = |bus: &str| bus.eq_ignore_ascii_case(id);
            // A domain may have four digits or eight.
            if *id == index.to_string()
                || *id == nvml.uuid(device)?
                || same_bus(&bus)
                || same_bus(bus.get(4..).unwrap_or(&bus))
            {
                one = Some((index, device));
            }
        }
        found.push(
            one.ok_or_else(|| Stop {
                status: NOT_FOUND,
                text: "No devices were found".to_owned(),
            })?,
        );
    }
    Ok(found)
}

fn list(nvml: &Nvml, devices: &[(usize, Device)]) -> Result<String, Stop> {
    let mut text = String::new();
    for &(index, device) in devices {
        let (name, uuid) = (nvml.name(device)?, nvml.uuid(device)?);
        text.push_str(&format!("GPU {index}: {name} (UUID: {uuid})\n"));
    }
    Ok(text)
}

fn set_mode(nvml: &Nvml, devices: &[(usize, Device)], mode: u32) -> Result<String, Stop> {
    let name = query::mode_name(mode).to_uppercase();
    let mut text = String::new();
    for &(_, device) in devices {
        let bus = nvml.pci_bus_id(device)?;
        if nvml.compute_mode(device)? == mode {
            text.push_str(&format!("Compute mode is already set to {name} for GPU {bus}.\n"));
            continue;
        }
        nvml.set_compute_mode(device, mode).map_err(|error| {
            let stop = Stop::from(error);
            let text = format!(
                "{text}Unable to set the compute mode for GPU {bus}: {}\nTerminating early due to previous errors.",
                stop.text
            );
            Stop { text, ..stop }
        })?;
        text.push_str(&format!("Set compute mode to {name} for GPU {bus}.\n"));
    }
    Ok(text + "All done.\n")
}

fn rows<'a>(
    nvml: &'a Nvml,
    devices: &[(usize, Device)],
    count: usize,
    what: What,
) -> Result<Vec<Row<'a>>, Stop> {
    let timestamp = jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S%.3f").to_string();
    let mut rows = Vec::new();
    for &(index, device) in devices {
        let row =
            |process| Row { nvml, device, index, count, process, timestamp: timestamp.clone() };
        match what {
            What::Gpu => rows.push(row(None)),
            What::Apps => rows.extend(nvml.processes(device)?.into_iter().map(|of| row(Some(of)))),
        }
    }
    Ok(rows)
}

fn limits(
    nvml: &Nvml,
    devices: &[(usize, Device)],
    cgroup: &str,
    wanted: Option<Limits>,
) -> Result<String, Stop> {
    let mib = |bytes: u64| match bytes {
        NO_LIMIT => "none".to_owned(),
        bytes => format!("{} MiB", bytes >> 20),
    };
    let mut text = String::new();
    for &(index, device) in devices {
        if let Some(wanted) = wanted {
            nvml.set_memory_limits(device, cgroup, wanted)?;
        }
        let of = nvml.memory_limits(device, cgroup)?;
        text.push_str(&format!(
            "GPU {index}: {cgroup}\n    Soft limit : {}\n    Hard limit : {}\n    Used       : {}\n",
            mib(of.soft),
            mib(of.hard),
            mib(of.used)
        ));
    }
    Ok(text)
}

/// The devices and their processes, for people.
fn summary(nvml: &Nvml, devices: &[(usize, Device)]) -> Result<String, Stop> {
    let mut text = format!(
        "openmps {}   Driver Version: {}   CUDA Version: {}\n\n",
        env!("CARGO_PKG_VERSION"),
        nvml.driver_version()?,
        nvml.cuda_version()?
    );
    for &(index, device) in devices {
        let memory = nvml.memory(device)?;
        text.push_str(&format!(
            "GPU {index}  {}  {}  {} MiB / {} MiB  {} %  {}\n",
            nvml.name(device)?,
            nvml.pci_bus_id(device)?,
            memory.used >> 20,
            memory.total >> 20,
            nvml.busy(device)?,
            query::mode_name(nvml.compute_mode(device)?),
        ));
        for process in nvml.processes(device)? {
            let name = nvml.process_name(process.pid).unwrap_or_else(|_| "[Not Found]".to_owned());
            let (pid, mib) = (process.pid, process.memory_bytes >> 20);
            text.push_str(&format!("    {pid:>8}  {mib:>8} MiB  {name}\n"));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, Stop> {
        parse(
            &line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>(),
        )
    }

    fn refused(line: &str) -> String {
        parsed(line).err().unwrap_or_else(|| panic!("{line} is taken")).text
    }

    #[test]
    fn what_clusters_ask_is_understood() {
        for (line, mode) in [
            ("-i GPU-1 -c EXCLUSIVE_PROCESS", 3),
            ("-i 0 -c DEFAULT", 0),
            ("-c 3", 3),
            ("-c 0", 0),
            ("--id=0 --compute-mode=EXCLUSIVE_PROCESS", 3),
        ] {
            let options = parsed(line).ok().expect(line);
            assert!(matches!(options.task, Task::Mode(of) if of == mode), "{line}");
        }
        let options =
            parsed("--query-gpu=index,uuid --format=csv,noheader,nounits -i 0,1").ok().unwrap();
        assert!(matches!(options.task, Task::Query(_)));
        assert_eq!(options.ids, ["0", "1"]);
        assert!(matches!(parsed("-L").ok().unwrap().task, Task::List));
        assert!(matches!(parsed("-q").ok().unwrap().task, Task::Log(Form::Text)));
        assert!(matches!(parsed("-x -q -i 0").ok().unwrap().task, Task::Log(Form::Xml)));
        assert!(matches!(parsed("").ok().unwrap().task, Task::Summary));
        let options =
            parsed("memory-limits --set -n /sys/fs/cgroup/a --hard-limit 10 -i 0").ok().unwrap();
        let Task::Limits { set: true, cgroup, soft: 0, hard } = options.task else { panic!() };
        assert_eq!((cgroup.as_str(), hard), ("/sys/fs/cgroup/a", 10 << 20));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (line, part) in [
            ("-pl 300", "-pl is not known"),
            ("-q -L", "Invalid combination"),
            ("-x", "-x is for -q"),
            ("-L -x", "-x is for -q"),
            ("-c FAST", "\"FAST\" is no compute mode"),
            ("-c 1", "EXCLUSIVE_PROCESS"),
            ("-c", "wants a value"),
            ("-L=1", "takes no value"),
            ("--query-gpu=index", "--format="),
            ("-L --format=csv", "for a query"),
            ("-L -c 0", "Invalid combination"),
            ("--query-gpu=colour --format=csv", "Field \"colour\" is not a valid field"),
            ("memory-limits --get", "-n with a cgroup"),
            ("memory-limits --set -n /a --hard-limit 1G", "whole number"),
        ] {
            assert!(refused(line).contains(part), "{line}: {}", refused(line));
        }
    }
}
