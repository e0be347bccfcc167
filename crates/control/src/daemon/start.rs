//! Starting the daemon: in this process, or in the background.

use super::event_loop::EventLoop;
use super::limits::reload::IDLE_S;
use super::limits::scheduling::Scheduling;
use super::notify::notify;
use super::sources::Sources;
use super::state::State;
use super::succession::found::NEWCOMERS_WAIT;
use super::succession::handover::{self, Handover, Inherited, ListenerRecord};
use super::succession::snapshot::{Given, Snapshot};
use super::{Commands, Daemon, Programs};
use crate::BINARY_VERSION;
use crate::accounting::Book;
use crate::directory::{MODES, Occupied, PipeDirectory, listen};
use crate::error::{ConfigurationError, DirectoryError};
use crate::fault_budget::FaultBudget;
use crate::log::Logs;
use crate::options::{DETACH, DaemonOptions};
use crate::settings::Settings;
use crate::v3::configuration::{self, Configuration};
use crate::v3::{Tenancy, TenancyOptions};
use channel::log_line::Level;
use channel::socket::Listener;
use cuda_api::environment::{
    OPENMPS_CPUS, OPENMPS_FAULT_BUDGET, OPENMPS_IDLE_S, OPENMPS_STANDBY, VARIABLES, Variable,
};
use cuda_api::settings::{Counting, Cpus, parse_cpus};
use locks::{Condvar, Mutex};
use recovery::servers::{Rules, Servers};
use rustix::event::EventfdFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What the process in the background says when it accepts connections.
const READY: &str = "ready";
/// Descriptors with which a daemon and its servers run out of something else first.
pub const DESCRIPTORS_WANTED: u64 = 16_384;
/// Why there is no daemon.
#[derive(Debug, Error)]
pub enum StartError {
    /// One server for all users is only root's to have.
    #[error("-multiuser-server is for root: another user's servers serve that user alone")]
    NotRoot,
    /// CPUs that servers cannot have.
    #[error("--cpus: {0}")]
    Cpus(String),
    /// The configuration file.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The pipe directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// What every process has and this one could not get.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The process in the background ended; it has said why on standard error.
    #[error("the daemon did not start")]
    Background {
        /// Its exit status.
        status: i32,
    },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::System { what, error: error.into() }
}

/// Is the daemon, until it is asked to end. With `detach`, it says so on standard output once it
/// accepts connections and then lets go of terminal, session and standard streams. `when_ready` is called once it
/// accepts connections.
pub fn run(
    programs: Box<dyn Programs>,
    commands: Commands,
    detach: bool,
    options: DaemonOptions,
    when_ready: impl FnOnce(&PipeDirectory),
) -> Result<(), StartError> {
    check(&options)?;
    let file = options.configuration.clone();
    // The daemon before has applied it, and commands may have changed that since.
    let read = file.as_deref().filter(|_| options.take_over.is_none()).map(configuration::read);
    let (configuration, text) = read.transpose()?.unwrap_or_default();
    let handover = options.take_over.map(Handover::read).transpose();
    let handover = handover.map_err(system("taking over from the daemon before"))?;
    if detach && handover.is_none() {
        // Fails in a process that leads a group already: then it has nothing to leave.
        let _ = rustix::process::setsid();
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let [signals, hang_ups] = watch_signals(!detach && io::stdin().is_terminal())
        .map_err(system("watching for signals"))?;

    let Claim { mut occupied, found, follows_killed } = claim(handover.as_ref())?;
    let is_first = handover.is_none();
    let directory = occupied.directory().clone();
    let logs = open_logs(&occupied, detach);
    raise_descriptor_limit();
    let left =
        if is_first { left_by_the_daemon_before(&occupied, &logs, options.protocol) } else { None };
    let cgroup_root = crate::cgroup::cgroup_root();
    let environment = Environment::read(&directory);
    let given = environment.given(text);
    let Environment { defaults, scheduling, counting, fault_budget, warnings } = environment;
    warn(&logs, &warnings, detach && is_first);
    let (log, log_writer, listeners) = listen_there(found, &mut occupied)?;
    // The directory that it was started in may be unmounted under it.
    let _ = std::env::set_current_dir("/");

    announce(&logs, &directory);
    let waker = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(system("making an eventfd"))?;
    let owner = rustix::process::geteuid().as_raw();
    let found_until = follows_killed.then(|| Instant::now() + NEWCOMERS_WAIT);
    let mut servers = Servers::default();
    servers.rules = rules(&options, owner);
    let tenancy = Tenancy::new(tenancy_options(&options));
    let daemon = Arc::new_cyclic(|this| Daemon {
        this: this.clone(),
        owner,
        directory,
        book: open_book(&logs),
        logs,
        log_writer,
        programs,
        commands,
        program: Mutex::default(),
        warnings,
        options,
        given: handover.as_ref().map_or(given, Handover::given),
        detached: detach,
        shells: AtomicUsize::new(0),
        scheduling,
        counting: Mutex::new(counting),
        configured: super::limits::reload::Configured::of_process(),
        fault_budget,
        cgroups: super::servers::cgroup::ServerCgroups::find(&cgroup_root),
        cgroup_root,
        state: Mutex::new(State { defaults, servers, found_until, tenancy, ..State::default() }),
        changed: Condvar::new(),
        waker,
    });
    match handover {
        Some(handover) => {
            daemon.go_on(handover).map_err(system("taking over from the daemon before"))?;
        }
        None => {
            let path = file.unwrap_or_else(|| daemon.directory.state_file());
            let begun = daemon.begin(left, configuration);
            begun.map_err(|text| ConfigurationError::Wrong { path, text })?;
        }
    }
    notify("READY=1\nSTATUS=Accepting connections");
    if detach && is_first {
        say_ready(&daemon.logs).map_err(system("letting go of the terminal"))?;
    }
    let sources = Sources { listeners, signals, hang_ups, log, occupied };
    daemon.start_following().map_err(system("starting a thread"))?;
    if is_first {
        daemon.start_all_named().map_err(|text| StartError::System {
            what: "starting servers",
            error: io::Error::other(text),
        })?;
    }
    when_ready(&daemon.directory);
    let sources = EventLoop::new(daemon.clone(), sources).run();
    end(&daemon, sources);
    Ok(())
}

/// Whether this process can be what the options ask for.
fn check(options: &DaemonOptions) -> Result<(), StartError> {
    if options.access.multiuser && !rustix::process::geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let missing = options.cpus.as_deref().and_then(|cpus| cpus_missing(&parse_cpus(cpus).ok()?));
    missing.map_or(Ok(()), |why| Err(StartError::Cpus(why)))
}

/// What the operator wants of servers.
fn rules(options: &DaemonOptions, owner: u32) -> Rules {
    let standby =
        options.standby || std::env::var(OPENMPS_STANDBY).is_ok_and(|value| value.trim() == "1");
    Rules { owner, standby, one_user: options.access.one_user, idle_max: idle_max() }
}

fn tenancy_options(options: &DaemonOptions) -> TenancyOptions {
    TenancyOptions {
        named_servers: options.protocol == 3,
        static_partitioning: options.static_partitioning,
    }
}

/// Writes warnings to the log, and to standard error where the person who starts the daemon reads that.
fn warn(logs: &Logs, warnings: &[String], is_read: bool) {
    for warning in warnings {
        if is_read {
            let _ = writeln!(io::stderr(), "nvidia-cuda-mps-control: {warning}");
        }
        logs.control.control_at(Level::Warning, warning);
    }
}

/// Both ends of the log FIFO.
type LogEnds = [OwnedFd; 2];

/// The pipe directory, which is this daemon's.
struct Claim {
    occupied: Occupied,
    /// The log and the sockets of the daemon before, if this one takes its place.
    found: Option<(LogEnds, [ListenerRecord; 2])>,
    /// The daemon before was killed.
    follows_killed: bool,
}

fn claim(handover: Option<&Handover>) -> Result<Claim, StartError> {
    let found = PipeDirectory::found();
    let path = std::path::absolute(found.path())
        .map_err(|error| DirectoryError::at(found.path(), error))?;
    let before = handover.map(Handover::inherit).transpose();
    let before = before.map_err(system("taking over from the daemon before"))?;
    let directory = PipeDirectory::new(path);
    let follows_killed = before.is_none() && directory.has_dead_daemon();
    let (occupied, found) = match before {
        Some(Inherited { lock, log, listeners }) => {
            (directory.occupied_before(lock, &log[0]), Some((log, listeners)))
        }
        None => (directory.occupy()?, None),
    };
    Ok(Claim { occupied, found, follows_killed })
}

fn open_logs(occupied: &Occupied, detach: bool) -> Logs {
    let logs = Logs::open(occupied.directory().path(), !detach);
    for complaint in [logs.complaint.clone(), foreign_owner(occupied)].into_iter().flatten() {
        if detach {
            let _ = writeln!(io::stderr(), "nvidia-cuda-mps-control: {complaint}");
        }
        logs.control.control(complaint);
    }
    logs
}

/// What the variables of the environment say.
struct Environment {
    defaults: Settings,
    scheduling: Scheduling,
    counting: Counting,
    fault_budget: Option<FaultBudget>,
    /// What is not as its owner may think, a sentence each.
    warnings: Vec<String>,
}

impl Environment {
    /// For the next daemon, with the text of the configuration file.
    fn given(&self, configuration: String) -> Given {
        Given {
            configuration,
            settings: self.defaults.record(),
            class_rules: self.scheduling.rules_text(),
            scheduling: self.scheduling.of_servers(),
            counting: self.counting.name().to_owned(),
        }
    }

    fn read(directory: &PipeDirectory) -> Self {
        let (defaults, mistakes) = Settings::from_environment(|name| std::env::var(name).ok());
        let mut warnings = warnings();
        warnings.extend(mistakes);
        warnings.extend(impassable(directory.path()));
        let (scheduling, mut wrong) = Scheduling::from_environment();
        warnings.append(&mut wrong);
        let (counting, wrong) = super::limits::counting::from_environment();
        warnings.extend(wrong);
        let budget = std::env::var(OPENMPS_FAULT_BUDGET).unwrap_or_default();
        let fault_budget = FaultBudget::parse(&budget).unwrap_or_else(|error| {
            warnings.push(format!("{OPENMPS_FAULT_BUDGET} is not used: {error}"));
            None
        });
        warnings.extend(not_understood(&warnings));
        Self { defaults, scheduling, counting, fault_budget, warnings }
    }
}

/// The log FIFO, to read and to write, and the sockets: those of the daemon before, or new ones.
fn listen_there(
    found: Option<(LogEnds, [ListenerRecord; 2])>,
    occupied: &mut Occupied,
) -> Result<(OwnedFd, OwnedFd, [Arc<Listener>; 2]), StartError> {
    let directory = occupied.directory().clone();
    if let Some(([log, log_writer], inherited)) = found {
        let listeners = handover::listeners(inherited, &directory);
        let listeners = listeners.map_err(system("taking over from the daemon before"))?;
        return Ok((log, log_writer, listeners));
    }
    let (log, log_writer) = occupied.make_log()?;
    let listeners = [
        Arc::new(listen(&directory.control(), MODES[0])?),
        Arc::new(listen(&directory.control_privileged(), MODES[1])?),
    ];
    occupied.write_pid()?;
    Ok((log, log_writer, listeners))
}

/// The first lines of the log.
fn announce(logs: &Logs, directory: &PipeDirectory) {
    let control = &logs.control;
    let socket = directory.control();
    control.control(format!("Starting control daemon using socket {}", socket.display()));
    control.control(format!(
        "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={}",
        directory.path().display()
    ));
    control.control(format!("CUDA MPS Control binary version: {BINARY_VERSION}"));
    control.control("Accepting connection...");
}

/// What the daemon before left in the directory. Its sockets go, but for those of servers that come back:
/// these are replaced.
fn left_by_the_daemon_before(occupied: &Occupied, logs: &Logs, protocol: u32) -> Option<Snapshot> {
    let directory = occupied.directory();
    let left = Snapshot::read(&directory.state_file()).unwrap_or_else(|why| {
        logs.control.control(why);
        None
    });
    let left = left.filter(|left| left.protocol == protocol);
    let names = left.as_ref().map(|left| left.tenancy.named.directories()).unwrap_or_default();
    directory.remove_named_but(&names.iter().map(|name| directory.path().join(name)).collect());
    if left.is_none() {
        let _ = std::fs::remove_file(directory.state_file());
    }
    left
}

impl Daemon {
    /// Makes what the daemon before left and what the configuration file says, and writes it down. If that
    /// fails nothing is left of it.
    fn begin(&self, left: Option<Snapshot>, configuration: Configuration) -> Result<(), String> {
        let is_new = left.is_none();
        if let Some(left) = &left {
            self.restore(&mut self.lock(), left);
        }
        let has_left = left.is_some();
        let before = left.as_ref().map(|left| left.given.configuration.as_str());
        let begun = self.apply(before, configuration).and_then(|()| self.check_configuration());
        let mut state = self.lock();
        match &begun {
            Ok(()) if has_left || state.tenancy.has_servers() => {
                self.write_snapshot_of(&mut state);
                // Directories of servers that the configuration file has no more.
                let names = state.tenancy.directories();
                let stay = names.iter().map(|name| self.directory.path().join(name)).collect();
                self.directory.remove_named_but(&stay);
            }
            Ok(()) => {}
            Err(_) => {
                state.inventory.stop();
                state.tenancy.endpoints_mut().close_all();
                if is_new {
                    self.directory.remove_named_but(&Default::default());
                }
            }
        }
        begun
    }
}

/// Starts the daemon in a process of its own and returns when it accepts connections. What it has
/// to say before, it says on this process's standard error.
pub fn start_in_background(
    programs: &dyn Programs,
    options: &DaemonOptions,
) -> Result<(), StartError> {
    let mut child = programs
        .daemon()
        .args(options.words())
        .arg(DETACH)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(system("starting the daemon"))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An error here is an end without the word.
        let _ = io::BufReader::new(output).read_line(&mut line);
    }
    if line.trim_end() == READY {
        return Ok(());
    }
    let status = child.wait().map_err(system("waiting for the daemon"))?;
    Err(StartError::Background { status: status.code().unwrap_or(1).max(1) })
}

/// Streams that get a byte for each signal: one for those that are to end the daemon, one for those
/// that have it open its logs again and go on as the program that is installed. A terminal that goes away ends what runs in its foreground.
fn watch_signals(on_terminal: bool) -> io::Result<[UnixStream; 2]> {
    let end: &[i32] = if on_terminal { &[SIGTERM, SIGINT, SIGHUP] } else { &[SIGTERM, SIGINT] };
    let hang_up: &[i32] = if on_terminal { &[] } else { &[SIGHUP] };
    // A log at the limit of a file's size is a log that cannot be written, not the end.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    Ok([watch(end)?, watch(hang_up)?])
}

fn watch(signals: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
    }
    // With the last writer gone it would be readable for ever.
    std::mem::forget(writer);
    Ok(reader)
}

/// What [`OPENMPS_IDLE_S`] says.
fn idle_max() -> Option<Duration> {
    let value = std::env::var(OPENMPS_IDLE_S).ok();
    let seconds = value.and_then(|value| value.trim().parse().ok()).unwrap_or(IDLE_S);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Variables of the daemon and its servers with values that the table of variables does not have, but for those of
/// which a warning is there already.
fn not_understood(warnings: &[String]) -> Vec<String> {
    let is_read = |row: &&Variable| {
        ["daemon", "server", "software GPU"].iter().any(|reader| row.readers.contains(reader))
    };
    let mistake = |row: &Variable| {
        let value = std::env::var(row.name).ok().filter(|value| !value.is_empty())?;
        let is_said = warnings.iter().any(|warning| warning.contains(row.name));
        (!is_said && !row.values.accept(&value)).then(|| {
            let Variable { name, values, default, .. } = row;
            format!("{name}={value} counts as not given ({default}): {values} would be understood")
        })
    };
    VARIABLES.iter().filter(is_read).filter_map(mistake).collect()
}

/// What of this daemon's environment and limits is not as its owner may think, a sentence each.
fn warnings() -> Vec<String> {
    let mut warnings = Vec::new();
    let cpus = std::env::var(OPENMPS_CPUS).unwrap_or_default();
    if !cpus.trim().is_empty() {
        match parse_cpus(&cpus) {
            Ok(cpus) => {
                warnings.extend(cpus_missing(&cpus).map(|why| format!("{OPENMPS_CPUS}: {why}")))
            }
            Err(error) => warnings.push(format!("{OPENMPS_CPUS} is not taken: {error}")),
        }
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.filter(|limit| *limit < DESCRIPTORS_WANTED) {
        warnings.push(format!(
            "only {limit} open files are allowed (ulimit -Hn), of which each client takes some in \
             its server: clients will be refused; {DESCRIPTORS_WANTED} serve the most that there \
             can be"
        ));
    }
    warnings
}

/// A sentence about CPUs of a list that this process may not run on.
fn cpus_missing(wanted: &Cpus) -> Option<String> {
    let Cpus::List(wanted) = wanted else { return None };
    let own = rustix::thread::sched_getaffinity(None).ok()?;
    let missing: Vec<String> = wanted
        .iter()
        .filter(|cpu| {
            **cpu as usize >= rustix::thread::CpuSet::MAX_CPU || !own.is_set(**cpu as usize)
        })
        .map(u32::to_string)
        .collect();
    match missing.len() {
        0 => None,
        count if count == wanted.len() => {
            Some(format!("this daemon has none of the CPUs {}", missing.join(",")))
        }
        _ => Some(format!("this daemon does not have the CPUs {}", missing.join(","))),
    }
}

/// A sentence about a directory above root's daemon's that other users' programs cannot pass. Root's own directory is
/// meant for root.
fn impassable(directory: &std::path::Path) -> Option<String> {
    if !rustix::process::geteuid().is_root()
        || channel::discovery::own_directories().iter().any(|own| own == directory)
    {
        return None;
    }
    let mut all: Vec<_> = directory.ancestors().collect();
    all.reverse();
    let closed = |path: &&&std::path::Path| {
        std::fs::metadata(path).is_ok_and(|of| of.permissions().mode() & 0o001 == 0)
    };
    let closed = all.iter().find(closed)?.display();
    Some(format!(
        "users other than root cannot pass {closed}: their programs do not find this daemon; chmod o+x {closed}"
    ))
}

fn foreign_owner(occupied: &Occupied) -> Option<String> {
    let owner = crate::users::name(occupied.foreign_owner()?);
    let path = occupied.directory().path().display();
    Some(format!("{path} belongs to {owner}, who can take this daemon's place there"))
}

/// Lets this process have as many descriptors as the system allows it: a client that waits holds two,
/// one that is served some in its server, and there a chunk of memory may be one.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Staying with what there is only makes them run out earlier.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn say_ready(logs: &Logs) -> io::Result<()> {
    let mut output = io::stdout();
    // Who started this may be gone. The daemon is there all the same.
    let _ = writeln!(output, "{READY}").and_then(|()| output.flush());
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    logs.take_stderr()
}

/// Frees the pipe directory, then lets those know who wait for that.
fn end(daemon: &Daemon, sources: Sources) {
    notify("STOPPING=1");
    daemon.logs.control.control("Exit with status 0");
    daemon.leave_snapshot();
    daemon.lock().tenancy.endpoints_mut().close_all();
    drop(sources);
    daemon.lock().ended = true;
    daemon.changed.notify_all();
}
/// The file in which is written what clients have used, where logs can be written.
fn open_book(logs: &Logs) -> Book {
    let Some(directory) = &logs.directory else { return Book::default() };
    Book::open(directory).unwrap_or_else(|error| {
        logs.control.control(format!("What clients use is not written down: {error}"));
        Book::default()
    })
}
