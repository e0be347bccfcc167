//! `report`: everything that the daemon knows, as one JSON object, for programs.

use super::query::{pid_namespace, visible};
use super::request::{Failure, Request};
use crate::report::{ClientReport, Context, ReleaseReport, Report, SCHEMA, ServerReport};
use crate::status::ListedDevice;
use crate::users;
use cuda_api::environment::CUDA_VISIBLE_DEVICES;

pub(super) fn report(request: &Request<'_>) -> Result<String, Failure> {
    request.no_arguments("report")?;
    let daemon = request.daemon;
    let servers = visible(request);
    let pids: Vec<u32> = servers.iter().map(|server| server.pid).collect();
    let answers = daemon.statuses(&pids);
    let servers = servers
        .iter()
        .zip(answers)
        .map(|(server, (_, answer))| {
            let mut row = ServerReport {
                pid: server.pid,
                uid: server.uid,
                user: users::name(server.uid),
                name: server.name.clone(),
                state: server.state.word().to_owned(),
                devices: Vec::new(),
                clients: Vec::new(),
                context: None,
                isolates: server.isolates,
                candidate: server.candidate,
                error: None,
            };
            match answer {
                Ok(status) => {
                    let client = |client: &crate::status::ListedClient| {
                        let namespace = client.pid.and_then(pid_namespace);
                        let mut row = ClientReport::new(client, users::name(client.uid), namespace);
                        row.mps_namespace = daemon.mps_namespace(server.pid, client.process);
                        row
                    };
                    row.clients = status.clients.iter().map(client).collect();
                    row.devices = status.devices;
                    row.context = status.context.as_ref().map(Context::from);
                }
                Err(error) => row.error = Some(error.to_string()),
            }
            row
        })
        .collect();
    let report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        release: ReleaseReport::of_this_build(),
        pid: std::process::id(),
        uid: daemon.owner(),
        protocol: if daemon.is_v3() { 3 } else { 2 },
        multiuser: daemon.is_multiuser(),
        pipe_directory: daemon.directory().path().to_owned(),
        log_directory: daemon.log_directory().map(ToOwned::to_owned),
        stopping: daemon.is_stopping(),
        clients_waiting: daemon.clients_waiting() as u64,
        descriptors_max: daemon.descriptors_max(),
        visible_devices: std::env::var(CUDA_VISIBLE_DEVICES).ok(),
        warnings: daemon.warnings().to_vec(),
        static_partitions: daemon.gives_partitions_only(),
        problems: daemon.problems(|uid| request.sees(uid)),
        counters: daemon.counters(),
        refusals: crate::daemon::refusals(),
        devices: daemon
            .known_devices()
            .map_or_else(Vec::new, |devices| ListedDevice::list(&devices)),
        cgroup_limits: daemon.cgroup_memory(),
        faults: daemon.faults(|uid| request.sees(uid)),
        servers,
    };
    Ok(format!("{}\n", serde_json::to_string(&report)?))
}
