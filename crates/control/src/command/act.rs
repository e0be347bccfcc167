//! Commands that change something.

use super::query::find;
use super::request::{Failure, Request};
use crate::status::{ID_PREFIX, ListedClient};
use crate::users;
use channel::message::Devices;
use cuda_api::CUuuid;
use std::time::Duration;

/// Longest `quit -t`: a week. Longer than any job waits for; and it keeps deadlines in range.
const QUIT_SECONDS_MAX: u64 = 7 * 24 * 3600;
const START_SERVER_USAGE: &str = "usage: start_server -uid <user id> [-device <ordinal or UUID>]";

pub(super) fn start_server(request: &Request<'_>) -> Result<String, Failure> {
    let (uid, device) = match request.arguments.as_slice() {
        ["-uid", uid] => (uid, None),
        ["-uid", uid, "-device", device] => (uid, Some(*device)),
        [] | ["-uid"] => return Err("A user id (UID) is required to start a new server".into()),
        [.., "-mlopart"] => return Err("start_server -mlopart is not supported yet".into()),
        _ => return Err(START_SERVER_USAGE.into()),
    };
    let Ok(uid) = uid.parse::<u32>() else {
        return Err(Failure(format!("{uid:?} is not a user id")));
    };
    let gid = match users::find(uid) {
        _ if uid == request.uid => request.gid,
        Some(user) => user.gid,
        // A client of a user that no list has, as containers run them, comes with its group.
        None => {
            return Err(Failure(format!(
                "there is no user with the id {uid}; a server for one that is in no list starts \
                 when that user's first program comes"
            )));
        }
    };
    let devices = request.daemon.devices()?;
    let named = devices_named(&devices, device)?;
    request.daemon.start_servers(uid, gid, &named)?;
    Ok(String::new())
}

/// The UUIDs of the devices that a word names: an ordinal, a UUID or its beginning; no word names
/// all.
pub(super) fn devices_named(devices: &Devices, word: Option<&str>) -> Result<Vec<CUuuid>, Failure> {
    let uuids: Vec<CUuuid> = devices.devices.iter().map(|device| device.uuid).collect();
    let Some(word) = word else { return Ok(uuids) };
    match cuda_api::visible::device_named(word, &uuids) {
        Some(place) => Ok(vec![uuids[place]]),
        None => Err(Failure(format!(
            "{word:?} names none of the {} devices; device_query lists them",
            uuids.len()
        ))),
    }
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
    let [server, name] = request.arguments.as_slice() else {
        return Err("usage: terminate_client <server PID> <client PID | id:ID>".into());
    };
    let server = find(request, server)?;
    let status = request.daemon.status(server.pid)?;
    let ids = client_ids(&status.clients, name);
    for id in ids.map_err(|Failure(text)| Failure(format!("{text}\n1")))? {
        let code = request.daemon.terminate_client(server.pid, id)?;
        check_terminated(name, code)?;
    }
    Ok("0\n".to_owned())
}

/// Fails with the driver's error if a client could not be terminated.
pub(crate) fn check_terminated(name: &str, code: u32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let error = cuda_api::error_row(code).map_or_else(
        || "an unknown error".to_owned(),
        |row| row.name.to_string_lossy().into_owned(),
    );
    Err(Failure(format!("client {name} could not be terminated: {error}\n{code}")))
}

/// The numbers of the clients that a word names: `id:7` the one with that number in its server, a
/// plain number the sessions of that process. A plain number that is no process here may be the
/// number of a client whose process has none.
pub(super) fn client_ids(clients: &[ListedClient], word: &str) -> Result<Vec<u32>, Failure> {
    let ids = |of: &dyn Fn(&ListedClient) -> bool| -> Vec<u32> {
        clients.iter().filter(|client| of(client)).map(|client| client.id).collect()
    };
    let (id, pid) = match word.strip_prefix(ID_PREFIX) {
        Some(id) => (id.parse().ok(), None),
        None => (None, word.parse::<u32>().ok()),
    };
    let found = match (id, pid) {
        (Some::<u32>(id), _) => ids(&|client| client.id == id),
        (None, Some(pid)) => {
            let processes = ids(&|client| client.pid == Some(pid));
            let nameless = ids(&|client| client.pid.is_none() && client.id == pid);
            if !processes.is_empty() && !nameless.is_empty() {
                return Err(Failure(format!(
                    "{pid} is the PID of a client and the ID of another, which has no PID here: \
                     say {ID_PREFIX}{} or {ID_PREFIX}{pid}",
                    processes[0]
                )));
            }
            if processes.is_empty() { nameless } else { processes }
        }
        (None, None) => Vec::new(),
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let nameless = clients.iter().filter(|client| client.pid.is_none()).map(ListedClient::name);
    let nameless: Vec<String> = nameless.collect();
    let hint = match nameless.is_empty() {
        true => String::new(),
        false => format!(" Clients without a PID here are {}.", nameless.join(", ")),
    };
    Err(Failure(format!("Invalid process {word}!{hint}")))
}

/// Returns when the programs are served by new servers.
pub(super) fn upgrade(request: &Request<'_>) -> Result<String, Failure> {
    let program = match request.arguments.as_slice() {
        [] => None,
        [path] if path.starts_with('/') && std::path::Path::new(path).is_file() => {
            Some(std::path::PathBuf::from(path))
        }
        [path] => return Err(Failure(format!("{path:?} is not the absolute path of a program"))),
        _ => return Err("usage: upgrade [<absolute path of the new openmps>]".into()),
    };
    let done = request.daemon.upgrade(program.clone())?;
    let servers = if done.servers == 1 { "server" } else { "servers" };
    let mut text = match done.left {
        0 => format!("{} {servers} replaced\n", done.servers),
        left => format!(
            "{} {servers} replaced, of which {left} still finish work of their programs\n",
            done.servers
        ),
    };
    // When this is answered.
    if let Some(stays) = request.daemon.begin_handover(program) {
        text.push_str(&stays);
        text.push('\n');
    }
    Ok(text)
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

pub(super) fn cancel_quit(request: &Request<'_>) -> Result<String, Failure> {
    request.no_arguments("cancel_quit")?;
    request.daemon.cancel_quit()?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: Option<u32>, id: u32) -> ListedClient {
        ListedClient { pid, process: pid.unwrap_or(0), id, ..ListedClient::default() }
    }

    #[test]
    fn a_word_names_one_client_or_is_refused() {
        let clients = [
            client(None, 1),
            client(None, 2),
            client(Some(2), 3),
            client(Some(524), 4),
            client(Some(524), 5),
        ];
        let named = |word| client_ids(&clients, word).map_err(|Failure(text)| text);
        assert_eq!(named("524"), Ok(vec![4, 5]), "both sessions of a process");
        assert_eq!(named("id:4"), Ok(vec![4]));
        assert_eq!(named("1"), Ok(vec![1]), "no process 1 is a client");
        let both = "2 is the PID of a client and the ID of another, which has no PID here: \
                    say id:3 or id:2";
        assert_eq!(named("2"), Err(both.into()));
        assert_eq!(named("id:2"), Ok(vec![2]));
        for word in ["0", "id:0", "id:9", "id:", "-1", "4", "x"] {
            let hint = "Clients without a PID here are id:1, id:2.";
            assert_eq!(named(word), Err(format!("Invalid process {word}! {hint}")));
        }
        let known = client_ids(&clients[3..], "0").map_err(|Failure(text)| text);
        assert_eq!(known, Err("Invalid process 0!".into()));
    }
}
