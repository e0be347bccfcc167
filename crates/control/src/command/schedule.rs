//! Commands of scheduling: classes of clients, rules for them, and settings of servers.

use super::request::{Failure, Request};

/// Without arguments prints what holds; with some changes it, for servers to come too.
pub(super) fn schedule(request: &Request<'_>) -> Result<String, Failure> {
    if request.arguments.is_empty() {
        return Ok(format!("{}\n", request.daemon.server_scheduling()));
    }
    let failed = request.daemon.set_server_scheduling(&request.arguments.join(" "))?;
    if failed.is_empty() {
        return Ok(String::new());
    }
    let reasons: Vec<String> = failed.iter().map(ToString::to_string).collect();
    Err(Failure(format!("servers to come have it, but: {}", reasons.join("; "))))
}

/// Without arguments prints the rules; `none` removes them.
pub(super) fn class_rules(request: &Request<'_>) -> Result<String, Failure> {
    match request.arguments.as_slice() {
        [] => {
            let rules = request.daemon.class_rules();
            let rules = rules.split([';', '\n']).map(str::trim).filter(|rule| !rule.is_empty());
            Ok(rules.map(|rule| format!("{rule}\n")).collect())
        }
        ["none"] => Ok(request.daemon.set_class_rules("").map(|()| String::new())?),
        words => Ok(request.daemon.set_class_rules(&words.join(" ")).map(|()| String::new())?),
    }
}
