//! Cgroups of version 2: where they are mounted, and which one a process is in.

use std::path::PathBuf;

/// Where cgroups of version 2 are mounted: what [`OPENMPS_CGROUP_ROOT`] says, else the first mount of that kind.
///
/// [`OPENMPS_CGROUP_ROOT`]: cuda_api::environment::OPENMPS_CGROUP_ROOT
pub(crate) fn cgroup_root() -> PathBuf {
    let named = std::env::var_os(cuda_api::environment::OPENMPS_CGROUP_ROOT);
    if let Some(named) = named.filter(|value| !value.is_empty()) {
        return PathBuf::from(named);
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut rows = mounts.lines().map(|line| line.split(' '));
    let found = rows.find_map(|mut row| {
        let (place, kind) = (row.nth(1)?, row.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    });
    found.unwrap_or_else(|| PathBuf::from("/sys/fs/cgroup"))
}

/// The cgroup of a process, of version 2: the path in its line `0::`.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_cgroup() {
        let own = cgroup_of(std::process::id());
        assert!(own.is_none_or(|path| path.starts_with('/')));
        assert_eq!(cgroup_of(0), None);
    }
}
