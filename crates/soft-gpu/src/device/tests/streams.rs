//! Operations in streams: their order, events, words, and which threads do them.

use super::*;
use crate::device::limits;
use crate::device::stream::host::HostCall;
use crate::device::stream::transfer::{Fill, Transfer};
use crate::device::stream::values::{Condition, ValueWait, ValueWrite};

#[test]
fn operations_of_a_stream_are_in_order() {
    let device = TestDevice::new();
    let stream = device.stream();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for i in 0..3000u32 {
        let order = order.clone();
        let op = match i % 3 {
            0 => launch(3, 32, move |_, index, _| {
                if index.x == 0 {
                    order.lock().unwrap().push(i);
                }
                Outcome::Finished
            }),
            1 => Op::Host(HostCall {
                call: Box::new(move |_| order.lock().unwrap().push(i)),
                always: false,
            }),
            _ => Op::Internal(Box::new(|| {})),
        };
        device.enqueue(stream, op).unwrap();
    }
    device.synchronize_stream(stream).unwrap();
    let order = order.lock().unwrap();
    assert_eq!(*order, (0..3000).filter(|i| i % 3 != 2).collect::<Vec<_>>());
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    let device = TestDevice::new();
    let (flag, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (first, second) = (device.stream(), device.stream());
    device.enqueue(first, launch(1, 32, spin_until(&flag))).unwrap();
    let point = device.record(first).unwrap();
    device.wait_for_point(second, &point).unwrap();
    device.enqueue(second, launch(1, 32, count(&counter))).unwrap();
    assert_eq!(point.reached_ns(), None);
    device.run_other_work();
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    flag.store(1, Ordering::Release);
    device.synchronize_stream(second).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 1);
    assert!(point.reached_ns().is_some());
    // Waiting for a point that is reached costs nothing and a stream that is gone is no trap.
    device.destroy_stream(first).unwrap();
    device.wait_for_point(second, &point).unwrap();
    assert_eq!(device.destroy_stream(first), Err(Error::INVALID_HANDLE));
}

#[test]
fn the_legacy_stream_orders_blocking_streams_and_no_others() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let group = device.group(1, tenant).unwrap();
    let legacy = device.legacy_stream(group, tenant).unwrap();
    let blocking = device.stream_with(StreamSpec::default());
    let free = device.stream();
    let (flag, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    device.enqueue(blocking, launch(1, 32, spin_until(&flag))).unwrap();
    device.enqueue(legacy, launch(1, 32, count(&counter))).unwrap();
    let after = device.stream_with(StreamSpec::default());
    device.enqueue(after, launch(1, 32, count(&counter))).unwrap();
    let seq = device.enqueue(free, launch(1, 32, count(&counter))).unwrap();
    device.wait_stream(free, seq).unwrap();
    device.run_other_work();
    assert_eq!(counter.load(Ordering::Relaxed), 1, "only the non-blocking stream may go on");
    assert_eq!(device.query_stream(legacy), Err(Error::NOT_READY));
    flag.store(1, Ordering::Release);
    device.synchronize_stream(after).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 3);
}

#[test]
fn a_full_stream_makes_its_submitter_wait() {
    let device = TestDevice::new();
    let (flag, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let stream = device.stream();
    device.enqueue(stream, launch(1, 32, spin_until(&flag))).unwrap();
    let submitted = Arc::new(AtomicU32::new(0));
    let (thread, of_submitter) = std::sync::mpsc::channel();
    let submitter = {
        let (device, counter, submitted) = (device.clone(), counter.clone(), submitted.clone());
        std::thread::spawn(move || {
            thread.send(thread_id()).unwrap();
            for _ in 0..limits::STREAM_QUEUE_MAX * 2 {
                device.enqueue(stream, launch(1, 32, count(&counter))).unwrap();
                submitted.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let is_beyond = || submitted.load(Ordering::Relaxed) > limits::STREAM_QUEUE_MAX as u32;
    while submitted.load(Ordering::Relaxed) < limits::STREAM_QUEUE_MAX as u32 {
        std::thread::yield_now();
    }
    wait_until_asleep(of_submitter.recv().unwrap(), is_beyond);
    assert_eq!(submitted.load(Ordering::Relaxed), limits::STREAM_QUEUE_MAX as u32);
    flag.store(1, Ordering::Release);
    submitter.join().unwrap();
    device.synchronize_stream(stream).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 2 * limits::STREAM_QUEUE_MAX as u32);
}

#[test]
fn a_batch_takes_one_entry_of_a_stream_that_stands() {
    const OF_BATCH: usize = limits::STREAM_QUEUE_MAX / 8;
    let device = TestDevice::new();
    let (flag, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let stream = device.stream();
    device.enqueue(stream, launch(1, 32, spin_until(&flag))).unwrap();
    for _ in 0..limits::STREAM_QUEUE_MAX / 4 {
        // It would wait for ever if each operation had an entry of its own.
        let streams = [stream];
        let _batch = device.batch(&streams).unwrap();
        for _ in 0..OF_BATCH {
            device.enqueue(stream, launch(1, 32, count(&counter))).unwrap();
        }
    }
    flag.store(1, Ordering::Release);
    device.synchronize_stream(stream).unwrap();
    let all = limits::STREAM_QUEUE_MAX / 4 * OF_BATCH;
    assert_eq!(counter.load(Ordering::Relaxed) as usize, all);
}

#[test]
fn words_are_written_and_waited_for() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let word = device.allocate(tenant, 1, 64, 1, AllocationKind::Device).unwrap();
    let wait = |value, condition| {
        Op::WaitValue(ValueWait { address: word, value, wide: false, condition })
    };
    let write = |value| Op::WriteValue(ValueWrite { address: word, value, wide: false });
    let (first, second) = (device.stream(), device.stream());
    device.enqueue(first, wait(3, Condition::GreaterOrEqual)).unwrap();
    device.enqueue(first, write(10)).unwrap();
    device.enqueue(second, write(2)).unwrap();
    device.enqueue(second, Op::Marker).unwrap();
    device.synchronize_stream(second).unwrap();
    assert_eq!(device.query_stream(first), Err(Error::NOT_READY));
    let host = crate::testing::word32(word);
    assert_eq!(host.load(Ordering::Acquire), 2);
    // Written by the host: the ticker sees it.
    host.store(3, Ordering::Release);
    device.synchronize_stream(first).unwrap();
    assert_eq!(host.load(Ordering::Acquire), 10);
    let bad = ValueWrite { address: 64, value: 0, wide: false };
    device.enqueue(first, Op::WriteValue(bad)).unwrap();
    assert_eq!(device.synchronize_stream(first), Err(Error::ILLEGAL_ADDRESS));
}

#[test]
fn a_thread_that_works_for_its_tenant_does_all_of_it() {
    let device = TestDevice::new();
    let tenant = device.create_tenant().unwrap();
    let group = device.group(1, &tenant).unwrap();
    let spec = StreamSpec { non_blocking: true, ..Default::default() };
    let stream = device.create_stream(group, &tenant, spec).unwrap();
    let counter = Arc::new(AtomicU32::new(0));
    while device.work_for(tenant.id) {}
    for round in 1..=100 {
        let seq = device.enqueue(stream, launch(3, 64, count(&counter))).unwrap();
        // With the workers, who may come to it first.
        while device.work_for(tenant.id) {}
        device.wait_stream(stream, seq).unwrap();
        assert_eq!(counter.load(Ordering::Relaxed), 3 * round);
    }
    // Another tenant's work is not touched, and the workers get to it without help.
    let other = device.stream();
    let flag = Arc::new(AtomicU32::new(0));
    device.enqueue(other, launch(3, 64, spin_until(&flag))).unwrap();
    assert!(!device.work_for(tenant.id));
    flag.store(1, Ordering::Release);
    while device.query_stream(other).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn work_that_its_submitter_forgets_is_done_by_a_worker() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let stream = device.stream();
    device.work_for(tenant.id);
    let counter = Arc::new(AtomicU32::new(0));
    for round in 1..=20 {
        device.enqueue(stream, launch(1, 64, count(&counter))).unwrap();
        while counter.load(Ordering::Relaxed) < round {
            std::thread::yield_now();
        }
    }
}

#[test]
fn threads_that_wait_for_kernels_do_what_those_wait_for() {
    // As many threads as slots, each with a kernel that ends when another stream's kernel, or fill, is done.
    for (threads, by_kernel) in [(1, true), (1, false), (2, true), (2, false)] {
        let device = TestDevice::with(|settings| settings.threads = threads);
        let tenant = device.default_tenant();
        let word = device.allocate(tenant, 1, 64, 1, AllocationKind::Device).unwrap();
        let at = move || crate::testing::word32(word);
        let spins: Vec<_> = (0..threads).map(|_| device.stream()).collect();
        let other = device.stream();
        // What this thread submits from now on wakes no worker.
        device.work_for(tenant.id);
        // In some rounds a worker has the kernel first.
        for _ in 0..200 {
            at().store(0, Ordering::Release);
            for stream in &spins {
                let spin = launch(1, 32, move |_, _, _| match at().load(Ordering::Acquire) {
                    0 => Outcome::Yielded,
                    _ => Outcome::Finished,
                });
                device.enqueue(*stream, spin).unwrap();
            }
            let ends = if by_kernel {
                launch(1, 32, move |_, _, _| {
                    at().store(1, Ordering::Release);
                    Outcome::Finished
                })
            } else {
                let (address, value, element) = (word, 1, 4);
                let fill =
                    Fill { address, pitch: 0, value, element, width: 1, height: 1, chunks: true };
                Op::Transfer(Box::new(Transfer::fill(fill)))
            };
            std::thread::scope(|scope| {
                let waits = |stream| {
                    let device = &device;
                    move || device.synchronize_stream(stream).unwrap()
                };
                spins[1..].iter().for_each(|stream| drop(scope.spawn(waits(*stream))));
                device.enqueue(other, ends).unwrap();
                waits(spins[0])();
            });
        }
    }
}
