//! What is urgent comes first, also where something else has all of the device.

use super::*;
use crate::testing::TEST_MAX;
use std::time::Instant;

/// The same launch with a priority.
fn of(priority: i32, mut op: Op) -> Op {
    if let Op::Kernel(kernel) = &mut op {
        kernel.priority = Some(priority);
    }
    op
}

#[test]
fn a_stream_of_higher_priority_gets_places_first() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (flag, order) = (Arc::new(AtomicU32::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    device.enqueue(device.stream(), of(-5, launch(16, 1024, spin_until(&flag)))).unwrap();
    let note = |n: u32, priority: i32| {
        let order = order.clone();
        let note = move |_: &mut Worker<'_>, _, _| {
            order.lock().unwrap().push(n);
            Outcome::Finished
        };
        of(priority, launch(1, 1024, note))
    };
    for (n, priority) in [(1, 0), (2, -3), (3, -5), (4, -3)] {
        device.enqueue(device.stream(), note(n, priority)).unwrap();
    }
    flag.store(1, Ordering::Release);
    // Without waiting for a stream, which would run that stream's blocks out of order.
    while order.lock().unwrap().len() < 4 {
        std::thread::yield_now();
    }
    assert_eq!(*order.lock().unwrap(), [3, 2, 4, 1]);
}

#[test]
fn blocks_of_higher_priority_run_before_waiting_ones_of_lower() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (gate, order) = (Arc::new(AtomicU32::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let note = |name: char, blocks: u32, priority: i32| {
        let (gate, order) = (gate.clone(), order.clone());
        let note = move |_: &mut Worker<'_>, _, _| {
            while gate.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            order.lock().unwrap().push(name);
            Outcome::Finished
        };
        of(priority, launch(blocks, 32, note))
    };
    // A first block, if the worker is quick, keeps it until all launches are there.
    for (name, priority) in [('a', 0), ('b', 0), ('h', -5)] {
        device.enqueue(device.stream(), note(name, 4, priority)).unwrap();
    }
    gate.store(1, Ordering::Release);
    while order.lock().unwrap().len() < 12 {
        std::thread::yield_now();
    }
    let order: String = order.lock().unwrap().iter().collect();
    assert_eq!(order[..5].matches('h').count(), 4, "{order}");
}

#[test]
fn a_long_block_gives_way_to_higher_priority() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (started, gave_way) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (began, done) = (started.clone(), gave_way.clone());
    // Ends only once it was asked to give way, and runs no other way than alone.
    let long = launch(1, 32, move |worker, _, resumed| {
        began.store(1, Ordering::Relaxed);
        while resumed == 0 && !worker.control.yield_requested() {
            std::thread::yield_now();
        }
        done.fetch_add(1, Ordering::Relaxed);
        if resumed == 0 { Outcome::Yielded } else { Outcome::Finished }
    });
    let first = device.stream();
    let seq = device.enqueue(first, long).unwrap();
    while started.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let counter = Arc::new(AtomicU32::new(0));
    let seen = (gave_way.clone(), counter.clone());
    let urgent = launch(1, 32, move |_, _, _| {
        // Between the two resumptions of the long block.
        seen.1.store(1 + seen.0.load(Ordering::Relaxed), Ordering::Relaxed);
        Outcome::Finished
    });
    device.enqueue(device.stream(), of(-1, urgent)).unwrap();
    while counter.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(counter.load(Ordering::Relaxed), 2);
    device.wait_stream(first, seq).unwrap();
}

#[test]
fn urgent_blocks_do_not_wait_for_room() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (flag, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    // All SMs are full of blocks that go on.
    let first = device.stream();
    let seq = device.enqueue(first, launch(64, 1024, spin_until(&flag))).unwrap();
    let urgent = device.stream();
    let last = device.enqueue(urgent, of(-1, launch(5, 1024, count(&counter)))).unwrap();
    device.wait_stream(urgent, last).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 5);
    flag.store(1, Ordering::Release);
    device.wait_stream(first, seq).unwrap();
    // Everything was given back: a grid that needs all of the device finds it.
    let all = device.enqueue(first, launch(16, 1024, count(&counter))).unwrap();
    device.wait_stream(first, all).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 21);
}

#[test]
fn an_urgent_block_may_wait_for_a_less_urgent_one() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (flag, started) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (seen, begun) = (flag.clone(), started.clone());
    // Comes back by itself, as a block all of whose warps wait does.
    let waits = launch(4, 1024, move |_, _, _| {
        begun.store(1, Ordering::Relaxed);
        match seen.load(Ordering::Acquire) {
            0 => Outcome::Yielded,
            _ => Outcome::Finished,
        }
    });
    let urgent = device.stream();
    let seq = device.enqueue(urgent, of(-5, waits)).unwrap();
    while started.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let set = flag.clone();
    let sets = launch(1, 32, move |_, _, _| {
        set.store(1, Ordering::Release);
        Outcome::Finished
    });
    device.enqueue(device.stream(), sets).unwrap();
    device.wait_stream(urgent, seq).unwrap();
}

#[test]
fn who_waits_for_urgent_work_does_it_though_nothing_gives_way() {
    let device = TestDevice::with(|s| s.threads = 1);
    let (started, flag) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (began, seen) = (started.clone(), flag.clone());
    // The watchdog ends the test before the kernel ends.
    let until = Instant::now() + TEST_MAX;
    let stubborn = launch(1, 32, move |_, _, _| {
        began.store(1, Ordering::Relaxed);
        while seen.load(Ordering::Acquire) == 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        Outcome::Finished
    });
    let (first, same, urgent) = (device.stream(), device.stream(), device.stream());
    let seq = device.enqueue(first, stubborn).unwrap();
    while started.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let counter = Arc::new(AtomicU32::new(0));
    device.enqueue(same, launch(1, 32, count(&counter))).unwrap();
    assert!(device.lock().assign_for(same).is_none(), "what is as urgent waits for a worker");
    let last = device.enqueue(urgent, of(-1, launch(5, 32, count(&counter)))).unwrap();
    device.wait_stream(urgent, last).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 5);
    assert_eq!(device.query_stream(first), Err(Error::NOT_READY));
    flag.store(1, Ordering::Release);
    device.wait_stream(first, seq).unwrap();
    device.synchronize_stream(same).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 6);
}
