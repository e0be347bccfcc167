//! Commands that change something.

use super::query::find;
use super::{Failure, Request};
use crate::users;
use std::time::Duration;

/// Longest `quit -t`: a week. Longer than any job waits for; and it keeps deadlines in range.
const QUIT_SECONDS_MAX: u64 = 7 * 24 * 3600;

pub(super) fn start_server(request: &Request<'_>) -> Result<String, Failure> {
    let uid = match request.arguments.as_slice() {
        ["-uid", uid] => uid,
        [] | ["-uid"] => return Err("A user id (UID) is required to start a new server".into()),
        [.., "-mlopart"] => return Err("start_server -mlopart is not supported yet".into()),
        _ => return Err("usage: start_server -uid <user id>".into()),
    };
    let Ok(uid) = uid.parse::<u32>() else {
        return Err(Failure(format!("{uid:?} is not a user id")));
    };
    let gid = match users::find(uid) {
        _ if uid == request.uid => request.gid,
        Some(user) => user.gid,
        // Containers often run users that no file lists; then the group of the same number.
        None => uid,
    };
    request.daemon.start_server(uid, gid)?;
    Ok(String::new())
}

pub(super) fn shutdown_server(request: &Request<'_>) -> Result<String, Failure> {
    let (pid, force) = match request.arguments.as_slice() {
        [pid] => (pid, false),
        [pid, "-f"] | ["-f", pid] => (pid, true),
        _ => return Err("usage: shutdown_server <PID> [-f]".into()),
    };
    let server = find(request, pid)?;
    request.daemon.shutdown_server(server.pid, force)?;
    Ok(String::new())
}

/// Prints the driver's error code as the last line: 0 is success.
pub(super) fn terminate_client(request: &Request<'_>) -> Result<String, Failure> {
    let [server, client] = request.arguments.as_slice() else {
        return Err("usage: terminate_client <server PID> <client PID>".into());
    };
    let server = find(request, server)?;
    let known = request.daemon.status(server.pid)?;
    let pid = client.parse::<u32>().ok();
    let Some(client_row) = known.clients.iter().find(|row| Some(row.pid) == pid) else {
        return Err(Failure(format!("Invalid process {client}!\n1")));
    };
    match request.daemon.terminate_client(server.pid, client_row.pid)? {
        0 => Ok("0\n".to_owned()),
        code => {
            let name = cuda_api::error_row(code).map_or_else(
                || "an unknown error".to_owned(),
                |row| row.name.to_string_lossy().into_owned(),
            );
            Err(Failure(format!("client {client} could not be terminated: {name}\n{code}")))
        }
    }
}

/// Returns when the servers are gone.
pub(super) fn quit(request: &Request<'_>) -> Result<String, Failure> {
    let timeout = match request.arguments.as_slice() {
        [] => None,
        ["-t", seconds] => match seconds.parse::<u64>() {
            Ok(seconds) if seconds <= QUIT_SECONDS_MAX => Some(Duration::from_secs(seconds)),
            _ => {
                return Err(Failure(format!(
                    "quit -t wants seconds from 0 to {QUIT_SECONDS_MAX}, got {seconds:?}"
                )));
            }
        },
        _ => return Err("usage: quit [-t <seconds>]".into()),
    };
    request.daemon.quit(timeout)?;
    Ok(String::new())
}
