//! The scheduler's promises, with kernels that are closures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ops::StreamSpec;
use super::profile::KernelRow;
use super::stream::Op;
use super::transfer::{Copy, Side, Transfer};
use super::values::{Condition, ValueWait, ValueWrite};
use super::{host::HostCall, limits};
use crate::device::memory::{Access, AllocationKind};
use crate::error::Error;
use crate::testing::{TestDevice, launch, launch_in_rows};
use simt::kernel::{Fault, FaultKind, Outcome, Worker};

/// A closure body that counts its blocks.
fn count(
    counter: &Arc<AtomicU32>,
) -> impl Fn(&mut Worker<'_>, simt::kernel::Dim3, u64) -> Outcome + use<> {
    let counter = counter.clone();
    move |_, _, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Outcome::Finished
    }
}

/// A body that goes on until the word is not 0, giving way when asked.
fn spin_until(
    flag: &Arc<AtomicU32>,
) -> impl Fn(&mut Worker<'_>, simt::kernel::Dim3, u64) -> Outcome + use<> {
    let flag = flag.clone();
    move |worker, _, _| {
        while flag.load(Ordering::Acquire) == 0 {
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
            std::hint::spin_loop();
        }
        Outcome::Finished
    }
}

/// The same launch with a priority.
fn of(priority: i32, mut op: Op) -> Op {
    if let Op::Kernel(kernel) = &mut op {
        kernel.priority = priority;
    }
    op
}

#[test]
fn all_blocks_of_a_grid_run_once() {
    let device = TestDevice::new();
    let stream = device.stream();
    let counter = Arc::new(AtomicU32::new(0));
    let seq = device.enqueue(stream, launch(10_000, 256, count(&counter))).unwrap();
    device.wait_stream(stream, seq).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 10_000);
    let usage = device.usage(device.default_tenant());
    assert_eq!((usage.kernels, usage.blocks), (1, 10_000));
    let activity = device.activity();
    assert!(activity.any_kernel_ns > 0 && activity.any_kernel_ns <= activity.total_ns);
    assert!(activity.warp_ns >= 8 * activity.any_kernel_ns);
}

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
fn kernels_of_different_streams_run_at_the_same_time() {
    let device = TestDevice::new();
    let flag = Arc::new(AtomicU32::new(0));
    // More spinning blocks than workers, and still the one that ends them gets its time.
    for _ in 0..5 {
        device.enqueue(device.stream(), launch(4, 64, spin_until(&flag))).unwrap();
    }
    let setter = flag.clone();
    let stream = device.stream();
    let op = launch(1, 32, move |_, _, _| {
        setter.store(1, Ordering::Release);
        Outcome::Finished
    });
    let seq = device.enqueue(stream, op).unwrap();
    device.wait_stream(stream, seq).unwrap();
    let tenant = device.default_tenant();
    let group = device.group(1, tenant).unwrap();
    device.synchronize_group(group, tenant).unwrap();
}

#[test]
fn quanta_end_after_a_long_rest_too() {
    let device = TestDevice::new();
    let stream = device.stream();
    device.enqueue(stream, launch(1, 32, |_, _, _| Outcome::Finished)).unwrap();
    device.synchronize_stream(stream).unwrap();
    // Longer than the ticker stays awake without work.
    std::thread::sleep(std::time::Duration::from_millis(120));
    let flag = Arc::new(AtomicU32::new(0));
    device.enqueue(stream, launch(4, 64, spin_until(&flag))).unwrap();
    let setter = flag.clone();
    let other = device.stream();
    let op = launch(1, 32, move |_, _, _| {
        setter.store(1, Ordering::Release);
        Outcome::Finished
    });
    device.enqueue(other, op).unwrap();
    while flag.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    device.synchronize_stream(stream).unwrap();
}

#[test]
fn blocks_that_do_not_fit_wait_for_room() {
    let device = TestDevice::new();
    let flag = Arc::new(AtomicU32::new(0));
    // 8 SMs hold two blocks of 1024 threads each.
    device.enqueue(device.stream(), launch(16, 1024, spin_until(&flag))).unwrap();
    let counter = Arc::new(AtomicU32::new(0));
    let stream = device.stream();
    let seq = device.enqueue(stream, launch(1, 32, count(&counter))).unwrap();
    for _ in 0..20 {
        assert_eq!(device.query_stream(stream), Err(Error::NOT_READY));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    flag.store(1, Ordering::Release);
    device.wait_stream(stream, seq).unwrap();
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
fn blocks_in_rows_are_run_once_each() {
    const BLOCKS: u32 = 1000;
    let device = TestDevice::new();
    let stream = device.stream();
    let runs: Arc<Vec<AtomicU32>> = Arc::new((0..BLOCKS).map(|_| AtomicU32::new(0)).collect());
    let counted = runs.clone();
    let op = launch_in_rows(BLOCKS, 64, move |_, index, resumed| {
        if index.x % 7 == 3 && resumed == 0 {
            return Outcome::Yielded;
        }
        counted[index.x as usize].fetch_add(1, Ordering::Relaxed);
        Outcome::Finished
    });
    let seq = device.enqueue(stream, op).unwrap();
    device.wait_stream(stream, seq).unwrap();
    let wrong = runs.iter().position(|n| n.load(Ordering::Relaxed) != 1);
    assert_eq!(wrong, None);
    assert_eq!(device.kernel_totals()[0].totals.blocks, u64::from(BLOCKS));
}

#[test]
fn blocks_that_wait_for_each_other_all_start() {
    const SHORT: u32 = 64;
    const MEET: u32 = 40;
    let device = TestDevice::new();
    let stream = device.stream();
    let arrived = AtomicU32::new(0);
    // The short ones make it take the others several at a time.
    let op = launch(SHORT + MEET, 64, move |_, index, resumed| {
        if index.x < SHORT {
            return Outcome::Finished;
        }
        if resumed == 0 {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
        match arrived.load(Ordering::Relaxed) {
            MEET => Outcome::Finished,
            _ => Outcome::Yielded,
        }
    });
    let seq = device.enqueue(stream, op).unwrap();
    device.wait_stream(stream, seq).unwrap();
}

#[test]
fn launches_are_counted_by_kernel() {
    let device = TestDevice::new();
    let stream = device.stream();
    let mut last = 0;
    for _ in 0..3 {
        last = device.enqueue(stream, launch(40, 64, count(&Default::default()))).unwrap();
    }
    device.wait_stream(stream, last).unwrap();
    let totals = device.kernel_totals();
    let [KernelRow { client, kernel, totals }] = &totals[..] else { panic!("{totals:?}") };
    assert_eq!((client.as_str(), kernel.as_str()), ("0", "closure"));
    assert_eq!((totals.launches, totals.blocks), (3, 120));
    assert!(totals.span_ns > 0 && totals.worker_ns > 0);
}

#[test]
fn what_blocks_have_of_the_device_is_counted_by_kernel_and_by_tenant() {
    let device = TestDevice::new();
    let [mine, theirs] = [(); 2].map(|()| device.create_tenant());
    let mut spans = Vec::new();
    for (tenant, threads) in [(&mine, 64), (&theirs, 256)] {
        tenant.set_name(&format!("of {threads}"));
        let group = device.group(1, tenant).unwrap();
        let spec = StreamSpec { non_blocking: true, ..Default::default() };
        let stream = device.create_stream(group, tenant, spec).unwrap();
        let begin = Instant::now();
        // One block on one SM, for a while.
        let wait = |_: &mut Worker<'_>, _, _| {
            std::thread::sleep(Duration::from_millis(5));
            Outcome::Finished
        };
        let last = device.enqueue(stream, launch(1, threads, wait)).unwrap();
        device.wait_stream(stream, last).unwrap();
        spans.push(begin.elapsed().as_nanos() as u64);
    }
    let rows = device.kernel_totals();
    for ((tenant, warps), span_ns) in [(&mine, 2), (&theirs, 8)].into_iter().zip(spans) {
        let usage = device.usage(tenant);
        assert_eq!((usage.kernels, usage.blocks), (1, 1));
        assert!((5_000_000..=span_ns).contains(&usage.sm_ns), "{usage:?} in {span_ns}");
        assert_eq!(usage.warp_ns, warps * usage.sm_ns, "{usage:?}");
        let row = rows.iter().find(|row| row.client == tenant.name()).unwrap();
        assert_eq!((row.totals.sm_ns, row.totals.warp_ns), (usage.sm_ns, usage.warp_ns));
    }
    assert_eq!(device.usage(device.default_tenant()).sm_ns, 0);
}

#[test]
fn sm_masks_keep_blocks_on_their_sms() {
    let device = TestDevice::new();
    let seen = Arc::new(AtomicU32::new(0));
    let spec = StreamSpec {
        non_blocking: true,
        sms: Some([2, 5].into_iter().collect()),
        ..Default::default()
    };
    let stream = device.stream_with(spec);
    let bits = seen.clone();
    let op = launch(500, 128, move |worker, _, _| {
        bits.fetch_or(1 << worker.sm, Ordering::Relaxed);
        Outcome::Finished
    });
    let seq = device.enqueue(stream, op).unwrap();
    device.wait_stream(stream, seq).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1 << 2 | 1 << 5);
}

#[test]
fn sms_that_an_earlier_grid_waits_for_are_not_for_later_ones() {
    let device = TestDevice::with(|s| s.threads = 1);
    let on = |sms: &[u32]| {
        let sms = Some(sms.iter().copied().collect());
        device.stream_with(StreamSpec { non_blocking: true, sms, ..Default::default() })
    };
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = |name: char, threads: u32| {
        let order = order.clone();
        launch(1, threads, move |_: &mut Worker<'_>, _, _| {
            order.lock().unwrap().push(name);
            Outcome::Finished
        })
    };
    let flag = Arc::new(AtomicU32::new(0));
    // Half of SM 0 is taken: the large block has to wait for it, the small one would fit.
    device.enqueue(on(&[0]), launch(1, 1024, spin_until(&flag))).unwrap();
    device.enqueue(on(&[0]), launch(1, 512, spin_until(&flag))).unwrap();
    device.enqueue(on(&[0]), note('l', 1024)).unwrap();
    device.enqueue(on(&[0, 1]), note('s', 32)).unwrap();
    // That one's way to SM 1 is free.
    while order.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    device.enqueue(on(&[0]), note('t', 32)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(*order.lock().unwrap(), ['s']);
    flag.store(1, Ordering::Release);
    while order.lock().unwrap().len() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(*order.lock().unwrap(), ['s', 'l', 't']);
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
    std::thread::sleep(std::time::Duration::from_millis(5));
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
    std::thread::sleep(std::time::Duration::from_millis(5));
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
    let submitter = {
        let (device, counter, submitted) = (device.clone(), counter.clone(), submitted.clone());
        std::thread::spawn(move || {
            for _ in 0..limits::STREAM_QUEUE_MAX * 2 {
                device.enqueue(stream, launch(1, 32, count(&counter))).unwrap();
                submitted.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    while submitted.load(Ordering::Relaxed) < limits::STREAM_QUEUE_MAX as u32 {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(submitted.load(Ordering::Relaxed), limits::STREAM_QUEUE_MAX as u32);
    flag.store(1, Ordering::Release);
    submitter.join().unwrap();
    device.synchronize_stream(stream).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 2 * limits::STREAM_QUEUE_MAX as u32);
}

#[test]
fn a_fault_ends_all_work_of_its_tenant_and_nobody_elses() {
    let device = TestDevice::new();
    let good = device.default_tenant().clone();
    let bad = device.create_tenant();
    let stream_of = |tenant| {
        let group = device.group(1, tenant).unwrap();
        let spec = StreamSpec { non_blocking: true, ..Default::default() };
        device.create_stream(group, tenant, spec).unwrap()
    };
    let (flag, never) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (mine, theirs, theirs_too) = (stream_of(&good), stream_of(&bad), stream_of(&bad));
    device.enqueue(mine, launch(2, 32, spin_until(&flag))).unwrap();
    device.enqueue(theirs_too, launch(8, 32, spin_until(&never))).unwrap();
    let fault = |_: &mut Worker<'_>, index, _| {
        Outcome::Fault(Box::new(Fault {
            kind: FaultKind::IllegalAddress { address: 16, bytes: 4, write: false },
            kernel: "bad".into(),
            block: index,
            thread: Default::default(),
            line: 7,
        }))
    };
    device.enqueue(theirs, launch(100, 32, fault)).unwrap();
    let _ = device.enqueue(theirs, launch(1, 32, fault));
    assert_eq!(device.synchronize_stream(theirs), Err(Error::ILLEGAL_ADDRESS));
    assert_eq!(device.wait_stream(theirs_too, u64::MAX), Err(Error::ILLEGAL_ADDRESS));
    assert_eq!(device.enqueue(theirs, Op::Marker), Err(Error::ILLEGAL_ADDRESS));
    let text = bad.fault_text().unwrap();
    assert!(text.contains("kernel bad") && text.ends_with("at 0x10: a null pointer"), "{text}");
    flag.store(1, Ordering::Release);
    device.synchronize_stream(mine).unwrap();
    assert_eq!(good.sticky(), Ok(()));
}

#[test]
fn an_illegal_address_is_explained() {
    let device = TestDevice::new();
    let (me, other) = (device.default_tenant().clone(), device.create_tenant());
    let allocate =
        |tenant, bytes| device.allocate(tenant, 0, bytes, 256, AllocationKind::Device).unwrap();
    let why = |address, write| device.memory.explain(&me, address, 4, write);
    let mine = allocate(&me, 1000);
    let theirs = allocate(&other, 1000);
    let gone = allocate(&me, 5000);
    device.free(gone, |_| true).unwrap();
    let constant =
        device.allocate(&me, 0, 64, 256, AllocationKind::Module { writable: false }).unwrap();
    let of_mine = format!("the allocation of 1000 bytes at {mine:#x}");
    assert_eq!(why(mine + 1008, true), format!("8 bytes behind the end of {of_mine}"));
    assert_eq!(why(mine + 998, true), format!("it reaches over the end of {of_mine}"));
    assert_eq!(why(theirs, false), "memory of another client");
    let freed = format!("16 bytes into memory of 5000 bytes at {gone:#x}, which was freed");
    assert_eq!(why(gone + 16, true), freed);
    let read_only = format!("the allocation of 64 bytes at {constant:#x} is for reading only");
    assert_eq!(why(constant, true), read_only);
    assert_eq!(why(24, false), "a null pointer");
    assert_eq!(why(1 << 60, false), "no memory is there");
    device.free(theirs, |_| true).unwrap();
    assert_eq!(why(theirs, false), "memory of another client");
}

#[test]
fn ending_a_tenant_ends_endless_kernels_and_wakes_who_waits() {
    let device = TestDevice::new();
    let tenant = device.create_tenant();
    let group = device.group(1, &tenant).unwrap();
    let spec = StreamSpec { non_blocking: true, ..Default::default() };
    let streams: Vec<_> =
        (0..4).map(|_| device.create_stream(group, &tenant, spec.clone()).unwrap()).collect();
    let never = Arc::new(AtomicU32::new(0));
    for stream in &streams {
        device.enqueue(*stream, launch(100, 256, spin_until(&never))).unwrap();
        device.enqueue(*stream, launch(1, 32, count(&never))).unwrap();
    }
    let waiter = {
        let (device, stream) = (device.clone(), streams[0]);
        std::thread::spawn(move || device.synchronize_stream(stream))
    };
    std::thread::sleep(std::time::Duration::from_millis(5));
    device.end_tenant(&tenant);
    assert_eq!(waiter.join().unwrap(), Err(Error::CONTEXT_IS_DESTROYED));
    assert_eq!(never.load(Ordering::Relaxed), 0);
    for stream in streams {
        assert_eq!(device.enqueue(stream, Op::Marker), Err(Error::CONTEXT_IS_DESTROYED));
        device.destroy_stream(stream).unwrap();
    }
    assert_eq!(device.usage(&tenant).kernels, 0);
    // The device is free again: a grid as large as it runs.
    let counter = Arc::new(AtomicU32::new(0));
    let stream = device.stream();
    device.enqueue(stream, launch(16, 1024, count(&counter))).unwrap();
    device.synchronize_stream(stream).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 16);
}

#[test]
fn a_panic_in_a_tier_is_a_fault_of_the_launch() {
    let device = TestDevice::new();
    let stream = device.stream();
    device.enqueue(stream, launch(1, 32, |_, _, _| panic!("defect"))).unwrap();
    assert_eq!(device.synchronize_stream(stream), Err(Error::LAUNCH_FAILED));
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
    // SAFETY: the word lies in live device memory, which is memory of this process.
    let host = unsafe { AtomicU32::from_ptr(word as *mut u32) };
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
fn long_copies_run_beside_kernels() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let bytes = 24 << 20;
    let memory = device.allocate(tenant, 1, bytes, 1, AllocationKind::Device).unwrap();
    let source: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
    let target = vec![0u8; bytes as usize];
    let stream = device.stream();
    let copy = |dst, src| {
        Op::Transfer(Box::new(Transfer::copy(Copy {
            dst,
            src,
            width: bytes,
            height: 1,
            depth: 1,
            staged: None,
        })))
    };
    let flag = Arc::new(AtomicU32::new(0));
    device.enqueue(device.stream(), launch(8, 32, spin_until(&flag))).unwrap();
    let (s, t) = (source.as_ptr() as u64, target.as_ptr() as u64);
    device.enqueue(stream, copy(Side::linear(memory, true), Side::linear(s, false))).unwrap();
    device.enqueue(stream, copy(Side::linear(t, false), Side::linear(memory, true))).unwrap();
    device.synchronize_stream(stream).unwrap();
    flag.store(1, Ordering::Release);
    assert!(source == target);
}

#[test]
fn memory_is_unmapped_only_when_no_block_uses_it() {
    let device = TestDevice::new();
    let tenant = device.default_tenant().clone();
    let bytes = 2 << 20;
    let at = device.reserve_addresses(bytes, 0, 0).unwrap();
    let map = || {
        let physical = device.create_physical(bytes, true).unwrap();
        device.map(&tenant, at, bytes, 0, physical).unwrap();
        device.release_physical(physical).unwrap();
        device.set_access(at, bytes, Access::ReadWrite).unwrap();
    };
    map();
    let touched = Arc::new(AtomicU64::new(0));
    let stream = device.stream();
    // Touches the memory while it may, and ends when it may not.
    let body = {
        let touched = touched.clone();
        move |worker: &mut Worker<'_>, _, _| loop {
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
            if !worker.memory.allows(at, 8, true) {
                return Outcome::Finished;
            }
            for i in 0..64 {
                // SAFETY: just allowed, and stays mapped until this block returns.
                unsafe { AtomicU64::from_ptr((at + i * 64) as *mut u64) }
                    .fetch_add(1, Ordering::Relaxed);
            }
            touched.fetch_add(1, Ordering::Relaxed);
        }
    };
    for _ in 0..20 {
        let before = touched.load(Ordering::Relaxed);
        device.enqueue(stream, launch(4, 32, body.clone())).unwrap();
        while touched.load(Ordering::Relaxed) < before + 10 {
            std::thread::yield_now();
        }
        device.unmap(at, bytes).unwrap();
        device.synchronize_stream(stream).unwrap();
        map();
    }
    device.unmap(at, bytes).unwrap();
    device.free_addresses(at, bytes).unwrap();
    assert_eq!(device.memory.info().0, device.memory.info().1);
}

#[test]
fn two_devices_take_turns_and_both_get_on() {
    let dir = std::env::temp_dir().join(format!("soft-gpu-turns-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let running = Arc::new(AtomicU32::new(0));
    let make = || TestDevice::with(|s| s.turn_dirs = vec![dir.clone()]);
    let devices = [make(), make()];
    let rounds = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    for (number, device) in devices.iter().enumerate() {
        // One bit a device: both set means that both ran at once.
        let (running, rounds) = (running.clone(), rounds.clone());
        let body = move |worker: &mut Worker<'_>, _, _| {
            running.fetch_add(1 << (8 * number), Ordering::AcqRel);
            while !worker.control.yield_requested() {
                let now = running.load(Ordering::Acquire);
                assert!(now & 0xff == 0 || now >> 8 == 0, "both devices run: {now:#x}");
                if rounds[0].load(Ordering::Relaxed).min(rounds[1].load(Ordering::Relaxed)) > 20 {
                    break;
                }
            }
            running.fetch_sub(1 << (8 * number), Ordering::AcqRel);
            rounds[number].fetch_add(1, Ordering::Relaxed);
            if rounds[0].load(Ordering::Relaxed).min(rounds[1].load(Ordering::Relaxed)) > 20 {
                return Outcome::Finished;
            }
            Outcome::Yielded
        };
        device.enqueue(device.stream(), launch(2, 32, body)).unwrap();
    }
    for device in &devices {
        let tenant = device.default_tenant();
        let group = device.group(1, tenant).unwrap();
        device.synchronize_group(group, tenant).unwrap();
    }
    let shares: Vec<u64> = devices.iter().map(|d| d.activity().any_kernel_ns).collect();
    let total = devices[0].activity().total_ns;
    assert!(shares.iter().sum::<u64>() <= total + total / 4, "{shares:?} of {total}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_thread_that_works_for_its_tenant_does_all_of_it() {
    let device = TestDevice::new();
    let tenant = device.create_tenant();
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
fn a_long_fill_with_zeros_gives_pages_back() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let bytes = 32 << 20;
    let at = device.reserve_addresses(bytes, 0, 0).unwrap();
    let physical = device.create_physical(bytes, true).unwrap();
    device.map(tenant, at, bytes, 0, physical).unwrap();
    device.set_access(at, bytes, Access::ReadWrite).unwrap();
    let stream = device.stream();
    let fill = |value| {
        let fill = super::transfer::Fill {
            address: at,
            pitch: 0,
            value,
            element: 1,
            width: bytes,
            height: 1,
            chunks: true,
        };
        device.enqueue(stream, Op::Transfer(Box::new(Transfer::fill(fill)))).unwrap();
        device.synchronize_stream(stream).unwrap();
    };
    let file = std::fs::File::from(device.export_physical(physical).unwrap());
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
    assert_eq!(blocks(), 0, "nothing was touched yet");
    fill(7);
    assert!(blocks() * 512 >= bytes);
    fill(0);
    assert_eq!(blocks(), 0);
    // SAFETY: mapped, and nothing of the device runs.
    assert!(unsafe { std::slice::from_raw_parts(at as *const u8, 4096) }.iter().all(|b| *b == 0));
    device.unmap(at, bytes).unwrap();
    device.release_physical(physical).unwrap();
    device.free_addresses(at, bytes).unwrap();
}
