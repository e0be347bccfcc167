//! Watch: one run of a program, which may be several clients, beside each other or one after the other.

use super::{Machine, Observed};
use crate::reading::{ClientKey, Reading, clients, devices};
use control::counts::{ClientCounts, Kernel, Timing};
use control::report::ClientReport;
use control::status::DeviceCounts;
use std::collections::BTreeMap;
use std::time::Instant;

/// What was seen of a run, of which nothing else uses the daemon.
#[derive(Debug)]
pub struct Watch {
    begun: Instant,
    last: Instant,
    /// As they were seen first, if they were there when it began, and last.
    clients: BTreeMap<ClientKey, (Option<ClientReport>, ClientReport)>,
    /// By server.
    devices: BTreeMap<u32, (String, DeviceCounts)>,
    kernels: BTreeMap<ClientKey, Vec<Kernel>>,
    peak_memory_bytes: u64,
}

impl Watch {
    /// Begins with a first look.
    pub fn begin(first: &Reading) -> Self {
        let mut watch = Self {
            begun: first.at,
            last: first.at,
            clients: BTreeMap::new(),
            devices: BTreeMap::new(),
            kernels: BTreeMap::new(),
            peak_memory_bytes: 0,
        };
        watch.look(first);
        for (first, last) in watch.clients.values_mut() {
            *first = Some(last.clone());
        }
        watch
    }

    /// Takes in a look.
    pub fn look(&mut self, now: &Reading) {
        self.last = now.at;
        for (key, client) in clients(&now.report) {
            let entry = self.clients.entry(key).or_insert_with(|| (None, client.clone()));
            entry.1 = client.clone();
        }
        for ((server, uuid), device) in devices(&now.report) {
            self.devices.insert(server, (uuid.to_owned(), device.counts));
        }
        let held = clients(&now.report).map(|(_, client)| client.memory_bytes).sum();
        self.peak_memory_bytes = self.peak_memory_bytes.max(held);
    }

    /// Takes in what was counted by kernel.
    pub fn counted(&mut self, counts: Vec<ClientCounts>) {
        let counts = counts.into_iter().filter(|client| !client.kernels.is_empty());
        self.kernels.extend(counts.map(|of| ((of.server, of.client), of.kernels)));
    }

    /// Launches of all clients since their starts.
    pub fn launches(&self) -> u64 {
        self.clients.values().map(|(_, client)| client.kernels).sum()
    }

    /// Kernels of all clients by name, those that took most time first.
    pub fn kernels(&self) -> Vec<Kernel> {
        let mut by_name: BTreeMap<&str, Kernel> = BTreeMap::new();
        for kernel in self.kernels.values().flatten() {
            let sum = by_name.entry(&kernel.name).or_default();
            sum.name.clone_from(&kernel.name);
            if sum.timing == Timing::None {
                sum.timing = kernel.timing;
            }
            sum.launches += kernel.launches;
            sum.launches_in_graphs += kernel.launches_in_graphs;
            sum.blocks += kernel.blocks;
            sum.threads += kernel.threads;
            sum.device_ns += kernel.device_ns;
            sum.sm_active_ns += kernel.sm_active_ns;
            sum.warp_ns += kernel.warp_ns;
            sum.warp_instructions += kernel.warp_instructions;
            sum.thread_instructions += kernel.thread_instructions;
            sum.global_bytes += kernel.global_bytes;
            sum.shapes.extend(kernel.shapes.iter().cloned());
        }
        let mut kernels: Vec<Kernel> = by_name.into_values().collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse((kernel.device_ns, kernel.launches)));
        kernels
    }

    /// What the run had from the first look to the last one, and the device; several devices count as one. `None` if
    /// that is no time, or nothing used a device.
    pub fn observed(&self) -> Option<(Observed, Machine)> {
        let seconds = self.last.saturating_duration_since(self.begun).as_secs_f64();
        if seconds <= 0.0 || self.clients.is_empty() {
            return None;
        }
        let mut used: BTreeMap<&str, &DeviceCounts> = BTreeMap::new();
        for (server, (uuid, counts)) in &self.devices {
            if self.clients.keys().any(|key| key.0 == *server) {
                used.insert(uuid, counts);
            }
        }
        let first = *used.values().next()?;
        let sms: u32 = used.values().map(|counts| counts.sms).sum();
        let machine = Machine {
            sms,
            warps_per_sm: first.warps_per_sm,
            memory_bytes: used.values().map(|counts| counts.memory_bytes).sum(),
            ceilings: None,
        };
        let grown = |of: fn(&ClientReport) -> u64| -> f64 {
            let clients = self.clients.values();
            let each =
                clients.map(|(first, last)| of(last).saturating_sub(first.as_ref().map_or(0, of)));
            each.sum::<u64>() as f64
        };
        let work = |of: fn(&control::report::Work) -> u64| -> f64 {
            let clients = self.clients.values();
            let value = |client: &ClientReport| client.work.as_ref().map_or(0, of);
            let each = clients
                .map(|(first, last)| value(last).saturating_sub(first.as_ref().map_or(0, value)));
            each.sum::<u64>() as f64
        };
        let ns = seconds * 1e9;
        let all_sms = ns * f64::from(sms.max(1));
        let submitting_ns = grown(|client| client.requests.submitting_ns);
        let observed = Observed {
            seconds,
            busy: (work(|work| work.busy_ns) / ns).min(1.0),
            sm_share: (work(|work| work.sm_active_ns) / all_sms).min(1.0),
            occupancy: (work(|work| work.warp_ns)
                / all_sms
                / f64::from(machine.warps_per_sm.max(1)))
            .min(1.0),
            memory_bytes: self.peak_memory_bytes,
            kernels: grown(|client| client.kernels) as u64,
            copied_bytes: grown(|client| client.copies.bytes_in + client.copies.bytes_out) as u64,
            processors: 0.0,
            others: 0.0,
            submitting: submitting_ns / ns,
            submission_ns: submitting_ns / grown(|client| client.requests.submissions).max(1.0),
            sampled: self.clients.values().any(|(_, c)| c.work.is_some_and(|work| work.sampled)),
        };
        Some((observed, machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;
    use std::time::Duration;

    #[test]
    fn programs_one_after_the_other_are_one_run_with_its_peak_of_memory() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let s = 1_000_000_000;
        let mut watch = Watch::begin(&reading(at(0), 100, &[(1, 10, s)]));
        watch.look(&reading(at(1), 101, &[(1, 60, 2 * s), (2, 5, 0)]));
        watch.look(&reading(at(2), 102, &[(2, 100, s / 2)]));
        watch.look(&reading(at(4), 104, &[]));
        assert_eq!(watch.launches(), 160);
        let (observed, machine) = watch.observed().expect("it was seen");
        assert_eq!((observed.seconds, observed.kernels, machine.sms), (4.0, 150, 8));
        assert_eq!((observed.busy, observed.sm_share), (1.5 / 4.0, 1.5 / 8.0));
        assert_eq!(observed.memory_bytes, 3 << 30, "both held memory at the same time");
        let kernel = |name: &str, launches| Kernel {
            name: name.to_owned(),
            launches,
            device_ns: 10 * launches,
            timing: Timing::Exact,
            ..Kernel::default()
        };
        let counts = |client, kernels| {
            let of = ClientCounts { server: 2, client, kernels, ..ClientCounts::default() };
            vec![of]
        };
        watch.counted(counts(1, vec![kernel("a", 10)]));
        watch.counted(counts(1, vec![kernel("a", 60)]));
        watch.counted(counts(2, vec![kernel("b", 70), kernel("a", 30)]));
        let kernels = watch.kernels();
        let seen: Vec<_> = kernels.iter().map(|k| (&*k.name, k.launches, k.device_ns)).collect();
        assert_eq!(seen, [("a", 90, 900), ("b", 70, 700)]);
    }
}
