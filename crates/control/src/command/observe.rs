//! `counts`, `counters` and `trace`: what clients do in detail, as JSON, and what is counted of it.

use super::query::{find, visible};
use super::request::{Failure, Request};
use crate::counts::ClientCounts;
use crate::daemon::QueryError;
use crate::trace::Trace;
use cuda_api::settings::Counting;

/// `counts`: of all clients of the servers that are seen, or of one server's. Among several a server that does
/// not answer is left out: `report` says why.
pub(super) fn counts(request: &Request<'_>) -> Result<String, Failure> {
    let servers = match request.arguments.as_slice() {
        [] => visible(request),
        [pid] => vec![find(request, pid)?],
        _ => return Err("usage: counts [<server PID>]".into()),
    };
    let pids: Vec<u32> = servers.iter().map(|server| server.pid).collect();
    let mut clients = Vec::new();
    for (server, counts) in request.daemon.counts(&pids) {
        match counts {
            Ok(parts) => clients.extend(ClientCounts::of(server, &parts)),
            Err(QueryError::Silent(_)) if !request.arguments.is_empty() => {
                return Err(QueryError::Silent(server).into());
            }
            Err(_) => {}
        }
    }
    Ok(format!("{}\n", serde_json::to_string(&clients)?))
}

/// `trace`: what was done since a place in each server's records: `PID:NEXT`, or `PID` from now on.
/// Without arguments, from now on, of all servers that are seen. Servers that start within the next
/// seconds record all that they do, from number 1 on. A server that does not answer has an `error`.
pub(super) fn trace(request: &Request<'_>) -> Result<String, Failure> {
    request.daemon.record_servers_to_come();
    let mut places = Vec::new();
    for word in &request.arguments {
        let (pid, from) = word.split_once(':').unwrap_or((word, "0"));
        let from = from.parse::<u64>().map_err(|_| format!("{word:?}: PID:NUMBER is wanted"))?;
        match find(request, pid) {
            Ok(server) => places.push((server.pid, from)),
            // It has ended: nothing more comes of it.
            Err(_) if word.contains(':') => {}
            Err(error) => return Err(error),
        }
    }
    if request.arguments.is_empty() {
        places.extend(visible(request).iter().map(|server| (server.pid, 0)));
    }
    let mut traces = Vec::new();
    let answers = request.daemon.traces(&places);
    for ((pid, next), (_, answer)) in places.into_iter().zip(answers) {
        match answer {
            Ok(parts) => traces.push(Trace::of(pid, parts)),
            Err(QueryError::Gone(_) | QueryError::NotReady(_)) => {}
            Err(error) => {
                let error = Some(error.to_string());
                traces.push(Trace { server: pid, next, error, ..Trace::default() });
            }
        }
    }
    Ok(format!("{}\n", serde_json::to_string(&traces)?))
}

/// Without an argument prints what servers count; with one changes it, for servers to come too.
pub(super) fn counters(request: &Request<'_>) -> Result<String, Failure> {
    let counting = match request.arguments.as_slice() {
        [] => return Ok(format!("{}\n", request.daemon.counting().name())),
        [word] => Counting::parse(word).map_err(|error| Failure(error.to_string()))?,
        _ => return Err(Failure(format!("one word is allowed: {}", Counting::ALLOWED))),
    };
    let failed = request.daemon.set_counting(counting);
    if failed.is_empty() {
        return Ok(String::new());
    }
    let reasons: Vec<String> = failed.iter().map(ToString::to_string).collect();
    Err(Failure(format!("servers to come have it, but: {}", reasons.join("; "))))
}
