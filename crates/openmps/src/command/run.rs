//! `openmps run`: a program with our driver library, attached to this user's daemon.

use super::trace::{self, PERIOD, To};
use crate::daemon;
use crate::executable;
use crate::libraries::Libraries;
use crate::output;
use crate::scratch::Scratch;
use crate::signals::Watch;
use anyhow::{Context, Result};
use cuda_api::environment::{
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, CUDA_MPS_PIPE_DIRECTORY,
    CUDA_VISIBLE_DEVICES, OPENMPS_CLASS, OPENMPS_COMPILERS,
};
use cuda_api::settings::{Percentage, parse_size};
use observe::source::{DaemonSource, ReportSource};
use observe::trace::Recorder;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Where NVTX finds the library that writes down ranges.
const NVTX_LIBRARY: &str = "NVTX_INJECTION64_PATH";
/// A directory that does not exist and that no user can make: no daemon is found there.
const NOWHERE: &str = "/proc/self/no-daemon";

/// Run a program that shares the device with others
///
/// The program gets openmps' libcuda.so.1 in front of NVIDIA's, and a daemon: the one of
/// CUDA_MPS_PIPE_DIRECTORY, else the system's, else one of your own. Your own is started if it does
/// not run, and runs until `openmps down`. The exit status is the program's.
///
/// CUDA_VISIBLE_DEVICES counts among the daemon's devices; of a list that the daemon was started with
/// too, ordinals are numbered anew, from 0.
///
/// The software GPU runs PTX and no machine code. So NVRTC, nvJitLink and the ptxas of Triton and XLA
/// make PTX there where a program asks for machine code. OPENMPS_COMPILERS=own leaves the compilers
/// alone.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps run -- ./simulation --steps 1000
  openmps run ./train & openmps run ./train & wait     two programs at the same time
  openmps run --class batch -- ./train                 latency-critical programs go first
  openmps run --sms 25% --memory 4G -- ./server        a quarter of the SMs and 4 GiB of memory at most
  openmps run --no-daemon -- ./simulation              the same library, without sharing")]
pub(crate) struct Arguments {
    /// Run without a daemon: calls go straight to the provider in the program's own process
    #[arg(long)]
    no_daemon: bool,
    /// Do not say that a daemon was started
    #[arg(long, short)]
    quiet: bool,
    /// Scheduling class: latency (its requests go before others' work), normal, or batch (its work waits
    /// while latency-critical work is there)
    #[arg(long, value_name = "CLASS", value_parser = class)]
    class: Option<scheduling::Class>,
    /// Most SMs of each device, as a percentage: 30%
    #[arg(long, value_name = "PERCENT", value_parser = share, conflicts_with = "no_daemon")]
    sms: Option<Percentage>,
    /// Most memory of each device: a number with M or G, as 2G
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "no_daemon")]
    memory: Option<u64>,
    /// Record every kernel and copy of the program, and write them to a file for ui.perfetto.dev when
    /// it ends (JSON for chrome://tracing if the name ends in .json)
    #[arg(long, value_name = "FILE", conflicts_with = "no_daemon")]
    trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let libraries = Libraries::find()?;
    let mut command = prepared(&libraries, &arguments.command)?;
    let program = command.get_program().to_owned();
    let program = program.as_os_str();
    if !is_there(Path::new(program)) {
        // No daemon is started for a slip of the pen.
        return Ok(failed(program, &io::Error::from_raw_os_error(libc::ENOENT)));
    }
    let obstacle = executable::obstacle(Path::new(program)).filter(|_| !arguments.no_daemon);
    if let Some(obstacle) = obstacle {
        output::say(format_args!("{} {}", program.display(), obstacle.words()));
    }
    // Before the daemon and the program: neither is to start for a trace that no file takes.
    let to = arguments.trace.as_deref().map(destination).transpose()?;
    if let Some(class) = arguments.class {
        command.env(OPENMPS_CLASS, class.word());
    }
    if arguments.no_daemon {
        command.env(CUDA_MPS_PIPE_DIRECTORY, NOWHERE);
    } else {
        let (report, started) = daemon::find_or_start(&libraries)?;
        if started && !arguments.quiet {
            daemon::say_started(&report);
        }
        if !started {
            daemon::say_what_has_no_effect(&report, obstacle.is_some());
        }
        // Where it was asked, not where it says that it is: in a directory below there are its named servers
        // and namespaces, and in a container it has another path.
        command.env(CUDA_MPS_PIPE_DIRECTORY, daemon::pipe_directory());
        if let Some(share) = arguments.sms {
            command.env(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, share.to_string());
        }
        if let Some(bytes) = arguments.memory {
            let devices = report.devices.len().max(1);
            command.env(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, memory_limits(bytes, devices));
        }
        if let Ok(list) = std::env::var(CUDA_VISIBLE_DEVICES)
            && report.visible_devices.as_ref() == Some(&list)
        {
            command.env(CUDA_VISIBLE_DEVICES, numbered_anew(&list));
        }
    }
    match &to {
        None => Ok(failed(program, &command.exec())),
        Some(to) => traced(command, to, &libraries),
    }
}

/// Where the trace goes.
fn destination(path: &Path) -> Result<To> {
    if path == Path::new("-") {
        anyhow::bail!("--trace -: standard output is the program's; name a file");
    }
    To::file(path)
}

/// The list of visible devices for a program whose daemon has the same list, and so no other devices.
///
/// The program must have a list all the same: frameworks take the number of devices from it and from
/// NVML, which tells of all that the machine has.
fn numbered_anew(list: &str) -> String {
    let is_ordinal = |entry: &str| entry.trim().parse::<u32>().is_ok();
    if !list.split(',').all(is_ordinal) {
        // Names of devices stay what they are.
        return list.to_owned();
    }
    let ordinals = (0..list.split(',').count()).map(|ordinal| ordinal.to_string());
    ordinals.collect::<Vec<_>>().join(",")
}

/// The program with our libraries in front.
pub(crate) fn prepared(libraries: &Libraries, words: &[OsString]) -> Result<Command> {
    let [program, rest @ ..] = words else {
        anyhow::bail!("which program?");
    };
    let mut command = Command::new(program);
    command.args(rest);
    libraries.put_in_front(&mut command);
    // Their loader knows no such auditor, and says so.
    if executable::obstacle(Path::new(program)) == Some(executable::Obstacle::Kind) {
        return Ok(command);
    }
    let software = provider::Choice::from_environment()?.resolve().is_ok_and(|it| it.is_software());
    if software {
        // The driver would say so too, but each process of the program's by itself.
        provider::asked_driver_version().map_err(anyhow::Error::msg)?;
    }
    if software && std::env::var(OPENMPS_COMPILERS).as_deref() != Ok("own") {
        libraries.put_compilers_in_front(&mut command);
        libraries.put_ptxas_in_front(&mut command);
    }
    Ok(command)
}

/// Runs the program beside a recorder; the exit status is the program's, also where the recording
/// fails.
fn traced(mut command: Command, to: &To, libraries: &Libraries) -> Result<ExitCode> {
    // The library writes beside the name by which NVTX finds it.
    let marked = Scratch::new("trace")?;
    let link = marked.path().join("libopenmps-nvtx.so");
    if let Some(library) = libraries.nvtx() {
        std::os::unix::fs::symlink(library, &link).context("placing the library for NVTX")?;
    }
    // Where there is no library NVTX goes on without.
    command.env(NVTX_LIBRARY, &link);
    let directory = command
        .get_envs()
        .find(|(name, _)| *name == CUDA_MPS_PIPE_DIRECTORY)
        .and_then(|(_, value)| value.map(PathBuf::from))
        .context("which daemon?")?;
    let mut source = DaemonSource::new(&directory);
    let before: Vec<u32> = pids(&source.report()?);
    let mut recorder = Recorder::begin(&mut source, &[])?;
    recorder.leave_out(&before);
    let mut judged: BTreeSet<u32> = before.into_iter().collect();
    // Ctrl-C is for the program: what it did until then is to be written.
    let signals = Watch::begin()?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(failed(command.get_program(), &error)),
    };
    let mut taken = Ok(());
    let status = loop {
        signals.pass_on(child.id());
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if taken.is_ok() {
            taken = recorder.take(&mut source);
            leave_out_others(&mut recorder, &mut judged, &link);
        }
        std::thread::sleep(PERIOD / 4);
    };
    for _ in 0..2 {
        taken = taken.and_then(|()| trace::take_rest(&mut recorder, &mut source));
    }
    if let Err(error) = taken {
        output::say(format_args!("the recording ended before the program: {error:#}"));
    }
    if let Err(error) = trace::write(recorder, to, Some(marked.path())) {
        output::say(format_args!("there is no trace: {error:#}"));
    }
    Ok(match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        // As shells answer for what a signal ended.
        None => ExitCode::from(128 + status.signal().unwrap_or(0) as u8),
    })
}

/// Leaves out the clients that are not the program's, nor its children's: the program's environment has the link's
/// path, and they have their parents'. One that ended before it was looked at, or that cannot be looked at, stays.
fn leave_out_others(recorder: &mut Recorder, judged: &mut BTreeSet<u32>, link: &Path) {
    let clients = recorder.clients().filter(|client| client.pid != 0);
    let news: Vec<(u32, String)> = clients
        .filter(|client| !judged.contains(&client.pid))
        .map(|client| (client.pid, client.command.clone()))
        .collect();
    let mut others = Vec::new();
    for (pid, command) in news {
        judged.insert(pid);
        if has_variable(pid, &command, NVTX_LIBRARY, link) == Some(false) {
            others.push(pid);
        }
    }
    if !others.is_empty() {
        recorder.leave_out(&others);
    }
}

/// Whether a process has this in its environment. `None` if that is not known: it has ended, it is another user's,
/// or the number means another process here, which has not this command line.
fn has_variable(pid: u32, command: &str, name: &str, value: &Path) -> Option<bool> {
    let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).ok();
    let words = read("cmdline")?;
    let words = words.strip_suffix(&[0]).unwrap_or(&words);
    let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    // Of a long one the daemon knows the begin.
    if command.is_empty() || !words.join(" ").starts_with(command) {
        return None;
    }
    let wanted = [name.as_bytes(), b"=", value.as_os_str().as_encoded_bytes()].concat();
    let environment = read("environ").filter(|environment| !environment.is_empty())?;
    Some(environment.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

fn pids(report: &control::report::Report) -> Vec<u32> {
    report.servers.iter().flat_map(|s| s.clients.iter().filter_map(|c| c.pid)).collect()
}

/// A share of SMs, with or without the sign of percent.
fn share(word: &str) -> Result<Percentage, String> {
    let number = word.strip_suffix('%').unwrap_or(word);
    Percentage::parse(number).map_err(|refused| refused.to_string())
}

fn memory(word: &str) -> Result<u64, String> {
    parse_size(word).map_err(|refused| refused.to_string())
}

/// A limit of so many bytes for each of so many devices, as the variable has it. What is less than a KiB is left out.
fn memory_limits(bytes: u64, devices: usize) -> String {
    let limits = (0..devices).map(|ordinal| format!("{ordinal}={}K", bytes >> 10));
    limits.collect::<Vec<_>>().join(",")
}

fn class(word: &str) -> Result<scheduling::Class, String> {
    word.parse().map_err(|error: scheduling::class::UnknownClass| error.to_string())
}

/// Whether there is such a file, or one of that name on the search path. Whether it can be run is
/// seen when it is.
pub(crate) fn is_there(program: &Path) -> bool {
    match std::env::var_os("PATH") {
        Some(path) if program.components().count() == 1 && program.is_relative() => {
            std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        }
        _ => program.exists(),
    }
}

/// Says why the program could not be run, and answers as shells do.
fn failed(program: &OsStr, error: &io::Error) -> ExitCode {
    output::say(format_args!("{}: {error}", program.display()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

#[cfg(test)]
mod tests {
    use super::{NVTX_LIBRARY, has_variable, memory, memory_limits, numbered_anew, share};
    use std::path::Path;
    use std::process::{Command, Stdio};

    #[test]
    fn a_share_and_a_limit_become_what_the_variables_want() {
        assert_eq!(share("25%").map(|share| share.to_string()), Ok("25.0".into()));
        assert_eq!(share("12.5").map(|share| share.to_string()), Ok("12.5".into()));
        assert!(share("0%").is_err() && share("101").is_err() && memory("2").is_err());
        let limits = memory_limits(memory("2G").expect("a size"), 2);
        assert_eq!(limits, "0=2097152K,1=2097152K");
        let read = cuda_api::settings::parse_memory_limits(&limits).expect("limits");
        assert!(read.iter().all(|limit| limit.bytes == 2 << 30));
    }

    #[test]
    fn a_program_is_known_by_its_environment() {
        let mut cat = Command::new("cat");
        let mine = Path::new("/x/mine");
        cat.arg("-").env(NVTX_LIBRARY, mine).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = cat.spawn().expect("cat");
        // It has its own command line once it writes.
        std::io::Write::write_all(cat.stdin.as_mut().expect("a pipe"), b"x").expect("it reads");
        let mut read = [0];
        std::io::Read::read_exact(cat.stdout.as_mut().expect("a pipe"), &mut read).expect("x");
        let has = |command, value| has_variable(cat.id(), command, NVTX_LIBRARY, Path::new(value));
        assert_eq!(has("cat -", "/x/mine"), Some(true));
        assert_eq!((has("cat -", "/x/other"), has("cat -", "/x/min")), (Some(false), Some(false)));
        assert_eq!((has("dog", "/x/mine"), has("", "/x/mine")), (None, None));
        drop(cat.stdin.take());
        cat.wait().expect("it ends");
    }

    #[test]
    fn ordinals_of_the_daemons_list_are_numbered_anew_and_names_stay() {
        let table = [
            ("1", "0"),
            ("3,1", "0,1"),
            ("0", "0"),
            (" 2, 5", "0,1"),
            ("GPU-a,GPU-b", "GPU-a,GPU-b"),
        ];
        for (list, programs) in table {
            assert_eq!(numbered_anew(list), programs, "{list}");
        }
    }
}
