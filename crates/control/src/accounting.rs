//! Accounting: what each client has used, a line of JSON a client in a file that outlives the daemon.
//!
//! The line is written when the client has ended, or its server has without a word of it. The file is bounded as the logs are: the full one stays
//! as `accounting.jsonl.old`. A line that cannot be written (a full disk) is lost, and that is said in
//! control.log; it is never a reason for the daemon to stop.

use crate::log::Bounded;
use crate::users;
use channel::message::{EndedClient, pid_of_process};
use locks::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The file's name, in the directory of the logs.
pub const FILE_NAME: &str = "accounting.jsonl";
/// Bytes after which a new file is begun: some 100,000 clients.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What one client has used. Fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountingRecord {
    /// When it came, in RFC 3339.
    pub began: String,
    /// The same, ms since 1970.
    pub began_ms: u64,
    /// From then to its end, ms.
    pub wall_ms: u64,
    /// User id.
    pub uid: u32,
    /// The user's name.
    pub user: String,
    /// Its process; 0 if it has no number in the daemon's PID namespace.
    pub pid: u32,
    /// Its server's process.
    pub server: u32,
    /// UUID of the device.
    pub device_uuid: String,
    /// Time in which at least one of its kernels ran, ns.
    pub device_ns: u64,
    /// That time is estimated from a sample of launches.
    pub sampled: bool,
    /// Kernels that it launched.
    pub kernels: u64,
    /// Bytes copied from the host to the device.
    pub bytes_in: u64,
    /// Bytes copied from the device to the host.
    pub bytes_out: u64,
    /// Bytes copied or filled on the device.
    pub bytes_within: u64,
    /// Most device memory that it had at a time, bytes.
    pub peak_memory_bytes: u64,
    /// Its command line.
    pub command: String,
    /// Its server ended before it did: what it launched, copied and had there is not known.
    pub lost: bool,
    /// Counters were off for a time (`openmps set --counters off`): it launched and copied more than is said.
    pub uncounted: bool,
    /// Time in which it had a block on an SM, ns, summed over SMs.
    pub sm_active_ns: u64,
}

/// A client that is at a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Its server's process.
    pub server: u32,
    /// Its process.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// UUID of the device.
    pub device_uuid: String,
    /// Its command line.
    pub command: String,
    /// The job of several processes that it is one of; empty if it is none.
    pub job: String,
    /// When it came.
    pub began: SystemTime,
}

/// The clients that are at servers, for the records of those whose server is killed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present(Vec<UnderWay>);

impl Present {
    /// A client has gone to a server.
    pub fn enter(&mut self, client: UnderWay) {
        self.0.push(client);
    }

    /// A client at that server of another job than `job`.
    pub fn other_job_at(&self, server: u32, job: &str) -> Option<&UnderWay> {
        self.0.iter().find(|of| of.server == server && !of.job.is_empty() && of.job != job)
    }

    /// A client of a server is gone.
    pub fn leave(&mut self, server: u32, pid: u32) {
        let at = self.0.iter().position(|of| (of.server, of.pid) == (server, pid));
        at.map(|at| self.0.remove(at));
    }

    /// A server has ended: records of the clients that it has said nothing of.
    pub fn server_ended(&mut self, server: u32, now: SystemTime) -> Vec<AccountingRecord> {
        let lost = self.0.extract_if(.., |of| of.server == server);
        lost.map(|client| AccountingRecord::of_lost(client, now)).collect()
    }
}

impl AccountingRecord {
    /// Of a client whose server ended without a word about it.
    fn of_lost(client: UnderWay, now: SystemTime) -> Self {
        let UnderWay { server, pid, uid, device_uuid, command, job: _, began } = client;
        let since_1970 = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began_ms = since_1970.as_millis() as u64;
        Self {
            began: jiff::Timestamp::try_from(began).unwrap_or_default().to_string(),
            began_ms,
            wall_ms: now.duration_since(began).unwrap_or_default().as_millis() as u64,
            uid,
            user: users::name(uid),
            pid,
            server,
            device_uuid,
            command,
            lost: true,
            ..Self::default()
        }
    }

    /// Of a client of a server.
    pub fn new(server: u32, ended: EndedClient) -> Self {
        let EndedClient { status, began_ms, wall_ms, peak_memory_bytes } = ended;
        let work = status.work.unwrap_or_default();
        let moment = jiff::Timestamp::from_millisecond(began_ms.min(i64::MAX as u64) as i64);
        Self {
            began: moment.unwrap_or_default().to_string(),
            began_ms,
            wall_ms,
            uid: status.uid,
            user: users::name(status.uid),
            pid: pid_of_process(status.pid),
            server,
            device_uuid: status.device.to_string(),
            device_ns: work.busy_ns,
            sampled: work.sampled,
            kernels: status.submitted.kernels,
            bytes_in: status.submitted.bytes_in,
            bytes_out: status.submitted.bytes_out,
            bytes_within: status.submitted.bytes_within,
            peak_memory_bytes,
            uncounted: status.counts.uncounted != 0,
            sm_active_ns: work.sm_active_ns,
            command: status.command_line,
            lost: false,
        }
    }

    /// When the client ended, ms since 1970.
    pub fn ended_ms(&self) -> u64 {
        self.began_ms.saturating_add(self.wall_ms)
    }
}

/// What all clients of a user have used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    /// The user's name.
    pub user: String,
    /// User id.
    pub uid: u32,
    /// Clients.
    pub clients: u64,
    /// As of an [`AccountingRecord`], summed up.
    pub wall_ms: u64,
    /// Likewise.
    pub device_ns: u64,
    /// Likewise.
    pub kernels: u64,
    /// Likewise.
    pub bytes_in: u64,
    /// Likewise.
    pub bytes_out: u64,
    /// The largest of all clients'.
    pub peak_memory_bytes: u64,
}

/// The sums by user, in the order of their numbers.
pub fn by_user(records: &[AccountingRecord]) -> Vec<Total> {
    let mut totals: BTreeMap<u32, Total> = BTreeMap::new();
    for record in records {
        let total = totals.entry(record.uid).or_default();
        (total.uid, total.user) = (record.uid, record.user.clone());
        total.clients += 1;
        total.wall_ms = total.wall_ms.saturating_add(record.wall_ms);
        total.device_ns = total.device_ns.saturating_add(record.device_ns);
        total.kernels = total.kernels.saturating_add(record.kernels);
        total.bytes_in = total.bytes_in.saturating_add(record.bytes_in);
        total.bytes_out = total.bytes_out.saturating_add(record.bytes_out);
        total.peak_memory_bytes = total.peak_memory_bytes.max(record.peak_memory_bytes);
    }
    totals.into_values().collect()
}

/// All records in a directory of logs, oldest first. Lines that are none (a torn one) are left out.
///
/// # Errors
/// The file is there and cannot be read. No file is no records.
pub fn read(directory: &Path) -> io::Result<Vec<AccountingRecord>> {
    let mut records = Vec::new();
    for name in [format!("{FILE_NAME}.old"), FILE_NAME.to_owned()] {
        match std::fs::read(directory.join(name)) {
            Ok(bytes) => records.extend(
                String::from_utf8_lossy(&bytes)
                    .lines()
                    .filter_map(|line| serde_json::from_str::<AccountingRecord>(line).ok()),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

/// The file of a daemon.
#[derive(Debug, Default)]
pub struct Book {
    file: Mutex<Option<Bounded>>,
}

impl Book {
    /// Opens it in the directory of the logs.
    ///
    /// # Errors
    /// The system's; nothing is written then.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = Bounded::open(directory.join(FILE_NAME), FILE_BYTES_MAX)?;
        Ok(Self { file: Mutex::new(Some(file)) })
    }

    /// Adds a client.
    ///
    /// # Errors
    /// It could not be written, and is lost.
    pub fn add(&self, record: &AccountingRecord) -> io::Result<()> {
        let mut file = self.file.lock();
        let Some(file) = file.as_mut() else { return Ok(()) };
        let line = serde_json::to_string(record).map_err(io::Error::other)? + "\n";
        match file.write(&line)? {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::{ClientStatus, ClientWork, SubmittedCounts};
    use std::time::Duration;

    fn record(uid: u32, kernels: u64) -> AccountingRecord {
        AccountingRecord::new(
            9,
            EndedClient {
                status: ClientStatus {
                    uid,
                    pid: 5,
                    submitted: SubmittedCounts { kernels, bytes_in: 10, ..Default::default() },
                    work: Some(ClientWork { busy_ns: 7, ..Default::default() }),
                    command_line: "a \"b\"\n".into(),
                    ..Default::default()
                },
                began_ms: 1_000,
                wall_ms: 500,
                peak_memory_bytes: kernels << 20,
            },
        )
    }

    fn directory(name: &str) -> std::path::PathBuf {
        let directory = std::env::temp_dir().join(format!("openmps-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        directory
    }

    #[test]
    fn what_is_written_is_read_by_the_next_daemon() {
        let directory = directory("accounting");
        assert_eq!(read(&directory).unwrap(), []);
        for kernels in [1, 2] {
            Book::open(&directory).unwrap().add(&record(77777, kernels)).unwrap();
        }
        let file = directory.join(FILE_NAME);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.lines().count() == 2 && text.ends_with('\n'), "a record a line: {text:?}");
        // What a full disk has cut costs itself only.
        std::fs::write(&file, text + "{\"uid\": 4").unwrap();
        Book::open(&directory).unwrap().add(&record(77777, 5)).unwrap();
        assert_eq!(read(&directory).unwrap().last(), Some(&record(77777, 5)));
        std::fs::remove_file(&file).unwrap();
        for kernels in [1, 2] {
            Book::open(&directory).unwrap().add(&record(77777, kernels)).unwrap();
        }
        // A line that was torn costs itself only.
        std::fs::write(directory.join("accounting.jsonl.old"), "{\"uid\": 3").unwrap();
        let records = read(&directory).unwrap();
        assert_eq!(records, [record(77777, 1), record(77777, 2)]);
        assert_eq!(
            (records[0].began.as_str(), records[0].ended_ms()),
            ("1970-01-01T00:00:01Z", 1500)
        );
        let totals = by_user(&[records, vec![record(0, 4)]].concat());
        let of = |total: &Total| (total.uid, total.clients, total.kernels, total.wall_ms);
        assert_eq!(
            totals.iter().map(of).collect::<Vec<_>>(),
            [(0, 1, 4, 500), (77777, 2, 3, 1000)]
        );
        assert_eq!(totals[1].peak_memory_bytes, 2 << 20);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn clients_of_a_killed_server_are_written_down_with_what_is_known() {
        let client = |server, pid| UnderWay {
            server,
            pid,
            uid: 77777,
            device_uuid: "GPU-1".into(),
            command: "a b".into(),
            job: if pid == 5 { String::new() } else { format!("job {pid}") },
            began: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        };
        let mut present = Present::default();
        [client(1, 5), client(1, 6), client(2, 7)].into_iter().for_each(|c| present.enter(c));
        let other = |server, job| present.other_job_at(server, job).map(|of| of.pid);
        assert_eq!(
            [other(1, "job 6"), other(1, "job 7"), other(2, "job 7")],
            [None, Some(6), None]
        );
        present.leave(1, 5);
        let lost = present.server_ended(1, SystemTime::UNIX_EPOCH + Duration::from_secs(3));
        let of = |r: &AccountingRecord| (r.pid, r.uid, r.server, r.wall_ms, r.kernels, r.lost);
        assert_eq!(lost.iter().map(of).collect::<Vec<_>>(), [(6, 77777, 1, 2000, 0, true)]);
        assert_eq!(
            (lost[0].began.as_str(), lost[0].command.as_str()),
            ("1970-01-01T00:00:01Z", "a b")
        );
        assert_eq!(present.server_ended(1, SystemTime::now()), []);
        assert_eq!(present.server_ended(2, SystemTime::now()).len(), 1);
    }

    #[test]
    fn what_was_not_counted_is_marked() {
        let mut ended = EndedClient {
            status: ClientStatus::default(),
            began_ms: 0,
            wall_ms: 0,
            peak_memory_bytes: 0,
        };
        assert!(!AccountingRecord::new(9, ended.clone()).uncounted);
        ended.status.counts.uncounted = 1;
        assert!(AccountingRecord::new(9, ended).uncounted);
    }

    #[test]
    fn a_full_disk_costs_the_line_and_is_said() {
        let full = Bounded::open("/dev/full".into(), FILE_BYTES_MAX).unwrap();
        let book = Book { file: Mutex::new(Some(full)) };
        assert!(book.add(&record(1, 1)).is_err());
        assert!(Book::default().add(&record(1, 1)).is_ok(), "there is no file to write");
    }

    #[test]
    fn a_full_file_is_set_aside() {
        let directory = directory("accounting-rotated");
        let file = Bounded::open(directory.join(FILE_NAME), 1000).unwrap();
        let book = Book { file: Mutex::new(Some(file)) };
        (0..20).for_each(|number| book.add(&record(1, number)).unwrap());
        let kept = read(&directory).unwrap();
        assert!((2..20).contains(&kept.len()) && kept.last() == Some(&record(1, 19)));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
