//! Where blocks go and in which order they run.

use super::*;
use crate::testing::launch_in_rows;

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
    while device.lock().ticker.is_none() {
        std::thread::yield_now();
    }
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
    let placed = || device.lock().grids.iter().map(|(_, grid)| grid.placed()).sum::<u64>();
    assert_eq!(placed(), 16);
    device.lock().place_blocks(crate::device::clock::now_ns());
    assert_eq!(placed(), 16);
    assert_eq!(device.query_stream(stream), Err(Error::NOT_READY));
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    flag.store(1, Ordering::Release);
    device.wait_stream(stream, seq).unwrap();
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
    device.run_other_work();
    assert_eq!(*order.lock().unwrap(), ['s']);
    flag.store(1, Ordering::Release);
    while order.lock().unwrap().len() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(*order.lock().unwrap(), ['s', 'l', 't']);
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

/// Takes all of the tenant's memory to make ready what a grid asked for, as an unmapping does.
struct TakesMemory {
    tenant: Arc<crate::device::tenant::Tenant>,
    ready: AtomicU32,
}

impl crate::device::execution::grid::Followers for TakesMemory {
    fn prepare(&self) {
        self.tenant.space.exclusively(|| self.ready.fetch_add(1, Ordering::Relaxed));
    }

    fn take(&self) -> Vec<Op> {
        assert!(self.ready.load(Ordering::Relaxed) > 0, "it is ready when the grid has ended");
        Vec::new()
    }
}

#[test]
fn what_a_grid_asks_for_is_made_ready_while_no_memory_is_held() {
    let device = TestDevice::new();
    let tenant = device.default_tenant().clone();
    let followers = Arc::new(TakesMemory { tenant, ready: AtomicU32::new(0) });
    let stream = device.stream();
    let Op::Kernel(mut op) = launch(4, 32, |_, _, _| Outcome::Finished) else { unreachable!() };
    op.followers = Some(followers.clone());
    device.enqueue(stream, Op::Kernel(op)).unwrap();
    device.synchronize_stream(stream).unwrap();
    assert!(followers.ready.load(Ordering::Relaxed) > 0);
}
