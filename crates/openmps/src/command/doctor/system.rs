//! The machine around it: daemon, directories, limits.

use super::Finding;
use channel::userfaultfd::{Protects, open};
use control::daemon::DESCRIPTORS_WANTED;
use control::report::Report;
use control::status::ListedDevice;
use cuda_api::environment::CUDA_MPS_SM_PARTITION;
use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use rustix::process::{Resource, getrlimit, getuid};
use std::path::Path;

/// Shared memory that one client's region takes, bytes, rounded up.
const SHARED_BYTES_WANTED: u64 = 64 << 20;
/// What has to fit into a directory to be of use, bytes: first logs, some kernels' native code.
const DIRECTORY_BYTES_WANTED: u64 = 1 << 20;

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![daemon()];
    findings.extend(daemons_own());
    findings.extend(shared_memory());
    findings.extend(descriptors());
    findings.extend(addresses());
    findings.extend(getrlimit(Resource::Fsize).current.map(file_sizes));
    findings.push(userfaultfd());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let waits = if cores < 4 { ", so waiting programs sleep instead of spinning" } else { "" };
    findings.push(Finding::ok("cores", format!("{cores}{waits}")));
    findings
}

fn daemon() -> Finding {
    let control::locate::Place { directory, why } = control::locate::place();
    let topic = "daemon";
    match crate::daemon::state(&directory) {
        crate::daemon::State::Running { version } => {
            Finding::ok(topic, format!("running in {} ({why}), {version}", directory.display()))
        }
        crate::daemon::State::None => match obstacle_to_files(&directory) {
            Some(obstacle) => Finding::problem(
                topic,
                format!("none in {}, and none can be started: {obstacle}", directory.display()),
                "make room, or set CUDA_MPS_PIPE_DIRECTORY to another directory",
            ),
            None if directory.starts_with("/tmp") && has_private_tmp() => Finding::warning(
                topic,
                format!(
                    "none in {}, and /tmp is private to this job or service: a daemon in the machine's /tmp is not \
                     seen here",
                    directory.display()
                ),
                "start the daemon with CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps, in a batch system's prolog; programs \
                 look there too",
            ),
            None => Finding::ok(
                topic,
                format!(
                    "none in {}: programs run without sharing until `openmps up` or `openmps run`",
                    directory.display()
                ),
            ),
        },
        crate::daemon::State::Foreign { reason } => Finding::problem(
            topic,
            format!("no daemon can be had in {}: {reason}", directory.display()),
            "set CUDA_MPS_PIPE_DIRECTORY to another directory",
        ),
    }
}

/// Whether this process's /tmp is another one than the machine's, as Slurm's job_container/tmpfs and systemd's PrivateTmp
/// make it: a directory that is mounted there.
fn has_private_tmp() -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| is_private_tmp(&mounts))
}

/// The same, of the text of mountinfo: ID, parent, device, the directory of its file system, where it is mounted.
fn is_private_tmp(mounts: &str) -> bool {
    let fields = |line: &str| {
        let mut fields = line.split(' ').skip(3).map(str::to_owned);
        Some((fields.next()?, fields.next()?))
    };
    let mut at_tmp = mounts.lines().filter_map(fields).filter(|(_, place)| place == "/tmp");
    // The last one covers those before it.
    at_tmp.next_back().is_some_and(|(directory, _)| directory != "/")
}

/// What the daemon itself finds wrong with its environment and its limits.
fn daemons_own() -> Vec<Finding> {
    let directory = crate::daemon::pipe_directory();
    let Ok(Some(report)) = crate::daemon::ask(&directory) else { return Vec::new() };
    let mut findings: Vec<Finding> = Vec::new();
    if let Some(most) = report.descriptors_max {
        findings.push(Finding::ok("daemon", format!("it may have {most} files open")));
    }
    for client in report.servers.iter().flat_map(|server| &server.clients) {
        if let (Some(pid), Some(limits)) = (client.pid, client.limits.text()) {
            findings.push(Finding::ok("daemon", format!("it limits program {pid}: {limits}")));
        }
    }
    findings.extend(devices(&report));
    findings.extend(super::topology::findings(&report.devices));
    findings.push(users(&report));
    findings.extend(partitions(&report, std::env::var(CUDA_MPS_SM_PARTITION).ok().as_deref()));
    findings.extend(report.problems.iter().map(|problem| {
        Finding::problem(
            "daemon",
            problem,
            "control.log and server.log say more; programs may have to run alone",
        )
    }));
    // Another user's rights are not the daemon's.
    let is_mine = report.uid == rustix::process::geteuid().as_raw();
    findings.extend(report.log_directory.as_deref().filter(|_| is_mine).and_then(room_for_logs));
    if report.counters.log_lines_lost > 0 {
        let lost = report.counters.log_lines_lost;
        findings.push(Finding::warning(
            "logs",
            format!("the daemon could not write {lost} lines since its start"),
            "make room where its logs are",
        ));
    }
    findings.extend(report.warnings.iter().map(|warning| {
        Finding::warning("daemon", warning, "that is how the daemon was started; start it anew")
    }));
    findings
}

/// The daemon's devices, which need not be those that a program has by itself.
fn devices(report: &Report) -> Vec<Finding> {
    let of_servers = report.servers.iter().flat_map(|server| &server.devices);
    let device = |device: &ListedDevice| {
        let counts = of_servers.clone().find(|of| of.uuid == device.uuid).unwrap_or(device).counts;
        let (ordinal, name) = (device.ordinal, &device.name);
        let (sms, mib) = (counts.sms, counts.memory_bytes >> 20);
        Finding::ok("daemon", format!("its device {ordinal}: {name}, {mib} MiB, {sms} SMs"))
    };
    report.devices.iter().map(device).collect()
}

/// Whose programs a daemon serves: containers and pods run as users of their own.
fn users(report: &Report) -> Finding {
    let owner = control::users::name(report.uid);
    match (report.protocol, report.multiuser, report.uid) {
        (_, true, _) => {
            Finding::ok("daemon", "it serves programs of all users by the same servers (-m)")
        }
        (3, false, _) => Finding::warning(
            "daemon",
            format!(
                "it was started without -m: a server serves its own user alone, {owner} unless --uid names \
                 another, and pods of other UIDs are refused"
            ),
            "where containers share the device, root starts it by `nvidia-cuda-mps-control -d -p 3 -m`",
        ),
        (_, false, 0) => {
            Finding::ok("daemon", "it serves programs of all users, each by servers of its own")
        }
        (_, false, _) => Finding::ok("daemon", format!("it serves programs of {owner} alone")),
    }
}

/// That a daemon gives SMs out in partitions only, which a program has to name.
fn partitions(report: &Report, named: Option<&str>) -> Option<Finding> {
    if !report.static_partitions {
        return None;
    }
    Some(match named.filter(|name| !name.is_empty()) {
        Some(name) => {
            Finding::ok("daemon", format!("it gives SMs out in static partitions (-S): {name}"))
        }
        None => Finding::problem(
            "daemon",
            "it gives SMs out in static partitions only (-S): programs that name none are refused (915)",
            format!(
                "set {CUDA_MPS_SM_PARTITION}; `nvidia-cuda-mps-control lspart` lists partitions"
            ),
        ),
    })
}

/// That the daemon's lines are lost, if it has no room for them: a full disk keeps no program from running, and its
/// own log is where it would say so.
fn room_for_logs(directory: &Path) -> Option<Finding> {
    let obstacle = obstacle_to_files(directory)?;
    Some(Finding::warning(
        "logs",
        format!("lines of control.log, server.log and accounting.jsonl are lost: {obstacle}"),
        "make room, or start the daemon with another CUDA_MPS_LOG_DIRECTORY",
    ))
}

/// Why this user cannot put files into a directory, which may yet have to be made; nothing if
/// they can.
pub(super) fn obstacle_to_files(directory: &Path) -> Option<String> {
    let existing = directory.ancestors().find(|path| path.exists())?;
    if !existing.is_dir() {
        return Some(format!("{} is no directory", existing.display()));
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = accessat(CWD, existing, access, AtFlags::EACCESS) {
        return Some(format!("{} cannot be written to: {error}", existing.display()));
    }
    let free = free_bytes(existing)?;
    (free < DIRECTORY_BYTES_WANTED)
        .then(|| format!("{} has {} KiB left", existing.display(), free >> 10))
}

/// What this user can still write to the file system of `path`, bytes.
fn free_bytes(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

fn shared_memory() -> Option<Finding> {
    let path = Path::new("/dev/shm");
    let free = free_bytes(path)?;
    Some(if free < SHARED_BYTES_WANTED {
        Finding::warning(
            "memory",
            format!("{} has {} MiB left", path.display(), free >> 20),
            "processes of the software GPU meet there; OPENMPS_SOFT_DIR names another directory",
        )
    } else {
        Finding::ok("memory", format!("{} MiB left in {}", free >> 20, path.display()))
    })
}

/// Says that the address space is limited, if it is: clients and servers reserve windows in it of
/// hundreds of GiB each, of which only what is used takes memory.
fn addresses() -> Option<Finding> {
    let limit = getrlimit(Resource::As).current?;
    Some(Finding::problem(
        "limits",
        format!("{} MiB of addresses a process", limit >> 20),
        "programs cannot be clients of a daemon: ulimit -v unlimited",
    ))
}

/// Says that files are limited to `bytes`: memory that a program shares with its server counts as a file.
fn file_sizes(bytes: u64) -> Finding {
    let (topic, text) = ("limits", format!("{} MiB a file", bytes >> 20));
    match bytes < SHARED_BYTES_WANTED {
        true => Finding::problem(
            topic,
            text,
            "programs cannot be clients of a daemon: ulimit -f unlimited",
        ),
        false => Finding::warning(
            topic,
            text,
            "a program's pinned or managed memory cannot be larger in one piece: ulimit -f unlimited",
        ),
    }
}

fn userfaultfd() -> Finding {
    registered_memory(open(Protects::Private).is_some(), open(Protects::Shared).is_some())
}

/// How memory is registered that a program with several threads has: `private` and `shared` pages can be
/// protected by userfaultfd.
fn registered_memory(private: bool, shared: bool) -> Finding {
    let topic = "memory";
    match (private, shared) {
        (true, true) => {
            Finding::ok(topic, "userfaultfd works: memory of threaded programs is registered")
        }
        (true, false) => Finding::ok(
            topic,
            "userfaultfd works, but not for shared pages (Linux before 5.19): memory of threaded programs \
             is registered once; what was unregistered is registered again by name only",
        ),
        (false, _) => Finding::warning(
            topic,
            "no userfaultfd: memory that programs with several threads register (cuMemHostRegister) has no \
             address on the device, and its copies are staged",
            "Linux 5.7 or later has it; where seccomp forbids userfaultfd (containers), allow it",
        ),
    }
}

fn descriptors() -> Option<Finding> {
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    Some(if soft < DESCRIPTORS_WANTED && !getuid().is_root() && limit.maximum == limit.current {
        Finding::warning(
            "limits",
            format!("{soft} open files a process"),
            format!("many clients need more: ulimit -n {DESCRIPTORS_WANTED}"),
        )
    } else {
        Finding::ok("limits", format!("{soft} open files a process"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn a_private_tmp_is_a_directory_that_is_mounted_there() {
        let whole = "23 1 0:21 / / rw - ext4 /dev/vda rw\n30 23 0:30 / /tmp rw - tmpfs tmpfs rw\n";
        assert!(!is_private_tmp(whole) && !is_private_tmp("") && !is_private_tmp("nonsense"));
        let of_job = format!("{whole}41 30 0:21 /var/slurm/7/.7 /tmp rw - ext4 /dev/vda rw\n");
        assert!(is_private_tmp(&of_job));
    }

    #[test]
    fn a_limit_of_files_is_a_problem_where_no_client_can_be() {
        let (small, large) = (file_sizes(1 << 20), file_sizes(100 << 20));
        assert!(small.severity == Severity::Problem && large.severity == Severity::Warning);
        assert!(small.text.contains("1 MiB") && large.text.contains("100 MiB"));
    }

    #[test]
    fn what_userfaultfd_offers_is_said() {
        let of = |private, shared| registered_memory(private, shared);
        assert!(
            of(true, true).severity == Severity::Ok && of(true, false).severity == Severity::Ok
        );
        assert!(of(true, false).text.contains("5.19"));
        let without = of(false, false);
        assert!(without.severity == Severity::Warning && without.text.contains("no userfaultfd"));
    }

    #[test]
    fn logs_that_cannot_be_written_are_said() {
        let finding = room_for_logs(Path::new("/proc/self/cmdline/logs")).expect("a finding");
        assert!(finding.topic == "logs" && finding.severity == Severity::Warning);
        assert!(finding.text.contains("/proc/self/cmdline is no directory"), "{}", finding.text);
        assert!(room_for_logs(&std::env::temp_dir()).is_none());
    }

    #[test]
    fn a_daemon_s_devices_and_partitions_are_judged() {
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"static_partitions":true,"servers":[],"devices":[{"ordinal":0,
            "pci":"0","uuid":"GPU-0","name":"software GPU","counts":{"sms":16}}]}"#;
        let report: Report = serde_json::from_str(text).expect("a report");
        assert!(devices(&report)[0].text.ends_with("16 SMs"));
        assert!(users(&report).text.contains("each by servers of its own"));
        let third = Report { protocol: 3, ..report.clone() };
        let alone = users(&third);
        assert!(alone.severity == Severity::Warning && alone.text.contains("pods of other UIDs"));
        assert!(alone.advice.contains("-p 3 -m"), "{}", alone.advice);
        assert!(users(&Report { multiuser: true, ..third }).severity == Severity::Ok);
        assert!(users(&Report { uid: 4_000_001, ..report.clone() }).text.contains("alone"));
        let without = partitions(&report, None).expect("a finding");
        assert!(without.severity == Severity::Problem && without.text.contains("915"));
        let with = partitions(&report, Some("GPU-0/EABA")).expect("a finding");
        assert!(with.severity == Severity::Ok);
        assert!(partitions(&Report { static_partitions: false, ..report }, None).is_none());
    }
}
