//! Metrics: what Prometheus scrapes, in its own text format or in that of OpenMetrics.
//!
//! Names are those of dcgm-exporter where they mean the same (a GPU by `gpu`, `UUID` and `modelName`);
//! what is openmps' own begins with `openmps_` and has labels in small letters. Series are bounded: clients that come and go would
//! make more for ever, so at most [`CLIENTS_MAX`] of them are told apart ([`Series`]), and the others
//! are summed.

mod format;
mod series;

pub use format::Format;
pub use series::{CLIENTS_MAX, Series};

use control::counts::ClientCounts;
use control::report::{ClientReport, ContextCalls, Counters, Report, Scheduling, ServerReport};
use control::status::ListedDevice;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Kernels of a client that have series of their own, where kernels are asked for.
pub const KERNELS_MAX: usize = 20;

/// A family: its name, kind, unit and what it says.
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

impl Family {
    /// What the names of its samples end in.
    fn suffix(&self) -> &'static str {
        if self.kind == Kind::Counter { "_total" } else { "" }
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, help }
}

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Counter, help }
}

type Value<T> = fn(&T) -> f64;

/// Memory of a device, by the names that dcgm-exporter gives it.
const MEMORY: &[(Family, Value<ListedDevice>)] = &[
    (gauge("DCGM_FI_DEV_FB_USED", "Device memory that is used, MiB."), |d| {
        (used_bytes(d) >> 20) as f64
    }),
    (gauge("DCGM_FI_DEV_FB_FREE", "Device memory that is free, MiB."), |d| {
        (d.counts.memory_free_bytes >> 20) as f64
    }),
    (gauge("DCGM_FI_DEV_FB_TOTAL", "Device memory, MiB."), |d| {
        (d.counts.memory_bytes >> 20) as f64
    }),
];

fn used_bytes(device: &ListedDevice) -> u64 {
    device.counts.memory_bytes.saturating_sub(device.counts.memory_free_bytes)
}

/// What a server says of its device: counters since its start; rates are the reader's, and so are sums over the
/// servers of several users.
const DEVICE: &[(Family, Value<ListedDevice>)] = &[
    (gauge("openmps_device_sms", "SMs of the device."), |d| f64::from(d.counts.sms)),
    (gauge("openmps_device_warps_per_sm", "Warps that an SM has room for."), |d| {
        f64::from(d.counts.warps_per_sm)
    }),
    (counter("openmps_device_time_seconds", "Time over which the device is counted."), |d| {
        d.counts.elapsed_ns as f64 / 1e9
    }),
    (
        counter(
            "openmps_device_busy_seconds",
            "Time in which any kernel ran: its rate is what tools call GPU-Util.",
        ),
        |d| d.counts.busy_ns as f64 / 1e9,
    ),
    (
        counter(
            "openmps_device_sm_active_seconds",
            "Time in which SMs had a block, summed over SMs: its rate over the SMs is SM activity.",
        ),
        |d| d.counts.sm_active_ns as f64 / 1e9,
    ),
    (
        counter(
            "openmps_device_warp_seconds",
            "Time in which warps were resident, summed over warps.",
        ),
        |d| d.counts.warp_ns as f64 / 1e9,
    ),
    (
        gauge("openmps_device_sampled", "1 if device time is estimated from a sample of launches."),
        |d| f64::from(u8::from(d.counts.sampled)),
    ),
];

/// What has happened since the daemon's start, for alerts.
const DAEMON: &[(Family, Value<Counters>)] = &[
    (counter("openmps_faults", "Faults that clients have caused, or may have."), |c| {
        c.faults as f64
    }),
    (counter("openmps_servers_started", "Servers that were started."), |c| {
        c.servers_started as f64
    }),
    (
        counter("openmps_servers_lost", "Servers that ended by a fault, a signal or an error."),
        |c| c.servers_lost as f64,
    ),
    (counter("openmps_clients_terminated", "Clients that were terminated by a command."), |c| {
        c.clients_terminated as f64
    }),
    (counter("openmps_clients_refused", "Programs that were refused."), |c| {
        c.clients_refused as f64
    }),
    (
        counter(
            "openmps_candidates",
            "Processes that got servers of their own because they may have caused a fault.",
        ),
        |c| c.candidates as f64,
    ),
    (
        counter(
            "openmps_isolations",
            "Processes that got servers of their own because their kernels run for long.",
        ),
        |c| c.isolations as f64,
    ),
    (counter("openmps_recoveries", "Clients that have gone on at another server."), |c| {
        c.recoveries as f64
    }),
    (
        counter(
            "openmps_repeated_operations",
            "Operations that were in flight when a server was lost and were repeated.",
        ),
        |c| c.repeated_operations as f64,
    ),
    (
        counter(
            "openmps_replays_refused",
            "Recoveries in which work could not be repeated, so that a call of the program failed.",
        ),
        |c| c.replays_refused as f64,
    ),
    (
        counter("openmps_servers_upgraded", "Servers that an upgrade has put others in place of."),
        |c| c.servers_upgraded as f64,
    ),
    (
        counter(
            "openmps_log_lines_lost",
            "Lines that could not be written to control.log or server.log.",
        ),
        |c| c.log_lines_lost as f64,
    ),
];

/// Ratios of the last interval, by the names that dcgm-exporter gives them.
const RATIOS: &[(Family, Value<Ratios>)] = &[
    (
        gauge(
            "DCGM_FI_DEV_GPU_UTIL",
            "Share of time in which any kernel ran between the last two looks at the daemon, %.",
        ),
        |r| 100.0 * r.util,
    ),
    (
        gauge(
            "DCGM_FI_PROF_SM_ACTIVE",
            "Share of SMs with a block between the last two looks at the daemon, 0 to 1.",
        ),
        |r| r.sm_activity,
    ),
    (
        gauge(
            "DCGM_FI_PROF_SM_OCCUPANCY",
            "Share of warps that were resident between the last two looks at the daemon, 0 to 1.",
        ),
        |r| r.occupancy,
    ),
];

/// Ratios of a device between two looks at the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ratios {
    /// GPU-Util.
    pub util: f64,
    /// SM activity.
    pub sm_activity: f64,
    /// Occupancy.
    pub occupancy: f64,
}

/// Numbers of one client, which sums of clients have too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbers([f64; CLIENT.len()]);

impl Numbers {
    fn of(client: &ClientReport) -> Self {
        let mut numbers = Self::default();
        for (place, (_, value)) in numbers.0.iter_mut().zip(CLIENT) {
            *place = value(client);
        }
        numbers
    }
}

const CLIENT: &[(Family, Value<ClientReport>)] = &[
    (gauge("openmps_client_memory_bytes", "Device memory of a client."), |c| c.memory_bytes as f64),
    (
        gauge(
            "openmps_client_host_memory_bytes",
            "Memory of the machine that a server keeps for a client, pinned and in graphs.",
        ),
        |c| c.host_bytes as f64,
    ),
    (counter("openmps_client_kernels", "Kernels that a client has launched."), |c| {
        c.kernels as f64
    }),
    (counter("openmps_client_busy_seconds", "Time in which a kernel of a client ran."), |c| {
        c.work.map_or(0.0, |work| work.busy_ns as f64 / 1e9)
    }),
    (
        counter(
            "openmps_client_device_seconds",
            "Time of a client's kernels; kernels that overlap count each.",
        ),
        |c| c.work.map_or(0.0, |work| work.device_ns as f64 / 1e9),
    ),
    (
        counter(
            "openmps_client_sm_active_seconds",
            "Time in which SMs had a block of a client, summed over SMs.",
        ),
        |c| c.work.map_or(0.0, |work| work.sm_active_ns as f64 / 1e9),
    ),
    (
        counter(
            "openmps_client_warp_seconds",
            "Time in which warps of a client were resident, summed over warps.",
        ),
        |c| c.work.map_or(0.0, |work| work.warp_ns as f64 / 1e9),
    ),
    (
        counter(
            "openmps_client_copied_to_device_bytes",
            "Bytes that a client copied to the device.",
        ),
        |c| c.copies.bytes_in as f64,
    ),
    (
        counter(
            "openmps_client_copied_from_device_bytes",
            "Bytes that a client copied from the device.",
        ),
        |c| c.copies.bytes_out as f64,
    ),
    (counter("openmps_client_waits", "Points that a client waits for, or may."), |c| {
        c.requests.waits as f64
    }),
    (
        gauge(
            "openmps_client_kernels_in_flight",
            "Kernels of a client that are submitted and not known to be done.",
        ),
        |c| c.requests.in_flight as f64,
    ),
    (
        counter("openmps_client_throttled_seconds", "Time for which a client's work was paused."),
        |c| c.requests.throttled_ns as f64 / 1e9,
    ),
    (
        counter(
            "openmps_client_ring_stalls",
            "How often a client slept because the ring of its requests was full.",
        ),
        |c| c.requests.ring_stalls as f64,
    ),
    (counter("openmps_client_limits_hit", "How often a client met a limit."), |c| {
        c.requests.limits_hit as f64
    }),
];

/// A label's value, escaped.
fn escaped(text: &str) -> String {
    let text = control::log::printable(text);
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

struct Text {
    text: String,
    format: Format,
}

impl Text {
    fn new(format: Format) -> Self {
        Self { text: String::new(), format }
    }

    fn family(&mut self, family: &Family) {
        let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
        let Family { name, help, .. } = family;
        // OpenMetrics names the family, Prometheus' own format the samples.
        let suffix = match self.format {
            Format::OpenMetrics => "",
            Format::Prometheus => family.suffix(),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
    }

    fn sample(&mut self, family: &Family, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{}{}{labels} {value}", family.name, family.suffix());
    }

    /// A family with one sample.
    fn single(&mut self, family: &Family, labels: &str, value: f64) {
        self.family(family);
        self.sample(family, labels, value);
    }

    fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Labels of a device, as dcgm-exporter has them.
fn device_labels(device: &ListedDevice) -> String {
    let ordinal = device.ordinal.to_string();
    labels(&[
        ("gpu", &ordinal),
        ("UUID", &device.uuid),
        ("pci_bus_id", &device.pci),
        ("modelName", &device.name),
    ])
}

/// Labels of what a server says of a device.
fn server_device_labels(device: &ListedDevice, server: u32) -> String {
    let (ordinal, server) = (device.ordinal.to_string(), server.to_string());
    labels(&[
        ("gpu", &ordinal),
        ("uuid", &device.uuid),
        ("pci_bus_id", &device.pci),
        ("model", &device.name),
        ("server", &server),
    ])
}

fn program(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

/// Whether the daemon answers. `labels` are of one that does.
fn up(text: &mut Text, labels: &str, value: f64) {
    text.single(&gauge("openmps_up", "1 if the daemon answers, else 0."), labels, value);
}

/// The text where no daemon answers.
pub fn without_daemon(format: Format) -> String {
    let mut text = Text::new(format);
    up(&mut text, "", 0.0);
    text.end()
}

/// The text of a report. `ratios` are those of devices between the last two looks, by UUID; `counts` adds series of
/// kernels.
pub fn text(
    format: Format,
    series: &mut Series,
    report: &Report,
    ratios: &BTreeMap<String, Ratios>,
    counts: Option<&[ClientCounts]>,
) -> String {
    series.see(report);
    let mut text = Text::new(format);
    up(&mut text, &labels(&[("version", &report.version)]), 1.0);
    let waiting = gauge("openmps_clients_waiting", "Programs whose server is not ready.");
    text.single(&waiting, "", report.clients_waiting as f64);
    for (family, value) in DAEMON {
        text.single(family, "", value(&report.counters));
    }
    refusals(&mut text, report);
    servers(&mut text, &report.servers);
    space(&mut text, &report.servers);
    context_calls(&mut text, &report.servers);
    devices(&mut text, report, ratios);
    clients(&mut text, series, report);
    if let Some(counts) = counts {
        kernels(&mut text, series, counts);
    }
    text.end()
}

/// Programs that were refused, by the error that they got.
fn refusals(text: &mut Text, report: &Report) {
    let family = counter("openmps_refusals", "Programs that were refused, by the error they got.");
    text.family(&family);
    for of in &report.refusals {
        text.sample(&family, &labels(&[("error", &of.error)]), of.count as f64);
    }
}

/// What a server says of calls that wait for all work of its context, by kind.
const CONTEXT_CALLS: &[(Family, Value<ContextCalls>)] = &[
    (counter("openmps_context_calls", "Calls that wait for all work of a context."), |of| {
        of.calls as f64
    }),
    (
        counter(
            "openmps_context_call_seconds",
            "Time in such calls, in which no program of the server can launch.",
        ),
        |of| of.total_ns as f64 / 1e9,
    ),
    (
        counter(
            "openmps_context_call_wait_seconds",
            "Time for which such calls waited until the context was idle.",
        ),
        |of| of.waited_ns as f64 / 1e9,
    ),
];

fn context_calls(text: &mut Text, servers: &[ServerReport]) {
    for (family, value) in CONTEXT_CALLS {
        text.family(family);
        for server in servers {
            for of in server.context.iter().flat_map(|context| &context.calls) {
                let labels = labels(&[("server", &server.pid.to_string()), ("call", &of.call)]);
                text.sample(family, &labels, value(of));
            }
        }
    }
}

/// A gauge for each server, with what it is for and how it is.
fn servers(text: &mut Text, servers: &[ServerReport]) {
    let family = gauge(
        "openmps_server",
        "1 for each server: its state, and whether it is for all programs, or for one that may have caused a \
         fault (candidate) or has long kernels (isolation).",
    );
    text.family(&family);
    for server in servers {
        let purpose = match (server.candidate, server.isolates) {
            (Some(_), _) => "candidate",
            (None, Some(_)) => "isolation",
            (None, None) => "all",
        };
        let labels = labels(&[
            ("server", &server.pid.to_string()),
            ("user", &server.user),
            ("state", &server.state.to_lowercase()),
            ("purpose", purpose),
        ]);
        text.sample(&family, &labels, 1.0);
    }
}

/// How the clients of a server share the SMs by their classes.
const SPACE: &[(Family, Value<Scheduling>)] = &[
    (
        gauge(
            "openmps_space_batch_sms",
            "SMs that batch work has now beside latency work that is rarely idle; 0: classes take turns.",
        ),
        |of| f64::from(of.space_sms),
    ),
    (
        gauge(
            "openmps_space_slowdown_ratio",
            "Time that latency work takes beside batch work, in times of alone; 0: not known.",
        ),
        |of| f64::from(of.slowed_permille) / 1000.0,
    ),
    (
        counter(
            "openmps_space_changes",
            "Changes of the SMs that batch work has beside latency work.",
        ),
        |of| of.space_changes as f64,
    ),
];

/// The greatest value of a server's clients: the same one holds for all of a class.
fn space(text: &mut Text, servers: &[ServerReport]) {
    for (family, value) in SPACE {
        text.family(family);
        for server in servers {
            let most = server.clients.iter().map(|client| value(&client.scheduling));
            let labels = labels(&[("server", &server.pid.to_string()), ("user", &server.user)]);
            text.sample(family, &labels, most.fold(0.0, f64::max));
        }
    }
}

fn devices(text: &mut Text, report: &Report, ratios: &BTreeMap<String, Ratios>) {
    let all: Vec<(u32, &ListedDevice)> = report
        .servers
        .iter()
        .flat_map(|server| server.devices.iter().map(move |device| (server.pid, device)))
        .collect();
    // A device that several users' servers offer is told of once, where each knows of all of it.
    let mut each: BTreeMap<&str, &ListedDevice> = BTreeMap::new();
    for (_, device) in &all {
        let known = each.entry(&device.uuid).or_insert(device);
        if used_bytes(device) > used_bytes(known) {
            *known = device;
        }
    }
    for (family, value) in MEMORY {
        text.family(family);
        for device in each.values() {
            text.sample(family, &device_labels(device), value(device));
        }
    }
    for (family, value) in RATIOS {
        text.family(family);
        for (uuid, device) in &each {
            let ratios = ratios.get(*uuid).copied().unwrap_or_default();
            text.sample(family, &device_labels(device), value(&ratios));
        }
    }
    for (family, value) in DEVICE {
        text.family(family);
        for (server, device) in &all {
            text.sample(family, &server_device_labels(device, *server), value(device));
        }
    }
}

fn clients(text: &mut Text, series: &Series, report: &Report) {
    let mut rows: Vec<(String, Numbers)> = Vec::new();
    let mut limits: Vec<(String, u64)> = Vec::new();
    for ((server, id), client) in crate::reading::clients(report) {
        if !series.is_own((server, id)) {
            continue;
        }
        let pid = client.pid.map_or_else(String::new, |pid| pid.to_string());
        let labels = labels(&[
            ("server", &server.to_string()),
            ("client", &id.to_string()),
            ("pid", &pid),
            ("user", &client.user),
            ("program", program(&client.command)),
            ("uuid", &client.device_uuid),
        ]);
        limits.extend(client.limits.memory_bytes.map(|bytes| (labels.clone(), bytes)));
        rows.push((labels, Numbers::of(client)));
    }
    rows.extend(series.others().map(|others| (labels(&[("client", "others")]), others)));
    for (place, (family, _)) in CLIENT.iter().enumerate() {
        text.family(family);
        for (labels, numbers) in &rows {
            text.sample(family, labels, numbers.0[place]);
        }
    }
    let limit = gauge(
        "openmps_client_memory_limit_bytes",
        "Limit of a client's device memory, if there is one.",
    );
    text.family(&limit);
    limits.iter().for_each(|(labels, bytes)| text.sample(&limit, labels, *bytes as f64));
    let number = gauge("openmps_clients", "Programs that use the daemon.");
    text.single(&number, "", report.programs() as f64);
}

fn kernels(text: &mut Text, series: &Series, counts: &[ClientCounts]) {
    let launches = counter("openmps_kernel_launches", "Launches of a client's kernels, by name.");
    let time = counter("openmps_kernel_device_seconds", "Time of a client's kernels, by name.");
    // Mangled names that differ may be one name, as C++ has it.
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for client in counts.iter().filter(|of| series.is_own((of.server, of.client))) {
        for kernel in client.kernels.iter().take(KERNELS_MAX) {
            let labels = labels(&[
                ("server", &client.server.to_string()),
                ("client", &client.client.to_string()),
                ("kernel", &crate::names::demangled(&kernel.name)),
            ]);
            let (launches, device_ns) = rows.entry(labels).or_default();
            *launches += kernel.launches;
            *device_ns += kernel.device_ns;
        }
    }
    text.family(&launches);
    rows.iter().for_each(|(labels, row)| text.sample(&launches, labels, row.0 as f64));
    text.family(&time);
    rows.iter().for_each(|(labels, row)| text.sample(&time, labels, row.1 as f64 / 1e9));
}

#[cfg(test)]
mod tests;
