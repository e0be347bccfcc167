//! `sm-partition`: chunks of a device's SMs for clients of one server.

use super::{Call, Outcome, boolean, server, table};
use crate::command::request::Failure;
use crate::v3::configuration::PartitionConfiguration;
use crate::v3::partitions::Partitions;
use cuda_api::settings::names_device;

const HEADER: &[&str] = &[
    "server",
    "device",
    "name",
    "chunks",
    "sm-count",
    "include-remainder",
    "status",
    "visible-uuid",
];

pub(super) fn create(call: &Call<'_>) -> Outcome {
    let (server, device) = (call.wanted("server")?, call.wanted("device")?);
    let text = call.wanted("chunks")?;
    let Some(chunks) = text.parse().ok().filter(|chunks: &u32| *chunks > 0) else {
        return Err(Failure(format!("--chunks is a number above 0, not {text:?}")));
    };
    let include_remainder = match call.option("include-remainder") {
        Some(value) => boolean("--include-remainder", value)?,
        None => false,
    };
    let shareable = match call.option("shareable") {
        Some(value) => boolean("--shareable", value)?,
        None => false,
    };
    let chunks_max = match call.option("max-chunks") {
        Some(text) => text.parse().ok().filter(|most| *most >= chunks).ok_or_else(|| {
            Failure(format!("--max-chunks is a number of at least {chunks}, not {text:?}"))
        })?,
        None => 0,
    };
    let (device, name) = (device.to_owned(), call.at(0).to_owned());
    let wanted =
        PartitionConfiguration { device, name, chunks, include_remainder, shareable, chunks_max };
    let made = call.request.daemon.create_partition(server, &wanted)?;
    Ok(format!(
        "SM partition '{}' created on device {} (sm-count={})\nCUDA_MPS_SM_PARTITION={}\n",
        wanted.name,
        made.device,
        made.sms,
        made.id()
    ))
}

pub(super) fn delete(call: &Call<'_>) -> Outcome {
    let (name, server, device) = (call.at(0), call.wanted("server")?, call.wanted("device")?);
    let device = call.request.daemon.delete_partition(server, device, name)?;
    Ok(format!("SM partition '{name}' deleted from device {device}\n"))
}

pub(super) fn list(call: &Call<'_>) -> Outcome {
    let devices = call.request.daemon.devices()?;
    let servers = server::chosen(call)?;
    let processes = call.request.daemon.named_processes();
    let partitions = call.request.daemon.partition_rows();
    let mut rows = Vec::new();
    for (ordinal, device) in devices.devices.iter().enumerate() {
        let uuid = device.uuid.to_string();
        if call.option("device").is_some_and(|word| !names_device(word, ordinal as u32, &uuid)) {
            continue;
        }
        let here = || partitions.iter().filter(|partition| partition.device == device.uuid);
        for partition in here() {
            let Some(of) = servers.iter().find(|server| server.number == partition.of.named) else {
                continue;
            };
            let runs = processes
                .iter()
                .any(|process| (process.named, process.device) == (of.number, device.uuid));
            rows.push(vec![
                of.name.clone(),
                uuid.clone(),
                partition.of.label.clone(),
                partition.chunks.to_string(),
                partition.sms.to_string(),
                partition.of.remainder.to_string(),
                if runs { "created" } else { "configured" }.to_owned(),
                partition.id(),
            ]);
        }
        if call.has("all") {
            let (sms, chunk) = Partitions::sms_of(device);
            let used: u32 = here().map(|partition| partition.chunks).sum();
            let used_sms: u32 = here().map(|partition| partition.sms).sum();
            let dash = || "-".to_owned();
            let free = (sms / chunk).saturating_sub(used).to_string();
            let free_sms = sms.saturating_sub(used_sms).to_string();
            let status = "unallocated".to_owned();
            rows.push(vec![dash(), uuid, dash(), free, free_sms, dash(), status, dash()]);
        }
    }
    Ok(table::print(call.format()?, HEADER, &rows))
}
