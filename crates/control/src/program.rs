//! Control program: `nvidia-cuda-mps-control` from its arguments to its exit status.

use crate::command::{self, connection};
use crate::daemon::{self, Programs, StartError};
use crate::locate;
use crate::options::{self, Action, DaemonOptions};
use crate::report::Report;
use crate::settings_file;
use crate::shell::{self, Shell, complain};
use cuda_api::environment::CUDA_MPS_PROTOCOL_VERSION;
use rustix::fs::FileType;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;

/// The name under which it complains.
const PROGRAM: &str = "nvidia-cuda-mps-control";

/// Runs the program. `arguments` are those after its name. Returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = String>, programs: Box<dyn Programs>) -> u8 {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let action = match options::parse(arguments.iter().cloned()) {
        Ok(action) => action,
        Err(error) => {
            complain(format_args!("{PROGRAM}: {error}"));
            return 1;
        }
    };
    if let Action::Daemon(options) | Action::Foreground { options, .. } = &action {
        options.notes.iter().for_each(|note| complain(format_args!("{PROGRAM}: {note}")));
    }
    if let Some(status) = with_settings_file(&action, &arguments, &*programs) {
        return status;
    }
    match action {
        Action::Help => print(&options::help(&command::help(), &crate::v3::command::help())),
        Action::Version => print(&options::version()),
        Action::HandoverVersion => print(&format!("{}\n", daemon::HANDOVER_VERSION)),
        Action::Daemon(options) => match with_protocol(options) {
            Ok(options) => started(daemon::start_in_background(&*programs, &options)),
            Err(status) => status,
        },
        Action::Foreground { detach, options } => {
            let options = match with_protocol(options) {
                Ok(options) => options,
                Err(status) => return status,
            };
            let result = daemon::run(programs, connection::start, detach, options, |directory| {
                if !detach {
                    obey_standard_input(Shell::new(directory.clone()));
                }
            });
            connection::finish();
            started(result)
        }
        Action::Quit { any_protocol } => quit(any_protocol),
        Action::Command(line) => {
            match Shell::new(locate::of_shell()).command(&line, &mut io::stdout()) {
                Ok(status) => exit_status(status),
                Err(error) => {
                    complain(error);
                    1
                }
            }
        }
        Action::Shell => {
            let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
            let shell = Shell::new(locate::of_shell());
            exit_status(shell::converse(&shell, &mut io::stdin().lock(), terminal))
        }
    }
}

/// Becomes the same program with what the settings file says, for a daemon that starts; a status if that
/// cannot be. Does nothing for what is no daemon, where there is no file, and in a daemon that has it already.
fn with_settings_file(
    action: &Action,
    arguments: &[String],
    programs: &dyn Programs,
) -> Option<u8> {
    let (Action::Daemon(options) | Action::Foreground { options, .. }) = action else {
        return None;
    };
    if options.take_over.is_some() || std::env::var_os(settings_file::CONFIGURED).is_some() {
        return None;
    }
    let path = settings_file::path()?;
    let failed = |error: &dyn std::fmt::Display| {
        complain(format_args!("{PROGRAM}: {error}"));
        Some(1)
    };
    let file = match settings_file::read(&path) {
        Ok(file) => file?,
        Err(error) => return failed(&error),
    };
    let added = settings_file::additions(&path, &file, |name| std::env::var(name).ok());
    let error = programs
        .successor(None)
        .args(added.words)
        .args(arguments)
        .envs(added.variables)
        .env(settings_file::CONFIGURED, added.configured)
        .exec();
    failed(&error)
}

/// A daemon's options with what the environment says of its protocol.
fn with_protocol(options: DaemonOptions) -> Result<DaemonOptions, u8> {
    let variable = std::env::var(CUDA_MPS_PROTOCOL_VERSION).ok();
    options.with_protocol(variable.as_deref()).map_err(|error| {
        complain(format_args!("nvidia-cuda-mps-control: {error}"));
        1
    })
}

/// Ends the daemon; one of protocol 2 only if `any_protocol`, as `-q` asks it for something else.
fn quit(any_protocol: bool) -> u8 {
    let shell = Shell::new(locate::of_shell());
    let protocol = shell.ask("report").map(|(report, _)| {
        serde_json::from_str::<Report>(&report).map_or(2, |report| report.protocol)
    });
    let result = match protocol {
        Ok(2) if !any_protocol => {
            complain(
                "-q asks a daemon of protocol 2 for its devices: `device_query` prints them, and \
                 --quit ends the daemon",
            );
            return 1;
        }
        Ok(_) => shell.command("quit", &mut io::stdout()),
        Err(error) => Err(error),
    };
    match result {
        Ok(status) => exit_status(status),
        Err(error) => {
            complain(error);
            1
        }
    }
}

/// Carries out the commands that come by standard input, if that is a pipe: the process that started a daemon in the
/// foreground may have its other end, and end the daemon by `quit`. The end of the pipe is none of the daemon.
fn obey_standard_input(shell: Shell) {
    let kind = rustix::fs::fstat(io::stdin()).map(|of| FileType::from_raw_mode(of.st_mode));
    if kind != Ok(FileType::Fifo) {
        return;
    }
    let obey = move || {
        shell::converse(&shell, &mut io::stdin().lock(), false);
    };
    if let Err(error) = std::thread::Builder::new().name("standard input".to_owned()).spawn(obey) {
        complain(format_args!("{PROGRAM}: commands by standard input are not read: {error}"));
    }
}

fn started(result: Result<(), StartError>) -> u8 {
    match result {
        Ok(()) => 0,
        // That process has said why.
        Err(StartError::Background { status }) => exit_status(status),
        Err(error) => {
            complain(error);
            1
        }
    }
}

fn print(text: &str) -> u8 {
    // The reader may have closed the pipe before the end.
    let _ = io::stdout().write_all(text.as_bytes());
    0
}

/// A status that is not 0 must not become 0 in the eight bits that the system keeps.
fn exit_status(status: i32) -> u8 {
    u8::try_from(status).unwrap_or(1)
}
