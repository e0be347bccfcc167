//! Tenants: what is counted for each, what a fault does, how one ends.

use super::*;
use crate::device::profile::KernelRow;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::stream::host::HostCall;
use crate::device::tenant::Tenant;
use simt::kernel::{Fault, FaultKind};
use std::time::{Duration, Instant};

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
    let [mine, theirs] = [(); 2].map(|()| device.create_tenant().unwrap());
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
fn a_fault_ends_all_work_of_its_tenant_and_no_other_ones() {
    let device = TestDevice::new();
    let good = device.default_tenant().clone();
    let bad = device.create_tenant().unwrap();
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
fn a_panic_in_a_tier_is_a_fault_of_the_launch() {
    let device = TestDevice::new();
    let stream = device.stream();
    device.enqueue(stream, launch(1, 32, |_, _, _| panic!("defect"))).unwrap();
    assert_eq!(device.synchronize_stream(stream), Err(Error::LAUNCH_FAILED));
}

#[test]
fn an_illegal_address_is_explained() {
    let device = TestDevice::new();
    let (me, other) = (device.default_tenant().clone(), device.create_tenant().unwrap());
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
fn the_end_of_a_tenant_waits_for_host_functions_that_are_being_called() {
    let device = TestDevice::new();
    let tenant = device.create_tenant().unwrap();
    let group = device.group(1, &tenant).unwrap();
    let stream = device.create_stream(group, &tenant, StreamSpec::default()).unwrap();
    let (started, has_started) = std::sync::mpsc::channel();
    let (returned, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (ender, called_over) = (thread_id(), over.clone());
    let called = {
        let (tenant, returned) = (tenant.clone(), returned.clone());
        move |_| {
            started.send(()).unwrap();
            while !tenant.ended() {
                std::thread::yield_now();
            }
            wait_until_asleep(ender, || called_over.load(Ordering::Acquire) == 1);
            returned.store(1, Ordering::Release);
        }
    };
    let queued = {
        let returned = returned.clone();
        move |_| returned.store(2, Ordering::Release)
    };
    device.enqueue(stream, Op::Host(HostCall { call: Box::new(called), always: false })).unwrap();
    device.enqueue(stream, Op::Host(HostCall { call: Box::new(queued), always: false })).unwrap();
    has_started.recv().unwrap();
    device.end_tenant(&tenant);
    let at_the_end = returned.load(Ordering::Acquire);
    over.store(1, Ordering::Release);
    assert_eq!(at_the_end, 1);
    device.destroy_stream(stream).unwrap();
}

#[test]
fn threads_of_host_functions_take_no_signals() {
    let device = TestDevice::new();
    let (mask, blocked) = std::sync::mpsc::channel::<String>();
    let call = move |_| {
        mask.send(std::fs::read_to_string("/proc/thread-self/status").unwrap()).unwrap();
    };
    let stream = device.stream();
    device.enqueue(stream, Op::Host(HostCall { call: Box::new(call), always: false })).unwrap();
    let status = blocked.recv().unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    let signals = [libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1];
    assert_eq!(signals.map(|signal| blocked >> (signal - 1) & 1), [1; 3]);
}

fn stream_of(device: &TestDevice, tenant: &Arc<crate::device::tenant::Tenant>) -> Key<Stream> {
    let group = device.group(1, tenant).unwrap();
    let spec = StreamSpec { non_blocking: true, ..Default::default() };
    device.create_stream(group, tenant, spec).unwrap()
}

#[test]
fn a_tenant_that_fills_the_device_for_ever_shares_it_with_its_equals() {
    for threads in [1, 2] {
        let device = TestDevice::with(|s| s.threads = threads);
        let [greedy, other, third] = [(); 3].map(|()| device.create_tenant().unwrap());
        let never = Arc::new(AtomicU32::new(0));
        // All places, and grids that wait for one.
        for _ in 0..3 {
            let stream = stream_of(&device, &greedy);
            device.enqueue(stream, launch(16, 1024, spin_until(&never))).unwrap();
        }
        for tenant in [&other, &third] {
            let counter = Arc::new(AtomicU32::new(0));
            let stream = stream_of(&device, tenant);
            // Several waves of blocks, and several kernels.
            for blocks in [1, 100, 16] {
                device.enqueue(stream, launch(blocks, 1024, count(&counter))).unwrap();
            }
            device.synchronize_stream(stream).unwrap();
            assert_eq!(counter.load(Ordering::Relaxed), 117);
        }
        for tenant in [&greedy, &other, &third] {
            device.end_tenant(tenant);
        }
        // What was given twice was given back twice.
        let counter = Arc::new(AtomicU32::new(0));
        let stream = device.stream();
        device.enqueue(stream, launch(16, 1024, count(&counter))).unwrap();
        device.synchronize_stream(stream).unwrap();
        assert_eq!(device.lock().sms.iter().filter(|sm| !sm.is_empty()).count(), 0);
    }
}

/// Slices after which a kernel that waits for another one does so no longer: the other one gets its
/// places in the first few.
const PATIENCE: u64 = 1000;

#[test]
fn kernels_of_a_tenant_that_wait_for_each_other_get_on_beside_one_that_fills_the_device() {
    for (threads, before) in [(1, false), (2, false), (1, true), (2, true)] {
        let device = TestDevice::with(|s| s.threads = threads);
        let [greedy, other] = [(); 2].map(|()| device.create_tenant().unwrap());
        let (never, set) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let full = || {
            let stream = stream_of(&device, &greedy);
            device.enqueue(stream, launch(17, 1024, spin_until(&never))).unwrap();
        };
        if !before {
            full();
        }
        let (flag, gave_up) = (set.clone(), Arc::new(AtomicU32::new(0)));
        let (lost, waits) = (gave_up.clone(), spin_until(&flag));
        let first = stream_of(&device, &other);
        let waiting = move |worker: &mut Worker<'_>, index, resumed| match resumed {
            PATIENCE.. => {
                lost.store(1, Ordering::Release);
                Outcome::Finished
            }
            _ => waits(worker, index, resumed),
        };
        device.enqueue(first, launch(1, 1024, waiting)).unwrap();
        while occupied(&device, &other).is_empty() {
            std::thread::yield_now();
        }
        if before {
            full();
        }
        let second = stream_of(&device, &other);
        device.enqueue(second, launch(1, 1024, count(&set))).unwrap();
        device.synchronize_stream(first).unwrap();
        device.synchronize_stream(second).unwrap();
        assert_eq!(gave_up.load(Ordering::Acquire), 0, "{threads} threads, {before}");
        device.end_tenant(&greedy);
        device.end_tenant(&other);
        assert!(device.lock().sms.iter().all(|sm| sm.is_empty()));
    }
}

#[test]
fn blocks_that_wait_for_each_other_get_on_beside_a_tenant_that_leaves_no_room_for_all() {
    for (threads, theirs) in [(1, 16), (2, 16), (1, 12), (2, 3)] {
        let device = TestDevice::with(|s| s.threads = threads);
        let [greedy, other] = [(); 2].map(|()| device.create_tenant().unwrap());
        let never = Arc::new(AtomicU32::new(0));
        let stream = stream_of(&device, &greedy);
        device.enqueue(stream, launch(theirs, 1024, spin_until(&never))).unwrap();
        // All that the device has room for at once, each of which waits for all.
        let (there, gave_up) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (came, lost) = (there.clone(), gave_up.clone());
        let body = move |worker: &mut Worker<'_>, _, resumed: u64| {
            came.fetch_add(u32::from(resumed == 0), Ordering::AcqRel);
            while came.load(Ordering::Acquire) < 16 && lost.load(Ordering::Acquire) == 0 {
                lost.fetch_max(u32::from(resumed > PATIENCE), Ordering::AcqRel);
                if worker.control.yield_requested() {
                    return Outcome::Yielded;
                }
                std::hint::spin_loop();
            }
            Outcome::Finished
        };
        let stream = stream_of(&device, &other);
        device.enqueue(stream, launch(16, 1024, body)).unwrap();
        device.synchronize_stream(stream).unwrap();
        assert_eq!(gave_up.load(Ordering::Acquire), 0, "{threads} threads beside {theirs}");
        device.end_tenant(&greedy);
        device.end_tenant(&other);
        assert!(device.lock().sms.iter().all(|sm| sm.is_empty()));
    }
}

#[test]
fn kernels_of_a_tenant_get_places_beside_a_full_device_in_the_order_that_they_have_alone() {
    for full in [false, true] {
        let device = TestDevice::new();
        let [greedy, other] = [(); 2].map(|()| device.create_tenant().unwrap());
        let (never, end) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        if full {
            let stream = stream_of(&device, &greedy);
            device.enqueue(stream, launch(17, 1024, spin_until(&never))).unwrap();
        }
        let warps = || device.lock().accounts.get(other.account).unwrap().resident.warps();
        let enqueue = |blocks, threads| {
            let stream = stream_of(&device, &other);
            let last = device.enqueue(stream, launch(blocks, threads, spin_until(&end))).unwrap();
            (stream, last)
        };
        // They leave room for two warps on each SM.
        let first = enqueue(16, 31 * 32);
        while warps() < 16 * 31 {
            std::thread::yield_now();
        }
        // The first of these has to wait, and the other one is behind it.
        let later = [enqueue(16, 1024), enqueue(1, 32)];
        device.lock().place_pending_in_slices(crate::device::clock::now_ns());
        assert_eq!(warps(), 16 * 31, "beside a full device: {full}");
        end.store(1, Ordering::Release);
        for (stream, last) in [first].into_iter().chain(later) {
            device.wait_stream(stream, last).unwrap();
        }
        device.end_tenant(&greedy);
        device.end_tenant(&other);
        assert!(device.lock().sms.iter().all(|sm| sm.is_empty()));
    }
}

/// Waits until the owner of nine kernels has had as much of the device as that of one, after some time of
/// both. What they had is by a clock, which goes on while the worker has no core: one of them may be far
/// ahead at some time, and waits for the other one then. Where kernels have equal shares it is nine times
/// as much for good, and the device's watchdog ends the test.
fn wait_for_equal_shares(had_many: impl Fn() -> u64, had_one: impl Fn() -> u64) {
    while had_one() < 30_000_000 || had_many() >= 4 * had_one() {
        std::thread::yield_now();
    }
}

#[test]
fn tenants_have_equal_shares_however_many_kernels_each_has() {
    let device = TestDevice::with(|s| s.threads = 1);
    let [many, one] = [(); 2].map(|()| device.create_tenant().unwrap());
    let never = Arc::new(AtomicU32::new(0));
    for _ in 0..9 {
        let stream = stream_of(&device, &many);
        device.enqueue(stream, launch(1, 32, spin_until(&never))).unwrap();
    }
    let stream = stream_of(&device, &one);
    device.enqueue(stream, launch(1, 32, spin_until(&never))).unwrap();
    let had = |tenant: &Arc<_>| device.usage(tenant).worker_ns;
    wait_for_equal_shares(|| had(&many), || had(&one));
    device.end_tenant(&many);
    device.end_tenant(&one);
}

#[test]
fn devices_have_equal_shares_however_many_kernels_each_has() {
    let device = TestDevice::with(|s| (s.threads, s.devices) = (1, vec![0, 1]));
    let [many, one] = [0, 1].map(|number| device.default_tenant_on(number).clone());
    let end = Arc::new(AtomicU32::new(0));
    let busy = |tenant| {
        let stream = stream_of(&device, tenant);
        (stream, device.enqueue(stream, launch(1, 32, spin_until(&end))).unwrap())
    };
    let mut kernels: Vec<_> = (0..9).map(|_| busy(&many)).collect();
    kernels.push(busy(&one));
    // What the device counts for each, not what a clock says here.
    let had = |tenant: &Arc<_>| device.usage(tenant).worker_ns;
    let (before_many, before_one) = (had(&many), had(&one));
    wait_for_equal_shares(|| had(&many) - before_many, || had(&one) - before_one);
    end.store(1, Ordering::Release);
    for (stream, last) in kernels {
        device.wait_stream(stream, last).unwrap();
    }
}

#[test]
fn ending_a_tenant_ends_endless_kernels_and_wakes_who_waits() {
    let device = TestDevice::new();
    let tenant = device.create_tenant().unwrap();
    let group = device.group(1, &tenant).unwrap();
    let spec = StreamSpec { non_blocking: true, ..Default::default() };
    let streams: Vec<_> =
        (0..4).map(|_| device.create_stream(group, &tenant, spec.clone()).unwrap()).collect();
    let never = Arc::new(AtomicU32::new(0));
    for stream in &streams {
        device.enqueue(*stream, launch(100, 256, spin_until(&never))).unwrap();
        device.enqueue(*stream, launch(1, 32, count(&never))).unwrap();
    }
    let (begun, has_begun) = std::sync::mpsc::channel();
    let waiter = {
        let (device, stream) = (device.clone(), streams[0]);
        std::thread::spawn(move || {
            begun.send(()).unwrap();
            device.synchronize_stream(stream)
        })
    };
    // Whether it waits already or is about to: it must not wait on.
    has_begun.recv().unwrap();
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

/// SMs on which a tenant has blocks.
fn occupied(device: &TestDevice, tenant: &Tenant) -> Vec<u32> {
    device.lock().accounts.get(tenant.account).unwrap().resident.occupied()
}

fn stream_on(device: &TestDevice, tenant: &Arc<Tenant>, sms: Option<&[u32]>) -> Key<Stream> {
    let group = device.group(1, tenant).unwrap();
    let spec = StreamSpec { non_blocking: true, sms: sms.map(Arc::from), ..Default::default() };
    device.create_stream(group, tenant, spec).unwrap()
}

/// Fills what the stream's blocks may have of the device with some that wait; the SMs that they
/// are on.
fn filled(device: &TestDevice, tenant: &Arc<Tenant>, stream: Key<Stream>) -> Vec<u32> {
    let flag = Arc::new(AtomicU32::new(0));
    let last = device.enqueue(stream, launch(400, 256, spin_until(&flag))).unwrap();
    let sms = occupied(device, tenant);
    flag.store(1, Ordering::Release);
    device.wait_stream(stream, last).unwrap();
    sms
}

#[test]
fn a_tenant_s_blocks_stay_on_its_sms_whatever_their_stream_says() {
    let device = TestDevice::new();
    let [mine, theirs] = [(); 2].map(|()| device.create_tenant().unwrap());
    let all = stream_on(&device, &mine, None);
    assert_eq!(filled(&device, &mine, all), (0..8).collect::<Vec<_>>());
    device.limit_tenant(&mine, Some([1, 2].into()), 0);
    assert_eq!(filled(&device, &mine, all), [1, 2]);
    let some = stream_on(&device, &mine, Some(&[0, 1]));
    assert_eq!(filled(&device, &mine, some), [1], "what both have");
    device.limit_tenant(&theirs, Some([3].into()), 0);
    let elsewhere = stream_on(&device, &theirs, Some(&[0, 1]));
    assert_eq!(filled(&device, &theirs, elsewhere), [3], "the tenant's, if they have none");
    device.limit_tenant(&mine, None, 0);
    assert_eq!(filled(&device, &mine, all), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_share_changes_under_a_running_grid() {
    let device = TestDevice::new();
    let tenant = device.create_tenant().unwrap();
    let stream = stream_on(&device, &tenant, None);
    // Blocks of the first SM wait until as many may end, those of others until any may.
    let (may_end, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (gate, counter) = (may_end.clone(), ended.clone());
    let body = move |worker: &mut Worker<'_>, _, _| {
        let ended = |on_first: bool| if on_first { counter.load(Ordering::Acquire) } else { 0 };
        while ended(worker.sm == 0) >= gate.load(Ordering::Acquire) {
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
            std::hint::spin_loop();
        }
        counter.fetch_add(1, Ordering::AcqRel);
        Outcome::Finished
    };
    let last = device.enqueue(stream, launch(4000, 1024, body)).unwrap();
    assert_eq!(occupied(&device, &tenant), (0..8).collect::<Vec<_>>());
    device.limit_tenant(&tenant, Some([0].into()), 0);
    assert_eq!(
        occupied(&device, &tenant),
        (0..8).collect::<Vec<_>>(),
        "blocks stay until they end"
    );
    may_end.store(1000, Ordering::Release);
    let wait = |what: &dyn Fn() -> bool| {
        while !what() {
            std::thread::yield_now();
        }
    };
    wait(&|| occupied(&device, &tenant) == [0]);
    device.limit_tenant(&tenant, None, 0);
    assert_eq!(occupied(&device, &tenant), (0..8).collect::<Vec<_>>(), "at once");
    may_end.store(u32::MAX, Ordering::Release);
    device.wait_stream(stream, last).unwrap();
    assert_eq!(device.usage(&tenant).blocks, 4000);
    assert!(device.lock().sms.iter().all(|sm| sm.is_empty()));
}

#[test]
fn a_cooperative_grid_that_the_share_has_no_room_for_runs_all_the_same() {
    for full in [false, true] {
        let device = TestDevice::new();
        let [greedy, tenant] = [(); 2].map(|()| device.create_tenant().unwrap());
        let never = Arc::new(AtomicU32::new(0));
        if full {
            // With blocks that wait for room, before all others.
            let stream = stream_of(&device, &greedy);
            device.enqueue(stream, launch(17, 1024, spin_until(&never))).unwrap();
        }
        let stream = stream_on(&device, &tenant, None);
        device.limit_tenant(&tenant, Some([2].into()), 0);
        // All of them have to be there at once: two for each SM of the device; and none ends before
        // it has been looked where they are.
        let (there, looked) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
        let has_looked = looked.clone();
        let came = std::sync::Mutex::new(std::collections::HashSet::new());
        let body = move |_: &mut Worker<'_>, index: simt::kernel::Dim3, _| {
            if came.lock().unwrap().insert(index.x) {
                there.fetch_add(1, Ordering::AcqRel);
            }
            match there.load(Ordering::Acquire) * has_looked.load(Ordering::Acquire) {
                8 => Outcome::Finished,
                _ => Outcome::Yielded,
            }
        };
        let mut op = launch(8, 1024, body);
        if let Op::Kernel(kernel) = &mut op {
            Arc::get_mut(&mut kernel.launch).unwrap().workspace = 1;
        }
        let last = device.enqueue(stream, op).unwrap();
        if !full {
            assert_eq!(occupied(&device, &tenant), [2]);
        }
        looked.store(1, Ordering::Release);
        device.wait_stream(stream, last).unwrap();
        device.end_tenant(&greedy);
    }
}

#[test]
fn a_tenant_of_low_priority_is_behind_all_streams_of_others() {
    let device = TestDevice::new();
    let [mine, theirs] = [(); 2].map(|()| device.create_tenant().unwrap());
    device.limit_tenant(&mine, None, 6);
    let group = device.group(1, &mine).unwrap();
    let spec = StreamSpec { non_blocking: true, priority: -5, ..Default::default() };
    let urgent = device.create_stream(group, &mine, spec).unwrap();
    let never = Arc::new(AtomicU32::new(0));
    let last = device.enqueue(urgent, launch(200, 1024, spin_until(&never))).unwrap();
    // Only a grid that is more urgent gets places on top of those at once.
    let done = Arc::new(AtomicU32::new(0));
    let plain = stream_on(&device, &theirs, None);
    let first = device.enqueue(plain, launch(4, 1024, count(&done))).unwrap();
    assert!(!occupied(&device, &theirs).is_empty() || done.load(Ordering::Acquire) > 0);
    device.wait_stream(plain, first).unwrap();
    never.store(1, Ordering::Release);
    device.wait_stream(urgent, last).unwrap();
}

#[test]
fn an_ended_tenant_leaves_no_memory_and_no_group() {
    use crate::device::memory::AllocationKind;
    let device = TestDevice::new();
    let groups = device.lock().group_of.len();
    for _ in 0..3 {
        let tenant = device.create_tenant().unwrap();
        device.group(1, &tenant).unwrap();
        let kinds = [
            AllocationKind::Device,
            AllocationKind::Managed,
            AllocationKind::Module { writable: true },
            AllocationKind::Module { writable: false },
        ];
        let made = kinds.map(|kind| device.allocate(&tenant, 1, 64, 1, kind).unwrap());
        // Freed before the end, and after it, as a server unloads what a client has left.
        device.free(made[0], |_| true).unwrap();
        device.end_tenant(&tenant);
        made[1..].iter().for_each(|address| device.free(*address, |_| true).unwrap());
        assert_eq!(tenant.memory_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
    device.create_tenant().unwrap();
    assert_eq!(device.lock().group_of.len(), groups);
}
