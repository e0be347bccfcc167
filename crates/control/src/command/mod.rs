//! The commands of the shell: one table, from which dispatch, privilege and help come.
//!
//! Output is NVIDIA's, byte for byte where it is known; unlike NVIDIA's, a command that fails
//! says why and has a status that is not 0.

pub(crate) mod act;
pub mod connection;
mod limits;
mod observe;
pub(crate) mod query;
mod report;
pub(crate) mod request;
mod schedule;

use crate::daemon::Daemon;
use crate::v3::command as v3;
use request::{Failure, Request};
use std::fmt::Write;

/// Bytes of the longest command line that is read. The longest real one has two UUIDs.
pub const COMMAND_BYTES_MAX: usize = 4096;

/// One command.
pub struct ControlCommand {
    /// Its name.
    pub name: &'static str,
    /// Its arguments as help shows them.
    pub arguments: &'static str,
    /// Only root and the daemon's owner may give it.
    pub privileged: bool,
    /// One line.
    pub help: &'static str,
    handler: Handler,
}

/// What a command is.
#[derive(Clone, Copy)]
enum Handler {
    Run(fn(&Request<'_>) -> Result<String, Failure>),
}

/// What a command printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub text: String,
    /// Exit status: 0 is success.
    pub status: i32,
}

macro_rules! commands {
    ($($name:literal $arguments:literal $privileged:ident $handler:expr, $help:literal;)*) => {
        /// All commands, in the order of help.
        pub const COMMANDS: &[ControlCommand] = &[$(ControlCommand {
            name: $name,
            arguments: $arguments,
            privileged: privilege!($privileged),
            help: $help,
            handler: $handler,
        }),*];
    };
}

macro_rules! privilege {
    (anyone) => {
        false
    };
    (owner) => {
        true
    };
}

use Handler::Run;

commands! {
    "get_server_list" "" anyone Run(query::get_server_list),
        "Print the PIDs of all servers";
    "get_server_status" "<PID>" anyone Run(query::get_server_status),
        "Print the state of a server";
    "start_server" "-uid <user id> [-device <device>]" owner Run(act::start_server),
        "Start a user's servers before a client comes: of all devices, or of one";
    "shutdown_server" "<PID> [-f]" owner Run(act::shutdown_server),
        "End a server when its clients are gone; -f: now";
    "get_client_list" "<PID>" anyone Run(query::get_client_list),
        "Print the PIDs of a server's clients";
    "get_device_client_list" "[<PID>]" anyone Run(query::get_device_client_list),
        "Print devices and the clients that use them";
    "ps" "[-p <PID>]" anyone Run(query::ps),
        "Print a table of clients; -p: of one server";
    "device_query" "[<PID>] [--csv]" anyone Run(query::device_query),
        "Print the devices that clients can use";
    "terminate_client" "<server PID> <client PID>" owner Run(act::terminate_client),
        "Destroy what a client has on the device; then it is safe to kill it";
    "upgrade" "[<path>]" owner Run(act::upgrade),
        "Put new servers, of the program at <path>, in place of all; programs go on";
    "quit" "[-t <seconds>]" owner Run(act::quit),
        "End servers and daemon when clients are gone; -t: after so long in any case";
    "cancel_quit" "" owner Run(act::cancel_quit),
        "Have a daemon stay that quit has begun to end (openmps only)";
    "help" "" anyone Run(|_| Ok(help())),
        "Print this list";
    "report" "" anyone Run(report::report),
        "Print daemon, servers and clients as JSON (openmps only)";
    "schedule" "[<setting>=<value> ...]" owner Run(schedule::schedule),
        "Print or change how servers keep classes of clients apart (openmps only)";
    "class_rules" "[<rules> | none]" owner Run(schedule::class_rules),
        "Print or set which users and commands get which class (openmps only)";
    "counts" "[<PID>]" anyone Run(observe::counts),
        "Print what clients did by kernel and stream, as JSON (openmps only)";
    "counters" "[off | sampled | every | cupti]" owner Run(observe::counters),
        "Print or change what servers count and time of launches (openmps only)";
    "trace" "[<PID>[:<from>] ...]" anyone Run(observe::trace),
        "Print what work was done since a record, as JSON (openmps only)";
    "set_default_active_thread_percentage" "<percentage>" owner
        Run(limits::set_default_active_thread_percentage),
        "Set the share of SMs that clients of servers to come may use";
    "get_default_active_thread_percentage" "" anyone
        Run(limits::get_default_active_thread_percentage),
        "Print the share of SMs that clients of servers to come may use";
    "set_active_thread_percentage" "<PID> <percentage>" owner
        Run(limits::set_active_thread_percentage),
        "Set the share of SMs that clients to come of a server may use";
    "get_active_thread_percentage" "<PID>" anyone
        Run(limits::get_active_thread_percentage),
        "Print the share of SMs that clients to come of a server may use";
    "set_default_device_pinned_mem_limit" "<device> <size>" owner
        Run(limits::set_default_device_pinned_mem_limit),
        "Set the device memory of a client of servers to come";
    "get_default_device_pinned_mem_limit" "<device>" anyone
        Run(limits::get_default_device_pinned_mem_limit),
        "Print the device memory of a client of servers to come";
    "set_device_pinned_mem_limit" "<PID> <device> <size>" owner
        Run(limits::set_device_pinned_mem_limit),
        "Set the device memory of a client to come of a server";
    "get_device_pinned_mem_limit" "<PID> <device>" anyone
        Run(limits::get_device_pinned_mem_limit),
        "Print the device memory of a client to come of a server";
    "set_default_client_priority" "<priority>" owner
        Run(limits::set_default_client_priority),
        "Set the priority of clients to come: 0 normal, 1 below normal";
    "get_default_client_priority" "" anyone Run(limits::get_default_client_priority),
        "Print the priority of clients to come";
    "sm_partition" "add|rm <device> <chunks|partition>" owner
        Run(limits::sm_partition),
        "Make or remove a static partition of SMs";
    "lspart" "" anyone Run(limits::lspart),
        "Print the static partitions of SMs";
    "set" "<client> <name>=<value>..." owner Run(limits::set),
        "Change memory, sms, priority or class of a running client (openmps only)";
}

/// The commands, one a line.
pub fn help() -> String {
    let mut text = String::new();
    for row in COMMANDS {
        let usage = format!("{} {}", row.name, row.arguments);
        let _ = writeln!(text, "  {:44} {}", usage.trim_end(), row.help);
    }
    text
}

/// The commands of protocol 3, two lines each.
pub fn help_v3() -> String {
    v3::help()
}

/// The answer to a name that there is not: NVIDIA's words, and the command that may be meant.
fn unknown(line: &str, name: &str) -> Failure {
    let mut text = format!("Unknown command \"{}\"", line.trim());
    let known = COMMANDS.iter().map(|row| row.name);
    if let Some(meant) = crate::nearest(name, known) {
        let _ = write!(text, "\nDid you mean {meant}?");
    }
    Failure(text)
}

/// Whether a line and its output go to the log. Programs that watch ask for reports all the time.
pub(crate) fn is_logged(line: &str) -> bool {
    !matches!(line.split_whitespace().next(), Some("report" | "counts" | "trace"))
}

/// Whether a command changes what the next daemon is to know.
fn changes(name: &str) -> bool {
    const NAMES: &[&str] = &["schedule", "class_rules", "counters", "sm_partition"];
    name.starts_with("set") || NAMES.contains(&name) || v3::is_module(name)
}

/// Carries out one line for the user of `peer`.
pub(crate) fn run(daemon: &Daemon, line: &str, uid: u32, gid: u32, owner: bool) -> Answer {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let request = Request { daemon, arguments: words.collect(), uid, gid, owner };
    daemon.wait_for_found();
    let changes = changes(name);
    let result = match COMMANDS.iter().find(|row| row.name == name) {
        None if daemon.is_v3() && v3::is_module(name) => v3::run(name, &request),
        None if v3::is_module(name) => Err(Failure(format!(
            "Unknown command \"{}\"\nIt is one of protocol 3: the daemon has to be started with -p 3",
            line.trim()
        ))),
        None => Err(unknown(line, name)),
        Some(row) if row.name == "help" && daemon.is_v3() => Ok(help() + &v3::help()),
        Some(row) if row.privileged && !owner => {
            Err(Failure(format!("{name} is only for {}", request.owner_text())))
        }
        Some(row) => {
            let Run(handler) = row.handler;
            handler(&request)
        }
    };
    if result.is_ok() && owner && changes {
        daemon.write_snapshot();
    }
    match result {
        Ok(text) => Answer { text, status: 0 },
        Err(Failure(text)) => Answer { text: text + "\n", status: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_one_a_name_and_fit_a_line() {
        for (index, row) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.help.ends_with('.') && row.help.len() < 80, "{}", row.name);
        }
    }
}
