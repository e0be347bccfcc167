//! `device`: the devices, and which server's clients see which.

use super::{Call, Outcome, server, table};
use crate::format::pci_of;
use crate::v3::partitions::Partitions;
use channel::message::{Device, Devices};

const HEADER: &[&str] = &[
    "Ordinal",
    "Server",
    "PCI ID",
    "Device UUID",
    "Name",
    "Total SMs",
    "Total Chunks",
    "Attributes",
];

pub(super) fn list(call: &Call<'_>) -> Outcome {
    let devices = call.request.daemon.devices()?;
    let mut rows = Vec::new();
    if call.option("server").is_none() {
        rows.extend(rows_of("-", &devices));
    }
    for server in server::chosen(call)? {
        rows.extend(rows_of(&server.name, &server.devices(&devices)));
    }
    Ok(table::print(call.format()?, HEADER, &rows))
}

/// The devices as clients of a server number them.
fn rows_of(server: &str, devices: &Devices) -> Vec<Vec<String>> {
    let row = |(ordinal, device): (usize, &Device)| {
        let (sms, chunk) = Partitions::sms_of(device);
        vec![
            ordinal.to_string(),
            server.to_owned(),
            pci_of(&device.pci_bus_id),
            device.uuid.to_string(),
            device.name.clone(),
            sms.to_string(),
            (sms / chunk).to_string(),
            "N/A".to_owned(),
        ]
    };
    devices.devices.iter().enumerate().map(row).collect()
}
