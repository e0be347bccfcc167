//! The one binary of the project: `openmps`, and under the names nvidia-cuda-mps-control,
//! nvidia-cuda-mps-server, ptxas and nvidia-smi those programs.
//!
//! A command is a module in `command/` with `Arguments` and `run`, and a row in [`Command`] and in
//! [`Command::run`].

mod activity;
mod command;
mod crash;
mod daemon;
mod destination;
mod device_description;
mod driver_locks;
mod executable;
mod group;
mod groups_of_commands;
mod libraries;
mod nvidia_smi;
mod output;
mod personality;
mod processors;
mod progress;
mod ptxas;
mod reference;
mod scratch;
mod seconds;
mod server_program;
mod signals;
mod version;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Share a GPU between CUDA programs: their kernels run at the same time, in one context
///
/// Programs need no change: `openmps run` gives them a CUDA driver library that sends their work
/// through a server. Without a GPU they run on a software GPU.
#[derive(Parser)]
#[command(name = "openmps", version = version::LONG.as_str(), max_term_width = 100)]
#[command(after_help = "Examples:
  openmps run -- ./simulation --steps 1000    Run a program; start a daemon if none runs
  openmps ps                                  See who uses the device
  openmps down                                Stop the daemon

The programs nvidia-cuda-mps-control and nvidia-cuda-mps-server are this one under other names.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(command::run::Arguments),
    Up(command::up::Arguments),
    Upgrade(command::upgrade::Arguments),
    Down(command::down::Arguments),
    Ps(command::ps::Arguments),
    Top(command::top::Arguments),
    Trace(command::trace::Arguments),
    Advise(command::advise::Arguments),
    Web(command::web::Arguments),
    Plan(command::plan::Arguments),
    Set(command::set::Arguments),
    Config(command::config::Arguments),
    Cdi(command::cdi::Arguments),
    DriverRoot(command::driver_root::Arguments),
    Accounting(command::accounting::Arguments),
    Doctor(command::doctor::Arguments),
    Demo(command::demo::Arguments),
    Bench(command::bench::Arguments),
    Coverage(command::coverage::Arguments),
    Ptx(command::ptx::Arguments),
    Completions(command::completions::Arguments),
    #[command(hide = true)]
    Man(command::completions::ManArguments),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Run(arguments) => command::run::run(&arguments),
            Command::Up(arguments) => command::up::run(&arguments),
            Command::Upgrade(arguments) => command::upgrade::run(&arguments),
            Command::Down(arguments) => command::down::run(&arguments),
            Command::Ps(arguments) => command::ps::run(&arguments),
            Command::Top(arguments) => command::top::run(&arguments),
            Command::Trace(arguments) => command::trace::run(&arguments),
            Command::Advise(arguments) => command::advise::run(&arguments),
            Command::Web(arguments) => command::web::run(&arguments),
            Command::Plan(arguments) => command::plan::run(&arguments),
            Command::Set(arguments) => command::set::run(&arguments),
            Command::Config(arguments) => command::config::run(&arguments),
            Command::Cdi(arguments) => command::cdi::run(&arguments),
            Command::DriverRoot(arguments) => command::driver_root::run(&arguments),
            Command::Accounting(arguments) => command::accounting::run(&arguments),
            Command::Doctor(arguments) => command::doctor::run(&arguments),
            Command::Demo(arguments) => command::demo::run(&arguments),
            Command::Bench(arguments) => command::bench::run(&arguments),
            Command::Coverage(arguments) => command::coverage::run(&arguments),
            Command::Ptx(arguments) => command::ptx::run(&arguments),
            Command::Completions(arguments) => {
                command::completions::run(&arguments, CommandLine::command())
            }
            Command::Man(arguments) => {
                command::completions::man(&arguments, CommandLine::command())
            }
        }
    }
}

/// `help --help` as `help`, and `help run --help` as `help run`: the parser takes the option for the
/// name of a command there.
fn without_help_on_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

fn main() -> ExitCode {
    channel::name_build(version::BUILD);
    if let Some(status) = personality::run() {
        return status;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = groups_of_commands::grouped(CommandLine::command())
        .get_matches_from(without_help_on_help(words));
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match line.command.run() {
        Ok(status) => status,
        Err(error) if error.is::<output::Closed>() => ExitCode::SUCCESS,
        // As shells answer for what Ctrl-C ended.
        Err(_) if group::is_interrupted() => ExitCode::from(130),
        Err(error) => {
            output::say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
