//! Groups of commands: how `openmps --help` lists them, by what they are for.

use clap::Command;
use std::fmt::Write;

/// Headings, and the commands below each.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run programs", &["run", "up", "upgrade", "down", "set", "config"]),
    ("In containers", &["cdi", "driver-root"]),
    ("Look at them", &["ps", "top", "trace", "web", "accounting", "advise", "demo"]),
    ("Find faults", &["doctor", "coverage", "ptx"]),
    ("Plan and measure", &["plan", "bench"]),
    ("Shells", &["completions", "help"]),
];

/// The command whose help lists its commands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let list = list(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

fn list(command: &Command) -> String {
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in *names {
            let found = command.find_subcommand(name).and_then(|found| found.get_about());
            let about = match found {
                Some(about) => about.to_string(),
                None => "Print the help of a command".to_owned(),
            };
            let _ = writeln!(list, "  {name:<12} {about}");
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_is_in_one_group() {
        let command = crate::CommandLine::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|group| group.1).copied().collect();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut there: Vec<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        listed.sort_unstable();
        there.sort_unstable();
        assert_eq!(listed, there);
    }

    #[test]
    fn each_command_has_examples() {
        fn without_examples(command: &Command, path: &str, none: &mut Vec<String>) {
            for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
                let path = format!("{path} {}", command.get_name());
                let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                if !text.contains("Examples:") && !command.has_subcommands() {
                    none.push(path.clone());
                }
                without_examples(command, &path, none);
            }
        }
        let mut none = Vec::new();
        without_examples(&crate::CommandLine::command(), "openmps", &mut none);
        assert!(none.is_empty(), "{none:?}");
    }
}
