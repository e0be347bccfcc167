//! `client`: programs that servers serve.

use super::{Call, Outcome, field, server, table};
use crate::command::act;
use crate::command::query::pid_namespace;
use crate::command::request::Failure;
use crate::format::pci_of;
use crate::v3::ClientRow;

const HEADER: &[&str] = &["pid", "server", "device", "namespace", "cmd"];
const FIELDS: &[&str] =
    &["pid", "server", "device", "pci-id", "linux-ns", "maws-ns", "mps-ns", "cmd"];

pub(super) fn list(call: &Call<'_>) -> Outcome {
    let servers = server::chosen(call)?;
    let mut rows = visible(call);
    rows.retain(|row| servers.iter().any(|server| server.name == row.server));
    if !call.has("all") {
        let mut seen = Vec::new();
        rows.retain(|row| {
            let process = (row.server.clone(), row.client.name());
            // One without a PID here is one of its own.
            let again = row.client.pid.is_some() && seen.contains(&process);
            seen.push(process);
            !again
        });
    }
    let cells = |row: &ClientRow| {
        vec![
            row.client.name(),
            row.server.clone(),
            ordinal(row),
            row.namespace.clone(),
            row.client.command.clone(),
        ]
    };
    Ok(table::print(call.format()?, HEADER, &rows.iter().map(cells).collect::<Vec<_>>()))
}

pub(super) fn get(call: &Call<'_>) -> Outcome {
    let row = find(call, call.at(0))?.remove(0);
    let devices = call.request.daemon.known_devices();
    let device = row.device.and_then(|place| devices.as_ref()?.devices.get(place).cloned());
    let inode = row.client.pid.and_then(pid_namespace);
    let cells = [
        row.client.name(),
        row.server.clone(),
        ordinal(&row),
        device.map_or_else(|| "-".to_owned(), |device| pci_of(&device.pci_bus_id)),
        inode.map_or_else(|| "-".to_owned(), |inode| inode.to_string()),
        row.namespace.clone(),
        row.namespace.clone(),
        row.client.command.clone(),
    ];
    field(FIELDS, &cells, call.at(1))
}

pub(super) fn terminate(call: &Call<'_>) -> Outcome {
    let name = call.at(0);
    for row in find(call, name)? {
        let code = call.request.daemon.terminate_client(row.process, row.client.id)?;
        act::check_terminated(name, code)?;
    }
    Ok(format!("Client {name} terminated\n"))
}

fn ordinal(row: &ClientRow) -> String {
    row.device.map_or_else(|| "-".to_owned(), |ordinal| ordinal.to_string())
}

fn visible(call: &Call<'_>) -> Vec<ClientRow> {
    call.request.daemon.client_rows(|uid| call.request.sees(uid))
}

/// The rows of a process, by its PID, or of one client by `id:` and its number: at least one.
fn find(call: &Call<'_>, name: &str) -> Result<Vec<ClientRow>, Failure> {
    let mut rows = visible(call);
    rows.retain(|row| row.client.name() == name);
    match rows.is_empty() {
        true => Err(Failure(format!("Client {name} not found; `client list` lists them"))),
        false => Ok(rows),
    }
}
