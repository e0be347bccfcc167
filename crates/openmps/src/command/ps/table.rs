//! The table that `openmps ps` prints: a row for each client, as text. Not where or how it is shown.

use control::report::{Client, Report, Work, lanes_active};
use std::collections::HashMap;
use std::time::Duration;

const COLUMNS: usize = 12;
/// Columns of words begin below each other; those of numbers end below each other.
const WORDS: [usize; 3] = [2, 3, COLUMNS - 1];

/// Lines of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) lines: Vec<String>,
    /// Whether the first one names columns.
    pub(super) head: bool,
}

/// A stretch of time that a table tells of.
#[derive(Clone, Copy)]
pub(super) struct Stretch<'a> {
    /// What the daemon said when it began.
    pub(super) before: &'a Report,
    /// How long it was; above 0.
    pub(super) elapsed: Duration,
}

/// The clients of a report and what else there is to say: of each client's life so far, or of the
/// stretch that ends with the report. `reader` is the user who gets to see it.
pub(super) fn table(report: &Report, stretch: Option<Stretch<'_>>, reader: u32) -> Table {
    let before: HashMap<_, _> = stretch.iter().flat_map(|s| clients(s.before)).collect();
    let mut rows: Vec<[String; COLUMNS]> = Vec::new();
    for (key, client) in clients(report) {
        let done = match stretch {
            None => Done::so_far(client),
            Some(stretch) => Done::since(client, before.get(&key).copied(), stretch.elapsed),
        };
        rows.push([
            client.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            client.id.to_string(),
            client.user.clone(),
            class(client),
            key.0.to_string(),
            of_limit(memory(client.memory_bytes), client.limits.memory_bytes.map(memory)),
            done.kernels,
            done.busy,
            done.sms,
            done.warps,
            done.lanes,
            control::log::printable(&client.command),
        ]);
    }
    let head = !rows.is_empty();
    if head {
        let kernels = if stretch.is_some() { "KERNELS/S" } else { "KERNELS" };
        let names = [
            "PID", "ID", "USER", "CLASS", "SERVER", "MEMORY", kernels, "BUSY", "SMS", "WARPS",
            "LANES", "COMMAND",
        ];
        rows.insert(0, names.map(str::to_owned));
    }
    let mut lines = aligned(&rows);
    for server in &report.servers {
        if let Some(error) = &server.error {
            lines.push(format!("server {} ({}): {error}", server.pid, server.state));
        }
    }
    if report.stopping {
        lines.push("the daemon is shutting down and takes no more programs".into());
    }
    if report.clients_waiting > 0 {
        lines.push(format!("{} waiting for a server", report.clients_waiting));
    }
    if lines.is_empty() {
        let nobody = match report.tells_all_to(reader) {
            true => "nobody uses",
            false => "no program of yours uses",
        };
        lines.push(format!("{nobody} the daemon in {}", report.pipe_directory.display()));
    }
    Table { lines, head }
}

/// A client's class; a dash where its server says nothing of it.
fn class(client: &Client) -> String {
    match client.scheduling.class.as_str() {
        "" => "-".to_owned(),
        class => control::log::printable(class),
    }
}

/// All clients, by their server's PID and their number in it.
fn clients(report: &Report) -> impl Iterator<Item = ((u32, u32), &Client)> {
    report.servers.iter().flat_map(|server| {
        server.clients.iter().map(move |client| ((server.pid, client.id), client))
    })
}

/// What a client did, as text; a dash where nothing is known, or nothing ran.
struct Done {
    kernels: String,
    busy: String,
    sms: String,
    warps: String,
    lanes: String,
}

impl Done {
    /// All that it did.
    fn so_far(client: &Client) -> Self {
        let busy = |busy_s| format!("{busy_s:.1} s");
        Self::new(client.kernels.to_string(), client.work, busy)
    }

    /// What it did since it was as `before` has it: nothing yet, if there was no such client.
    fn since(client: &Client, before: Option<&Client>, elapsed: Duration) -> Self {
        let elapsed_s = elapsed.as_secs_f64();
        let kernels = client.kernels.saturating_sub(before.map_or(0, |before| before.kernels));
        let earlier = before.and_then(|before| before.work).unwrap_or_default();
        let work = client.work.map(|work| difference(&work, &earlier));
        // Counting and asking are not one instant: a share may come out a hair over 1.
        let busy = |busy_s| format!("{:.0} %", 100.0 * f64::min(busy_s / elapsed_s, 1.0));
        Self::new(format!("{:.0}", kernels as f64 / elapsed_s), work, busy)
    }

    fn new(kernels: String, work: Option<Work>, busy: impl Fn(f64) -> String) -> Self {
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let ratio = |of: fn(&Work) -> (u64, u64)| {
            let (part, whole) = of(work.as_ref()?);
            (whole > 0).then(|| format!("{:.1}", part as f64 / whole as f64))
        };
        let lanes = work.and_then(|w| lanes_active(w.warp_instructions, w.thread_instructions));
        Self {
            kernels,
            busy: text(work.map(|work| busy(work.busy_ns as f64 / 1e9))),
            sms: text(ratio(|work| (work.sm_active_ns, work.busy_ns))),
            warps: text(ratio(|work| (work.warp_ns, work.sm_active_ns))),
            lanes: text(lanes.map(|share| format!("{:.0} %", 100.0 * share))),
        }
    }
}

fn difference(now: &Work, before: &Work) -> Work {
    Work {
        busy_ns: now.busy_ns.saturating_sub(before.busy_ns),
        sm_active_ns: now.sm_active_ns.saturating_sub(before.sm_active_ns),
        warp_ns: now.warp_ns.saturating_sub(before.warp_ns),
        warp_instructions: now.warp_instructions.saturating_sub(before.warp_instructions),
        thread_instructions: now.thread_instructions.saturating_sub(before.thread_instructions),
        ..*now
    }
}

/// What is had, of what may be had if that is limited.
fn of_limit(has: String, limit: Option<String>) -> String {
    limit.map_or(has.clone(), |limit| format!("{has} of {limit}"))
}

/// Bytes in the largest unit that leaves at least 1.
fn memory(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Rows as lines, each column as wide as its longest text.
fn aligned(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (text, width))| {
            match WORDS.contains(&column) {
                true => format!("{text:width$}"),
                false => format!("{text:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::report::{Limits, Scheduling, Server};

    fn client(id: u32, kernels: u64, work: Option<Work>) -> Client {
        Client {
            pid: Some(520 + id),
            id,
            uid: 1000,
            user: "ann".into(),
            device_uuid: String::new(),
            memory_bytes: 3 << 29,
            kernels,
            copies: Default::default(),
            requests: Default::default(),
            work,
            limits: Limits::default(),
            scheduling: Scheduling { class: "batch".into(), ..Default::default() },
            mps_namespace: None,
            pid_namespace: None,
            command: "./nbody\x1b[2J".into(),
        }
    }

    fn work(scale: u64) -> Option<Work> {
        Some(Work {
            busy_ns: 630_000_000 * scale,
            sm_active_ns: 1_260_000_000 * scale,
            warp_ns: 12_600_000_000 * scale,
            warp_instructions: 1000 * scale,
            thread_instructions: 27_400 * scale,
            ..Work::default()
        })
    }

    fn report(clients: Vec<Client>) -> Report {
        let state = "ACTIVE".to_owned();
        Report {
            devices: vec![],
            version: "0".into(),
            pid: 1,
            uid: 0,
            protocol: 2,
            pipe_directory: "/tmp/x".into(),
            log_directory: None,
            stopping: false,
            clients_waiting: 0,
            descriptors_max: None,
            visible_devices: None,
            warnings: vec![],
            servers: vec![Server {
                pid: 529,
                uid: 1000,
                user: "ann".into(),
                name: None,
                state,
                devices: vec![],
                clients,
                error: None,
            }],
        }
    }

    #[test]
    fn a_row_tells_of_a_client_s_life() {
        let outside = Client { pid: None, ..client(5, 123_456_789, None) };
        let report = report(vec![client(4, 12, work(2)), outside]);
        let expected = [
            "PID  ID  USER  CLASS  SERVER   MEMORY    KERNELS   BUSY  SMS  WARPS  LANES  COMMAND",
            "524   4  ann   batch     529  1.5 GiB         12  1.3 s  2.0   10.0   86 %  ./nbody?[2J",
            "  -   5  ann   batch     529  1.5 GiB  123456789      -    -      -      -  ./nbody?[2J",
        ];
        assert_eq!(
            table(&report, None, 0),
            Table { lines: expected.map(Into::into).into(), head: true }
        );
    }

    #[test]
    fn a_row_tells_of_a_stretch() {
        let idle = work(7);
        let before = report(vec![client(4, 12, work(2)), client(6, 9, idle)]);
        let now = report(vec![client(4, 62, work(3)), client(5, 8, work(1)), client(6, 9, idle)]);
        let stretch = Stretch { before: &before, elapsed: Duration::from_secs(2) };
        let expected = [
            "PID  ID  USER  CLASS  SERVER   MEMORY  KERNELS/S  BUSY  SMS  WARPS  LANES  COMMAND",
            "524   4  ann   batch     529  1.5 GiB         25  32 %  2.0   10.0   86 %  ./nbody?[2J",
            "525   5  ann   batch     529  1.5 GiB          4  32 %  2.0   10.0   86 %  ./nbody?[2J",
            "526   6  ann   batch     529  1.5 GiB          0   0 %    -      -      -  ./nbody?[2J",
        ];
        assert_eq!(table(&now, Some(stretch), 0).lines, expected);
    }

    #[test]
    fn who_waits_and_what_is_wrong_is_said() {
        let nobody = ["nobody uses the daemon in /tmp/x".to_owned()];
        assert_eq!(table(&report(vec![]), None, 0), Table { lines: nobody.into(), head: false });
        let nobody_seen = ["no program of yours uses the daemon in /tmp/x"];
        assert_eq!(table(&report(vec![]), None, 1000).lines, nobody_seen);
        let mut report = report(vec![]);
        (report.stopping, report.clients_waiting) = (true, 3);
        report.servers[0].error = Some("no answer".into());
        let said = [
            "server 529 (ACTIVE): no answer",
            "the daemon is shutting down and takes no more programs",
            "3 waiting for a server",
        ];
        assert_eq!(table(&report, None, 0).lines, said);
    }

    #[test]
    fn memory_is_readable() {
        assert_eq!([memory(0), memory(1023), memory(1 << 20)], ["0 B", "1023 B", "1.0 MiB"]);
    }
}
