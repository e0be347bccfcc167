//! What a client may have (device memory, SMs, priority) and who said so.
//!
//! Set when the client comes and by the main thread while it runs; the session takes over what it
//! has to act on when it looks up from its ring.

use crate::account::{Groups, MemoryAccount};
use crate::device::{SmCount, SmLease, SmPlaces};
use channel::message::{ClientLimits, MemoryGroup, SetBy, Settings};
use cuda_api::settings::{Percentage, Priority};
use locks::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A client's limits.
pub struct SessionLimits {
    /// Its device memory.
    pub memory: Arc<MemoryAccount>,
    /// Memory of the machine that the server holds for it: pinned, and of graphs.
    pub host: Arc<MemoryAccount>,
    places: Arc<SmPlaces>,
    now: Mutex<Now>,
    /// SMs that it was given at first, and by whom.
    given: (u32, SetBy),
    queues: u32,
    /// Grows with each change of what a session has to act on.
    version: AtomicU32,
}

struct Now {
    /// The memory that it may have by itself, bytes, and by whom.
    memory: Option<(u64, SetBy)>,
    /// The groups that its memory counts for, and their accounts.
    groups: Vec<(MemoryGroup, Arc<MemoryAccount>)>,
    /// SMs that it was given, which SMs these are, and by whom.
    sms: (u32, SmLease, SetBy),
    priority: (Priority, SetBy),
}

impl Now {
    /// The memory that it may have, bytes, and by whom: a group's limit is what each of its clients is shown, if that
    /// is less than its own.
    fn memory_bytes(&self) -> Option<(u64, SetBy)> {
        let of_groups = self.groups.iter().map(|(of, _)| of.hard_bytes).min();
        let of_groups = of_groups.filter(|bytes| *bytes < u64::MAX);
        match (self.memory, of_groups) {
            (Some((bytes, by)), Some(of_groups)) if bytes <= of_groups => Some((bytes, by)),
            (_, Some(of_groups)) => Some((of_groups, SetBy::Server)),
            (own, None) => own,
        }
    }
}

/// On what terms a client's kernels run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its SMs, if they are not all.
    pub sms: Option<Range<u32>>,
    /// SMs of the device.
    pub sms_of_device: u32,
    /// Its priority.
    pub priority: Priority,
    /// Queues that its streams share; 0: each has its own.
    pub queues: u32,
}

impl Terms {
    /// The device's SMs that a client means which numbers its own from 0: as far as they are in its
    /// share, which may have changed; all of that if none is.
    pub fn within(&self, own: Range<u32>) -> Range<u32> {
        let share = self.sms.clone().unwrap_or(0..self.sms_of_device);
        let first = share.start.saturating_add(own.start);
        let end = share.start.saturating_add(own.end).min(share.end);
        if first < end { first..end } else { share }
    }

    /// The provider's priority of a stream for which the client asks one, where streams are all that
    /// has any: those of clients below normal are behind all others, so these leave the last one.
    pub fn stream_priority(&self, asked: i32, least: i32, greatest: i32) -> i32 {
        match self.priority {
            _ if least <= greatest => asked,
            Priority::BelowNormal => least,
            Priority::Normal => asked.min(least - 1),
        }
    }

    /// By how much launches are less urgent than their streams say, where a client has a priority.
    pub fn less_urgent(&self, least: i32, greatest: i32) -> i32 {
        match self.priority {
            Priority::Normal => 0,
            Priority::BelowNormal => least.saturating_sub(greatest).saturating_add(1),
        }
    }
}

impl SessionLimits {
    /// Those of a client that has come, on the device with that number and UUID.
    pub fn new(
        settings: &Settings,
        (ordinal, uuid): (u32, &str),
        places: &Arc<SmPlaces>,
        groups: &Groups,
        host: Arc<MemoryAccount>,
    ) -> Self {
        let all = settings.group.iter().chain(&settings.namespace);
        let now_groups: Vec<(MemoryGroup, Arc<MemoryAccount>)> =
            all.map(|group| (group.clone(), groups.account(group))).collect();
        let (share, by) = settings.share;
        let sms = share.sms(places.count().all, places.count().step);
        let lease = match settings.partition {
            Some((first, end)) => {
                places.take_these(first..end).unwrap_or_else(|_| places.take(sms))
            }
            None => places.take(sms),
        };
        let sms = lease.sms().len() as u32;
        let now = Now {
            memory: settings.memory_of(ordinal, uuid),
            groups: now_groups,
            sms: (sms, lease, by),
            priority: settings.priority,
        };
        let of_groups = now.groups.iter().map(|(of, account)| (account.clone(), of.soft_bytes));
        Self {
            memory: MemoryAccount::of_groups(
                now.memory_bytes().map_or(u64::MAX, |of| of.0),
                of_groups,
            ),
            host,
            places: places.clone(),
            now: Mutex::new(now),
            given: (sms, by),
            queues: settings.connections,
            version: AtomicU32::new(1),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock()
    }

    /// As a report has them.
    pub fn report(&self) -> ClientLimits {
        let now = self.now();
        ClientLimits {
            memory: now.memory_bytes(),
            sms: (now.sms.0, now.sms.2),
            sms_of_device: self.places.count().all,
            priority: now.priority,
        }
    }

    /// SMs that its kernels may have.
    pub fn sms(&self) -> u32 {
        self.now().sms.0
    }

    /// Its priority.
    pub fn priority(&self) -> Priority {
        self.now().priority.0
    }

    /// On what terms its kernels run.
    pub fn terms(&self) -> Terms {
        let now = self.now();
        Terms {
            sms: (!now.sms.1.is_all()).then(|| now.sms.1.sms()),
            sms_of_device: self.places.count().all,
            priority: now.priority.0,
            queues: self.queues,
        }
    }

    /// Changes with everything that a session has to act on.
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Another limit of memory; `None`: all that there is.
    pub fn set_memory(&self, bytes: Option<u64>) {
        let mut now = self.now();
        now.memory = bytes.map(|bytes| (bytes, SetBy::Live));
        self.memory.set_limit(now.memory_bytes().map_or(u64::MAX, |(bytes, _)| bytes));
    }

    /// Other limits of a group that it is in; false if it is in none of that name. What is charged stays charged.
    pub fn set_group(&self, group: &MemoryGroup) -> bool {
        let mut now = self.now();
        let found = now.groups.iter_mut().find(|(of, _)| of.name == group.name);
        let Some((of, account)) = found else { return false };
        of.clone_from(group);
        account.set_limit(group.hard_bytes);
        self.memory.set_soft_limit(account, group.soft_bytes);
        self.memory.set_limit(now.memory_bytes().map_or(u64::MAX, |(bytes, _)| bytes));
        true
    }

    /// Other SMs of its static partition.
    ///
    /// # Errors
    /// The device has not all of them.
    pub fn set_partition(&self, sms: Range<u32>) -> Result<(), String> {
        let all = self.places.count().all;
        let new = self.places.take_these(sms.clone());
        let new = new.map_err(|_| format!("the device has {all} SMs, not {sms:?}"))?;
        let mut now = self.now();
        let by = now.sms.2;
        now.sms = (sms.len() as u32, new, by);
        drop(now);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Another share of SMs.
    pub fn set_share(&self, share: Percentage) {
        let count = self.places.count();
        self.give(share.sms(count.all, count.step));
    }

    /// The share that all clients get which have no other; false if this one has, or has it already.
    pub fn follow_share(&self, share: Percentage, by: SetBy) -> bool {
        let count = self.places.count();
        let sms = share.sms(count.all, count.step);
        let (has, set_by) = {
            let now = self.now();
            (now.sms.0, now.sms.2)
        };
        if has == sms || matches!(set_by, SetBy::Program | SetBy::Live) {
            return false;
        }
        self.give_as(sms, by);
        true
    }

    fn give(&self, sms: u32) {
        self.give_as(sms, SetBy::Live);
    }

    fn give_as(&self, sms: u32, by: SetBy) {
        let mut now = self.now();
        // The old ones are free for the new ones.
        now.sms.1.give_back();
        now.sms = (sms, self.places.take(sms), by);
        drop(now);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Another number of SMs: rounded up to a whole step, as an affinity is; 0: those that it was given at
    /// first. An error says what is allowed.
    pub fn set_sms(&self, sms: u32) -> Result<(), String> {
        let SmCount { all, step } = self.places.count();
        if sms == 0 {
            return match self.given {
                (_, SetBy::Live) => {
                    Err("it came here from another server with the SMs that were set: what it \
                     was given at first is not known; say a number or a percentage"
                        .to_owned())
                }
                (sms, by) => {
                    self.give_as(sms, by);
                    Ok(())
                }
            };
        }
        if sms > all {
            return Err(format!("the device has {all} SMs: a number from 1 to {all} is allowed"));
        }
        self.give(sms.next_multiple_of(step.max(1)).min(all));
        Ok(())
    }

    /// Another priority.
    pub fn set_priority(&self, priority: Priority) {
        self.now().priority = (priority, SetBy::Live);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_say_who_made_them() {
        let device = (0, "GPU-00");
        let settings = Settings {
            share: (Percentage::parse("25").unwrap(), SetBy::Daemon),
            ..Settings::default()
        };
        let places = SmPlaces::new(SmCount { all: 132, step: 2 });
        let limits = SessionLimits::new(
            &settings,
            device,
            &places,
            &Groups::default(),
            MemoryAccount::new(0),
        );
        assert_eq!((limits.report().sms, limits.report().memory), ((32, SetBy::Daemon), None));
        let version = limits.version();
        limits.set_memory(Some(1 << 30));
        assert_eq!(limits.version(), version, "a session has nothing to do");
        assert_eq!(limits.terms().sms, Some(0..32));
        limits.set_sms(5).unwrap();
        assert_eq!(limits.terms().sms, Some(0..6));
        assert_eq!(limits.report().sms, (6, SetBy::Live));
        assert_eq!(limits.report().memory, Some((1 << 30, SetBy::Live)));
        assert!(limits.version() > version);
        assert!(limits.set_sms(133).unwrap_err().contains("from 1 to 132"));
        limits.set_sms(0).unwrap();
        assert_eq!(limits.report().sms, (32, SetBy::Daemon), "what it was given at first");
        limits.set_memory(None);
        assert_eq!(limits.report().memory, None);
    }

    #[test]
    fn a_group_s_limit_changes_for_those_who_are_there() {
        let group =
            |soft_bytes, hard_bytes| MemoryGroup { name: "/a".into(), soft_bytes, hard_bytes };
        let settings = Settings { group: Some(group(0, 100)), ..Settings::default() };
        let places = SmPlaces::new(SmCount { all: 132, step: 2 });
        let groups = Groups::default();
        let limits =
            SessionLimits::new(&settings, (0, "GPU-00"), &places, &groups, MemoryAccount::new(0));
        let memory = || limits.report().memory;
        assert_eq!(memory(), Some((100, SetBy::Server)));
        let held = limits.memory.charge(100).unwrap();
        assert!(limits.memory.charge(1).is_err());
        assert!(limits.set_group(&group(0, 200)) && limits.memory.charge(100).is_ok());
        assert!(limits.set_group(&group(0, 50)) && limits.memory.charge(1).is_err());
        assert_eq!((memory(), held.bytes()), (Some((50, SetBy::Server)), 100));
        limits.set_memory(Some(20));
        assert_eq!(memory(), Some((20, SetBy::Live)));
        limits.set_memory(None);
        assert_eq!(memory(), Some((50, SetBy::Server)), "its group's limit stays");
        assert!(limits.set_group(&group(0, u64::MAX)));
        assert_eq!(memory(), None);
        assert!(!limits.set_group(&MemoryGroup { name: "/b".into(), ..group(0, 1) }));
    }

    #[test]
    fn a_partition_s_sms_change() {
        let settings = Settings { partition: Some((0, 4)), ..Settings::default() };
        let places = SmPlaces::new(SmCount { all: 8, step: 1 });
        let groups = Groups::default();
        let limits =
            SessionLimits::new(&settings, (0, "GPU-00"), &places, &groups, MemoryAccount::new(0));
        let version = limits.version();
        limits.set_partition(0..8).unwrap();
        assert_eq!((limits.terms().sms, limits.sms()), (None, 8));
        assert!(limits.version() > version);
        limits.set_partition(0..4).unwrap();
        assert_eq!(limits.terms().sms, Some(0..4));
        assert!(limits.set_partition(4..9).is_err());
        assert_eq!(limits.terms().sms, Some(0..4));
    }

    #[test]
    fn a_client_follows_the_share_of_all_until_it_has_its_own() {
        let places = SmPlaces::new(SmCount { all: 132, step: 2 });
        let limits = SessionLimits::new(
            &Settings::default(),
            (0, "GPU-00"),
            &places,
            &Groups::default(),
            MemoryAccount::new(0),
        );
        let quarter = Percentage::parse("25").unwrap();
        assert!(limits.follow_share(quarter, SetBy::Server));
        assert_eq!(limits.report().sms, (32, SetBy::Server));
        assert!(!limits.follow_share(quarter, SetBy::Server), "it has that share");
        limits.set_sms(8).unwrap();
        assert!(!limits.follow_share(quarter, SetBy::Server), "it has one of its own");
        assert_eq!(limits.report().sms, (8, SetBy::Live));
    }

    #[test]
    fn terms_are_about_the_device_s_own_numbers() {
        let terms = |sms| Terms { sms, sms_of_device: 8, priority: Priority::Normal, queues: 0 };
        assert_eq!(terms(None).within(2..4), 2..4);
        assert_eq!(terms(Some(4..8)).within(2..9), 6..8);
        assert_eq!(terms(Some(4..6)).within(3..4), 4..6, "a share that has shrunk");
    }

    #[test]
    fn clients_below_normal_are_behind_all_streams_of_others() {
        let of = |priority| Terms { sms: None, sms_of_device: 8, priority, queues: 0 };
        let (normal, below) = (of(Priority::Normal), of(Priority::BelowNormal));
        for asked in -5..=0 {
            assert!(below.stream_priority(asked, 0, -5) > normal.stream_priority(0, 0, -5));
        }
        assert_eq!((normal.stream_priority(-3, 0, -5), normal.stream_priority(0, 0, 0)), (-3, 0));
        assert_eq!((normal.less_urgent(0, -5), below.less_urgent(0, -5)), (0, 6));
    }
}
