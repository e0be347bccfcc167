//! `openmps doctor`: what provider, what device, which daemon, and what would go wrong.

use crate::libraries::Libraries;
use crate::output;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;

mod device;
mod system;
mod topology;
mod variables;

/// Say which provider, device and daemon programs would get here, and what would go wrong
///
/// Exits with 1 if something needs mending; warnings alone leave it at 0.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps doctor
  openmps doctor --variables              what each environment variable does
  openmps doctor --json | jq '.findings[] | select(.severity != \"ok\")'")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only list the environment variables that openmps reads, with what they do
    #[arg(long)]
    variables: bool,
}

/// How a finding is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    Warning,
    Problem,
}

/// One thing looked at.
#[derive(Serialize)]
struct Finding {
    topic: &'static str,
    severity: Severity,
    text: String,
    /// What to do; empty where nothing is.
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

impl Finding {
    fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Ok, text: text.into(), advice: String::new() }
    }

    fn warning(topic: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Warning, text: text.into(), advice: advice.into() }
    }

    fn problem(topic: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Problem, text: text.into(), advice: advice.into() }
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.variables {
        match arguments.json {
            true => output::print_json(&variables::json())?,
            false => output::print(&variables::text())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings = Vec::new();
    findings.push(match Libraries::find() {
        Ok(libraries) => {
            Finding::ok("libraries", format!("in {}", libraries.directory().display()))
        }
        Err(error) => Finding::problem(
            "libraries",
            format!("{error:#}"),
            "programs cannot be given openmps' libcuda.so.1 without them",
        ),
    });
    findings.extend(system::findings());
    findings.extend(variables::findings());
    // Last, because the provider is not to see the environment as it is.
    findings.extend(device::findings());

    let worst = findings.iter().any(|f| f.severity == Severity::Problem);
    if arguments.json {
        output::print_json(&Report { version: env!("CARGO_PKG_VERSION"), findings })?;
    } else {
        let text: String = findings.iter().map(lines).collect();
        // Drops the colours where standard output is no terminal.
        output::print_to(&mut anstream::stdout(), &text)?;
    }
    Ok(if worst { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A finding as lines, in colours.
fn lines(finding: &Finding) -> String {
    use anstyle::{AnsiColor, Style};
    let (mark, colour) = match finding.severity {
        Severity::Ok => ("ok     ", AnsiColor::Green),
        Severity::Warning => ("warning", AnsiColor::Yellow),
        Severity::Problem => ("PROBLEM", AnsiColor::Red),
    };
    let style = Style::new().fg_color(Some(colour.into()));
    let mut text = format!("{style}{mark}{style:#} {:<12} {}\n", finding.topic, finding.text);
    if !finding.advice.is_empty() {
        text += &format!("        {:<12} -> {}\n", "", finding.advice);
    }
    text
}
