//! The ring under a model checker: every order in which its loads and stores may take effect.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p channel --release --test loom`
//!
//! The model replaces the shared memory ([`RingMemory`]) by loom's atomics and the futex by a lock
//! and a condition variable that never time out: a lost wake-up is a deadlock, which loom reports.
//! Words that were not written yet are poisoned, so reading one too early fails an assertion.
#![cfg(loom)]

use channel::request::{Fence, Request};
use channel::ring::{
    Arrival, Consumer, Flag, POLLING, Position, Producer, PushError, Record, RingMemory,
};
use channel::wait::SpinPolicy;
use core::time::Duration;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// The least that satisfies the algorithm: records of two words in a ring of eight.
const BYTES: u64 = 64;
const POISON: u64 = 0xDEAD_DEAD_DEAD_DEAD;

/// A flag and the threads that sleep on it.
struct Futex {
    value: AtomicU32,
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn new() -> Self {
        Self { value: AtomicU32::new(0), lock: Mutex::new(()), sleepers: Condvar::new() }
    }
}

struct Parts {
    head: AtomicU64,
    tail: AtomicU64,
    asleep: Futex,
    waits: Futex,
    words: Vec<AtomicU64>,
    /// Whether poll sleeps end by their timeout, as they do on a machine, or only by a wake-up.
    poll_sleeps_end: bool,
}

#[derive(Clone)]
struct Model(Arc<Parts>);

impl Model {
    fn new() -> Self {
        Self::with_poll_interval(true)
    }

    fn with_poll_interval(poll_sleeps_end: bool) -> Self {
        Self(Arc::new(Parts {
            poll_sleeps_end,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            asleep: Futex::new(),
            waits: Futex::new(),
            words: (0..BYTES / 8).map(|_| AtomicU64::new(POISON)).collect(),
        }))
    }

    fn counter(&self, which: Position) -> &AtomicU64 {
        match which {
            Position::Head => &self.0.head,
            Position::Tail => &self.0.tail,
        }
    }

    fn futex(&self, which: Flag) -> &Futex {
        match which {
            Flag::ConsumerAsleep => &self.0.asleep,
            Flag::ProducerWaits => &self.0.waits,
        }
    }
}

impl RingMemory for Model {
    const RING_BYTES: u64 = BYTES;
    const RECORD_BYTES_MAX: u64 = BYTES / 4;

    fn position(&self, which: Position) -> u64 {
        self.counter(which).load(Ordering::Acquire)
    }
    fn publish(&self, which: Position, value: u64) {
        self.counter(which).store(value, Ordering::Release);
    }
    fn word(&self, index: u64) -> u64 {
        self.0.words[(index % (BYTES / 8)) as usize].load(Ordering::Relaxed)
    }
    fn set_word(&self, index: u64, word: u64) {
        self.0.words[(index % (BYTES / 8)) as usize].store(word, Ordering::Relaxed);
    }
    fn flag(&self, which: Flag) -> u32 {
        self.futex(which).value.load(Ordering::Relaxed)
    }
    fn swap_flag(&self, which: Flag, value: u32) -> u32 {
        self.futex(which).value.swap(value, Ordering::AcqRel)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    /// FUTEX_WAIT: looks at the word and falls asleep under the kernel's lock.
    fn sleep(&self, which: Flag, value: u32, _timeout: Duration) {
        if value == POLLING && self.0.poll_sleeps_end {
            return thread::yield_now();
        }
        let futex = self.futex(which);
        let guard = futex.lock.lock().unwrap();
        if futex.value.load(Ordering::SeqCst) == value {
            drop(futex.sleepers.wait(guard).unwrap());
        }
    }
    /// FUTEX_WAKE: takes the kernel's lock to look for sleepers.
    fn wake(&self, which: Flag) {
        let futex = self.futex(which);
        let _guard = futex.lock.lock().unwrap();
        futex.sleepers.notify_all();
    }
}

/// Pops `count` records of one word, i + 100, and waits when there is none.
fn consume(mut consumer: Consumer<Model>, count: u64) {
    let mut record = Record::new();
    let mut next = 0;
    while next < count {
        if consumer.pop(&mut record).expect("the ring is not broken") {
            assert_eq!(record.words(), [next + 100]);
            next += 1;
        } else {
            // It may end early; that it ends at all is what is checked.
            assert_ne!(consumer.wait(Duration::MAX), Ok(Arrival::Rung));
        }
    }
    assert_eq!(consumer.pop(&mut record), Ok(false));
}

/// A request that no thread waits for.
const PLAIN: u16 = 1;

fn produce(producer: &mut Producer<Model>, opcode: u16, range: core::ops::Range<u64>) {
    for i in range {
        // The server always lives; a sleep ends by a wake-up only.
        let pushed = producer.push(opcode, &[i + 100], &[], &|| true);
        assert_eq!(pushed, Ok::<(), PushError>(()));
    }
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The consumer sleeps and is woken; nothing is lost, doubled, or read before it is written.
#[test]
fn records_arrive_once_and_in_order() {
    explore(4, || {
        let memory = Model::new();
        let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
        let consumer = Consumer::new(memory, SpinPolicy::NONE).unwrap();
        let popping = thread::spawn(move || consume(consumer, 2));
        produce(&mut producer, PLAIN, 0..2);
        popping.join().unwrap();
    });
}

/// The ring is full at the start: the producer sleeps and is woken when half of it is free, and
/// reuses words that the consumer has read.
#[test]
fn a_full_ring_blocks_and_goes_on() {
    explore(3, || {
        let memory = Model::new();
        let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
        let consumer = Consumer::new(memory, SpinPolicy::NONE).unwrap();
        produce(&mut producer, PLAIN, 0..4);
        let popping = thread::spawn(move || consume(consumer, 6));
        produce(&mut producer, PLAIN, 4..6);
        popping.join().unwrap();
    });
}

const POLL_SLEEPS: SpinPolicy =
    SpinPolicy { poll_sleep: Duration::from_nanos(1), poll_sleeps: 1, ..SpinPolicy::NONE };

/// The consumer polls before it sleeps: a push that finds it in a poll sleep wakes no thread, and is seen
/// nevertheless.
#[test]
fn a_push_during_a_poll_sleep_is_not_lost() {
    explore(4, || {
        let memory = Model::new();
        let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
        let consumer = Consumer::new(memory, POLL_SLEEPS).unwrap();
        let popping = thread::spawn(move || consume(consumer, 2));
        produce(&mut producer, PLAIN, 0..2);
        popping.join().unwrap();
    });
}

/// What is urgent ends a poll sleep that would not end by itself.
#[test]
fn something_urgent_ends_a_poll_sleep() {
    explore(4, || {
        let memory = Model::with_poll_interval(false);
        let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
        let consumer = Consumer::new(memory, POLL_SLEEPS).unwrap();
        let popping = thread::spawn(move || consume(consumer, 2));
        produce(&mut producer, Fence::OPCODE, 0..2);
        popping.join().unwrap();
    });
}

/// What a thread waits for that was not urgent when it was pushed ends a poll sleep that would not end by itself.
#[test]
fn a_thread_that_waits_ends_a_poll_sleep() {
    explore(4, || {
        let memory = Model::with_poll_interval(false);
        let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
        let consumer = Consumer::new(memory, POLL_SLEEPS).unwrap();
        let popping = thread::spawn(move || consume(consumer, 2));
        produce(&mut producer, PLAIN, 0..2);
        producer.end_poll_sleep();
        popping.join().unwrap();
    });
}

/// A bell ends a wait whenever it rings.
#[test]
fn a_bell_is_not_lost() {
    explore(4, || {
        let memory = Model::new();
        let mut consumer = Consumer::new(memory, SpinPolicy::NONE).unwrap();
        let bell = consumer.doorbell();
        let ringing = thread::spawn(move || bell.ring());
        assert_eq!(consumer.wait(Duration::MAX), Ok(Arrival::Rung));
        ringing.join().unwrap();
    });
}
