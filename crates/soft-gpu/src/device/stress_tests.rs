//! Random programs of many streams and events against the same program run in order.
//!
//! Each operation reads one word of device memory and changes another. Where two operations of
//! different streams touch the same word, the program orders them with events, or leaves it to
//! the legacy default stream's rules. The words at the end must be those of the program run one
//! operation after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::memory::AllocationKind;
use crate::device::slab::Key;
use crate::device::stream::event::EventPoint;
use crate::device::stream::host::HostCall;
use crate::device::stream::ops::StreamSpec;
use crate::device::stream::transfer::{Copy, Fill, Side, Transfer};
use crate::device::stream::values::{Condition, ValueWait, ValueWrite};
use crate::device::stream::{Op, Stream};
use crate::device::tenant::Tenant;
use crate::testing::{Random, TestDevice, launch};
use simt::kernel::Outcome;

const WORDS: u64 = 24;
const OPERATIONS: u64 = 1500;

fn word(address: u64) -> &'static AtomicU64 {
    crate::testing::word64(address)
}

fn mix(target: u64, source: u64, number: u64) -> u64 {
    (target.rotate_left(7) ^ source).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number)
}

fn linear(dst: u64, src: u64, bytes: u64) -> Op {
    let (dst, src) = (Side::linear(dst, true), Side::linear(src, true));
    let copy = Copy { dst, src, width: bytes, height: 1, depth: 1, staged: None };
    Op::Transfer(Box::new(Transfer::copy(copy)))
}

/// One operation on words `target` and `source`: what the device is asked, and what it means.
fn operation(random: &mut Random, number: u64, target: u64, source: u64) -> (Op, Effect) {
    match random.below(10) {
        0..=3 => {
            let blocks = 1 + random.below(40) as u32;
            let yields = random.below(3);
            let op = launch(blocks, 32 << random.below(4), move |_, index, resumed| {
                if resumed < yields {
                    return Outcome::Yielded;
                }
                if index.x == 0 {
                    let value = mix(
                        word(target).load(Ordering::Relaxed),
                        word(source).load(Ordering::Relaxed),
                        number,
                    );
                    word(target).store(value, Ordering::Relaxed);
                }
                Outcome::Finished
            });
            (op, Effect::Mix)
        }
        4..=5 => (linear(target, source, 8), Effect::Copy),
        6 => {
            let fill = Fill {
                address: target,
                pitch: 0,
                value: number as u32,
                element: 4,
                width: 2,
                height: 1,
                chunks: true,
            };
            (Op::Transfer(Box::new(Transfer::fill(fill))), Effect::Fill)
        }
        7 => {
            let call = move |_| {
                let value = mix(
                    word(target).load(Ordering::Relaxed),
                    word(source).load(Ordering::Relaxed),
                    number,
                );
                word(target).store(value, Ordering::Relaxed);
            };
            (Op::Host(HostCall { call: Box::new(call), always: false }), Effect::Mix)
        }
        _ => {
            let write = ValueWrite { address: target, value: number, wide: true };
            (Op::WriteValue(write), Effect::Write)
        }
    }
}

#[derive(Clone, Copy)]
enum Effect {
    Mix,
    Copy,
    Fill,
    Write,
}

impl Effect {
    fn apply(self, target: u64, source: u64, number: u64) -> u64 {
        match self {
            Self::Mix => mix(target, source, number),
            Self::Copy => source,
            Self::Fill => number << 32 | number,
            Self::Write => number,
        }
    }
}

/// Who touched a word last.
#[derive(Default)]
struct Touched {
    writer: Option<(usize, Arc<EventPoint>)>,
    readers: Vec<(usize, Arc<EventPoint>)>,
}

/// Runs one random program of a tenant and checks its result.
fn program(device: &TestDevice, tenant: &Arc<Tenant>, context: u64, seed: u64) {
    let mut random = Random::new(seed);
    let group = device.group(context, tenant).unwrap();
    let mut streams: Vec<Key<Stream>> = (0..2 + random.below(10))
        .map(|_| {
            let spec = StreamSpec {
                non_blocking: true,
                priority: -(random.below(6) as i32),
                ..Default::default()
            };
            device.create_stream(group, tenant, spec).unwrap()
        })
        .collect();
    let memory = device.allocate(tenant, context, 8 * WORDS, 8, AllocationKind::Device).unwrap();
    let mut model: Vec<u64> = (0..WORDS).collect();
    for (index, value) in model.iter().enumerate() {
        word(memory + 8 * index as u64).store(*value, Ordering::Relaxed);
    }
    let mut touched: HashMap<u64, Touched> = HashMap::new();
    for number in 0..OPERATIONS {
        let at = random.below(streams.len() as u64) as usize;
        let (target, source) = (random.below(WORDS), random.below(WORDS));
        let (op, effect) = operation(&mut random, number, memory + 8 * target, memory + 8 * source);
        let mut waits = Vec::new();
        if let Some(before) = touched.get(&source) {
            waits.extend(before.writer.clone());
        }
        if let Some(before) = touched.get(&target) {
            waits.extend(before.writer.clone());
            waits.extend(before.readers.iter().cloned());
        }
        for (stream, point) in waits {
            if stream != at {
                device.wait_for_point(streams[at], &point).unwrap();
            }
        }
        device.enqueue(streams[at], op).unwrap();
        let point = device.record(streams[at]).unwrap();
        touched.entry(source).or_default().readers.push((at, point.clone()));
        *touched.entry(target).or_default() =
            Touched { writer: Some((at, point.clone())), readers: Vec::new() };
        model[target as usize] =
            effect.apply(model[target as usize], model[source as usize], number);
        match random.below(60) {
            0 => device.synchronize_stream(streams[at]).unwrap(),
            1 => device.synchronize_point(&point).unwrap(),
            2 => {
                // A stream goes and another takes its place; its work is still done.
                let spec = StreamSpec { non_blocking: true, ..Default::default() };
                let new = device.create_stream(group, tenant, spec).unwrap();
                let old = std::mem::replace(&mut streams[at], new);
                device.wait_for_point(new, &point).unwrap();
                device.destroy_stream(old).unwrap();
            }
            3 => {
                let _ = device.query_stream(streams[at]);
            }
            _ => {}
        }
    }
    device.synchronize_group(group, tenant).unwrap();
    for point in touched.values().flat_map(|t| t.writer.iter()) {
        device.synchronize_point(&point.1).unwrap();
    }
    let result: Vec<u64> =
        (0..WORDS).map(|n| word(memory + 8 * n).load(Ordering::Relaxed)).collect();
    assert_eq!(result, model, "seed {seed}");
    device.free(memory, |_| true).unwrap();
    for stream in streams {
        device.destroy_stream(stream).unwrap();
    }
}

#[test]
fn random_programs_end_as_if_run_in_order() {
    let device = TestDevice::new();
    for seed in 1..=6 {
        program(&device, device.default_tenant(), 1, seed);
    }
}

#[test]
fn random_programs_of_several_threads_and_tenants_do_not_disturb_each_other() {
    let device = TestDevice::with(|s| s.threads = 3);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let device = &device;
            scope.spawn(move || {
                let tenant = match thread % 2 {
                    0 => device.default_tenant().clone(),
                    _ => device.create_tenant().unwrap(),
                };
                for round in 0..3 {
                    program(device, &tenant, 1 + thread, 100 * thread + round);
                }
            });
        }
    });
}

#[test]
fn random_programs_ordered_by_the_legacy_stream() {
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let group = device.group(1, tenant).unwrap();
    let legacy = device.legacy_stream(group, tenant).unwrap();
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let streams: Vec<_> = (0..6).map(|_| device.stream_with(StreamSpec::default())).collect();
        let memory = device
            .allocate(tenant, 1, 8 * streams.len() as u64, 8, AllocationKind::Device)
            .unwrap();
        let mut model = vec![0u64; streams.len()];
        for at in 0..streams.len() as u64 {
            word(memory + 8 * at).store(0, Ordering::Relaxed);
        }
        for number in 0..OPERATIONS {
            let (target, source) = (random.below(6), random.below(6));
            // A stream owns a word; only the legacy stream may look at another's.
            let (stream, source) = if random.below(3) == 0 {
                (legacy, source)
            } else {
                (streams[target as usize], target)
            };
            let (op, effect) =
                operation(&mut random, number, memory + 8 * target, memory + 8 * source);
            device.enqueue(stream, op).unwrap();
            model[target as usize] =
                effect.apply(model[target as usize], model[source as usize], number);
        }
        device.synchronize_stream(legacy).unwrap();
        for (at, value) in model.iter().enumerate() {
            assert_eq!(word(memory + 8 * at as u64).load(Ordering::Relaxed), *value, "seed {seed}");
        }
        device.free(memory, |_| true).unwrap();
        for stream in streams {
            device.destroy_stream(stream).unwrap();
        }
    }
}

#[test]
fn streams_pass_a_token_through_words() {
    // Each stream waits for its number and writes the next: a ring of streams, many times round.
    let device = TestDevice::new();
    let tenant = device.default_tenant();
    let token = device.allocate(tenant, 1, 8, 8, AllocationKind::Device).unwrap();
    word(token).store(0, Ordering::Relaxed);
    let streams: Vec<_> = (0..7).map(|_| device.stream()).collect();
    let rounds = 50;
    for number in 0..rounds * 7 {
        let stream = streams[(number % 7) as usize];
        let wait =
            ValueWait { address: token, value: number, wide: true, condition: Condition::Equal };
        let write = ValueWrite { address: token, value: number + 1, wide: true };
        device.enqueue(stream, Op::WaitValue(wait)).unwrap();
        device.enqueue(stream, Op::WriteValue(write)).unwrap();
    }
    for stream in streams {
        device.synchronize_stream(stream).unwrap();
    }
    assert_eq!(word(token).load(Ordering::Relaxed), rounds * 7);
}

#[test]
fn tenants_come_and_end_in_the_middle_of_their_work() {
    let device = TestDevice::new();
    let (_, total) = device.memory.info(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let device = &device;
            scope.spawn(move || {
                let mut random = Random::new(thread + 77);
                for _ in 0..40 {
                    let tenant = device.create_tenant().unwrap();
                    let group = device.group(1, &tenant).unwrap();
                    let spec = StreamSpec { non_blocking: true, ..Default::default() };
                    let streams: Vec<_> = (0..3)
                        .map(|_| device.create_stream(group, &tenant, spec.clone()).unwrap())
                        .collect();
                    let memory =
                        device.allocate(&tenant, 1, 1 << 20, 1, AllocationKind::Device).unwrap();
                    for n in 0..random.below(30) {
                        let stream = streams[(n % 3) as usize];
                        let endless = random.below(4) == 0;
                        let op = launch(1 + random.below(20) as u32, 64, move |worker, _, _| {
                            while endless && !worker.control.yield_requested() {
                                std::hint::spin_loop();
                            }
                            if endless { Outcome::Yielded } else { Outcome::Finished }
                        });
                        device.enqueue(stream, op).unwrap();
                        device.enqueue(stream, linear(memory, memory + 4096, 2048)).unwrap();
                    }
                    device.end_tenant(&tenant);
                    for stream in streams {
                        device.destroy_stream(stream).unwrap();
                    }
                    device.free(memory, |_| true).unwrap();
                    device.trim(&tenant);
                }
            });
        }
    });
    assert_eq!(device.memory.info(0).0, total, "all memory came back");
}
