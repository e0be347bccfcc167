//! Reference pages of commands: what `--help` says, as Markdown for the documents.
//!
//! Not here: pages that are read from sources (`xtask/src/reference.rs`).

use clap::{Arg, Command};
use std::fmt::Write;

/// First lines of a page.
fn head(title: &str, about: &str) -> String {
    format!("<!-- Made by `cargo xtask generate`; do not edit. -->\n\n# {title}\n\n{about}\n\n")
}

/// The page of `openmps` and all its commands.
pub(crate) fn commands(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut page = head(
        "Commands",
        "What `--help` prints. `nvidia-cuda-mps-control` has a [page of its own](control-commands.md).",
    );
    section(&command, "openmps", &mut page);
    while page.ends_with("\n\n") {
        page.pop();
    }
    page
}

fn section(command: &Command, path: &str, page: &mut String) {
    let _ = writeln!(page, "## `{path}`\n");
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        let _ = writeln!(page, "{}\n", ended(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let usages =
        usage.trim_start_matches("Usage:").lines().map(|line| format!("`{}`", line.trim()));
    let _ = writeln!(page, "{}\n", usages.collect::<Vec<_>>().join(" or "));
    let arguments: Vec<_> = command.get_arguments().filter(|arg| is_shown(arg)).collect();
    for argument in &arguments {
        let _ = writeln!(page, "{}", item(argument));
    }
    if !arguments.is_empty() {
        page.push('\n');
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(page, "```text\n{}\n```\n", after.to_string().trim_end());
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        if inner.get_name() != "help" {
            section(inner, &format!("{path} {}", inner.get_name()), page);
        }
    }
}

fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

/// An option or argument, with its help, default and values.
fn item(argument: &Arg) -> String {
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = argument.get_action().takes_values();
    let name = match (argument.get_long(), takes_value) {
        (Some(long), true) => format!("--{long} {value}"),
        (Some(long), false) => format!("--{long}"),
        (None, _) => value,
    };
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(|help| ended(&help.to_string())).unwrap_or_default();
    let mut item = format!("* `{short}{name}`: {help}");
    let defaults = argument.get_default_values();
    if takes_value && !defaults.is_empty() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        let _ = write!(item, " Default: `{}`.", defaults.join(","));
    }
    let values = argument.get_possible_values();
    if takes_value && !values.is_empty() {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(item, " Values: {}.", names.join(", "));
    }
    item
}

/// A text that ends with a full stop: the first lines of help have none.
fn ended(text: &str) -> String {
    let paragraphs = text.trim_end().split("\n\n").map(|paragraph| {
        let stop = if paragraph.ends_with(['.', ':', '?', '!']) { "" } else { "." };
        format!("{paragraph}{stop}")
    });
    plain(&paragraphs.collect::<Vec<_>>().join("\n\n"))
}

/// A text in which Markdown finds no tag.
fn plain(text: &str) -> String {
    text.replace('<', "\\<")
}

/// The page of `nvidia-cuda-mps-control`.
pub(crate) fn control_commands() -> String {
    let mut page = head(
        "Control commands",
        "Options and commands of `nvidia-cuda-mps-control`. *Owner* commands are for root and the daemon's \
         owner. A command that fails says why and exits with a status other than 0.",
    );
    page.push_str("## Options\n\n| option | what it does |\n| --- | --- |\n");
    let help = control::options::help("", "");
    let options = help.split("Options:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    for line in options.unwrap_or_default().lines() {
        let (option, what) = line.trim_start().split_once("  ").unwrap_or((line, ""));
        let _ = writeln!(page, "| `{}` | {} |", escaped(option.trim()), plain(what.trim()));
    }
    page.push_str("\n## Commands of both protocols\n\n| command | for | what it does |\n| --- | --- | --- |\n");
    for row in control::command::COMMANDS {
        let usage = format!("{} {}", row.name, row.arguments);
        let who = if row.privileged { "owner" } else { "all" };
        let _ = writeln!(page, "| `{}` | {who} | {} |", escaped(usage.trim()), plain(row.help));
    }
    page.push_str("\n## Commands of protocol 3\n\n");
    let v3 = control::command::help_v3();
    let mut lines = v3.lines();
    while let (Some(usage), Some(help)) = (lines.next(), lines.next()) {
        let _ = writeln!(page, "* `{}`: {}.", usage.trim(), plain(help.trim()));
    }
    page
}

/// A text in backquotes within a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    fn assert_same(name: &str, page: &str) {
        let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == page, "docs/reference/{name}: run `cargo xtask generate`");
    }

    #[test]
    fn reference_pages_are_what_help_says() {
        assert_same("commands.md", &super::commands(&crate::CommandLine::command()));
        assert_same("control-commands.md", &super::control_commands());
    }
}
