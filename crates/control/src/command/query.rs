//! Commands that ask: lists, states, tables. They change nothing.

use super::request::{Failure, Request};
use crate::daemon::{QueryError, ServerSummary};
use crate::format;
use crate::status::{ListedClient, ListedDevice, ServerPhase, Status};
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;

pub(super) fn get_server_list(request: &Request<'_>) -> Result<String, Failure> {
    request.no_arguments("get_server_list")?;
    Ok(lines(visible(request).iter().map(|server| server.pid)))
}

pub(super) fn get_server_status(request: &Request<'_>) -> Result<String, Failure> {
    let server = one_server(request)?;
    let state = match request.daemon.status(server.pid) {
        Ok(status) if server.state == ServerPhase::Active => status.state,
        // One that starts does not answer yet, and says so by its state.
        Ok(_) | Err(QueryError::NotReady(_)) => server.state,
        Err(error) => return Err(error.into()),
    };
    // A server that ends with the last of its clients is an active one by NVIDIA's words.
    let shown = if state == ServerPhase::ShuttingDown { ServerPhase::Active } else { state };
    Ok(format!("{}\n", shown.word()))
}

pub(super) fn get_client_list(request: &Request<'_>) -> Result<String, Failure> {
    let server = one_server(request)?;
    let status = request.daemon.status(server.pid)?;
    Ok(lines(status.clients.iter().map(ListedClient::name)))
}

pub(super) fn get_device_client_list(request: &Request<'_>) -> Result<String, Failure> {
    let servers = match request.arguments.as_slice() {
        [] => visible(request),
        _ => vec![one_server(request)?],
    };
    let (mut devices, mut clients) = (Vec::<ListedDevice>::new(), Vec::<ListedClient>::new());
    let (statuses, silent) = statuses(request, &servers);
    for (_, status) in statuses {
        for device in status.devices {
            if devices.iter().all(|known| known.uuid != device.uuid) {
                devices.push(device);
            }
        }
        clients.extend(status.clients);
    }
    devices.sort_by_key(|device| device.ordinal);
    finish(format::device_clients(&devices, &clients), &silent)
}

pub(super) fn ps(request: &Request<'_>) -> Result<String, Failure> {
    let servers = match request.arguments.as_slice() {
        [] => visible(request),
        ["-p", pid] => vec![find(request, pid)?],
        _ => return Err("usage: ps [-p <server PID>]".into()),
    };
    let (statuses, silent) = statuses(request, &servers);
    let rows: Vec<(u32, &[ListedClient])> =
        statuses.iter().map(|(pid, status)| (*pid, status.clients.as_slice())).collect();
    finish(format::processes(&rows, pid_namespace), &silent)
}

pub(super) fn device_query(request: &Request<'_>) -> Result<String, Failure> {
    let csv = request.arguments.iter().any(|word| matches!(*word, "--csv" | "-csv"));
    let words: Vec<&str> =
        request.arguments.iter().copied().filter(|w| !matches!(*w, "--csv" | "-csv")).collect();
    let servers = match words.as_slice() {
        [] => visible(request),
        [pid] => vec![find(request, pid)?],
        _ => return Err("usage: device_query [<server PID>] [--csv]".into()),
    };
    let mut text = String::new();
    if words.is_empty() {
        let devices = ListedDevice::list(&*request.daemon.devices()?);
        let _ = write!(text, "Default\n{}", format::devices(&devices, csv));
    }
    let (statuses, silent) = statuses(request, &servers);
    for (pid, status) in &statuses {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{gap}Server {pid}\n{}", format::devices(&status.devices, csv));
    }
    finish(text, &silent)
}

/// Inode of the PID namespace of a process: by which containers are distinguished.
pub(crate) fn pid_namespace(pid: u32) -> Option<u64> {
    std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok().map(|metadata| metadata.ino())
}

pub(super) fn visible(request: &Request<'_>) -> Vec<ServerSummary> {
    let mut servers = request.daemon.servers();
    servers.retain(|server| request.sees(server.uid));
    servers
}

/// The server whose PID is the only argument.
fn one_server(request: &Request<'_>) -> Result<ServerSummary, Failure> {
    match request.arguments.as_slice() {
        // The first line is NVIDIA's.
        [] => {
            Err("Server 0 not found\nThe PID of a server is wanted: get_server_list prints them"
                .into())
        }
        [pid] => find(request, pid),
        [_, more @ ..] => Err(Failure(format!("one server PID is wanted, got {:?} too", more[0]))),
    }
}

/// The server with this PID, if the user that asks may see it.
pub(super) fn find(request: &Request<'_>, pid: &str) -> Result<ServerSummary, Failure> {
    let number = pid.parse::<u32>().ok();
    visible(request)
        .into_iter()
        .find(|server| Some(server.pid) == number)
        .ok_or_else(|| Failure(format!("Server {pid} not found")))
}

/// Asks several servers at once: what they answered, and why some did not. Those that are still
/// starting, and those that have ended since, have nothing to say.
fn statuses(
    request: &Request<'_>,
    servers: &[ServerSummary],
) -> (Vec<(u32, Status)>, Vec<QueryError>) {
    let pids: Vec<u32> = servers
        .iter()
        .filter(|server| server.state != ServerPhase::Initializing)
        .map(|server| server.pid)
        .collect();
    let (mut known, mut silent) = (Vec::new(), Vec::new());
    for (pid, answer) in request.daemon.statuses(&pids) {
        match answer {
            Ok(status) => known.push((pid, status)),
            Err(QueryError::Gone(_)) => {}
            Err(error) => silent.push(error),
        }
    }
    (known, silent)
}

/// What could be printed; a failure if a server did not answer.
fn finish(mut text: String, silent: &[QueryError]) -> Result<String, Failure> {
    if silent.is_empty() {
        return Ok(text);
    }
    text.extend(silent.iter().map(|error| format!("{error}\n")));
    Err(Failure(text.trim_end_matches('\n').to_owned()))
}

fn lines(words: impl Iterator<Item = impl std::fmt::Display>) -> String {
    words.fold(String::new(), |mut text, word| {
        let _ = writeln!(text, "{word}");
        text
    })
}
