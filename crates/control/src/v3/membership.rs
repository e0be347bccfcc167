//! Membership: where a client counts that a server has, as the next daemon is to know it.

use channel::message::MemoryGroup;
use serde::{Deserialize, Serialize};

/// Where a client is that a server has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Membership {
    pub server: u32,
    pub client: u32,
    /// Number of the named server; 0: none.
    pub named: u32,
    pub namespace: String,
    /// ID of the static partition.
    pub partition: Option<String>,
    /// Its cgroup, with the soft and the hard limit, bytes.
    pub cgroup: Option<(String, u64, Option<u64>)>,
    /// The group of its namespace, likewise.
    pub namespace_memory: Option<(String, u64, Option<u64>)>,
    /// SMs of its partition that its server knows of, as first and end.
    pub sms: Option<(u32, u32)>,
}

impl Membership {
    /// The groups that its memory counts for: its namespace's and its cgroup's.
    pub fn groups(&self) -> impl Iterator<Item = MemoryGroup> {
        let all = [&self.namespace_memory, &self.cgroup].into_iter().flatten();
        all.map(|(name, soft_bytes, hard)| MemoryGroup {
            name: name.clone(),
            soft_bytes: *soft_bytes,
            hard_bytes: hard.unwrap_or(u64::MAX),
        })
    }

    /// Notes other limits of a group of its.
    pub fn set_group(&mut self, group: &MemoryGroup) {
        let all = [&mut self.namespace_memory, &mut self.cgroup].into_iter().flatten();
        for of in all.filter(|of| of.0 == group.name) {
            *of = Self::of_group(group);
        }
    }

    pub fn of_group(group: &MemoryGroup) -> (String, u64, Option<u64>) {
        let hard = Some(group.hard_bytes).filter(|bytes| *bytes < u64::MAX);
        (group.name.clone(), group.soft_bytes, hard)
    }
}
