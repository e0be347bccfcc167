//! Shell completions and man pages: both made of the commands' own definitions.

use crate::{output, reference};
use anyhow::{Context, Result};
use clap::Command;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print a script that completes openmps's commands and options in a shell
///
/// Installations made by `cargo xtask dist` have the scripts under share/.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  source <(openmps completions bash)                                   In this shell
  openmps completions zsh > ~/.zfunc/_openmps                          For zsh, with ~/.zfunc in fpath
  openmps completions fish > ~/.config/fish/completions/openmps.fish")]
pub(crate) struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script for a shell.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<ExitCode> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    output::print(&String::from_utf8(script).context("the script is no text")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Write man pages, one a command
#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// Where to; must exist
    directory: PathBuf,
    /// Write the documents' reference pages of commands instead
    #[arg(long)]
    reference: bool,
}

/// Writes `openmps.1` and one page for each command, or the documents' reference pages.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<ExitCode> {
    if arguments.reference {
        let pages = [
            ("commands.md", reference::commands(&command)),
            ("control-commands.md", reference::control_commands()),
        ];
        for (name, page) in pages {
            let path = arguments.directory.join(name);
            std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    clap_mangen::generate_to(command, &arguments.directory)
        .with_context(|| format!("writing man pages to {}", arguments.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
