//! `server`: named servers.

use super::{Call, Outcome, boolean, field, table};
use crate::command::request::Failure;
use crate::status::ServerPhase;
use crate::v3::NewServer;
use crate::v3::configuration::LOCALITY_DOMAINS;
use crate::v3::limits::NamespaceLimits;
use crate::v3::named::{NamedServer, parse_devices};

const HEADER: &[&str] =
    &["name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"];

pub(super) fn create(call: &Call<'_>) -> Outcome {
    check_domains(call)?;
    let allowed = match call.option("allowed-devices") {
        Some(text) => parse_devices(text)?,
        None => Vec::new(),
    };
    let name = call.at(0);
    let new = NewServer { name: name.to_owned(), uid: uid(call)?, allowed, ..NewServer::default() };
    call.request.daemon.create_server(new)?;
    Ok(format!("Server '{name}' created\n"))
}

pub(super) fn delete(call: &Call<'_>) -> Outcome {
    let name = call.at(0);
    call.request.daemon.delete_server(name, call.has("force"))?;
    Ok(format!("Server '{name}' deleted\n"))
}

pub(super) fn list(call: &Call<'_>) -> Outcome {
    let servers = match call.word(0) {
        Some(name) => vec![find(call, name)?],
        None => visible(call),
    };
    let rows: Vec<Vec<String>> = servers.iter().map(|server| row(call, server)).collect();
    Ok(table::print(call.format()?, HEADER, &rows))
}

pub(super) fn set(call: &Call<'_>) -> Outcome {
    check_domains(call)?;
    let limits = limits(call)?;
    if call.options.is_empty() {
        return Err("nothing to set was given".into());
    }
    call.request.daemon.change_server(call.at(0), uid(call)?, limits)?;
    Ok(String::new())
}

pub(super) fn get(call: &Call<'_>) -> Outcome {
    let server = find(call, call.at(0))?;
    field(&HEADER[..6], &row(call, &server), call.at(1))
}

/// What a command says of limits.
pub(super) fn limits(call: &Call<'_>) -> Result<NamespaceLimits, Failure> {
    let mut limits = NamespaceLimits::default();
    for (key, value) in &call.options {
        if (*key, *value) == ("pinned-memory-limit", "none") {
            return Err("a limit of memory cannot be taken back: set the device's size".into());
        }
        limits.set(key, value)?;
    }
    Ok(limits)
}

fn uid(call: &Call<'_>) -> Result<Option<u32>, Failure> {
    let Some(text) = call.option("uid") else { return Ok(None) };
    match text.parse() {
        Ok(uid) => Ok(Some(uid)),
        Err(_) => Err(Failure(format!("--uid is a user's number, not {text:?}"))),
    }
}

fn check_domains(call: &Call<'_>) -> Result<(), Failure> {
    match call.option("locality-domains") {
        Some(value) if boolean("--locality-domains", value)? => Err(LOCALITY_DOMAINS.into()),
        _ => Ok(()),
    }
}

/// The servers that the user who asks may see.
pub(super) fn visible(call: &Call<'_>) -> Vec<NamedServer> {
    call.request.daemon.named_servers(|uid| call.request.sees(uid))
}

/// The server with this name, if the user that asks may see it.
pub(super) fn find(call: &Call<'_>, name: &str) -> Result<NamedServer, Failure> {
    let found = visible(call).into_iter().find(|server| server.name == name);
    found.ok_or_else(|| crate::v3::name::NamedError::NoServer(name.to_owned()).into())
}

/// The servers that a command is about: the one that `--server` names, or all.
pub(super) fn chosen(call: &Call<'_>) -> Result<Vec<NamedServer>, Failure> {
    match call.option("server") {
        Some(name) => Ok(vec![find(call, name)?]),
        None => Ok(visible(call)),
    }
}

/// How a server is: as the least ready of its processes.
pub(super) fn status(call: &Call<'_>, server: &NamedServer) -> (String, &'static str) {
    let processes = call.request.daemon.named_processes();
    let mine: Vec<_> = processes.iter().filter(|process| process.named == server.number).collect();
    let pids: Vec<String> = mine.iter().map(|process| process.pid.to_string()).collect();
    let is = |state| mine.iter().any(|process| process.state == state);
    let word = match () {
        () if mine.is_empty() => "Stopped",
        () if is(ServerPhase::Fault) => "Fault",
        () if is(ServerPhase::Initializing) => "Initializing",
        () if is(ServerPhase::Active) => "Ready",
        () => "Stopping",
    };
    (if pids.is_empty() { "-".to_owned() } else { pids.join(",") }, word)
}

fn row(call: &Call<'_>, server: &NamedServer) -> Vec<String> {
    let (pids, status) = status(call, server);
    let devices = match server.allowed.is_empty() {
        true => "-".to_owned(),
        false => server.allowed.join(","),
    };
    vec![
        server.name.clone(),
        server.uid.to_string(),
        pids,
        status.to_owned(),
        call.request.daemon.directory_of(&server.name).display().to_string(),
        devices,
        "-".to_owned(),
    ]
}
