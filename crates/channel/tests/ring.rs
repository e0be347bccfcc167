//! Tests of the ring: between two threads, and against a peer that writes anything anywhere.

mod support;

use channel::region::{RECORD_BYTES_MAX, RING_BYTES, Region};
use channel::request::{Fence, Request};
use channel::ring::{
    ASLEEP, AWAKE, Arrival, Consumer, Flag, LocalRing, POLLING, Position, Producer, PushError,
    Record, RingBroken, RingMemory,
};
use channel::wait::SpinPolicy;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;
use std::thread;
use std::time::Duration;
use support::watchdog;

type Small = LocalRing<1024>;

const NONE: SpinPolicy = SpinPolicy::NONE;
const LONG: Duration = Duration::from_secs(100);

fn alive() -> bool {
    true
}

fn ring<M: RingMemory + Clone>(memory: M) -> (Producer<M>, Consumer<M>) {
    (Producer::new(memory.clone(), NONE), Consumer::new(memory, NONE).unwrap())
}

#[test]
fn records_arrive_as_they_were_pushed() {
    let (region, _file) = Region::create().unwrap();
    let (mut producer, mut consumer) = ring(region);
    let mut record = Record::new();
    assert_eq!(consumer.pop(&mut record), Ok(false));
    producer.push(7, &[1, 2, u64::MAX], b"", &alive).unwrap();
    producer.push(u16::MAX, &[], b"nine char", &alive).unwrap();
    producer.push(9, &[], &[], &alive).unwrap();

    assert_eq!(consumer.pop(&mut record), Ok(true));
    assert_eq!((record.opcode(), record.words()), (7, &[1, 2, u64::MAX][..]));
    assert_eq!(record.decode::<[u64; 3]>(), Ok([1, 2, u64::MAX]));
    assert_eq!(record.decode::<[u64; 2]>(), Ok([1, 2]), "what is added is skipped");
    assert_eq!(consumer.pop(&mut record), Ok(true));
    assert_eq!(record.opcode(), u16::MAX);
    assert_eq!(record.reader().bytes(9), Ok(&b"nine char"[..]));
    assert_eq!(consumer.pop(&mut record), Ok(true));
    assert_eq!((record.opcode(), record.words()), (9, &[][..]));
    assert_eq!(consumer.pop(&mut record), Ok(false));
    assert_eq!(consumer.tail(), producer.head());
}

#[test]
fn the_largest_record_fits_and_a_larger_one_is_refused() {
    let (region, _file) = Region::create().unwrap();
    let (mut producer, mut consumer) = ring(region);
    let mut record = Record::new();
    let words: Vec<u64> = (0..RECORD_BYTES_MAX / 8).collect();
    let (largest, too_long) = (&words[1..], &words[..]);
    let head = producer.head();
    assert_eq!(
        producer.push(1, too_long, &[], &alive),
        Err(PushError::TooLong { bytes: RECORD_BYTES_MAX + 8 })
    );
    assert_eq!(producer.push(0, &[], &[], &alive), Err(PushError::Opcode));
    assert_eq!(producer.head(), head);
    // Often enough to pass the end of the ring at several offsets.
    for i in 0..5 * RING_BYTES / RECORD_BYTES_MAX {
        producer.push(2, largest, &[], &alive).unwrap();
        producer.push(3, &[i], &[], &alive).unwrap();
        assert_eq!(consumer.pop(&mut record), Ok(true));
        assert_eq!((record.opcode(), record.words()), (2, largest));
        assert_eq!(consumer.pop(&mut record), Ok(true));
        assert_eq!((record.opcode(), record.words()), (3, &[i][..]));
    }
    assert!(producer.head() > 4 * RING_BYTES);
}

/// Every length at every offset: no record is torn at the ring's end.
#[test]
fn records_pass_the_end_of_the_ring_whole() {
    for length in 0..=7 {
        let (mut producer, mut consumer) = ring(Small::default());
        let mut record = Record::new();
        for round in 0..300 {
            let words: Vec<u64> = (0..length).map(|i| round * 100 + i).collect();
            producer.push(5, &words, &[], &alive).unwrap();
            assert_eq!(consumer.pop(&mut record), Ok(true));
            assert_eq!(record.words(), words);
        }
    }
}

/// Two threads, no spinning: each sleeps for the other all the time. With timeouts as long as
/// these a lost wake-up of the consumer is a hang.
fn transfer(policy: SpinPolicy, count: u64) {
    let memory = Small::default();
    let mut producer = Producer::new(memory.clone(), policy);
    let mut consumer = Consumer::new(memory, policy).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..count {
                let words = [i; 7];
                let length = (i % 8) as usize;
                producer.push(1 + (i % 100) as u16, &words[..length], &[], &alive).unwrap();
            }
        });
        let mut record = Record::new();
        let mut next = 0;
        while next < count {
            while consumer.pop(&mut record).unwrap() {
                assert_eq!(u64::from(record.opcode()), 1 + next % 100);
                assert_eq!(record.words().len() as u64, next % 8);
                assert!(record.words().iter().all(|word| *word == next));
                next += 1;
            }
            if next < count {
                // It may end early, but not by a bell.
                assert_ne!(consumer.wait(LONG).unwrap(), Arrival::Rung);
            }
        }
        assert_eq!(consumer.pop(&mut record), Ok(false));
    });
}

#[test]
fn two_threads_that_sleep_lose_nothing() {
    let _watchdog = watchdog("two_threads_that_sleep_lose_nothing");
    transfer(NONE, 100_000);
}

#[test]
fn two_threads_that_yield_lose_nothing() {
    let _watchdog = watchdog("two_threads_that_yield_lose_nothing");
    transfer(SpinPolicy { yields: 4, ..NONE }, 100_000);
}

#[test]
fn two_threads_that_spin_lose_nothing() {
    let _watchdog = watchdog("two_threads_that_spin_lose_nothing");
    transfer(SpinPolicy { spin: Duration::from_micros(5), ..NONE }, 100_000);
}

#[test]
fn two_threads_that_poll_sleep_lose_nothing() {
    let _watchdog = watchdog("two_threads_that_poll_sleep_lose_nothing");
    transfer(SpinPolicy { poll_sleep: Duration::from_micros(10), poll_sleeps: 3, ..NONE }, 100_000);
}

#[test]
fn a_full_ring_waits_until_half_of_it_is_free() {
    let _watchdog = watchdog("a_full_ring_waits_until_half_of_it_is_free");
    let memory = Small::default();
    let (mut producer, mut consumer) = ring(memory.clone());
    let mut record = Record::new();
    for _ in 0..1024 / 64 {
        producer.push(1, &[1; 7], &[], &alive).unwrap();
    }
    thread::scope(|scope| {
        let pusher = scope.spawn(move || producer.push(2, &[2; 7], &[], &alive));
        while memory.flag(Flag::ProducerWaits) == AWAKE {
            thread::yield_now();
        }
        // One record less than half is no reason to wake the producer.
        for _ in 0..7 {
            assert_eq!(consumer.pop(&mut record), Ok(true));
        }
        assert_eq!((memory.flag(Flag::ProducerWaits), consumer.stalls()), (ASLEEP, 0));
        assert_eq!(consumer.pop(&mut record), Ok(true));
        assert_eq!(consumer.stalls(), 1);
        assert_eq!(pusher.join().unwrap(), Ok(()));
        assert_eq!(memory.flag(Flag::ProducerWaits), AWAKE);
    });
}

#[test]
fn a_dead_server_ends_the_wait_for_room() {
    let _watchdog = watchdog("a_dead_server_ends_the_wait_for_room");
    let (mut producer, _consumer) = ring(Small::default());
    let asked = Cell::new(0);
    let dies_after_three = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    let result = loop {
        if let Err(error) = producer.push(1, &[1; 7], &[], &dies_after_three) {
            break error;
        }
    };
    assert_eq!(result, PushError::PeerGone);
    assert_eq!(asked.get(), 3);
    assert_eq!(producer.head(), 1024);
}

#[test]
fn a_server_that_dies_before_half_of_the_ring_is_free_ends_the_wait_for_room() {
    let _watchdog =
        watchdog("a_server_that_dies_before_half_of_the_ring_is_free_ends_the_wait_for_room");
    // It takes so many of the 16 records in the ring, and goes.
    for taken in 1..8 {
        let (mut producer, mut consumer) = ring(Small::default());
        for _ in 0..1024 / 64 {
            producer.push(1, &[1; 7], &[], &alive).unwrap();
        }
        let consumer = std::cell::RefCell::new(&mut consumer);
        let asked = Cell::new(false);
        let takes_some_and_dies = || {
            if asked.replace(true) {
                return false;
            }
            let mut record = Record::new();
            (0..taken).for_each(|_| assert_eq!(consumer.borrow_mut().pop(&mut record), Ok(true)));
            true
        };
        let result = producer.push(2, &[2; 7], &[], &takes_some_and_dies);
        assert_eq!(result, Err(PushError::PeerGone), "{taken}");
    }
}

#[test]
fn a_bell_ends_the_wait_for_records() {
    let _watchdog = watchdog("a_bell_ends_the_wait_for_records");
    let memory = Small::default();
    let (_producer, mut consumer) = ring(memory.clone());
    let bell = consumer.doorbell();
    // Rung before the wait, it is not forgotten.
    bell.ring();
    assert_eq!(consumer.wait(LONG), Ok(Arrival::Rung));
    thread::scope(|scope| {
        scope.spawn(|| {
            while memory.flag(Flag::ConsumerAsleep) == AWAKE {
                thread::yield_now();
            }
            bell.ring();
        });
        assert_eq!(consumer.wait(LONG), Ok(Arrival::Rung));
    });
    assert_eq!(consumer.wait(Duration::from_millis(1)), Ok(Arrival::TimedOut));
}

#[test]
fn a_wake_up_costs_one_call_for_many_records() {
    let (region, _file) = Region::create().unwrap();
    let (mut producer, _consumer) = ring(region.clone());
    for _ in 0..100 {
        producer.push(1, &[1], &[], &alive).unwrap();
    }
    assert_eq!(region.wakeups().load(), 0, "no thread sleeps");
    region.swap_flag(Flag::ConsumerAsleep, ASLEEP);
    for _ in 0..100 {
        producer.push(1, &[1], &[], &alive).unwrap();
    }
    assert_eq!(region.wakeups().load(), 1);
}

/// Who must not be late finds its server awake: no push makes a system call.
#[test]
fn a_consumer_that_attends_is_never_woken() {
    let _watchdog = watchdog("a_consumer_that_attends_is_never_woken");
    let (region, _file) = Region::create().unwrap();
    let policy = SpinPolicy { busy_polling: LONG, poll_sleep: LONG, poll_sleeps: 1, ..NONE };
    let mut producer = Producer::new(region.clone(), policy);
    let mut consumer = Consumer::new(region.clone(), policy).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut record = Record::new();
            while record.opcode() != Fence::OPCODE {
                while consumer.pop(&mut record).unwrap() {}
                if record.opcode() != Fence::OPCODE {
                    assert_eq!(consumer.poll_sleep(Duration::from_nanos(1)).map(drop), Ok(()));
                    consumer.wait(LONG).unwrap();
                }
            }
            // Its busy polling ends a wait with nothing to do, too.
            assert_eq!(consumer.wait(Duration::from_millis(1)), Ok(Arrival::TimedOut));
        });
        for number in 0..100 {
            let opcode = if number == 99 { Fence::OPCODE } else { 1 };
            producer.push(opcode, &[], &[], &alive).unwrap();
            while producer.head() != region.position(Position::Tail) {
                assert_eq!(region.flag(Flag::ConsumerAsleep), AWAKE);
                thread::yield_now();
            }
        }
    });
    assert_eq!((region.wakeups().load(), region.flag(Flag::ConsumerAsleep)), (0, AWAKE));
}

/// A producer whose every push finds its consumer asleep pays for the first few only.
#[test]
fn a_consumer_that_is_woken_for_next_to_nothing_polls() {
    let _watchdog = watchdog("a_consumer_that_is_woken_for_next_to_nothing_polls");
    let (region, _file) = Region::create().unwrap();
    // Poll sleeps that only the producer can end.
    let policy = SpinPolicy { poll_sleep: LONG, poll_sleeps: 1, poll_after: 4, ..NONE };
    let mut producer = Producer::new(region.clone(), policy);
    let mut consumer = Consumer::new(region.clone(), policy).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut record = Record::new();
            while record.opcode() != Fence::OPCODE {
                while consumer.pop(&mut record).unwrap() {}
                consumer.wait(LONG).unwrap();
            }
        });
        while region.flag(Flag::ConsumerAsleep) != POLLING {
            if region.flag(Flag::ConsumerAsleep) == ASLEEP {
                producer.push(1, &[], &[], &alive).unwrap();
            }
        }
        // It does not care for a push now, however long it takes to look.
        let wakeups = region.wakeups().load();
        for _ in 0..100 {
            producer.push(1, &[], &[], &alive).unwrap();
        }
        assert_eq!(region.flag(Flag::ConsumerAsleep), POLLING);
        assert_eq!(region.wakeups().load(), wakeups);
        // Something that is waited for wakes it, also if that was not said when it was pushed.
        producer.end_poll_sleep();
        assert_eq!(region.wakeups().load(), wakeups + 1);
        while producer.head() != region.position(Position::Tail) {
            thread::yield_now();
        }
        while region.flag(Flag::ConsumerAsleep) == AWAKE {
            thread::yield_now();
        }
        let wakeups = region.wakeups().load();
        producer.end_poll_sleep();
        assert_eq!(region.wakeups().load(), wakeups, "there is nothing that it has not taken");
        producer.push(Fence::OPCODE, &[], &[], &alive).unwrap();
        assert_eq!(region.wakeups().load(), wakeups + 1);
        while producer.head() != region.position(Position::Tail) {
            thread::yield_now();
        }
        // And it goes on, awake or not, until it has popped the fence and ends its last wait.
        while region.flag(Flag::ConsumerAsleep) == AWAKE {
            thread::yield_now();
        }
        producer.push(Fence::OPCODE, &[], &[], &alive).unwrap();
    });
}

#[test]
fn a_new_consumer_goes_on_where_the_old_one_was() {
    let memory = Small::default();
    let (mut producer, mut consumer) = ring(memory.clone());
    let mut record = Record::new();
    for i in 0..5 {
        producer.push(1, &[i], &[], &alive).unwrap();
    }
    assert_eq!(consumer.pop(&mut record), Ok(true));
    drop(consumer);
    let mut consumer = Consumer::new(memory, NONE).unwrap();
    for i in 1..5 {
        assert_eq!(consumer.pop(&mut record), Ok(true));
        assert_eq!(record.words(), [i]);
    }
}

/// What a hostile client writes, and what the server says to it.
#[test]
fn positions_and_headers_that_cannot_be_are_an_error() {
    let header = |bytes: u64, opcode: u64| bytes | opcode << 32;
    let cases: &[(&[u64], u64, &str)] = &[
        (&[header(16, 1), 0], 1024 + 8, "head is where"),
        (&[header(16, 1), 0], u64::MAX - 7, "head is where"),
        (&[header(16, 1), 0], 13, "head is where"),
        (&[header(0, 1)], 16, "length"),
        (&[header(4, 1)], 16, "length"),
        (&[header(12, 1)], 16, "length"),
        (&[header(72, 1)], 1024, "length"),
        (&[header(u32::MAX as u64, 1)], 1024, "length"),
        (&[header(64, 1)], 16, "longer than what was pushed"),
        (&[header(16, 1) | 1 << 48, 0], 16, "flags"),
        (&[header(16, 0), 0], 16, "pad is followed by nothing"),
        (&[header(16, 0), 0, header(16, 0), 0, header(16, 1), 0], 48, "followed by a pad"),
    ];
    for (words, head, expected) in cases {
        let memory = Small::default();
        let mut consumer = Consumer::new(memory.clone(), NONE).unwrap();
        for (index, word) in words.iter().enumerate() {
            memory.set_word(index as u64, *word);
        }
        memory.publish(Position::Head, *head);
        let mut record = Record::new();
        let error = consumer.pop(&mut record).unwrap_err();
        assert!(error.0.contains(expected), "{error} instead of {expected}");
        // It stays an error, regardless of what the client writes afterwards.
        memory.publish(Position::Head, consumer.tail());
        assert_eq!(consumer.pop(&mut record), Err(error));
        assert_eq!(consumer.wait(LONG), Err(error));
    }
}

#[test]
fn a_record_beyond_the_end_of_the_ring_is_an_error() {
    let (mut producer, mut consumer) = ring(Small::default());
    let mut record = Record::new();
    while producer.head() < 1024 - 16 {
        producer.push(1, &[0], &[], &alive).unwrap();
        consumer.pop(&mut record).unwrap();
    }
    let memory = consumer.memory().clone();
    memory.set_word(producer.head() / 8, 64 | 1 << 32);
    memory.publish(Position::Head, producer.head() + 64);
    let error = consumer.pop(&mut record).unwrap_err();
    assert!(error.0.contains("beyond the ring's end"), "{error}");
}

#[test]
fn a_tail_that_cannot_be_is_an_error_for_the_client() {
    for tail in [u64::MAX, 1024 + 64] {
        let memory = Small::default();
        let mut producer = Producer::new(memory.clone(), NONE);
        for _ in 0..1024 / 64 {
            producer.push(1, &[1; 7], &[], &alive).unwrap();
        }
        memory.publish(Position::Tail, tail);
        assert!(matches!(producer.push(1, &[], &[], &alive), Err(PushError::Broken(_))));
        assert!(Consumer::new(memory, NONE).is_err() || tail == 1024 + 64);
    }
}

proptest! {
    /// Regardless of what a client scribbles, popping ends, with records within their bounds or an
    /// error.
    #[test]
    fn scribbling_does_no_harm(steps in vec(any::<u64>(), 0..400)) {
        channel::oracle::ring(&steps);
    }
}

/// A client that scribbles while the server pops: for the sanitizers and for luck.
#[test]
fn scribbling_at_the_same_time_does_no_harm() {
    let _watchdog = watchdog("scribbling_at_the_same_time_does_no_harm");
    let (region, _file) = Region::create().unwrap();
    thread::scope(|scope| {
        let memory = region.clone();
        let scribbler = scope.spawn(move || {
            let mut state = 1u64;
            for _ in 0..200_000 {
                // xorshift64
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                memory.set_word(state >> 40, (state & 0xfff8) | (state >> 32 & 3) << 32);
                memory.publish(Position::Head, (state >> 20) & 0x3f_fff8);
            }
        });
        let mut record = Record::new();
        while !scribbler.is_finished() {
            let mut consumer = match Consumer::new(region.clone(), NONE) {
                Ok(consumer) => consumer,
                Err(RingBroken(what)) => panic!("the server's own tail: {what}"),
            };
            while let Ok(true) = consumer.pop(&mut record) {
                assert!((record.words().len() as u64) < RECORD_BYTES_MAX / 8);
            }
        }
    });
}
