//! What a client may have (device memory, SMs, priority) and who said so.
//!
//! Set when the client comes and by the main thread while it runs; the session takes over what it
//! has to act on when it looks up from its ring.

use super::account::Account;
use crate::device::SmCount;
use channel::message::{ClientLimits, SetBy, Settings};
use cuda_api::settings::{Percentage, Priority};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client's limits.
pub struct Limits {
    /// Its device memory.
    pub memory: Arc<Account>,
    sms: SmCount,
    now: Mutex<Now>,
    /// Grows with each change of what a session has to act on.
    version: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
struct Now {
    memory_by: Option<SetBy>,
    sms: (u32, SetBy),
    priority: (Priority, SetBy),
}

impl Limits {
    /// Those of a client that has come, on the device with that number and UUID.
    pub fn new(settings: &Settings, (ordinal, uuid): (u32, &str), sms: SmCount) -> Self {
        let memory = settings.memory_of(ordinal, uuid);
        let (share, by) = settings.share;
        Self {
            memory: Account::new(memory.map_or(u64::MAX, |(bytes, _)| bytes)),
            sms,
            now: Mutex::new(Now {
                memory_by: memory.map(|(_, by)| by),
                sms: (share.sms(sms.all, sms.step), by),
                priority: settings.priority,
            }),
            version: AtomicU32::new(1),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a report has them.
    pub fn report(&self) -> ClientLimits {
        let now = *self.now();
        ClientLimits {
            memory: now.memory_by.map(|by| (self.memory.limit_bytes(), by)),
            sms: now.sms,
            sms_of_device: self.sms.all,
            priority: now.priority,
        }
    }

    /// SMs that its kernels may have.
    pub fn sms(&self) -> u32 {
        self.now().sms.0
    }

    /// True if that is less than all of the device.
    pub fn has_share(&self) -> bool {
        self.sms() < self.sms.all
    }

    /// Its priority.
    pub fn priority(&self) -> Priority {
        self.now().priority.0
    }

    /// Changes with everything that a session has to act on.
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Another limit of memory; `None`: all that there is.
    pub fn set_memory(&self, bytes: Option<u64>) {
        self.memory.set_limit(bytes.unwrap_or(u64::MAX));
        self.now().memory_by = bytes.map(|_| SetBy::Live);
    }

    /// Another share of SMs.
    pub fn set_share(&self, share: Percentage) {
        self.now().sms = (share.sms(self.sms.all, self.sms.step), SetBy::Live);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Another number of SMs: rounded up to a whole step, as an affinity is. An error says what is
    /// allowed.
    pub fn set_sms(&self, sms: u32) -> Result<(), String> {
        let SmCount { all, step } = self.sms;
        if sms == 0 || sms > all {
            return Err(format!("the device has {all} SMs: a number from 1 to {all} is allowed"));
        }
        self.now().sms = (sms.next_multiple_of(step.max(1)).min(all), SetBy::Live);
        self.version.fetch_add(1, Ordering::AcqRel);
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
        let limits = Limits::new(&settings, device, SmCount { all: 132, step: 2 });
        assert_eq!((limits.report().sms, limits.report().memory), ((32, SetBy::Daemon), None));
        let version = limits.version();
        limits.set_memory(Some(1 << 30));
        assert_eq!(limits.version(), version, "a session has nothing to do");
        limits.set_sms(5).unwrap();
        assert_eq!(limits.report().sms, (6, SetBy::Live));
        assert_eq!(limits.report().memory, Some((1 << 30, SetBy::Live)));
        assert!(limits.version() > version);
        for wrong in [0, 133] {
            assert!(limits.set_sms(wrong).unwrap_err().contains("from 1 to 132"));
        }
        limits.set_memory(None);
        assert_eq!(limits.report().memory, None);
    }
}
