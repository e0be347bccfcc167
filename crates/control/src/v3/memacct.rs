//! Memory accounting of protocol 3: soft and hard limits of cgroups' device memory, and which
//! client is ended for others.
//!
//! Up to its soft limit a cgroup gets memory even where the device is full: a client of another one that
//! has more than its own soft limit is ended for it. More than its hard limit it does not get.

use channel::message::MemoryGroup;
use cuda_api::settings::names_device;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Cgroups with limits.
const LIMITS_MAX: usize = 4096;

/// Limits of a cgroup on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CgroupLimit {
    /// The cgroup's path, as in /proc/PID/cgroup; it holds for those below too.
    pub cgroup: String,
    /// The device, by number, UUID or the beginning of one; none: each.
    pub device: Option<String>,
    pub soft_bytes: u64,
    /// `u64::MAX`: as much as there is.
    pub hard_bytes: u64,
}

/// A client of a server's process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    process: u32,
    client: u32,
    group: MemoryGroup,
}

/// A client that could be ended for others' sake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its server's process.
    pub process: u32,
    /// Its PID here; 0 if it has none.
    pub pid: u32,
    /// Its number in its server.
    pub id: u32,
    pub memory_bytes: u64,
}

/// Whether a group has any limit.
pub(crate) fn is_limited(group: &MemoryGroup) -> bool {
    (group.soft_bytes, group.hard_bytes) != (0, u64::MAX)
}

/// All limits, and whose clients are in which cgroup.
#[derive(Debug, Default)]
pub(crate) struct Memacct {
    limits: Vec<CgroupLimit>,
    members: Vec<Member>,
    /// An eviction is in flight.
    pub evicting: bool,
}

impl Memacct {
    /// Sets limits of a cgroup; none of either takes them away.
    pub fn set(&mut self, limit: CgroupLimit) -> Result<(), String> {
        let same = |of: &CgroupLimit| (&of.cgroup, &of.device) == (&limit.cgroup, &limit.device);
        self.limits.retain(|of| !same(of));
        if (limit.soft_bytes, limit.hard_bytes) == (0, u64::MAX) {
            return Ok(());
        }
        if self.limits.len() >= LIMITS_MAX {
            return Err(format!("{LIMITS_MAX} cgroups have limits already"));
        }
        self.limits.push(limit);
        Ok(())
    }

    /// All limits.
    pub fn limits(&self) -> &[CgroupLimit] {
        &self.limits
    }

    /// The limits of a process's cgroup on a device: those of the cgroup that is nearest to it.
    pub fn group_of(&self, cgroup: &str, (ordinal, uuid): (u32, &str)) -> Option<MemoryGroup> {
        let is_below = |of: &CgroupLimit| {
            let rest = cgroup.strip_prefix(of.cgroup.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let here = |of: &CgroupLimit| {
            of.device.as_ref().is_none_or(|word| names_device(word, ordinal, uuid))
        };
        let known = self.limits.iter().filter(|of| is_below(of) && here(of));
        let nearest = known.max_by_key(|of| (of.cgroup.len(), of.device.is_some()))?;
        Some(MemoryGroup {
            name: nearest.cgroup.clone(),
            soft_bytes: nearest.soft_bytes,
            hard_bytes: nearest.hard_bytes,
        })
    }

    /// A client has gone to a server's process.
    pub fn enter(&mut self, process: u32, client: u32, group: MemoryGroup) {
        self.members.push(Member { process, client, group });
    }

    /// A client is gone.
    pub fn leave(&mut self, process: u32, client: u32) {
        // It is once in each of its groups.
        let mut left = BTreeSet::new();
        self.members.retain(|of| {
            (of.process, of.client) != (process, client) || !left.insert(of.group.name.clone())
        });
    }

    /// A group has other limits.
    pub fn change(&mut self, process: u32, client: u32, group: &MemoryGroup) {
        let of = |of: &Member| (of.process, of.client) == (process, client);
        self.members.retain(|member| !of(member) || member.group.name != group.name);
        if is_limited(group) {
            self.enter(process, client, group.clone());
        }
    }

    /// A server's process has ended, with its clients.
    pub fn forget_server(&mut self, process: u32) {
        self.members.retain(|member| member.process != process);
    }

    /// The group of a client; of several the one with a guarantee.
    pub fn group(&self, process: u32, client: u32) -> Option<&MemoryGroup> {
        let wanted = |of: &&Member| (of.process, of.client) == (process, client);
        let groups = self.members.iter().filter(wanted).map(|member| &member.group);
        groups.max_by_key(|group| group.soft_bytes)
    }

    /// The client that is ended so that another gets memory: of the group that is furthest beyond
    /// its soft limit the client with the most; a client without limits is a group of its own, with
    /// nothing that is promised to it. Never one of the group that wants.
    pub fn victim<'a>(&self, wants: &MemoryGroup, all: &'a [Candidate]) -> Option<&'a Candidate> {
        let mut beyond: BTreeMap<(String, u32, u32), (u64, u64, &Candidate)> = BTreeMap::new();
        for candidate in all.iter().filter(|candidate| candidate.memory_bytes > 0) {
            let group = self.group(candidate.process, candidate.pid);
            if group.is_some_and(|group| group.name == wants.name) {
                continue;
            }
            let key = match group {
                Some(group) => (group.name.clone(), 0, 0),
                None => (String::new(), candidate.process, candidate.id),
            };
            let soft = group.map_or(0, |group| group.soft_bytes);
            let row = beyond.entry(key).or_insert((soft, 0, candidate));
            row.1 = row.1.saturating_add(candidate.memory_bytes);
            if candidate.memory_bytes > row.2.memory_bytes {
                row.2 = candidate;
            }
        }
        let rows = beyond.into_values().filter(|(soft, used, _)| used > soft);
        rows.max_by_key(|(soft, used, _)| used - soft).map(|(_, _, candidate)| candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(cgroup: &str, device: Option<&str>, soft_bytes: u64) -> CgroupLimit {
        let device = device.map(str::to_owned);
        CgroupLimit { cgroup: cgroup.into(), device, soft_bytes, hard_bytes: 1000 }
    }

    #[test]
    fn the_nearest_cgroup_s_limits_hold() {
        let mut memacct = Memacct::default();
        for of in [limit("/a", None, 1), limit("/a/b", None, 2), limit("/a/b", Some("1"), 3)] {
            memacct.set(of).unwrap();
        }
        let soft = |memacct: &Memacct, cgroup: &str, ordinal| {
            memacct.group_of(cgroup, (ordinal, "GPU-00")).map(|group| group.soft_bytes)
        };
        assert_eq!(soft(&memacct, "/a", 0), Some(1));
        assert_eq!(soft(&memacct, "/a/c", 0), Some(1));
        assert_eq!((soft(&memacct, "/a/b/c", 0), soft(&memacct, "/a/b", 1)), (Some(2), Some(3)));
        assert_eq!((soft(&memacct, "/ab", 0), soft(&memacct, "/", 0)), (None, None));
        memacct.set(CgroupLimit { hard_bytes: u64::MAX, ..limit("/a", None, 0) }).unwrap();
        assert_eq!((soft(&memacct, "/a", 0), memacct.limits().len()), (None, 2));
    }

    #[test]
    fn the_one_furthest_beyond_its_soft_limit_is_ended_and_never_one_s_own() {
        let mut memacct = Memacct::default();
        let group = |name: &str, soft_bytes| MemoryGroup {
            name: name.into(),
            soft_bytes,
            hard_bytes: 1000,
        };
        for (client, name, soft) in [(1, "/a", 100), (2, "/b", 50), (3, "/b", 50), (4, "/c", 500)] {
            memacct.enter(7, client, group(name, soft));
        }
        let row = |pid, memory_bytes| Candidate { process: 7, pid, id: pid, memory_bytes };
        let victim = |wants: &str, rows: &[Candidate]| {
            memacct.victim(&group(wants, 0), rows).map(|candidate| candidate.pid)
        };
        let rows = [row(1, 90), row(2, 60), row(3, 70), row(4, 400)];
        assert_eq!(victim("/a", &rows), Some(3), "of /b, which has 130 of 50, the largest");
        assert_eq!(victim("/b", &rows), None, "the others are within theirs");
        assert_eq!(victim("/b", &[row(1, 101), row(4, 500)]), Some(1));
        assert_eq!(victim("/a", &[row(9, 81), row(2, 60), row(3, 70)]), Some(9), "without limits");
        assert_eq!(victim("/a", &[row(9, 0)]), None, "has nothing");
        memacct.leave(7, 3);
        assert_eq!(memacct.group(7, 3), None);
        memacct.forget_server(7);
        assert_eq!(memacct.group(7, 1), None);
    }
}
