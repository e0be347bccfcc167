//! Copies and fills beside kernels, and memory that comes and goes meanwhile.

use super::*;
use crate::device::memory::Access;
use crate::device::stream::transfer::{Copy, Fill, Side, Transfer};
use crate::testing::word64;

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
        let physical = device.create_physical(bytes, true, 0).unwrap();
        device.map(&tenant, at, bytes, 0, physical).unwrap();
        device.release_physical(physical).unwrap();
        device.set_access(at, bytes, 0, Access::ReadWrite).unwrap();
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
                crate::testing::word64(at + i * 64).fetch_add(1, Ordering::Relaxed);
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
    assert_eq!(device.memory.info(0).0, device.memory.info(0).1);
}

#[test]
fn a_long_fill_with_zeros_gives_pages_back() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let bytes = 32 << 20;
    let at = device.reserve_addresses(bytes, 0, 0).unwrap();
    let physical = device.create_physical(bytes, true, 0).unwrap();
    device.map(tenant, at, bytes, 0, physical).unwrap();
    device.set_access(at, bytes, 0, Access::ReadWrite).unwrap();
    let stream = device.stream();
    let fill = |value| {
        let fill = Fill {
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
    assert!((at..at + 4096).step_by(8).all(|word| word64(word).load(Ordering::Relaxed) == 0));
    device.unmap(at, bytes).unwrap();
    device.release_physical(physical).unwrap();
    device.free_addresses(at, bytes).unwrap();
}
