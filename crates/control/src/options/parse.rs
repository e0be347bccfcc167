//! Command-line parsing: one table of options, from which `--help` comes too. Words that are no option are
//! a command.

use super::{Action, DETACH, DaemonOptions, HANDOVER, OptionError, SharePolicy, TAKE_OVER};
use crate::BINARY_VERSION;
use crate::access::{AllowError, Allowed};
use cuda_api::settings::parse_cpus;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Clone, Copy)]
enum Effect {
    Do(fn() -> Action),
    Quit,
    Protocol,
    Apply,
    /// Says how a daemon is.
    Set(fn(&mut DaemonOptions)),
    Allow,
    Share,
    Cpus,
    KernelTimeout,
    TakeOver,
    IsolateLong,
    HoldMax,
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
        effect: Effect::Do(|| Action::Daemon(DaemonOptions::default())),
    },
    OptionRow {
        // The misspelling is NVIDIA's, and stands in scripts.
        names: &["-f", "--foreground", "--forground"],
        shown: "-f, --foreground",
        help: "Be the daemon in this process; log lines go to standard error too, and a pipe as standard \
               input gives commands",
        effect: Effect::Do(|| foreground(false)),
    },
    OptionRow { names: &[TAKE_OVER], shown: "", help: "", effect: Effect::TakeOver },
    OptionRow {
        names: &[HANDOVER],
        shown: "",
        help: "",
        effect: Effect::Do(|| Action::HandoverVersion),
    },
    OptionRow { names: &[DETACH], shown: "", help: "", effect: Effect::Do(|| foreground(true)) },
    OptionRow {
        names: &["-M", "--multiuser-server", "-multiuser-server", "-m", "--multiuser"],
        shown: "-M, --multiuser-server",
        help: "Root's servers for all users; without it each user has servers of their own",
        effect: Effect::Set(|options| options.access.multiuser = true),
    },
    OptionRow {
        names: &["-S", "--static-partitioning"],
        shown: "-S, --static-partitioning",
        help: "Give SMs out in static partitions only (sm_partition, lspart)",
        effect: Effect::Set(|options| options.static_partitioning = true),
    },
    OptionRow {
        names: &["--one-user"],
        shown: "--one-user",
        help: "Servers of one user at a time, as NVIDIA's daemon has it; others wait",
        effect: Effect::Set(|options| options.access.one_user = true),
    },
    OptionRow {
        names: &["--allow"],
        shown: "--allow <user|@group>,...",
        help: "Serve programs of these users only; may be given several times",
        effect: Effect::Allow,
    },
    OptionRow {
        names: &["--share"],
        shown: "--share <1/n|2/n>",
        help: "Each program's SMs follow the number of programs: 100 % / n, or 200 % / n",
        effect: Effect::Share,
    },
    OptionRow {
        names: &["--cpus"],
        shown: "--cpus <list|near|all>",
        help: "CPUs of servers: 0-3,8; near their device (the default); all of the daemon's",
        effect: Effect::Cpus,
    },
    OptionRow {
        names: &["--standby"],
        shown: "--standby",
        help: "Keep a server with a made context ready, to take a lost one's place at once",
        effect: Effect::Set(|options| options.standby = true),
    },
    OptionRow {
        names: &["--kernel-timeout"],
        shown: "--kernel-timeout <seconds>",
        help: "Terminate a program one of whose streams makes no progress for so long",
        effect: Effect::KernelTimeout,
    },
    OptionRow {
        names: &["--isolate-long"],
        shown: "--isolate-long <time>",
        help: "Give a program whose kernels run for longer (1s) a server of its own",
        effect: Effect::IsolateLong,
    },
    OptionRow {
        names: &["--hold-max"],
        shown: "--hold-max <time>",
        help: "Pause programs for at most so long (10ms) at a time for another one's load",
        effect: Effect::HoldMax,
    },
    OptionRow {
        names: &["-q", "--quit"],
        shown: "-q, --quit",
        help: "End daemon and servers when clients are gone; in protocol 2 only as --quit",
        effect: Effect::Quit,
    },
    OptionRow {
        names: &["-p", "--protocol"],
        shown: "-p, --protocol <2|3>",
        help: "Interface of a daemon that starts: 2, or 3 with named servers; commands follow it",
        effect: Effect::Protocol,
    },
    OptionRow {
        names: &["-a", "--apply"],
        shown: "-a, --apply <file>",
        help: "Make the servers of a TOML file at the start (protocol 3)",
        effect: Effect::Apply,
    },
];

fn foreground(detach: bool) -> Action {
    Action::Foreground { detach, options: DaemonOptions::default() }
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Action, OptionError> {
    let mut arguments = arguments.into_iter().peekable();
    let mut action: Option<(&'static str, Action)> = None;
    let (mut options, mut of_daemon) = (DaemonOptions::default(), None);
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
                    let name = row.names[0];
                    if let Some((before, _)) = action.as_ref().filter(|(before, _)| *before != name)
                    {
                        options
                            .notes
                            .push(format!("{name} comes after {before} and holds instead"));
                    }
                    action = Some((row.names[0], make()));
                }
            }
            Effect::Set(set) if value.is_none() => {
                set(&mut options);
                of_daemon = Some(argument);
            }
            Effect::Allow
            | Effect::Share
            | Effect::Cpus
            | Effect::KernelTimeout
            | Effect::IsolateLong
            | Effect::HoldMax
            | Effect::Apply => {
                let value = value.take().or_else(|| arguments.next()).unwrap_or_default();
                take_value(&row.effect, value, &mut options)?;
                of_daemon = Some(argument);
            }
            Effect::TakeOver => {
                let value = value.take().unwrap_or_default();
                let number = value.parse().map_err(|_| OptionError::Unknown(argument))?;
                options.take_over = Some(number);
            }
            Effect::Do(_) | Effect::Set(_) => return Err(OptionError::Unknown(argument)),
            Effect::Quit if value.is_none() => {
                let any_protocol = argument != "-q";
                action.get_or_insert((row.names[0], Action::Quit { any_protocol }));
            }
            Effect::Quit => return Err(OptionError::Unknown(argument)),
            // Commands follow the daemon, so the option says something of daemons only.
            Effect::Protocol => match value.take().or_else(|| arguments.next()).as_deref() {
                Some("2") => options.protocol = 2,
                Some("3") => options.protocol = 3,
                _ => return Err(OptionError::Protocol(argument)),
            },
        }
    }
    let words: Vec<String> = arguments.collect();
    match &mut action {
        Some((_, Action::Daemon(own) | Action::Foreground { options: own, .. })) => *own = options,
        Some(_) => {}
        None => {
            if let Some(option) = of_daemon {
                return Err(OptionError::NotADaemon(option));
            }
        }
    }
    match (action, words.is_empty()) {
        (Some((_, action)), true) => Ok(action),
        (Some((_, action @ (Action::Help | Action::Version))), false) => Ok(action),
        (Some((name, _)), false) => Err(OptionError::Command(name, words.join(" "))),
        (None, true) => Ok(Action::Shell),
        (None, false) => Ok(Action::Command(words.join(" "))),
    }
}

/// Takes the value of an option of the daemon.
fn take_value(
    effect: &Effect,
    value: String,
    options: &mut DaemonOptions,
) -> Result<(), OptionError> {
    match effect {
        Effect::Allow => {
            let allowed = Allowed::parse(&value)?;
            if allowed.is_empty() {
                return Err(AllowError::User(value).into());
            }
            options.access.allowed.extend(allowed);
        }
        Effect::Share => {
            options.share = SharePolicy::parse(&value);
            if options.share.is_none() {
                return Err(OptionError::Share(value));
            }
        }
        Effect::Cpus => {
            parse_cpus(&value)?;
            options.cpus = Some(value);
        }
        Effect::KernelTimeout => {
            options.kernel_timeout_s = value.parse().ok().filter(|seconds| *seconds > 0);
            if options.kernel_timeout_s.is_none() {
                return Err(OptionError::KernelTimeout(value));
            }
        }
        Effect::IsolateLong => {
            if scheduling::units::duration_ns(&value).is_none_or(|ns| ns < 1_000_000) {
                return Err(OptionError::IsolateLong(value));
            }
            options.isolate_long = Some(value);
        }
        Effect::HoldMax => {
            if scheduling::units::duration_ns(&value).is_none_or(|ns| ns < 1_000_000) {
                return Err(OptionError::HoldMax(value));
            }
            options.hold_max = Some(value);
        }
        Effect::Apply => {
            if value.is_empty() {
                return Err(OptionError::Apply);
            }
            options.configuration = Some(PathBuf::from(value));
        }
        // The others have no value, or none of the daemon's.
        _ => {}
    }
    Ok(())
}

/// What `--help` prints. `commands` and `commands_v3` are the lists of a daemon's commands.
pub fn help(commands: &str, commands_v3: &str) -> String {
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
    text.push_str(commands);
    text.push_str("\nCommands of a daemon with -p 3, besides:\n");
    text.push_str(commands_v3);
    text.push_str(
        "\nEnvironment:\n  \
         CUDA_MPS_PIPE_DIRECTORY      Directory of the daemon's sockets (default /tmp/nvidia-mps)\n  \
         CUDA_MPS_LOG_DIRECTORY       Directory of control.log, server.log (default /var/log/nvidia-mps)\n  \
         CUDA_MPS_PROTOCOL_VERSION    2 or 3; goes before -p\n\
         \nExamples:\n  \
         nvidia-cuda-mps-control -d\n  \
         echo get_server_list | nvidia-cuda-mps-control\n  \
         nvidia-cuda-mps-control quit -t 10\n  \
         nvidia-cuda-mps-control -d -p 3 && nvidia-cuda-mps-control server create training\n\
         \nA command that fails says why, and the exit status is not 0.\n",
    );
    text
}

/// What `--version` prints.
pub fn version() -> String {
    format!(
        "CUDA MPS Control binary version: {BINARY_VERSION}\nopenmps {}, protocol {} to {}\n",
        channel::build(),
        channel::PROTOCOL_VERSION_MIN,
        channel::PROTOCOL_VERSION
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    fn read(text: &str) -> Result<Action, OptionError> {
        parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_commands() {
        assert_eq!(read(""), Ok(Action::Shell));
        let plain = || Ok(Action::Daemon(DaemonOptions::default()));
        assert_eq!((read("-d"), read("-p 2 --daemon")), (plain(), plain()));
        assert_eq!(read("--forground"), Ok(foreground(false)));
        let Ok(Action::Foreground { options, .. }) = read("-d -f --cpus 0-3,8") else {
            panic!("-f")
        };
        assert_eq!(options.notes, ["-f comes after -d and holds instead"]);
        assert_eq!(options.words(), ["--cpus=0-3,8"]);
        assert!(matches!(read("-f -d"), Ok(Action::Daemon(options)) if options.notes.len() == 1));
        let line = "-d -S --share 2/n --allow root,@0 --one-user -multiuser-server";
        let Ok(Action::Daemon(options)) = read(line) else { panic!("{line}") };
        let words = "-S -M --one-user --share=2/n --allow=0 --allow=@0";
        assert_eq!(options.words().join(" "), words);
        let same = read(&format!("-f {words}"));
        assert_eq!(same, Ok(Action::Foreground { detach: false, options }));
        let Ok(Action::Daemon(three)) = read("-d -p 3 -a x.toml") else { panic!("-p 3") };
        assert_eq!(three.words().join(" "), "--protocol=3 --apply=x.toml");
        assert_eq!(three.clone().with_protocol(Some("3")), Ok(three.clone()));
        assert!(three.with_protocol(Some("2")).unwrap_err().to_string().contains("--apply"));
        let wrong = |text: &str| DaemonOptions::default().with_protocol(Some(text)).unwrap_err();
        assert_eq!(wrong("x"), OptionError::ProtocolVariable("x".into()));
        for line in ["-d -p 3 -S", "-d -p3 --one-user"] {
            let Ok(Action::Daemon(options)) = read(&line.replace("-p3", "-p 3")) else {
                panic!("{line}")
            };
            assert!(options.with_protocol(None).is_err(), "{line}");
        }
        assert_eq!(read("-q"), Ok(Action::Quit { any_protocol: false }));
        assert_eq!(read("--quit"), Ok(Action::Quit { any_protocol: true }));
        assert_eq!(read("-p 3 server list"), Ok(Action::Command("server list".into())));
        assert_eq!(read("-d --help"), Ok(Action::Help));
        assert_eq!(read("ps -p 5"), Ok(Action::Command("ps -p 5".into())));
    }

    #[test]
    fn wrong_ones_are_named() {
        for (line, part) in [
            ("-x", "unknown option \"-x\""),
            ("-d=1", "unknown option \"-d=1\""),
            ("-d --cpus 3-1", "a list of CPUs as 0-3,8"),
            ("-d --cpus", "a list of CPUs as 0-3,8"),
            ("-p", "-p wants 2 or 3"),
            ("-p 4", "-p wants 2 or 3"),
            ("-d -a", "--apply wants"),
            ("-a x", "-a is for starting a daemon"),
            ("-q=1", "unknown option"),
            ("-d --share 3/n", "--share wants 1/n"),
            ("-d --kernel-timeout 0", "--kernel-timeout wants seconds"),
            ("-d --isolate-long 3", "--isolate-long wants a time"),
            ("-d --hold-max 500us", "--hold-max wants a time"),
            ("--standby", "--standby is for starting a daemon"),
            ("-d --allow no_such_user_here", "there is no user"),
            ("-d --allow", "there is no user"),
            ("-S", "-S is for starting a daemon"),
            ("-S=1 -d", "unknown option"),
            ("-d quit", "-d takes no command, but \"quit\""),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn help_lists_every_option_and_command() {
        let text = help(&command::help(), &crate::v3::command::help());
        for row in OPTIONS.iter().filter(|row| !row.shown.is_empty()) {
            assert!(text.contains(row.shown));
        }
        for row in command::COMMANDS {
            assert!(text.contains(row.name));
        }
        assert!(!text.contains(DETACH));
    }

    #[test]
    fn shares_follow_the_number_of_programs() {
        let of = |policy: SharePolicy, programs| policy.of(programs).to_string();
        assert_eq!(of(SharePolicy::Even, 1), "100.0");
        assert_eq!(
            (of(SharePolicy::Even, 4), of(SharePolicy::Double, 4)),
            ("25.0".into(), "50.0".into())
        );
        assert_eq!(
            (of(SharePolicy::Double, 1), of(SharePolicy::Even, 0)),
            ("100.0".into(), "100.0".into())
        );
    }
}
