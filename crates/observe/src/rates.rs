//! Rates: what devices and clients did since they were seen last, as rates and shares.
//!
//! Three measures of a device stand beside each other and are never mixed: the time in which any
//! kernel ran (what tools call GPU-Util), SMs that had work, and warps that were resident.

use crate::past::Past;
use crate::reading::{ClientKey, Reading, clients, devices};
use control::report::{ClientReport, Report, Requests, Work, lanes_active};
use control::status::{DeviceCounts, ListedDevice};
use serde::Serialize;
use std::time::Duration;

/// A device between two readings. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRates {
    /// Its UUID.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Its ordinal.
    pub ordinal: u32,
    /// Its SMs.
    pub sms: u32,
    /// Warps that an SM has room for.
    pub warps_per_sm: u32,
    /// Time in which any kernel ran: GPU-Util.
    pub util: f64,
    /// SMs with a block, averaged over SMs and time.
    pub sm_activity: f64,
    /// Warps resident of those that fit.
    pub occupancy: f64,
    /// Memory that is used, bytes.
    pub memory_used: u64,
    /// Memory, bytes.
    pub memory_total: u64,
    /// Estimated from a sample of launches.
    pub sampled: bool,
}

/// A client between two readings. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientRates {
    /// Its server's process.
    pub server: u32,
    /// Its number there.
    pub id: u32,
    /// Its process, if it has a number in the daemon's namespace.
    pub pid: Option<u32>,
    /// Its user.
    pub user: String,
    /// Its command line.
    pub command: String,
    /// Its device's UUID.
    pub device: String,
    /// Device memory that it holds, bytes.
    pub memory: u64,
    /// SMs that it may use, of the device's; 0: not known.
    pub sms_allowed: u32,
    /// What limits it and who said so, for people; nothing if nothing does.
    pub limits: Option<String>,
    /// Its scheduling class.
    pub class: String,
    /// Launches a second.
    pub kernels_per_s: f64,
    /// Share of time in which a kernel of it ran.
    pub busy: f64,
    /// Share of the device's SMs, over time.
    pub sm_share: f64,
    /// Share of the device's warps, over time.
    pub occupancy: f64,
    /// Lanes that took part in instructions; where the device counts.
    pub lanes: Option<f64>,
    /// Bytes copied to the device a second.
    pub in_per_s: f64,
    /// Bytes copied from the device a second.
    pub out_per_s: f64,
    /// Kernels that are submitted and not known to be done, now.
    pub in_flight: u64,
    /// Share of time for which its work was held back.
    pub throttled: f64,
    /// Share of time that its server spent in calls of the driver that submit its work, by a sample of them.
    pub submitting: f64,
    /// Mean time of such a call, ns; 0: none was timed.
    pub submission_ns: f64,
    /// How often it met a limit, in all.
    pub limits_hit: u64,
    /// Launches, in all.
    pub kernels: u64,
    /// Times are estimated from a sample of launches.
    pub sampled: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// The devices, each once, by ordinal.
    pub devices: Vec<DeviceRates>,
    /// The clients, by server and number.
    pub clients: Vec<ClientRates>,
    /// What is wrong or ending, a sentence each.
    pub notes: Vec<String>,
}

fn share(part: f64, whole: f64) -> f64 {
    // Counting and asking are not one instant: a share may come out a hair over 1.
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

fn grown(now: u64, before: u64) -> f64 {
    now.saturating_sub(before) as f64
}

impl Rates {
    /// Between two readings.
    pub fn between(before: &Reading, now: &Reading) -> Self {
        let mut past = Past::default();
        past.take(before);
        Self::since(&past, now)
    }

    /// Since each client and server was seen last; of one that never was, on the average of its life so far.
    pub fn since(past: &Past, now: &Reading) -> Self {
        let mut rates = Self { notes: notes(&now.report), ..Self::default() };
        for ((server, uuid), device) in devices(&now.report) {
            rates.add_device(device, &past.of_device(server, uuid));
        }
        rates.devices.sort_by_key(|device| device.ordinal);
        for (key, client) in clients(&now.report) {
            let device = devices(&now.report)
                .find(|((server, uuid), _)| *server == key.0 && *uuid == client.device_uuid)
                .map(|(_, device)| device.counts)
                .unwrap_or_default();
            let before = past.of(key);
            let elapsed = match before.since {
                Some(since) => now.at.saturating_duration_since(since),
                None => Duration::from_nanos(device.elapsed_ns),
            };
            rates.clients.push(client_rates(key, client, before.client, &device, elapsed));
        }
        rates
    }

    /// Servers of one device add up: each counts what it did itself.
    fn add_device(&mut self, device: &ListedDevice, before: &DeviceCounts) {
        let now = &device.counts;
        let elapsed = grown(now.elapsed_ns, before.elapsed_ns);
        let sms = elapsed * f64::from(now.sms);
        let row = DeviceRates {
            uuid: device.uuid.clone(),
            name: device.name.clone(),
            ordinal: device.ordinal,
            sms: now.sms,
            warps_per_sm: now.warps_per_sm,
            util: share(grown(now.busy_ns, before.busy_ns), elapsed),
            sm_activity: share(grown(now.sm_active_ns, before.sm_active_ns), sms),
            occupancy: share(grown(now.warp_ns, before.warp_ns), sms * f64::from(now.warps_per_sm)),
            memory_used: now.memory_bytes.saturating_sub(now.memory_free_bytes),
            memory_total: now.memory_bytes,
            sampled: now.sampled,
        };
        match self.devices.iter_mut().find(|known| known.uuid == row.uuid) {
            None => self.devices.push(row),
            Some(known) => {
                known.util = (known.util + row.util).min(1.0);
                known.sm_activity = (known.sm_activity + row.sm_activity).min(1.0);
                known.occupancy = (known.occupancy + row.occupancy).min(1.0);
                known.memory_used = known.memory_used.max(row.memory_used);
            }
        }
    }
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for server in &report.servers {
        if let Some(error) = &server.error {
            notes.push(format!("server {} ({}): {error}", server.pid, server.state));
        }
    }
    if report.stopping {
        notes.push("the daemon is shutting down and takes no more programs".to_owned());
    }
    if report.clients_waiting > 0 {
        notes.push(format!("{} waiting for a server", report.clients_waiting));
    }
    notes
}

fn client_rates(
    key: ClientKey,
    now: &ClientReport,
    before: Option<&ClientReport>,
    device: &DeviceCounts,
    elapsed: Duration,
) -> ClientRates {
    let elapsed_ns = elapsed.as_nanos() as f64;
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let work = now.work.unwrap_or_default();
    let then = before.and_then(|before| before.work).unwrap_or_default();
    let of = |field: fn(&Work) -> u64| grown(field(&work), field(&then));
    let copies = |field: fn(&control::report::Copies) -> u64| {
        grown(field(&now.copies), before.map_or(0, |before| field(&before.copies))) / seconds
    };
    let requests = |field: fn(&Requests) -> u64| {
        grown(field(&now.requests), before.map_or(0, |before| field(&before.requests)))
    };
    let submitting_ns = requests(|requests| requests.submitting_ns);
    let sms = elapsed_ns * f64::from(device.sms);
    ClientRates {
        server: key.0,
        id: key.1,
        pid: now.pid,
        user: now.user.clone(),
        command: control::log::printable(&now.command),
        device: now.device_uuid.clone(),
        memory: now.memory_bytes,
        sms_allowed: now.limits.sms,
        limits: now.limits.text(),
        class: now.scheduling.class.clone(),
        kernels_per_s: grown(now.kernels, before.map_or(0, |before| before.kernels)) / seconds,
        busy: share(of(|work| work.busy_ns), elapsed_ns),
        sm_share: share(of(|work| work.sm_active_ns), sms),
        occupancy: share(of(|work| work.warp_ns), sms * f64::from(device.warps_per_sm)),
        lanes: lanes_active(
            work.warp_instructions.saturating_sub(then.warp_instructions),
            work.thread_instructions.saturating_sub(then.thread_instructions),
        ),
        in_per_s: copies(|copies| copies.bytes_in),
        out_per_s: copies(|copies| copies.bytes_out),
        in_flight: now.requests.in_flight,
        throttled: share(requests(|requests| requests.throttled_ns), elapsed_ns),
        submitting: share(submitting_ns, elapsed_ns),
        submission_ns: submitting_ns / requests(|requests| requests.submissions).max(1.0),
        limits_hit: now.requests.limits_hit,
        kernels: now.kernels,
        sampled: work.sampled,
    }
}

/// Bytes in the largest unit that leaves at least 1.
pub fn bytes_text(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Time in a unit that leaves at least 1.
pub fn time_text(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Instant;

    /// A report of one server with one device of 8 SMs and these clients: (id, kernels, busy ns).
    pub(crate) fn reading(at: Instant, elapsed_s: u64, clients: &[(u32, u64, u64)]) -> Reading {
        let rows: Vec<_> = clients
            .iter()
            .map(|(id, kernels, busy)| {
                serde_json::json!({
                    "pid": 500 + id, "id": id, "user": "ann", "memory_bytes": 3u64 << 29,
                    "device_uuid": "GPU-0", "kernels": kernels,
                    "command": format!("./program{id}"),
                    "copies": {"bytes_in": 1000 * kernels, "copies": 1},
                    "requests": {"in_flight": 3, "limits_hit": 2, "submissions": 2 * kernels,
                        "submitting_ns": 5_000_000 * kernels},
                    "work": {"busy_ns": busy, "sm_active_ns": 4 * busy, "warp_ns": 64 * busy,
                        "warp_instructions": 10, "thread_instructions": 160}
                })
            })
            .collect();
        let busy: u64 = clients.iter().map(|client| client.2).sum();
        let report = serde_json::json!({
            "version": "0", "pid": 1, "uid": 0, "pipe_directory": "/p", "log_directory": null,
            "clients_waiting": 0,
            "servers": [{"pid": 2, "state": "ACTIVE", "clients": rows, "devices": [{
                "ordinal": 0, "pci": "0", "uuid": "GPU-0", "name": "software GPU",
                "counts": {"sms": 8, "warps_per_sm": 64, "memory_bytes": 8u64 << 30,
                    "memory_free_bytes": 6u64 << 30, "elapsed_ns": elapsed_s * 1_000_000_000,
                    "busy_ns": busy, "sm_active_ns": 4 * busy, "warp_ns": 64 * busy}}]}]
        });
        Reading { at, report: serde_json::from_value(report).expect("a report") }
    }

    #[test]
    fn shares_are_those_of_the_time_between() {
        let start = Instant::now();
        let s = 1_000_000_000;
        let before = reading(start, 10, &[(1, 100, s)]);
        let later = start + Duration::from_secs(2);
        let now = reading(later, 12, &[(1, 300, 2 * s), (2, 50, 0)]);
        let rates = Rates::between(&before, &now);
        let device = &rates.devices[0];
        assert_eq!((device.util, device.sm_activity, device.occupancy), (0.5, 0.25, 0.0625));
        assert_eq!((device.memory_used, device.memory_total), (2 << 30, 8 << 30));
        let client = &rates.clients[0];
        assert_eq!((client.kernels_per_s, client.busy, client.sm_share), (100.0, 0.5, 0.25));
        assert_eq!((client.in_per_s, client.in_flight, client.lanes), (100_000.0, 3, None));
        assert_eq!((client.submitting, client.submission_ns), (0.5, 2_500_000.0));
        assert_eq!((rates.clients[1].busy, rates.clients[1].lanes), (0.0, Some(0.5)));
        let life = Rates::since(&Past::default(), &before);
        assert_eq!((life.clients[0].busy, life.devices[0].util), (0.1, 0.1));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([bytes_text(1023), bytes_text(3 << 29)], ["1023 B", "1.5 GiB"]);
        assert_eq!([time_text(999.0), time_text(2.5e6)], ["999 ns", "2.50 ms"]);
    }
}
