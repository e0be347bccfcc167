//! `feature` and `memacct`: what can be switched.

use super::{Call, Outcome, boolean, table};
use crate::command::request::Failure;
use crate::v3::Features;
use crate::v3::configuration::CONTEXT_SHARE;
use crate::v3::memacct::CgroupLimit;
use cuda_api::settings::{parse_device, parse_size, size_text};

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

/// `memacct limit`: what `nvidia-smi memory-limits` is for NVIDIA's driver.
pub(super) fn memacct_limit(call: &Call<'_>) -> Outcome {
    let cgroup = call.at(0).to_owned();
    if !cgroup.starts_with('/') {
        return Err(Failure(format!(
            "{cgroup:?} is no cgroup's path: that is what /proc/PID/cgroup has behind 0::, as /kubepods/a"
        )));
    }
    let bytes = |key: &str, none: u64| match call.option(key) {
        None | Some("none") => Ok(none),
        // As lists print what is no whole number of KiB, and as NVML sets it.
        Some(size) if let Some(bytes) = size.strip_suffix('B').and_then(|n| n.parse().ok()) => {
            Ok(bytes)
        }
        Some(size) => parse_size(size).map_err(|error| Failure(format!("--{key}: {error}"))),
    };
    let (soft_bytes, hard_bytes) = (bytes("soft-limit", 0)?, bytes("hard-limit", u64::MAX)?);
    if soft_bytes > hard_bytes {
        return Err("the soft limit is beyond the hard one".into());
    }
    let device = match call.option("device") {
        Some(word) => Some(parse_device(word)?.to_owned()),
        None => None,
    };
    call.request.daemon.set_cgroup_limit(CgroupLimit { cgroup, device, soft_bytes, hard_bytes })?;
    Ok(match call.request.daemon.features().memacct {
        true => String::new(),
        false => {
            "It holds for programs to come once `feature enable memacct` was given\n".to_owned()
        }
    })
}

pub(super) fn memacct_list(call: &Call<'_>) -> Outcome {
    let row = |(limit, used): (CgroupLimit, u64)| {
        let size = |bytes: u64, none: u64| match bytes == none {
            true => "-".to_owned(),
            false => size_text(bytes),
        };
        vec![
            limit.cgroup,
            limit.device.unwrap_or_else(|| "-".to_owned()),
            size(limit.soft_bytes, 0),
            size(limit.hard_bytes, u64::MAX),
            size(used, 0),
        ]
    };
    let rows: Vec<Vec<String>> = call.request.daemon.cgroup_limits().into_iter().map(row).collect();
    let header = ["cgroup", "device", "soft-limit", "hard-limit", "used"];
    Ok(table::print(call.format()?, &header, &rows))
}

pub(super) fn memacct_describe(call: &Call<'_>) -> Outcome {
    let features = call.request.daemon.features();
    let rows = [
        vec!["state".to_owned(), memacct_state(features)],
        vec!["audit_log".to_owned(), features.audit_log.to_string()],
    ];
    Ok(table::print(call.format()?, &["SETTING", "VALUE"], &rows))
}
