//! `namespace`: groups of a server's clients with limits of their own.

use super::{Call, Outcome, field, server, table};
use crate::command::request::Failure;
use crate::v3::limits::{DeviceLimits, NamespaceLimits};
use crate::v3::named::NamedServer;
use cuda_api::settings::Percentage;

const HEADER: &[&str] = &[
    "name",
    "server",
    "server-status",
    "pinned-memory-limit",
    "active-thread-percentage",
    "client-priority",
    "pipe-directory",
];

pub(super) fn create(call: &Call<'_>) -> Outcome {
    let (name, server) = (call.at(0), call.wanted("server")?);
    call.request.daemon.create_namespace(server, name)?;
    Ok(format!("Namespace '{name}' created on server '{server}'\n"))
}

pub(super) fn delete(call: &Call<'_>) -> Outcome {
    let (name, server) = (call.at(0), call.wanted("server")?);
    call.request.daemon.delete_namespace(server, name, call.has("force"))?;
    Ok(format!("Namespace '{name}' deleted from server '{server}'\n"))
}

pub(super) fn list(call: &Call<'_>) -> Outcome {
    let mut rows = Vec::new();
    for server in server::chosen(call)? {
        let all = server.namespaces.iter();
        let wanted = all.filter(|(name, _)| call.word(0).is_none_or(|word| word == *name));
        rows.extend(wanted.map(|(name, limits)| row(call, &server, name, limits)));
    }
    if let (Some(name), true) = (call.word(0), rows.is_empty()) {
        return Err(Failure(format!("Namespace '{name}' not found; `namespace list` lists them")));
    }
    Ok(table::print(call.format()?, HEADER, &rows))
}

pub(super) fn set(call: &Call<'_>) -> Outcome {
    let (name, server) = (call.at(0), call.wanted("server")?);
    let limits = match call.option("device") {
        Some(device) => limits_of_device(call, device)?,
        None => server::limits(call)?,
    };
    if limits.cgroup.as_ref().is_some_and(|of| of.path.is_empty()) {
        return Err("--cgroup-depth is of a cgroup: give --cgroup too".into());
    }
    if limits == NamespaceLimits::default() {
        return Err("nothing to set was given".into());
    }
    call.request.daemon.change_namespace(server, name, limits)?;
    Ok(String::new())
}

pub(super) fn get(call: &Call<'_>) -> Outcome {
    let (name, server) = (call.at(0), server::find(call, call.at(1))?);
    let limits = server.namespaces.get(name).ok_or_else(|| {
        let (server, namespace) = (server.name.clone(), name.to_owned());
        crate::v3::name::NamedError::NoNamespace { server, namespace }
    })?;
    if call.at(2).replace('_', "-") == "devices" {
        return Ok(limits.devices.iter().map(of_device).collect());
    }
    field(HEADER, &row(call, &server, name, limits), call.at(2))
}

/// A line of the field `devices`: UUID, memory, share, partition.
fn of_device((uuid, of): (&String, &DeviceLimits)) -> String {
    let memory = of.memory.as_ref().map_or("-", |(_, text)| text);
    let share = of.share.and_then(Percentage::from_thousandths);
    let share = share.map_or_else(|| "-".to_owned(), |share| share.to_string());
    format!("{uuid},{memory},{share},{}\n", of.partition.as_deref().unwrap_or("-"))
}

/// What a command says of one device.
fn limits_of_device(call: &Call<'_>, device: &str) -> Result<NamespaceLimits, Failure> {
    let uuid = call.request.daemon.uuid_of(device)?;
    let mut limits = NamespaceLimits::default();
    for (key, value) in &call.options {
        if ["server", "device"].contains(key) {
            continue;
        }
        if !limits.set_of_device(&uuid, key, value)? {
            return Err(Failure(format!("--{key} is of all devices: give it without --device")));
        }
    }
    Ok(limits)
}

fn row(call: &Call<'_>, server: &NamedServer, name: &str, limits: &NamespaceLimits) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        name.to_owned(),
        server.name.clone(),
        server::status(call, server).1.to_owned(),
        or_dash(limits.memory.as_ref().map(|(_, text)| text.clone())),
        or_dash(limits.share.map(|share| share.to_string())),
        or_dash(limits.priority.map(|priority| priority.number().to_string())),
        call.request.daemon.directory_of(&server.name).join(name).display().to_string(),
    ]
}
