//! Words that streams write and wait for: cuStreamWriteValue and cuStreamWaitValue.
//!
//! A written word also wakes the threads that sleep on it with a futex, in any process: on hardware
//! a waiter can only poll, here it may sleep. A word that a stream waits for may be written by any
//! process, so it is looked at whenever a word was written here and at every tick.

use crate::device::execution::core::Core;
use crate::device::slab::Key;
use crate::device::stream::{Head, Stream};
use crate::error::Error;

/// A word to write.
#[derive(Clone, Copy, Debug)]
pub struct ValueWrite {
    /// Where, a multiple of its size.
    pub address: u64,
    /// What.
    pub value: u64,
    /// True for 64 bits, false for 32.
    pub wide: bool,
}

/// When a wait is over; the differences are cyclic, as CUDA defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The word minus the value is not negative.
    GreaterOrEqual,
    /// Equal.
    Equal,
    /// They share a bit.
    And,
    /// Some bit is set in neither.
    Nor,
}

/// A word to wait for.
#[derive(Clone, Copy, Debug)]
pub struct ValueWait {
    /// Where, a multiple of its size.
    pub address: u64,
    /// What to compare it with.
    pub value: u64,
    /// True for 64 bits, false for 32.
    pub wide: bool,
    /// How.
    pub condition: Condition,
}

impl ValueWait {
    fn met_by(&self, word: u64) -> bool {
        if self.wide {
            let (word, value) = (word, self.value);
            match self.condition {
                Condition::GreaterOrEqual => word.wrapping_sub(value) as i64 >= 0,
                Condition::Equal => word == value,
                Condition::And => word & value != 0,
                Condition::Nor => !(word | value) != 0,
            }
        } else {
            let (word, value) = (word as u32, self.value as u32);
            match self.condition {
                Condition::GreaterOrEqual => word.wrapping_sub(value) as i32 >= 0,
                Condition::Equal => word == value,
                Condition::And => word & value != 0,
                Condition::Nor => !(word | value) != 0,
            }
        }
    }
}

enum Attempt {
    Done,
    Later,
    Fault,
}

impl Core {
    /// Writes the word now; if memory is just being unmapped the ticker tries again. True if the
    /// operation is complete (or the stream is poisoned by it).
    pub(in crate::device) fn try_write_value(
        &mut self,
        key: Key<Stream>,
        write: &ValueWrite,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        let bytes = if write.wide { 8 } else { 4 };
        let attempt = match stream.tenant.copies.try_word(write.address, bytes) {
            None => Attempt::Later,
            Some(None) => Attempt::Fault,
            Some(Some(word)) => {
                word.store(write.value);
                Attempt::Done
            }
        };
        match attempt {
            Attempt::Done => {
                self.after.wake_word(write.address);
                self.values_changed = !self.value_waits.is_empty();
                true
            }
            Attempt::Later => {
                stream.head = Head::WriteValue(*write);
                self.wait_for_tick(key);
                false
            }
            Attempt::Fault => {
                self.fault_at_value(key, write.address, bytes);
                true
            }
        }
    }

    /// True if the wait is over.
    pub(in crate::device) fn try_wait_value(&mut self, key: Key<Stream>, wait: &ValueWait) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        let bytes = if wait.wide { 8 } else { 4 };
        let attempt = match stream.tenant.copies.try_word(wait.address, bytes) {
            None => Attempt::Later,
            Some(None) => Attempt::Fault,
            Some(Some(word)) if wait.met_by(word.load()) => Attempt::Done,
            Some(Some(_)) => Attempt::Later,
        };
        match attempt {
            Attempt::Done => true,
            Attempt::Later => {
                stream.head = Head::WaitValue(*wait);
                self.wait_for_tick(key);
                false
            }
            Attempt::Fault => {
                self.fault_at_value(key, wait.address, bytes);
                true
            }
        }
    }

    pub(in crate::device) fn wait_for_tick(&mut self, key: Key<Stream>) {
        if !self.value_waits.contains(&key) {
            self.value_waits.push(key);
        }
        self.wake_ticker();
    }

    pub(in crate::device) fn fault_at_value(&mut self, key: Key<Stream>, address: u64, bytes: u64) {
        let Some(stream) = self.streams.get(key) else { return };
        let tenant = stream.tenant.clone();
        let text = format!("stream memory operation: {bytes} bytes at {address:#x} are not mapped");
        self.poison(&tenant, Error::ILLEGAL_ADDRESS, text);
    }

    /// Looks again at all words that streams wait for.
    pub(in crate::device) fn poll_values(&mut self) {
        self.values_changed = false;
        let mut branches = false;
        for key in std::mem::take(&mut self.value_waits) {
            let Some(stream) = self.streams.get(key) else { continue };
            let over = match &stream.head {
                Head::WaitValue(wait) => {
                    let wait = *wait;
                    self.try_wait_value(key, &wait)
                }
                Head::WriteValue(write) => {
                    let write = *write;
                    self.try_write_value(key, &write)
                }
                Head::Branch(_) => {
                    self.retry_branch(key);
                    branches = true;
                    false
                }
                _ => false,
            };
            if over {
                self.complete_head(key);
            }
        }
        if branches {
            self.start_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_cyclic_and_as_wide_as_the_word() {
        let wait = |value, wide, condition| ValueWait { address: 0, value, wide, condition };
        assert!(wait(5, false, Condition::GreaterOrEqual).met_by(5));
        assert!(!wait(5, false, Condition::GreaterOrEqual).met_by(4));
        assert!(wait(0xffff_fff0, false, Condition::GreaterOrEqual).met_by(2));
        assert!(!wait(0xffff_fff0, true, Condition::GreaterOrEqual).met_by(2));
        assert!(wait(1, false, Condition::Equal).met_by(0xff_0000_0001));
        assert!(wait(6, true, Condition::And).met_by(2));
        assert!(!wait(6, true, Condition::And).met_by(1));
        assert!(!wait(0xffff_0000, false, Condition::Nor).met_by(0xffff));
        assert!(wait(0, true, Condition::Nor).met_by(0xffff_ffff));
    }
}
