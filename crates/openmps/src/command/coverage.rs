//! `openmps coverage`: which driver functions programs get, and how each is answered.

use crate::output;
use anyhow::Result;
use cuda_api::{Policy, row_of_symbol, symbols::SYMBOLS};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// List every driver function and where a program's call of it is answered
///
/// local: in the client library. post: through the ring, without a reply. call: through the ring,
/// with a reply. special: by code of its own. unsupported: CUDA_ERROR_NOT_SUPPORTED (with no
/// daemon, calls go to the provider, which may have more).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps coverage
  openmps coverage --json")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List only functions answered so
    #[arg(long, value_name = "POLICY", value_parser = ["local", "post", "call", "special", "unsupported"])]
    only: Option<String>,
}

#[derive(Serialize)]
struct Function {
    name: &'static str,
    policy: &'static str,
}

#[derive(Serialize)]
struct Report {
    total: usize,
    local: usize,
    post: usize,
    call: usize,
    special: usize,
    unsupported: usize,
    functions: Vec<Function>,
}

impl Report {
    fn new() -> Self {
        let functions: Vec<Function> = SYMBOLS
            .iter()
            .map(|&name| {
                let policy = row_of_symbol(name).map_or(Policy::Unsupported, |row| row.policy);
                Function { name, policy: policy.name() }
            })
            .collect();
        let count = |policy: Policy| functions.iter().filter(|f| f.policy == policy.name()).count();
        Self {
            total: functions.len(),
            local: count(Policy::Local),
            post: count(Policy::Post),
            call: count(Policy::Call),
            special: count(Policy::Special),
            unsupported: count(Policy::Unsupported),
            functions,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut report = Report::new();
    if let Some(only) = &arguments.only {
        report.functions.retain(|f| f.policy == only);
    }
    if arguments.json {
        output::print_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for function in &report.functions {
        let _ = writeln!(text, "{:<12} {}", function.policy, function.name);
    }
    let Report { total, local, post, call, special, unsupported, .. } = report;
    let _ = writeln!(
        text,
        "{total} functions: {local} local, {post} post, {call} call, {special} special, \
         {unsupported} unsupported"
    );
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn every_function_is_counted_once() {
        let report = Report::new();
        let parts = report.local + report.post + report.call + report.special + report.unsupported;
        assert_eq!(parts, report.total);
        assert_eq!(report.functions.len(), report.total);
        assert!(
            report
                .functions
                .iter()
                .any(|f| f.name == "cuLaunchKernel_ptsz" && f.policy == "special")
        );
    }
}
