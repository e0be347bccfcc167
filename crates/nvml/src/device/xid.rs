//! Xid errors of devices, and where they come from: what an operator wrote down for the software GPU, and faults of a
//! daemon's clients.

use super::{Device, daemon_directory};
use control::faults::Fault;
use control::locate;
use control::report::Report;
use cuda_api::environment::OPENMPS_NVML_CLIENT_FAULTS;
use provider::device_faults;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// From one question to the daemon to the next.
const ASK: Duration = Duration::from_millis(250);

/// Which errors are events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XidSource {
    /// Those of devices.
    Devices,
    /// Also faults of clients.
    Clients,
}

impl XidSource {
    pub(crate) fn of_environment() -> Self {
        match std::env::var(OPENMPS_NVML_CLIENT_FAULTS).is_ok_and(|value| value.trim() == "1") {
            true => Self::Clients,
            false => Self::Devices,
        }
    }
}

/// A device that is watched.
struct Watched {
    index: u32,
    /// Where its next error will be.
    from: u64,
}

/// What a program watches.
#[derive(Default)]
pub(crate) struct Watch {
    devices: Vec<Watched>,
    /// Faults of clients that the daemon had counted at the last look.
    counted: Option<u64>,
    /// The devices of servers, which may be gone when their faults are reported.
    servers: BTreeMap<u32, String>,
    asked: Option<Instant>,
    found: VecDeque<(u32, u32)>,
}

impl Watch {
    /// Watches a device from now on.
    pub(crate) fn register(&mut self, index: u32, device: &Device) {
        if self.devices.iter().all(|watched| watched.index != index) {
            let from = device.meeting_place().map_or(0, device_faults::end);
            self.devices.push(Watched { index, from });
            self.look_at_daemon(&[], true);
        }
    }

    /// The next error: the device's number and the Xid.
    pub(crate) fn next(&mut self, devices: &[Device], source: XidSource) -> Option<(u32, u32)> {
        for watched in &mut self.devices {
            let device = devices.get(watched.index as usize);
            let Some(place) = device.and_then(Device::meeting_place) else { continue };
            let (faults, next) = device_faults::since(place, watched.from);
            watched.from = next;
            let mine = faults.into_iter().filter(|fault| fault.device == watched.index);
            self.found.extend(mine.map(|fault| (fault.device, fault.xid)));
        }
        if self.found.is_empty() {
            self.look_at_daemon(devices, false);
        }
        let wanted = |xid: u32| source == XidSource::Clients || is_device_s(xid);
        loop {
            let next = self.found.pop_front()?;
            if wanted(next.1) {
                return Some(next);
            }
        }
    }

    fn look_at_daemon(&mut self, devices: &[Device], now: bool) {
        if !now && self.asked.is_some_and(|at| at.elapsed() < ASK) {
            return;
        }
        self.asked = Some(Instant::now());
        if let Some(report) = locate::report(&daemon_directory()) {
            self.take(&report, devices);
        }
    }

    /// Takes in what is new in a daemon's report.
    fn take(&mut self, report: &Report, devices: &[Device]) {
        for server in &report.servers {
            if let Some(device) = server.devices.first() {
                self.servers.insert(server.pid, device.uuid.clone());
            }
        }
        let count = report.counters.faults;
        // A daemon that was started anew counts anew; the faults before the first look are over.
        let new =
            self.counted.map_or(0, |before| if count < before { count } else { count - before });
        self.counted = Some(count);
        let last = report.faults.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        for fault in &report.faults[last..] {
            let uuid = self.servers.get(&fault.server);
            let at = devices.iter().position(|device| Some(&device.uuid_text()) == uuid);
            let index = at.map_or(0, |index| index as u32);
            if let Some(xid) = xid_of(fault).filter(|_| self.watches(index)) {
                self.found.push_back((index, xid));
            }
        }
    }

    fn watches(&self, index: u32) -> bool {
        self.devices.iter().any(|watched| watched.index == index)
    }
}

/// NVIDIA's number for a fault: what its driver logs for a program that does the same. None for one that another may have
/// caused.
fn xid_of(fault: &Fault) -> Option<u32> {
    if !fault.is_faulting && !fault.error.contains("UNCORRECTABLE") {
        return None;
    }
    Some(match fault.error.as_str() {
        // An address that is no memory.
        "CUDA_ERROR_ILLEGAL_ADDRESS" => 31,
        "CUDA_ERROR_ECC_UNCORRECTABLE" => 48,
        "CUDA_ERROR_NVLINK_UNCORRECTABLE" => 74,
        "CUDA_ERROR_CONTAINED" => 94,
        // An exception of the program's kernel.
        _ => 13,
    })
}

/// Whether an error is of the device rather than of a program: what NVIDIA's device plugin does not leave out.
fn is_device_s(xid: u32) -> bool {
    const OF_PROGRAMS: [u32; 6] = [13, 31, 43, 45, 68, 109];
    !OF_PROGRAMS.contains(&xid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: u64, errors: &[(&str, bool)]) -> Report {
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[]}"#;
        let mut report: Report = serde_json::from_str(text).unwrap();
        report.counters.faults = count;
        let fault = |(error, is_faulting): &(&str, bool)| Fault {
            error: (*error).to_owned(),
            is_faulting: *is_faulting,
            ..Fault::default()
        };
        report.faults = errors.iter().map(fault).collect();
        report
    }

    #[test]
    fn new_faults_are_events_and_a_client_s_only_where_they_are_asked_for() {
        let mut watch = Watch::default();
        watch.devices.push(Watched { index: 0, from: 0 });
        // Not again: no daemon is asked in this test.
        watch.asked = Some(Instant::now() + Duration::from_secs(3600));
        let ill = ("CUDA_ERROR_ILLEGAL_ADDRESS", true);
        watch.take(&report(1, &[ill]), &[]);
        assert_eq!(watch.next(&[], XidSource::Clients), None, "that was before");
        let memory = ("CUDA_ERROR_ECC_UNCORRECTABLE", false);
        watch.take(&report(4, &[ill, ill, memory, ("CUDA_ERROR_ASSERT", false)]), &[]);
        assert_eq!(watch.next(&[], XidSource::Devices), Some((0, 48)), "31 is the client's");
        assert_eq!(watch.next(&[], XidSource::Devices), None);
        watch.take(&report(5, &[("CUDA_ERROR_LAUNCH_FAILED", true)]), &[]);
        assert_eq!(watch.next(&[], XidSource::Clients), Some((0, 13)));
        // The next daemon counts from 0.
        watch.take(&report(1, &[ill]), &[]);
        assert_eq!(watch.next(&[], XidSource::Clients), Some((0, 31)));
    }
}
