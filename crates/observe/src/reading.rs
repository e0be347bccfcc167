//! Reading: what the daemon said at one time, by client and device.

use control::report::{ClientReport, Report};
use control::status::ListedDevice;
use std::time::Instant;

/// A report and when it came.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// What the daemon said.
    pub report: Report,
}

/// Which client: its server's process, and its number there.
pub type ClientKey = (u32, u32);

/// Device counters of a report by server and UUID.
pub(crate) fn devices(report: &Report) -> impl Iterator<Item = ((u32, &str), &ListedDevice)> {
    report.servers.iter().flat_map(|server| {
        server.devices.iter().map(move |device| ((server.pid, device.uuid.as_str()), device))
    })
}

/// Clients of a report.
pub fn clients(report: &Report) -> impl Iterator<Item = (ClientKey, &ClientReport)> {
    report.servers.iter().flat_map(|server| {
        server.clients.iter().map(move |client| ((server.pid, client.id), client))
    })
}
