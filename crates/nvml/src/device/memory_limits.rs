//! Limits of cgroups' device memory, which this user's daemon keeps.

use super::daemon_directory;
use crate::status::{Answer, Failure};
use control::directory::PipeDirectory;
use control::locate;
use control::report::{CgroupMemory, Report};
use control::shell::{Shell, ShellError};
use cuda_api::settings::names_device;
use std::path::Path;

/// What a cgroup may have and has, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimits {
    /// 0: none.
    pub(crate) soft: u64,
    /// `u64::MAX`: none.
    pub(crate) hard: u64,
    pub(crate) used: u64,
}

/// Sets the limits of the cgroup of that directory on the device of that UUID, and has the daemon account
/// for memory unless it was set not to. NOT_SUPPORTED without a daemon of protocol 3, NO_PERMISSION for
/// others than its owner, INVALID_STATE if it was set not to.
pub(crate) fn set(uuid: &str, directory: &str, soft: u64, hard: u64) -> Answer {
    let cgroup = cgroup(directory)?;
    let state = ask("memacct describe --format=csv,noheader")?;
    let state = state.lines().find_map(|line| line.strip_prefix("state,")).unwrap_or_default();
    if state == "disabled" {
        return Err(Failure::INVALID_STATE);
    }
    let size = |bytes: u64, none: u64| match bytes == none {
        true => "none".to_owned(),
        false => format!("{bytes}B"),
    };
    let (soft, hard) = (size(soft, 0), size(hard, u64::MAX));
    ask(&format!(
        "memacct limit {cgroup} --device={uuid} --soft-limit={soft} --hard-limit={hard}"
    ))?;
    match state.starts_with("enabled") {
        true => Ok(()),
        false => ask("feature enable memacct").map(drop),
    }
}

/// The limits of the cgroup of that directory, or of the nearest above it that has some, and what its
/// programs have. NOT_SUPPORTED without a daemon of protocol 3.
pub(crate) fn get((ordinal, uuid): (u32, &str), directory: &str) -> Answer<MemoryLimits> {
    let cgroup = cgroup(directory)?;
    let report = locate::report(&daemon_directory()).ok_or(Failure::NOT_SUPPORTED)?;
    if report.protocol != 3 {
        return Err(Failure::NOT_SUPPORTED);
    }
    let nearest = nearest(&report.cgroup_limits, &cgroup, (ordinal, uuid));
    let used = used(&report, &cgroup, uuid, |pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    });
    Ok(match nearest {
        Some(of) => {
            MemoryLimits { soft: of.soft_bytes, hard: of.hard_bytes.unwrap_or(u64::MAX), used }
        }
        None => MemoryLimits { soft: 0, hard: u64::MAX, used },
    })
}

fn nearest<'a>(
    limits: &'a [CgroupMemory],
    cgroup: &str,
    (ordinal, uuid): (u32, &str),
) -> Option<&'a CgroupMemory> {
    let here =
        |of: &CgroupMemory| of.device.as_ref().is_none_or(|word| names_device(word, ordinal, uuid));
    let known = limits.iter().filter(|of| is_at_or_below(cgroup, &of.cgroup) && here(of));
    known.max_by_key(|of| (of.cgroup.len(), of.device.is_some()))
}

/// Memory of the cgroup's programs on a device, those below it included.
fn used(
    report: &Report,
    cgroup: &str,
    uuid: &str,
    cgroup_of: impl Fn(u32) -> Option<String>,
) -> u64 {
    let clients = report.servers.iter().flat_map(|server| &server.clients);
    let here = clients.filter(|of| of.device_uuid.is_empty() || of.device_uuid == uuid);
    let own = here.filter(|of| {
        of.pid.and_then(&cgroup_of).is_some_and(|found| is_at_or_below(&found, cgroup))
    });
    own.map(|client| client.memory_bytes).sum()
}

fn is_at_or_below(cgroup: &str, above: &str) -> bool {
    let rest = cgroup.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cgroup of a directory, as in /proc/PID/cgroup. NOT_FOUND if there is no such directory,
/// INVALID_ARGUMENT if it is no cgroup's of version 2.
fn cgroup(directory: &str) -> Answer<String> {
    let mounts = std::fs::read_to_string("/proc/mounts").map_err(|_| Failure::NOT_SUPPORTED)?;
    let directory = std::fs::canonicalize(directory).map_err(|_| Failure::NOT_FOUND)?;
    path_in(&mounts, &directory).ok_or(Failure::INVALID_ARGUMENT)
}

fn path_in(mounts: &str, directory: &Path) -> Option<String> {
    let mut rows = mounts.lines().map(|line| line.split(' '));
    let mount = rows.find_map(|mut row| {
        let (place, kind) = (row.nth(1)?, row.next()?);
        (kind == "cgroup2").then_some(place)
    })?;
    let rest = directory.strip_prefix(mount).ok()?.to_str()?;
    // A command's words are parted by spaces.
    (!rest.contains(char::is_whitespace)).then(|| format!("/{rest}"))
}

/// A command's output.
fn ask(line: &str) -> Answer<String> {
    let shell = Shell::new(PipeDirectory::new(daemon_directory()));
    match shell.with_patience(locate::ANSWER).ask(line) {
        Ok((text, 0)) => Ok(text),
        Ok((text, _)) if text.contains(" is only for ") => Err(Failure::NO_PERMISSION),
        Ok((text, _)) if text.starts_with("Unknown command") => Err(Failure::NOT_SUPPORTED),
        Ok(_) => Err(Failure::INVALID_ARGUMENT),
        Err(ShellError::NoPermission(_)) => Err(Failure::NO_PERMISSION),
        Err(ShellError::Silent(_) | ShellError::ServerSilent) => Err(Failure::TIMEOUT),
        Err(_) => Err(Failure::NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_cgroup_s() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let path = |directory: &str| path_in(mounts, Path::new(directory));
        assert_eq!(path("/sys/fs/cgroup/a/b").as_deref(), Some("/a/b"));
        assert_eq!(path("/sys/fs/cgroup").as_deref(), Some("/"));
        assert_eq!((path("/sys/fs/cgroups"), path("/sys/fs/cgroup/a b")), (None, None));
        assert_eq!(path_in("proc /proc proc rw 0 0\n", Path::new("/proc")), None);
        assert_eq!(cgroup("/nowhere/at/all"), Err(Failure::NOT_FOUND));
    }

    #[test]
    fn the_nearest_limits_are_a_cgroup_s() {
        let limit = |cgroup: &str, device: Option<&str>, soft_bytes| CgroupMemory {
            cgroup: cgroup.to_owned(),
            device: device.map(str::to_owned),
            soft_bytes,
            hard_bytes: None,
        };
        let all = [limit("/a", None, 1), limit("/a/b", None, 2), limit("/a/b", Some("GPU-01"), 3)];
        let soft =
            |cgroup, ordinal, uuid| nearest(&all, cgroup, (ordinal, uuid)).map(|of| of.soft_bytes);
        assert_eq!(soft("/a/c", 0, "GPU-0000"), Some(1));
        assert_eq!(
            (soft("/a/b/c", 0, "GPU-0000"), soft("/a/b", 0, "GPU-0123")),
            (Some(2), Some(3))
        );
        assert_eq!(soft("/ab", 0, "GPU-0000"), None);
    }
}
