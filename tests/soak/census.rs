//! What a process has of the system: descriptors, threads, memory.

use std::fmt;

/// A process's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
    /// Memory that is its alone, KiB: without files and shared memory.
    pub memory_kib: u64,
}

/// Memory may grow by this much before it counts as lost, KiB: code that is kept for the next client, and
/// what lies between pieces of it in the allocator's pools. Free pages are given back at each rest.
const MEMORY_SLACK_KIB: u64 = 32 << 10;

impl Census {
    /// Of a process; `None` if it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
            threads: number("Threads")? as usize,
            memory_kib: number("RssAnon")?,
        })
    }

    /// True if nothing is left of what came since `before`.
    pub fn is_back(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.memory_kib <= before.memory_kib + MEMORY_SLACK_KIB
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { descriptors, threads, memory_kib } = self;
        write!(f, "{descriptors} descriptors, {threads} threads, {} MiB", memory_kib >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_opens_is_seen_and_what_is_gone_is_told() {
        let pid = std::process::id();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let with = Census::of(pid).unwrap();
        let memory = vec![1u8; 256 << 20];
        let with_memory = Census::of(pid).unwrap();
        assert!(with_memory.memory_kib >= with.memory_kib + (200 << 10));
        assert!(!with_memory.is_back(&with));
        drop((memory, files));
        let without = Census::of(pid).unwrap();
        // Other tests of this process may have opened some of their own.
        assert!(without.descriptors < with.descriptors);
        assert_eq!(Census::of(u32::MAX), None);
    }
}
