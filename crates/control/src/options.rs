//! The command line of `nvidia-cuda-mps-control`: one table of options, from which parsing and
//! help come. Words that are no option are a command.

use crate::BINARY_VERSION;
use crate::command;
use crate::daemon::DETACH;
use std::fmt::Write;
use thiserror::Error;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Become a daemon; return when it accepts connections.
    Daemon,
    /// Be the daemon in this process.
    Foreground {
        /// Say `ready` on standard output, then let go of the terminal: the second half of
        /// [`Action::Daemon`].
        detach: bool,
    },
    /// Print help.
    Help,
    /// Print the version.
    Version,
    /// Send this command to the daemon.
    Command(String),
    /// Send the commands of standard input to the daemon.
    Shell,
}

/// Why a command line was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown option {0:?}; --help lists them")]
    Unknown(String),
    /// NVIDIA's MPS has it.
    #[error("{option} is not supported yet: {reason}")]
    NotSupported {
        /// As it was given.
        option: String,
        /// What it would do.
        reason: &'static str,
    },
    /// It wants a value.
    #[error("{0} wants 2 or 3")]
    Protocol(String),
    /// An option that does something, and a command.
    #[error("{0} takes no command, but {1:?} was given")]
    Command(&'static str, String),
}

#[derive(Clone, Copy)]
enum Effect {
    Do(fn() -> Action),
    NotSupported(&'static str),
    Protocol,
}

struct OptionRow {
    /// The short name, the long one, other spellings.
    names: &'static [&'static str],
    /// As `--help` shows it.
    shown: &'static str,
    help: &'static str,
    effect: Effect,
}

const OPTIONS: &[OptionRow] = &[
    OptionRow {
        names: &["-h", "--help"],
        shown: "-h, --help",
        help: "Print this help",
        effect: Effect::Do(|| Action::Help),
    },
    OptionRow {
        names: &["-v", "--version"],
        shown: "-v, --version",
        help: "Print the version",
        effect: Effect::Do(|| Action::Version),
    },
    OptionRow {
        names: &["-d", "--daemon"],
        shown: "-d, --daemon",
        help: "Start the daemon; return when it accepts connections",
        effect: Effect::Do(|| Action::Daemon),
    },
    OptionRow {
        // The misspelling is NVIDIA's, and stands in scripts.
        names: &["-f", "--foreground", "--forground"],
        shown: "-f, --foreground",
        help: "Be the daemon in this process; log lines go to standard error too",
        effect: Effect::Do(|| Action::Foreground { detach: false }),
    },
    OptionRow {
        names: &[DETACH],
        shown: "",
        help: "",
        effect: Effect::Do(|| Action::Foreground { detach: true }),
    },
    OptionRow {
        names: &["-M", "--multiuser-server", "-multiuser-server", "-m", "--multiuser"],
        shown: "-M, --multiuser-server",
        help: "One server for all users (not supported yet; each user has a server of their own)",
        effect: Effect::NotSupported(
            "one server for all users. Each user has a server of their own",
        ),
    },
    OptionRow {
        names: &["-S", "--static-partitioning"],
        shown: "-S, --static-partitioning",
        help: "Divide a device's SMs into fixed partitions (not supported yet)",
        effect: Effect::NotSupported("fixed partitions of SMs"),
    },
    OptionRow {
        names: &["-q", "--ready-devices"],
        shown: "-q, --ready-devices",
        help: "(not supported yet)",
        effect: Effect::NotSupported("see the command device_query"),
    },
    OptionRow {
        names: &["-p", "--protocol"],
        shown: "-p, --protocol <2|3>",
        help: "Interface to follow: 2 (3 is not supported yet)",
        effect: Effect::Protocol,
    },
];

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Action, OptionError> {
    let mut arguments = arguments.into_iter().peekable();
    let mut action: Option<(&'static str, Action)> = None;
    while let Some(argument) = arguments.next_if(|argument| argument.starts_with('-')) {
        let (name, mut value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let Some(row) = OPTIONS.iter().find(|row| row.names.contains(&name)) else {
            return Err(OptionError::Unknown(argument));
        };
        match row.effect {
            Effect::Do(make) if value.is_none() => {
                // Help and version win over what else is there.
                if !matches!(action, Some((_, Action::Help | Action::Version))) {
                    action = Some((row.names[0], make()));
                }
            }
            Effect::Do(_) => return Err(OptionError::Unknown(argument)),
            Effect::NotSupported(reason) => {
                return Err(OptionError::NotSupported { option: argument, reason });
            }
            Effect::Protocol => match value.take().or_else(|| arguments.next()).as_deref() {
                Some("2") => {}
                Some("3") => {
                    let reason = "the interface of modules and verbs";
                    return Err(OptionError::NotSupported { option: argument, reason });
                }
                _ => return Err(OptionError::Protocol(argument)),
            },
        }
    }
    let words: Vec<String> = arguments.collect();
    match (action, words.is_empty()) {
        (Some((_, action)), true) => Ok(action),
        (Some((_, action @ (Action::Help | Action::Version))), false) => Ok(action),
        (Some((name, _)), false) => Err(OptionError::Command(name, words.join(" "))),
        (None, true) => Ok(Action::Shell),
        (None, false) => Ok(Action::Command(words.join(" "))),
    }
}

/// What `--help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: nvidia-cuda-mps-control [options] [command]\n\
         Starts the control daemon of openmps, or sends commands to it. Without a command, reads\n\
         commands from standard input, one a line.\n\n\
         Options:\n",
    );
    for row in OPTIONS.iter().filter(|row| !row.shown.is_empty()) {
        let _ = writeln!(text, "  {:28} {}", row.shown, row.help);
    }
    text.push_str("\nCommands:\n");
    text.push_str(&command::help());
    text.push_str(
        "\nEnvironment:\n  \
         CUDA_MPS_PIPE_DIRECTORY      Directory of the daemon's sockets (default /tmp/nvidia-mps)\n  \
         CUDA_MPS_LOG_DIRECTORY       Directory of control.log, server.log (default /var/log/nvidia-mps)\n\
         \nExamples:\n  \
         nvidia-cuda-mps-control -d\n  \
         echo get_server_list | nvidia-cuda-mps-control\n  \
         nvidia-cuda-mps-control quit -t 10\n\
         \nA command that fails says why, and the exit status is not 0.\n",
    );
    text
}

/// What `--version` prints.
pub fn version() -> String {
    format!(
        "CUDA MPS Control binary version: {BINARY_VERSION}\nopenmps {}\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Action, OptionError> {
        parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_commands() {
        assert_eq!(read(""), Ok(Action::Shell));
        assert_eq!(read("-d"), Ok(Action::Daemon));
        assert_eq!(read("-p 2 --daemon"), Ok(Action::Daemon));
        assert_eq!(read("--forground"), Ok(Action::Foreground { detach: false }));
        assert_eq!(read("-d --help"), Ok(Action::Help));
        assert_eq!(read("ps -p 5"), Ok(Action::Command("ps -p 5".into())));
    }

    #[test]
    fn wrong_ones_are_named() {
        for (line, part) in [
            ("-x", "unknown option \"-x\""),
            ("-d=1", "unknown option \"-d=1\""),
            ("-p", "-p wants 2 or 3"),
            ("-p 3", "not supported yet"),
            ("-multiuser-server -d", "not supported yet"),
            ("-d quit", "-d takes no command, but \"quit\""),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn help_lists_every_option_and_command() {
        let text = help();
        for row in OPTIONS.iter().filter(|row| !row.shown.is_empty()) {
            assert!(text.contains(row.shown));
        }
        for row in command::COMMANDS {
            assert!(text.contains(row.name));
        }
        assert!(!text.contains(DETACH));
    }
}
