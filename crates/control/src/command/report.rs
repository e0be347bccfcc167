//! `report`: everything that the daemon knows, as one JSON object, for programs. Fields are only
//! ever added.

use super::query::{pid_namespace, visible};
use super::{Failure, Request};
use crate::report::lanes_active;
use crate::users;
use channel::message::ClientWork;
use serde_json::json;

pub(super) fn report(request: &Request<'_>) -> Result<String, Failure> {
    request.no_arguments("report")?;
    let daemon = request.daemon;
    let servers = visible(request);
    let pids: Vec<u32> = servers.iter().map(|server| server.pid).collect();
    let answers = daemon.statuses(&pids);
    let servers: Vec<_> = servers
        .iter()
        .zip(answers)
        .map(|(server, (_, answer))| {
            let mut row = json!({
                "pid": server.pid,
                "uid": server.uid,
                "user": users::name(server.uid),
                "state": server.state.word(),
                "devices": [],
                "clients": [],
            });
            match answer {
                Ok(status) => {
                    row["devices"] = status
                        .devices
                        .iter()
                        .map(|device| {
                            json!({
                                "ordinal": device.ordinal,
                                "pci": device.pci,
                                "uuid": device.uuid,
                                "name": device.name,
                            })
                        })
                        .collect();
                    row["clients"] = status
                        .clients
                        .iter()
                        .map(|client| {
                            json!({
                                "pid": client.pid,
                                "id": client.id,
                                "uid": client.uid,
                                "user": users::name(client.uid),
                                "device_uuid": client.device_uuid,
                                "memory_bytes": client.memory_bytes,
                                "kernels": client.kernels,
                                "work": client.work.as_ref().map(work),
                                "pid_namespace": pid_namespace(client.pid),
                                "command": client.command,
                            })
                        })
                        .collect();
                }
                Err(error) => row["error"] = error.to_string().into(),
            }
            row
        })
        .collect();
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uid": daemon.owner(),
        "pipe_directory": daemon.directory().path(),
        "log_directory": daemon.log_directory(),
        "stopping": daemon.is_stopping(),
        "clients_waiting": daemon.clients_waiting(),
        "servers": servers,
    });
    Ok(format!("{report}\n"))
}

/// Times in ns; `lanes_active` is the share of warps' lanes that took part in their instructions.
fn work(work: &ClientWork) -> serde_json::Value {
    json!({
        "busy_ns": work.busy_ns,
        "worker_ns": work.worker_ns,
        "blocks": work.blocks,
        "warp_instructions": work.warp_instructions,
        "thread_instructions": work.thread_instructions,
        "lanes_active": lanes_active(work.warp_instructions, work.thread_instructions),
        "global_bytes": work.global_bytes,
        "sm_active_ns": work.sm_active_ns,
        "warp_ns": work.warp_ns,
    })
}
