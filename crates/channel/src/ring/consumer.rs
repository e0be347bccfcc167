//! Ring consumer: the server's side of the ring.

use super::poll_interval::PollInterval;
use super::{
    ASLEEP, AWAKE, Flag, PAD, POLLING, Position, RECORD_HEADER_BYTES, Record, RingBroken,
    RingMemory,
};
use crate::region::Region;
use crate::wait::{Phase, RHYTHM_MIN, SpinPolicy, WaitPrediction};
use core::cell::Cell;
use core::hint::black_box;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Words of a cache line.
const LINE_WORDS: u64 = 8;
/// A wake-up for less than this was for next to nothing: a few launches.
const POOR_WAKE_UP_BYTES: u64 = 1024;
/// After a longer wait a program is not taken to come back so regularly.
const RHYTHM_MAX: Duration = Duration::from_millis(100);
/// Wake-ups further apart than this are not frequent.
const FREQUENT: Duration = Duration::from_millis(1);

/// How a wait for records ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// There are records.
    Records,
    /// A [`Doorbell`] rang.
    Rung,
    /// Nothing came: the timeout passed, or the sleep ended early, as sleeps on futexes may (a
    /// wake-up for records that were popped meanwhile, a signal).
    TimedOut,
}

/// Pops records. A ring has one.
#[derive(Debug)]
pub struct Consumer<M = Region> {
    memory: M,
    /// Bytes popped: the truth, of which the shared `tail` is a copy.
    tail: u64,
    /// The last head seen and validated.
    head_seen: u64,
    policy: SpinPolicy,
    poll_interval: PollInterval,
    broken: Option<RingBroken>,
    rung: Arc<AtomicBool>,
    /// How often a producer that waited for room was woken.
    stalls: Cell<u64>,
    /// Wake-ups in a row that were poor and frequent.
    poor_wake_ups: u32,
    /// When it was woken last, and the tail at that time.
    woken: Option<(Instant, u64)>,
    /// How long the last wait took that outlasted spinning.
    last_wait: Duration,
    /// When the ring was first found empty since its last record.
    quiet_since: Option<Instant>,
}

impl<M: RingMemory> Consumer<M> {
    /// The consumer of a ring, which goes on where the shared tail is: at 0 in a new ring.
    ///
    /// # Errors
    /// If the tail is where no record can begin.
    pub fn new(memory: M, policy: SpinPolicy) -> Result<Self, RingBroken> {
        let tail = memory.position(Position::Tail);
        if !tail.is_multiple_of(8) || tail > u64::MAX / 2 {
            return Err(RingBroken("its tail is no beginning of a record"));
        }
        let rung = Arc::default();
        Ok(Self {
            memory,
            tail,
            head_seen: tail,
            policy,
            poll_interval: PollInterval::default(),
            broken: None,
            rung,
            stalls: Cell::new(0),
            poor_wake_ups: 0,
            woken: None,
            last_wait: Duration::ZERO,
            quiet_since: None,
        })
    }

    /// The memory.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Bytes popped so far.
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// Ring stalls: how often the producer slept because the ring was full, and was woken by this side.
    pub const fn stalls(&self) -> u64 {
        self.stalls.get()
    }

    /// Waits as that policy says from now on.
    pub fn set_policy(&mut self, policy: SpinPolicy) {
        self.policy = policy;
    }

    /// How it waits.
    pub const fn policy(&self) -> SpinPolicy {
        self.policy
    }

    /// A bell that ends a [`Consumer::wait`] from another thread.
    pub fn doorbell(&self) -> Doorbell<M>
    where
        M: Clone,
    {
        Doorbell { memory: self.memory.clone(), rung: Arc::clone(&self.rung) }
    }

    /// Copies the next record into `record`; false if there is none. It never waits, and looks at
    /// two records at most.
    ///
    /// # Errors
    /// What the client wrote cannot be; every later call says so again.
    #[inline]
    pub fn pop(&mut self, record: &mut Record) -> Result<bool, RingBroken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let result = self.take(record);
        if let Err(broken) = result {
            self.broken = Some(broken);
        }
        result
    }

    fn take(&mut self, record: &mut Record) -> Result<bool, RingBroken> {
        if !self.look()? {
            self.offer_room();
            return Ok(false);
        }
        let (mut bytes, mut opcode) = self.header()?;
        if opcode == PAD {
            // A pad and the record after it are published together, so a pad alone, or a second
            // pad, is no work of a producer; refusing it bounds the work of a call.
            self.tail += bytes;
            if self.tail == self.head_seen {
                return Err(RingBroken("a pad is followed by nothing"));
            }
            (bytes, opcode) = self.header()?;
            if opcode == PAD {
                return Err(RingBroken("a pad is followed by a pad"));
            }
        }
        self.quiet_since = None;
        record.opcode = opcode;
        let first = self.tail / 8 + 1;
        let words = bytes / 8 - 1;
        record.words.clear();
        record.words.extend((first..first + words).map(|index| self.memory.word(index)));
        self.tail += bytes;
        self.memory.publish(Position::Tail, self.tail);
        if self.memory.flag(Flag::ProducerWaits) != AWAKE {
            self.offer_room();
        }
        Ok(true)
    }

    /// Looks for records; true if there are some.
    #[inline]
    fn look(&mut self) -> Result<bool, RingBroken> {
        if self.head_seen == self.tail {
            let head = self.memory.position(Position::Head);
            let used = head.wrapping_sub(self.tail);
            if used > M::RING_BYTES || !head.is_multiple_of(8) {
                return Err(RingBroken("its head is where it cannot be"));
            }
            self.head_seen = head;
        }
        Ok(self.head_seen != self.tail)
    }

    /// Reads and validates the header at the tail: length in bytes and opcode.
    #[inline]
    fn header(&self) -> Result<(u64, u16), RingBroken> {
        let word = self.memory.word(self.tail / 8);
        let bytes = u64::from(word as u32);
        let opcode = (word >> 32) as u16;
        if word >> 48 != 0 {
            return Err(RingBroken("a record has flags"));
        }
        if !(RECORD_HEADER_BYTES..=M::RECORD_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(8)
        {
            return Err(RingBroken("a record has a length that it cannot have"));
        }
        if bytes > self.head_seen - self.tail {
            return Err(RingBroken("a record is longer than what was pushed"));
        }
        if bytes > M::RING_BYTES - (self.tail & (M::RING_BYTES - 1)) {
            return Err(RingBroken("a record goes beyond the ring's end"));
        }
        Ok((bytes, opcode))
    }

    /// Wakes the producer if it waits and half of the ring is free.
    fn offer_room(&self) {
        if self.head_seen - self.tail > M::RING_BYTES / 2
            || self.memory.flag(Flag::ProducerWaits) == AWAKE
        {
            return;
        }
        // The head seen last may be an old one: a producer that is woken before there is room for
        // it to go on would only fall asleep again, once for each record.
        let head = self.memory.position(Position::Head);
        if head.wrapping_sub(self.tail) <= M::RING_BYTES / 2 {
            let was_asleep = self.memory.rouse(Flag::ProducerWaits);
            self.stalls.set(self.stalls.get() + u64::from(was_asleep));
        }
    }

    /// Waits until there are records: spins, then sleeps at most `timeout`. About when the last
    /// such wait ended it spins again: a program that waits for its device comes back regularly, and
    /// being woken takes longer than many a kernel.
    ///
    /// A producer that pushes seldom enough for this side to fall asleep each time would pay a
    /// system call for each record. After a few such wake-ups in a row this side polls first: it
    /// sleeps for [`SpinPolicy::poll_sleep`] and looks by itself, and is woken only for what is urgent: a
    /// [`Fence`](crate::request::Fence), a [`Notify`](crate::request::Notify), a call, or a thread that asks for
    /// what was pushed ([`Producer::end_poll_sleep`](super::Producer::end_poll_sleep)). While poll sleeps bring records, but
    /// few, they become longer, up to [`SpinPolicy::poll_interval_max`].
    ///
    /// With [`SpinPolicy::busy_polling`] it spins for that long since the last record, and at most for
    /// `timeout`.
    ///
    /// # Errors
    /// As [`Consumer::pop`].
    pub fn wait(&mut self, timeout: Duration) -> Result<Arrival, RingBroken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let policy = self.policy;
        let start = Instant::now();
        let over = policy != SpinPolicy::NONE
            && policy.spin_until(|| {
                self.expect_record();
                self.is_over()
            });
        if over || self.attend(start, timeout) {
            return self.arrival();
        }
        if self.is_predictable() {
            self.keep_time(start, timeout);
        }
        if self.poor_wake_ups >= policy.poll_after && policy.poll_sleeps > 0 {
            let mut poll_sleeps = 0;
            while !self.is_over() && poll_sleeps < policy.poll_sleeps {
                if self.sleep_coalescing(timeout) {
                    // Launches come one after the other: there is no end to expect.
                    self.last_wait = Duration::ZERO;
                    return self.arrival();
                }
                poll_sleeps += 1;
                if self.poll_interval.of(policy) > policy.poll_sleep {
                    // What came in poll sleeps so long has ended.
                    break;
                }
            }
            if poll_sleeps == policy.poll_sleeps {
                self.poor_wake_ups = 0;
            }
        }
        if !self.is_over() && self.sleep(ASLEEP, timeout) {
            self.count_wake_up();
        }
        let arrival = self.arrival()?;
        if arrival == Arrival::Records {
            let waited = start.elapsed();
            self.note_wait(waited);
            if waited > RHYTHM_MAX {
                self.poll_interval.reset();
            }
        }
        Ok(arrival)
    }

    /// Sleeps for one poll sleep, `timeout` at most. True if it ended by itself with records in the
    /// ring, where poll sleeps may grow.
    fn sleep_coalescing(&mut self, timeout: Duration) -> bool {
        let policy = self.policy;
        let length = self.poll_interval.of(policy);
        let is_woken = self.sleep(POLLING, length.min(timeout));
        if is_woken || length > timeout || self.rung.load(Ordering::Acquire) {
            return false;
        }
        let bytes = self.memory.position(Position::Head).wrapping_sub(self.tail);
        self.poll_interval.ended(policy, bytes);
        bytes > 0 && policy.poll_interval_max > policy.poll_sleep
    }

    /// As [`Consumer::poll_sleep`], for as long as poll sleeps are where records come one after the other.
    ///
    /// # Errors
    /// As [`Consumer::pop`].
    pub fn gather(&mut self) -> Result<Arrival, RingBroken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if !self.is_over() {
            self.sleep_coalescing(Duration::MAX);
        }
        self.arrival()
    }

    /// True if the next wait is expected to take as long as the last one did, and that is worth it.
    fn is_predictable(&self) -> bool {
        let policy = self.policy;
        policy.keeps_time && (policy.predicted_min..=RHYTHM_MAX).contains(&self.last_wait)
    }

    /// A wait that outlasted spinning has ended with records. One that is too short for any prediction is not
    /// the last one, but when CPUs are oversubscribed: it is of a step that has begun.
    fn note_wait(&mut self, waited: Duration) {
        if waited > RHYTHM_MIN || self.policy.predicted_min > RHYTHM_MIN {
            self.last_wait = waited;
        }
    }

    /// As [`Consumer::wait`] for a caller that looks at something else too: sleeps for `duration`
    /// at most, or not at all, and is woken only for what is urgent.
    ///
    /// # Errors
    /// As [`Consumer::pop`].
    pub fn poll_sleep(&mut self, duration: Duration) -> Result<Arrival, RingBroken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if !duration.is_zero() && !self.is_over() && !self.attend(Instant::now(), duration) {
            self.sleep(POLLING, duration);
        }
        self.arrival()
    }

    /// Spins while the ring has the policy's busy polling, from `start` for at most `timeout`. True if
    /// waiting is over, or has lasted that long.
    fn attend(&mut self, start: Instant, timeout: Duration) -> bool {
        let busy_polling = self.policy.busy_polling;
        if busy_polling.is_zero() {
            return false;
        }
        let since = *self.quiet_since.get_or_insert(start);
        loop {
            for _ in 0..16 {
                core::hint::spin_loop();
                self.expect_record();
                if self.is_over() {
                    return true;
                }
            }
            let now = Instant::now();
            if now - since >= busy_polling {
                return false;
            }
            if now - start >= timeout {
                return true;
            }
        }
    }

    /// What has come.
    fn arrival(&mut self) -> Result<Arrival, RingBroken> {
        let records = self.look().inspect_err(|broken| self.broken = Some(*broken))?;
        Ok(if records {
            Arrival::Records
        } else if self.rung.swap(false, Ordering::AcqRel) {
            Arrival::Rung
        } else {
            Arrival::TimedOut
        })
    }

    /// Looks at the place of the next record, two cache lines of it: they are fetched together with
    /// the head then, and not only after the head was read.
    #[inline]
    fn expect_record(&self) {
        let first = self.tail / 8;
        black_box((self.memory.word(first), self.memory.word(first + LINE_WORDS)));
    }

    /// Sleeps until the wait is expected to end, and spins while it is.
    fn keep_time(&mut self, start: Instant, timeout: Duration) {
        let prediction = WaitPrediction::new(self.last_wait);
        while !self.is_over() {
            match prediction.phase(start.elapsed()) {
                Phase::Early(left) => {
                    if self.sleep(ASLEEP, left.min(timeout)) {
                        self.count_wake_up();
                    }
                }
                Phase::Due => core::hint::spin_loop(),
                Phase::Late => break,
            }
        }
    }

    /// Sleeps with the flag at `value`, unless waiting is over; true if the producer lowered the
    /// flag.
    fn sleep(&self, value: u32, timeout: Duration) -> bool {
        self.memory.swap_flag(Flag::ConsumerAsleep, value);
        self.memory.fence();
        // The fence also makes visible whether the producer waits for room: with an empty ring
        // neither side would look again.
        self.offer_room();
        if !self.is_over() {
            self.memory.sleep(Flag::ConsumerAsleep, value, timeout);
        }
        self.memory.swap_flag(Flag::ConsumerAsleep, AWAKE) == AWAKE
    }

    /// Sees whether wake-ups are worth what they cost the producer.
    fn count_wake_up(&mut self) {
        let now = Instant::now();
        let poor = self.woken.is_some_and(|(then, tail)| {
            now - then < FREQUENT && self.tail - tail < POOR_WAKE_UP_BYTES
        });
        self.poor_wake_ups = if poor { self.poor_wake_ups.saturating_add(1) } else { 0 };
        self.woken = Some((now, self.tail));
    }

    /// True if waiting is over: records, a bell, or a position that cannot be.
    #[inline]
    fn is_over(&self) -> bool {
        self.head_seen != self.tail
            || self.memory.position(Position::Head) != self.tail
            || self.rung.load(Ordering::Acquire)
    }
}

/// Ends a consumer's wait from another thread, as when the client's socket hangs up.
#[derive(Clone, Debug)]
pub struct Doorbell<M = Region> {
    memory: M,
    rung: Arc<AtomicBool>,
}

impl<M: RingMemory> Doorbell<M> {
    /// Rings: a wait in progress, or else the next one that finds no records, ends with
    /// [`Arrival::Rung`].
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.memory.fence();
        self.memory.rouse(Flag::ConsumerAsleep);
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalRing;
    use super::*;

    #[test]
    fn waits_between_launches_that_are_coalesced_have_no_prediction() {
        let policy = SpinPolicy::new(8, None);
        let predictions = |policy| {
            let mut consumer = Consumer::new(LocalRing::<4096>::default(), policy).expect("a ring");
            [0, 1000, 15, 40, 15, 300].map(|us| {
                consumer.note_wait(Duration::from_micros(us));
                consumer.is_predictable()
            })
        };
        assert_eq!(predictions(policy), [false, true, true, true, true, true]);
        // After a step's end the waits within the next step are short again.
        assert_eq!(
            predictions(policy.coalescing_consumer()),
            [false, true, false, false, false, true]
        );
        assert_eq!(predictions(SpinPolicy::new(2, None)), [false; 6]);
    }
}
