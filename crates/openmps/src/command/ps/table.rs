//! The table that `openmps ps` prints: a row for each client, as text. Not where or how it is shown.

use control::faults::Fault;
use control::report::{ClientReport, Context, Warm, Work, lanes_active};
use observe::past::{Before, Past};
use observe::reading::{Reading, clients};
use std::time::Instant;

const COLUMNS: usize = 14;
/// The last column, the only one that is cut where there is no room for it.
const COMMAND: usize = COLUMNS - 1;
/// Columns of words begin below each other; those of numbers end below each other.
const WORDS: [usize; 3] = [2, 3, COMMAND];
/// Shown only where classes share in space.
const SPACE: usize = 4;
/// Columns that a narrow table does without, the first ones first: HOST, WARPS, SMS, SERVER, LANES, USER.
const LEFT_OUT: [usize; 6] = [7, 11, 10, 5, 12, 2];
/// Characters of a command that are worth more than a column of [`LEFT_OUT`].
const COMMAND_MIN: usize = 12;
/// Faults are shown for so long, s; older ones are in the JSON.
const LATELY_S: u64 = 600;
/// Characters of a fault's command, and of what is said of it, that are shown.
const FAULT_TEXT_MAX: usize = 120;
/// How many of the last ones are shown.
const FAULTS_SHOWN: usize = 4;
/// Between two columns.
const GAP: usize = 2;

/// Lines of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) lines: Vec<String>,
    /// Whether the first one names columns.
    pub(super) head: bool,
}

/// The clients of a report and what else there is to say: of each client's life so far, or of the
/// time since it was seen in the `past`. `reader` is the user who gets to see it. With a `width`, in
/// characters, rows are no wider: columns are left out, and commands are cut.
pub(super) fn table(
    now: &Reading,
    past: Option<&Past>,
    reader: u32,
    width: Option<usize>,
) -> Table {
    let report = &now.report;
    let mut rows: Vec<[String; COLUMNS]> = Vec::new();
    for (key, client) in clients(report) {
        let done = match past {
            None => Done::so_far(client),
            Some(past) => Done::since(client, past.of(key), now.at),
        };
        rows.push([
            client.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            client.id.to_string(),
            client.user.clone(),
            class(client),
            space(client),
            key.0.to_string(),
            of_limit(memory(client.memory_bytes), client.limits.memory_bytes.map(memory)),
            host_memory(client.host_bytes),
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
        let kernels = if past.is_some() { "KERNELS/S" } else { "KERNELS" };
        let names = [
            "PID", "ID", "USER", "CLASS", "SPACE", "SERVER", "MEMORY", "HOST", kernels, "BUSY",
            "SMS", "WARPS", "LANES", "COMMAND",
        ];
        rows.insert(0, names.map(str::to_owned));
    }
    let mut lines = aligned(&mut rows, width);
    // Those with limits, and who set them.
    lines.extend(clients(report).filter_map(|(_, client)| {
        let name = client.pid.map_or_else(|| format!("id:{}", client.id), |pid| pid.to_string());
        Some(format!("limits of {name}: {}", client.limits.text()?))
    }));
    for server in &report.servers {
        if let Some(error) = &server.error {
            lines.push(format!("server {} ({}): {error}", server.pid, server.state));
        }
        if server.state == "STANDBY" {
            let bytes = server.devices.iter().map(|device| device.counts.start_bytes).sum();
            let cost = match bytes {
                0 => String::new(),
                bytes => format!("; its context takes {} of device memory", memory(bytes)),
            };
            lines.push(format!("server {} stands by{cost}", server.pid));
        }
        if let Some(process) = server.isolates {
            let server = server.pid;
            lines.push(format!(
                "server {server}: {process} alone, whose kernels run for long; servers take turns"
            ));
        }
        if let Some(process) = server.candidate {
            let server = server.pid;
            lines.push(format!("server {server}: {process} alone, which may have caused a fault"));
        }
        if let Some(context) = &server.context {
            lines.extend(of_context(server.pid, context));
        }
    }
    lines.extend(of_faults(&report.faults));
    if report.stopping {
        lines.push("the daemon is shutting down and takes no more programs".into());
    }
    if report.clients_waiting > 0 {
        lines.push(format!("{} waiting for a server", report.clients_waiting));
    }
    if lines.is_empty() {
        let no_client = match report.tells_all_to(reader) {
            true => "no program uses",
            false => "no program of yours uses",
        };
        lines.push(format!("{no_client} the daemon in {}", report.pipe_directory.display()));
    }
    Table { lines, head }
}

/// Memory of the machine that is kept for a client, where there is any.
fn host_memory(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { memory(bytes) }
}

/// The first line of a text, up to [`FAULT_TEXT_MAX`] characters.
fn first_part(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut part: String = line.chars().take(FAULT_TEXT_MAX).collect();
    if part.len() < text.trim().len() {
        part.push_str(" ...");
    }
    control::log::printable(&part)
}

/// The last faults, if they were lately.
fn of_faults(faults: &[Fault]) -> Vec<String> {
    let lately: Vec<&Fault> = faults.iter().filter(|fault| fault.ago_s < LATELY_S).collect();
    let (older, shown) = lately.split_at(lately.len().saturating_sub(FAULTS_SHOWN));
    let line = |fault: &&Fault| {
        let Fault { pid, ago_s, error, .. } = fault;
        // A device's assertion may be of any length, over several lines: all of it is in the JSON.
        let [command, why] = [&fault.command, &fault.why].map(|text| first_part(text));
        let what = match fault.is_faulting {
            true => "has",
            false => "may have caused",
        };
        format!("fault {ago_s} s ago: {pid} ({command}) {what} {error}: {why}")
    };
    let more = (!older.is_empty()).then(|| format!("{} more faults in --json", older.len()));
    more.into_iter().chain(shown.iter().map(line)).collect()
}

/// What clients of a context cost each other, if they do, and what is loaded ahead.
fn of_context(server: u32, context: &Context) -> Vec<String> {
    let mut lines = Vec::new();
    for of in &context.waiting {
        let (call, client) = (&of.call, control::log::printable(&of.client));
        let seconds = of.since_ns as f64 / 1e9;
        lines.push(match of.others.as_str() {
            "" => format!("server {server}: {call} for client {client}, since {seconds:.1} s"),
            others => {
                let others = control::log::printable(others);
                format!("server {server}: {call} for client {client} waits for work of {others}, since {seconds:.1} s")
            }
        });
    }
    let calls = context.calls.iter().filter(|of| of.beside_others > 0).map(|of| {
        let ms = |ns: u64| ns as f64 / 1e6;
        let (total, longest) = (ms(of.total_ns), ms(of.longest_ns));
        format!("{} {} times, {total:.1} ms, at most {longest:.1} ms", of.call, of.beside_others)
    });
    let calls: Vec<String> = calls.collect();
    if !calls.is_empty() {
        lines.push(format!("server {server}: no client could launch during {}", calls.join("; ")));
    }
    let Warm { budget_bytes, bytes, images, kernels, spared } = context.warm;
    if images > 0 {
        let (bytes, budget) = (memory(bytes), memory(budget_bytes));
        lines.push(format!(
            "server {server}: {images} images with {kernels} kernels loaded at its start, {bytes} of {budget}; {spared} loads spared"
        ));
    }
    lines
}

/// A client's class; a dash where its server says nothing of it.
fn class(client: &ClientReport) -> String {
    match client.scheduling.class.as_str() {
        "" => "-".to_owned(),
        class => control::log::printable(class),
    }
}

/// What a client has of a device that classes share in space: SMs of batch work, times of alone that latency work
/// takes beside it; a dash for others.
fn space(client: &ClientReport) -> String {
    match (client.scheduling.space_sms, client.scheduling.slowed_permille) {
        (0, 0) => "-".to_owned(),
        (0, permille) => format!("{:.2}x", f64::from(permille) / 1000.0),
        (1, _) => "1 SM".to_owned(),
        (sms, _) => format!("{sms} SMs"),
    }
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
    fn so_far(client: &ClientReport) -> Self {
        let busy = |busy_s| format!("{busy_s:.1} s");
        Self::new(client.kernels.to_string(), client.work, busy)
    }

    /// What it did since it was as `before` has it: nothing yet, if it was not seen.
    fn since(client: &ClientReport, before: Before<'_>, now: Instant) -> Self {
        let Some(since) = before.since.filter(|since| now > *since) else {
            let nothing = || "-".to_owned();
            let (kernels, busy, sms) = (nothing(), nothing(), nothing());
            return Self { kernels, busy, sms, warps: nothing(), lanes: nothing() };
        };
        let elapsed_s = (now - since).as_secs_f64();
        let before = before.client;
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

/// Rows as lines, each column as wide as its longest text. In a narrow table a program is named by
/// the last part of its path.
fn aligned(rows: &mut [[String; COLUMNS]], width: Option<usize>) -> Vec<String> {
    let mut shown: Vec<usize> = (0..COLUMNS).collect();
    if rows.iter().skip(1).all(|row| row[SPACE] == "-") {
        shown.retain(|column| *column != SPACE);
    }
    if let Some(width) = width {
        for row in rows.iter_mut() {
            row[COMMAND] = base_name(&row[COMMAND]).to_owned();
        }
        let longest = column_width(rows, COMMAND).min(COMMAND_MIN);
        let mut left_out = LEFT_OUT.iter();
        while before_command(rows, &shown) + longest > width {
            let Some(column) = left_out.next() else { break };
            shown.retain(|known| known != column);
        }
        let room = width.saturating_sub(before_command(rows, &shown));
        for row in rows.iter_mut() {
            row[COMMAND] = cut(&row[COMMAND], room);
        }
    }
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| column_width(rows, column));
    let line = |row: &[String; COLUMNS]| {
        let cells = shown.iter().map(|&column| {
            let (text, width) = (&row[column], widths[column]);
            match WORDS.contains(&column) {
                true => format!("{text:width$}"),
                false => format!("{text:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Characters of a column's longest text.
fn column_width(rows: &[[String; COLUMNS]], column: usize) -> usize {
    rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

/// Characters of a line before its command.
fn before_command(rows: &[[String; COLUMNS]], shown: &[usize]) -> usize {
    let others = shown.iter().filter(|column| **column != COMMAND);
    others.map(|column| column_width(rows, *column) + GAP).sum()
}

/// A command line from the last part of its program's path on.
fn base_name(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or_default();
    command[program.rfind('/').map_or(0, |slash| slash + 1)..].trim_start()
}

/// The first characters of a text; a plus sign at the end tells that more follow.
fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => {
            text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('+')).collect()
        }
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::report::{ContextCalls, WaitingReport};
    use control::report::{LimitsReport, Report, Scheduling, ServerReport};
    use control::status::{DeviceCounts, ListedDevice};
    use std::time::Duration;

    fn client(id: u32, kernels: u64, work: Option<Work>) -> ClientReport {
        ClientReport {
            pid: Some(520 + id),
            id,
            uid: 1000,
            user: "ann".into(),
            device_uuid: String::new(),
            memory_bytes: 3 << 29,
            host_bytes: 0,
            kernels,
            copies: Default::default(),
            requests: Default::default(),
            work,
            limits: LimitsReport::default(),
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

    fn reading(clients: Vec<ClientReport>) -> Reading {
        let state = "ACTIVE".to_owned();
        let report = Report {
            schema: control::report::SCHEMA,
            static_partitions: false,
            problems: vec![],
            counters: Default::default(),
            refusals: Default::default(),
            devices: vec![],
            version: "0".into(),
            release: Default::default(),
            pid: 1,
            uid: 0,
            protocol: 2,
            cgroup_limits: Vec::new(),
            faults: Vec::new(),
            pipe_directory: "/tmp/x".into(),
            log_directory: None,
            stopping: false,
            multiuser: false,
            clients_waiting: 0,
            descriptors_max: None,
            visible_devices: None,
            warnings: vec![],
            servers: vec![ServerReport {
                pid: 529,
                uid: 1000,
                user: "ann".into(),
                name: None,
                state,
                devices: vec![],
                clients,
                context: None,
                isolates: None,
                candidate: None,
                error: None,
            }],
        };
        Reading { at: Instant::now(), report }
    }

    #[test]
    fn a_row_tells_of_a_client_s_life() {
        let outside = ClientReport { pid: None, ..client(5, 123_456_789, None) };
        let report = reading(vec![client(4, 12, work(2)), outside]);
        let expected = [
            "PID  ID  USER  CLASS  SERVER   MEMORY  HOST    KERNELS   BUSY  SMS  WARPS  LANES  COMMAND",
            "524   4  ann   batch     529  1.5 GiB     -         12  1.3 s  2.0   10.0   86 %  ./nbody?[2J",
            "  -   5  ann   batch     529  1.5 GiB     -  123456789      -    -      -      -  ./nbody?[2J",
        ];
        assert_eq!(
            table(&report, None, 0, None),
            Table { lines: expected.map(Into::into).into(), head: true }
        );
    }

    #[test]
    fn a_row_tells_how_classes_share_in_space_where_they_do() {
        let scheduling = |class: &str, space_sms, slowed_permille| Scheduling {
            class: class.into(),
            space_sms,
            slowed_permille,
            ..Default::default()
        };
        let serving =
            ClientReport { scheduling: scheduling("latency", 0, 1187), ..client(4, 12, None) };
        let training =
            ClientReport { scheduling: scheduling("batch", 33, 0), ..client(5, 7, None) };
        let other = ClientReport { scheduling: scheduling("normal", 0, 0), ..client(6, 1, None) };
        let report = reading(vec![serving, training, other]);
        let expected = [
            "PID  ID  USER  CLASS     SPACE  SERVER   MEMORY  HOST  KERNELS  BUSY  SMS  WARPS  LANES  COMMAND",
            "524   4  ann   latency   1.19x     529  1.5 GiB     -       12     -    -      -      -  ./nbody?[2J",
            "525   5  ann   batch    33 SMs     529  1.5 GiB     -        7     -    -      -      -  ./nbody?[2J",
            "526   6  ann   normal        -     529  1.5 GiB     -        1     -    -      -      -  ./nbody?[2J",
        ];
        assert_eq!(table(&report, None, 0, None).lines, expected);
    }

    #[test]
    fn limits_stand_below_with_who_set_them() {
        let mut limited = client(4, 12, None);
        limited.limits = LimitsReport {
            memory_bytes: Some(2 << 30),
            memory_by: "server".into(),
            sms: 33,
            sms_of_device: 132,
            sms_by: "program".into(),
            priority: 1,
            priority_by: "set".into(),
        };
        let mut other = client(5, 1, None);
        other.limits.sms_by = "default".into();
        let lines = table(&reading(vec![limited, other]), None, 0, None).lines;
        assert_eq!(
            lines[3..],
            [
                "limits of 524: 33 of 132 SMs (program), 2.0 GiB of device memory (server), priority \
              below normal (set)"
            ]
        );
    }

    #[test]
    fn a_row_tells_of_a_batch() {
        let idle = work(7);
        let before = reading(vec![client(4, 12, work(2)), client(6, 9, idle)]);
        let now = vec![client(4, 62, work(3)), client(5, 8, work(1)), client(6, 9, idle)];
        let now = Reading { at: before.at + Duration::from_secs(2), ..reading(now) };
        let mut past = Past::default();
        past.take(&before);
        let expected = [
            "PID  ID  USER  CLASS  SERVER   MEMORY  HOST  KERNELS/S  BUSY  SMS  WARPS  LANES  COMMAND",
            "524   4  ann   batch     529  1.5 GiB     -         25  32 %  2.0   10.0   86 %  ./nbody?[2J",
            "525   5  ann   batch     529  1.5 GiB     -          4  32 %  2.0   10.0   86 %  ./nbody?[2J",
            "526   6  ann   batch     529  1.5 GiB     -          0   0 %    -      -      -  ./nbody?[2J",
        ];
        assert_eq!(table(&now, Some(&past), 0, None).lines, expected);
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let long = ClientReport {
            pid: Some(4_194_303),
            user: "www-data".into(),
            limits: LimitsReport {
                memory_bytes: Some(141 << 30),
                memory_by: "daemon".into(),
                ..LimitsReport::default()
            },
            memory_bytes: 140 << 30,
            scheduling: Scheduling { class: "latency".into(), ..Default::default() },
            command: "/opt/venv/bin/python3 train.py --model resnet50 --epochs 90".into(),
            ..client(128, 1_234_567_890, work(100_000))
        };
        let report = reading(vec![client(4, 12, work(2)), long]);
        let lines = table(&report, None, 0, Some(80)).lines;
        let expected = [
            "    PID   ID  CLASS                    MEMORY     KERNELS       BUSY  COMMAND",
            "    524    4  batch                   1.5 GiB          12      1.3 s  nbody?[2J",
            "4194303  128  latency  140.0 GiB of 141.0 GiB  1234567890  63000.0 s  python3 t+",
            "limits of 4194303: 141.0 GiB of device memory (daemon)",
        ];
        assert_eq!(lines, expected);
        for width in [72, 80, 100, 120, 200] {
            let lines = table(&report, None, 0, Some(width)).lines;
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {lines:#?}");
        }
        // As much as there is room for.
        let lines = table(&report, None, 0, Some(200)).lines;
        assert!(lines[0].contains("WARPS"), "{lines:#?}");
        assert!(lines[2].ends_with("python3 train.py --model resnet50 --epochs 90"), "{lines:#?}");
    }

    #[test]
    fn programs_are_named_by_the_last_part_of_their_path() {
        let names = ["./nbody -n 4", "/usr/bin/python3 a/b.py", "sh", "", "/a/ b"].map(base_name);
        assert_eq!(names, ["nbody -n 4", "python3 a/b.py", "sh", "", "b"]);
        assert_eq!([cut("abc", 3), cut("abcd", 3), cut("a", 0)], ["abc", "ab+", ""]);
    }

    #[test]
    fn who_waits_and_what_is_wrong_is_said() {
        let no_client = ["no program uses the daemon in /tmp/x".to_owned()];
        assert_eq!(
            table(&reading(vec![]), None, 0, None),
            Table { lines: no_client.into(), head: false }
        );
        let none_seen = ["no program of yours uses the daemon in /tmp/x"];
        assert_eq!(table(&reading(vec![]), None, 1000, None).lines, none_seen);
        let mut now = reading(vec![]);
        let report = &mut now.report;
        (report.stopping, report.clients_waiting) = (true, 3);
        report.servers[0].error = Some("no answer".into());
        report.servers[0].isolates = Some(77);
        let device = |start_bytes| ListedDevice {
            ordinal: 0,
            pci: String::new(),
            uuid: String::new(),
            name: String::new(),
            counts: DeviceCounts { start_bytes, ..DeviceCounts::default() },
        };
        let stands_by = |pid, bytes| ServerReport {
            pid,
            state: "STANDBY".to_owned(),
            devices: vec![device(bytes)],
            isolates: None,
            candidate: None,
            error: None,
            ..report.servers[0].clone()
        };
        let others = [stands_by(530, 512 << 20), stands_by(531, 0)];
        report.servers.extend(others);
        let said = [
            "server 529 (ACTIVE): no answer",
            "server 529: 77 alone, whose kernels run for long; servers take turns",
            "server 530 stands by; its context takes 512.0 MiB of device memory",
            "server 531 stands by",
            "the daemon is shutting down and takes no more programs",
            "3 waiting for a server",
        ];
        assert_eq!(table(&now, None, 0, None).lines, said);
    }

    #[test]
    fn the_last_faults_are_shown_and_who_is_alone_for_one() {
        let mut now = reading(vec![]);
        let fault = |pid: u32, ago_s: u64| Fault {
            ago_s,
            pid,
            command: "./bad \u{1b}[2J".into(),
            is_faulting: pid == 5,
            error: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            why: "under way were its kernels write_word".into(),
            ..Fault::default()
        };
        now.report.faults = vec![fault(9, LATELY_S)];
        assert_eq!(table(&now, None, 0, None).lines.len(), 1, "that is long ago");
        now.report.faults.extend([7, 6, 6, 6, 5].map(|pid| fault(pid, 12)));
        now.report.servers[0].candidate = Some(6);
        let lines = table(&now, None, 0, None).lines;
        assert!(lines[0].ends_with("6 alone, which may have caused a fault"), "{lines:?}");
        assert_eq!(lines[1], "1 more faults in --json");
        assert!(lines[2].starts_with("fault 12 s ago: 6 (./bad"), "{lines:?}");
        assert!(lines[2].contains("may have caused CUDA_ERROR_ILLEGAL_ADDRESS: under way"));
        assert!(lines[5].contains(") has CUDA_ERROR_ILLEGAL_ADDRESS: "), "{lines:?}");
        let mut long = fault(5, 12);
        long.why = format!("{}\nsecond line", "x".repeat(400));
        now.report.faults = vec![long];
        let shown = table(&now, None, 0, None).lines.pop().expect("a line");
        assert!(shown.ends_with("xxx ...") && shown.len() < 240, "{shown}");
        assert!(lines.len() == 6 && !lines.concat().contains('\u{1b}'), "{lines:?}");
    }

    #[test]
    fn who_waits_for_whom_is_said_and_what_was_loaded_ahead() {
        let mut now = reading(vec![]);
        let report = &mut now.report;
        let nothing = Context::default();
        report.servers[0].context = Some(nothing.clone());
        assert_eq!(table(&now, None, 0, None).lines.len(), 1, "there is no client");
        let call = || "loading code".to_owned();
        let waiting = |others: &str| WaitingReport {
            call: call(),
            client: "524".into(),
            others: others.into(),
            since_ns: 1_300_000_000,
        };
        let calls = |beside_others| ContextCalls {
            call: call(),
            calls: 7,
            beside_others,
            total_ns: 31_000_000,
            longest_ns: 22_400_000,
            ..Default::default()
        };
        now.report.servers[0].context = Some(Context {
            waiting: vec![waiting("525, 526"), waiting("")],
            calls: vec![calls(2), calls(0)],
            warm: Warm {
                budget_bytes: 256 << 20,
                bytes: 3 << 20,
                images: 2,
                kernels: 9,
                spared: 4,
            },
        });
        let said = [
            "server 529: loading code for client 524 waits for work of 525, 526, since 1.3 s",
            "server 529: loading code for client 524, since 1.3 s",
            "server 529: no client could launch during loading code 2 times, 31.0 ms, at most 22.4 ms",
            "server 529: 2 images with 9 kernels loaded at its start, 3.0 MiB of 256.0 MiB; 4 loads spared",
        ];
        assert_eq!(table(&now, None, 0, None).lines, said);
        now.report.servers[0].context = Some(nothing);
        let text = serde_json::to_string(&now.report).expect("JSON");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("the same"), now.report);
    }

    #[test]
    fn memory_is_readable() {
        assert_eq!([memory(0), memory(1023), memory(1 << 20)], ["0 B", "1023 B", "1.0 MiB"]);
    }
}
