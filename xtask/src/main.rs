//! Development tasks: `cargo xtask --help`.

mod book;
mod check;
#[cfg(test)]
mod circles;
mod cross_version;
mod dist;
#[cfg(test)]
mod documents;
mod generate;
mod h200;
mod json_fields;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod locks;
mod package;
mod performance;
mod reference;
mod release;
#[cfg(test)]
mod style;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod type_names;
#[cfg(test)]
mod words;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use dist::Profile;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of openmps")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated files: sources from the tables in xtask/data, pages from results in bench/ and
    /// from the code
    Generate,
    /// Record what this version of the protocol looks like (crates/channel/corpus, crates/control/corpus):
    /// once for each release
    Corpus,
    /// Build another commit beside this one, and run programs, daemons and upgrades of both together
    CrossVersion(cross_version::Arguments),
    /// The quick checks of a change: format, clippy, house rules, quick tests
    Check,
    /// The house rules, which are tests of xtask
    Tidy,
    /// Build the book of the documents into target/book, by mdBook, which is fetched if it is not installed
    Book,
    /// Build everything and lay it out as an installation is (bin/, lib/openmps/)
    Dist {
        /// Optimised build
        #[arg(long)]
        release: bool,
        /// Where to [default: target/PROFILE/dist]
        #[arg(long, value_name = "DIR")]
        prefix: Option<PathBuf>,
        /// With tests/: the soak, the fault series and the stress, which then need neither cargo nor
        /// the sources
        #[arg(long)]
        tests: bool,
    },
    /// Build for old systems and pack that, for machines without Rust
    Package(package::Arguments),
    /// Print the notes of a release, for its tag
    ReleaseNotes {
        /// The version [default: the workspace's]
        version: Option<String>,
    },
    /// Build everything and run all tests: what `cargo test-all` is
    Test {
        /// Passed on to `cargo test`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build everything optimised and run `openmps bench`: what `cargo bench` runs
    Bench {
        /// Passed on to `openmps bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build everything optimised and use it hard: `cargo xtask soak --help`
    #[command(disable_help_flag = true)]
    Soak {
        /// Passed on to the soak
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build everything optimised and fault, kill and upgrade under verifying programs:
    /// `cargo xtask faults --help`
    #[command(disable_help_flag = true)]
    Faults {
        /// Passed on to the series
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build everything optimised and run long series of all of that beside each other:
    /// `cargo xtask stress --help`
    #[command(disable_help_flag = true)]
    Stress {
        /// Passed on to the stress
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build everything optimised and have as many programs compute at once as a server takes:
    /// `cargo xtask scale --help`
    #[command(disable_help_flag = true)]
    Scale {
        /// Passed on to it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run simulated histories of clients, daemon, servers and device, optimised
    Simulate {
        /// How many, with the seeds from 0
        #[arg(long, default_value_t = 100_000)]
        histories: u64,
        /// Only the one of this seed, which is printed
        #[arg(long, conflicts_with = "histories")]
        seed: Option<u64>,
    },
    /// Build everything optimised and run `openmps demo`: what `cargo demo` is
    Demo {
        /// Passed on to `openmps demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// A generated file: its path from the repository's root, and its text.
pub struct Generated {
    /// Path from the root.
    pub path: &'static str,
    /// Whole text.
    pub text: String,
}

/// The repository's root: that of the checkout in which cargo was called, also where a target
/// directory holds an xtask that another checkout built.
fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("xtask lies in the root").to_path_buf()
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Generate => {
            let root = root();
            for file in generate::all(&root)? {
                let path = root.join(file.path);
                let folder = path.parent().expect("a file is in a folder");
                std::fs::create_dir_all(folder)
                    .and_then(|()| std::fs::write(&path, file.text))
                    .with_context(|| format!("writing {}", path.display()))?;
                println!("wrote {}", file.path);
            }
            generate::of_commands(&root)
        }
        Task::CrossVersion(arguments) => cross_version::cross_version(&arguments),
        Task::Corpus => dist::run(
            Command::new(env!("CARGO"))
                .current_dir(root())
                .args(["test", "-p", "channel", "-p", "control", "--lib", "of_each_version"])
                .args(["--", "--quiet"])
                .env("OPENMPS_RECORD_CORPUS", "1"),
        ),
        Task::Check => check::check(&root()),
        Task::Tidy => check::tidy(&root()),
        Task::Book => book::build(&root()),
        Task::Dist { release, prefix, tests } => {
            let profile = if release { Profile::Release } else { Profile::Debug };
            let to = dist::dist(profile, prefix.as_deref())?;
            if tests {
                dist::tests(profile, &to)?;
            }
            println!("{}", to.display());
            Ok(())
        }
        Task::ReleaseNotes { version } => release::print_notes(version.as_deref()),
        Task::Package(arguments) => package::package(&arguments),
        Task::Test { arguments } => {
            let dist = dist::dist(Profile::Debug, None)?;
            dist::run(
                Command::new(env!("CARGO"))
                    .current_dir(root())
                    .args(["test", "--workspace", "--no-fail-fast"])
                    .args(arguments)
                    .env("OPENMPS_DIST", dist),
            )
        }
        Task::Soak { arguments } => used_hard("soak", &arguments),
        Task::Faults { arguments } => used_hard("faults", &arguments),
        Task::Stress { arguments } => used_hard("stress", &arguments),
        Task::Scale { arguments } => used_hard("scale", &arguments),
        Task::Simulate { histories, seed } => {
            let mut command = Command::new(env!("CARGO"));
            command.current_dir(root()).args(["test", "--release", "--package", "recovery"]);
            command.args(["--test", "simulation", "histories_hold", "--", "--nocapture"]);
            match seed {
                Some(seed) => command.env("OPENMPS_SEED", seed.to_string()),
                None => command.env("OPENMPS_HISTORIES", histories.to_string()),
            };
            dist::run(&mut command)
        }
        Task::Demo { arguments } => optimised("demo", &arguments),
        Task::Bench { arguments } => optimised("bench", &arguments),
    }
}

/// Runs a program of the end-to-end tests on an optimised build.
fn used_hard(program: &str, arguments: &[String]) -> Result<()> {
    let dist = dist::dist(Profile::Release, None)?;
    dist::run(
        Command::new(env!("CARGO"))
            .current_dir(root())
            .args(["run", "--quiet", "--release", "--package", "tests", "--bin", program, "--"])
            .args(arguments)
            .env("OPENMPS_DIST", dist),
    )
}

/// Becomes a command of an optimised `openmps`.
fn optimised(command: &str, arguments: &[String]) -> Result<()> {
    let dist = dist::dist(Profile::Release, None)?;
    let error = Command::new(dist.join("bin/openmps")).arg(command).args(arguments).exec();
    Err(error).with_context(|| format!("starting openmps {command}"))
}
