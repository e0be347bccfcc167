//! `feature` and `memacct`: what can be switched.

use super::super::{CONTEXT_SHARE, Failure};
use super::{Call, Outcome, boolean, table};
use crate::daemon::Features;

const HEADER: &[&str] = &["FEATURE", "STATE", "MODULE", "COVERS"];
const MEMACCT: &str = "memacct";
const SHARE: &str = "context-share";

pub(super) fn enable(call: &Call<'_>) -> Outcome {
    switch(call, true)
}

pub(super) fn disable(call: &Call<'_>) -> Outcome {
    switch(call, false)
}

fn switch(call: &Call<'_>, on: bool) -> Outcome {
    let name = call.at(0);
    match name {
        MEMACCT => call.request.daemon.change_features(|features| {
            (features.memacct, features.memacct_is_set) = (on, true);
        }),
        SHARE if on => {}
        SHARE => return Err(CONTEXT_SHARE.into()),
        _ => return Err(unknown(name)),
    }
    Ok(format!("Feature '{name}' {}\n", if on { "enabled" } else { "disabled" }))
}

fn unknown(name: &str) -> Failure {
    Failure(format!("{name:?} is no feature: there are {MEMACCT} and {SHARE}"))
}

pub(super) fn describe(call: &Call<'_>) -> Outcome {
    let features = call.request.daemon.features();
    let rows = [
        [MEMACCT, &memacct_state(features), MEMACCT, "limits and eviction of cgroups' memory"],
        [SHARE, "enabled (default)", "server", "clients of a server share its context"],
    ];
    let wanted = call.word(0);
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .filter(|row| wanted.is_none_or(|name| name == row[0]))
        .map(|row| row.map(str::to_owned).to_vec())
        .collect();
    match wanted {
        Some(name) if rows.is_empty() => Err(unknown(name)),
        _ => Ok(table::print(call.format()?, HEADER, &rows)),
    }
}

fn memacct_state(features: Features) -> String {
    let word = if features.memacct { "enabled" } else { "disabled" };
    format!("{word}{}", if features.memacct_is_set { "" } else { " (default)" })
}

pub(super) fn memacct_set(call: &Call<'_>) -> Outcome {
    let audit_log = boolean("audit_log", call.wanted("audit_log")?)?;
    call.request.daemon.change_features(|features| features.audit_log = audit_log);
    Ok(String::new())
}

pub(super) fn memacct_describe(call: &Call<'_>) -> Outcome {
    let features = call.request.daemon.features();
    let rows = [
        vec!["state".to_owned(), memacct_state(features)],
        vec!["audit_log".to_owned(), features.audit_log.to_string()],
    ];
    Ok(table::print(call.format()?, &["SETTING", "VALUE"], &rows))
}
