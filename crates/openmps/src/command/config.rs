//! `openmps config`: the settings file of daemon and servers.

use crate::output;
use anyhow::{Result, bail};
use control::settings_file::{self, Key, SettingsFile, Source};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check and show the settings file of daemon and servers
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Check the settings file: what is wrong, in which line, and what is allowed
    #[command(after_help = "Examples:
  openmps config check                   /etc/openmps.toml of root's, openmps.toml in ~/.config of others
  openmps config check new.toml          before it is put there")]
    Check {
        /// The file
        file: Option<PathBuf>,
    },
    /// Show what a daemon that starts here would have, and where it comes from
    ///
    /// The strongest first: a command to the running daemon, an option of its command line, a variable of its
    /// environment, the settings file, the default. What commands have set is not written into the
    /// file: it ends when the daemon is stopped.
    #[command(after_help = "Examples:
  openmps config show
  openmps config show --all --json")]
    Show {
        /// Also what nothing sets
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a settings file with all settings as comments
    #[command(after_help = "Examples:
  openmps config defaults > ~/.config/openmps.toml")]
    Defaults,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Check { file } => check(file.clone()),
        What::Show { all, json } => show(*all, *json),
        What::Defaults => {
            output::print(&settings_file::defaults())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(file: Option<PathBuf>) -> Result<ExitCode> {
    let is_named = file.is_some();
    let Some(path) = file.or_else(settings_file::path) else {
        bail!(
            "no settings file is read here: OPENMPS_CONFIG is none, or there is no home directory"
        );
    };
    let Some(found) = settings_file::read(&path)? else {
        if is_named {
            bail!("{} is not there", path.display());
        }
        output::print(&format!("{} is not there: defaults hold\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let count = found.variables.len() + found.options.len();
    let servers = if found.has_servers { " and servers of protocol 3" } else { "" };
    output::print(&format!("{}: {count} settings{servers}, good\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn show(all: bool, as_json: bool) -> Result<ExitCode> {
    let path = settings_file::path();
    let file = match &path {
        Some(path) => settings_file::read(path)?,
        None => None,
    };
    let is_there = file.is_some();
    let file: SettingsFile = file.unwrap_or_default();
    let rows: Vec<(Key, String, Source)> = Key::all()
        .map(|key| {
            let (value, source) = settings_file::value(key, &file, |name| std::env::var(name).ok());
            (key, value, source)
        })
        .filter(|(_, _, source)| all || *source != Source::Default)
        .collect();
    if as_json {
        let settings: Vec<_> = rows
            .iter()
            .map(|(key, value, source)| {
                json!({
                    "table": key.section().name(),
                    "name": key.name(),
                    "value": value,
                    "source": source.name(),
                    "stands_for": key.stands_for(),
                })
            })
            .collect();
        output::print_json(&json!({ "file": path, "is_there": is_there, "settings": settings }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = match &path {
        Some(path) if is_there => format!("{}\n", path.display()),
        Some(path) => format!("{} is not there\n", path.display()),
        None => "no settings file is read here\n".to_owned(),
    };
    for (key, value, source) in rows {
        let name = format!("{}.{}", key.section().name(), key.name());
        text.push_str(&format!("{:<9} {name} = {value}\n", source.name()));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
