//! `nvidia-cuda-mps-control` from its arguments to its exit status.

use crate::command::connection;
use crate::daemon::{self, Programs, StartError};
use crate::directory::PipeDirectory;
use crate::options::{self, Action};
use crate::shell::{self, Shell};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Runs the program. `arguments` are those after its name. Returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = String>, programs: Box<dyn Programs>) -> u8 {
    let action = match options::parse(arguments) {
        Ok(action) => action,
        Err(error) => {
            complain(format_args!("nvidia-cuda-mps-control: {error}"));
            return 1;
        }
    };
    match action {
        Action::Help => print(&options::help()),
        Action::Version => print(&options::version()),
        Action::Daemon(options) => started(daemon::start_in_background(&*programs, &options)),
        Action::Foreground { detach, options } => {
            let result = daemon::run(programs, connection::start, detach, options);
            connection::finish();
            started(result)
        }
        Action::Command(line) => {
            match Shell::new(PipeDirectory::found()).command(&line, &mut io::stdout()) {
                Ok(status) => exit_status(status),
                Err(error) => {
                    complain(error);
                    1
                }
            }
        }
        Action::Shell => {
            let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
            let shell = Shell::new(PipeDirectory::found());
            exit_status(shell::converse(&shell, &mut io::stdin().lock(), terminal))
        }
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
    // Whoever reads may have enough before the end.
    let _ = io::stdout().write_all(text.as_bytes());
    0
}

/// Says what is wrong on standard error, which may be closed or full.
pub(crate) fn complain(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// A status that is not 0 must not become 0 in the eight bits that the system keeps.
fn exit_status(status: i32) -> u8 {
    u8::try_from(status).unwrap_or(1)
}
