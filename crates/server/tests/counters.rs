//! What a server counts is what its clients did: kernels by name and shape, copies, streams, time.
//!
//! The provider is that of [`device`].

mod device;
mod support;

use channel::message::{
    Answer, Answered, CountsPart, Message, Question, TraceEntry, TracePart, trace_kind,
};
use channel::request::*;
use cuda_api::CUstream;
use cuda_api::number::cuMemsetD32Async;
use device::start_with_tenants;
use support::*;

const MIB: u64 = 1 << 20;
const SPIN: &str = include_str!("../../../samples/kernels/spin.ptx");
const VECTOR_ADD: &str = include_str!("../../../samples/kernels/vector_add.ptx");

/// Names of the kernels of [`mix`], by the place of their functions.
const NAMES: [&str; 2] = ["vector_add", "spin_steps"];

fn connect(server: &mut Server) -> Client {
    let mut client = server.connect();
    for (place, (image, name)) in [VECTOR_ADD, SPIN].into_iter().zip(NAMES).enumerate() {
        let place = place as u32;
        client.load_image(module(place), image.as_bytes()).0.expect("a module");
        let name = name.as_bytes();
        let request = GetFunction { function: function(place), module: module(place), name };
        client.call(&request).expect("the kernel is there");
    }
    client.chunk(0, 4 * MIB).expect("memory");
    client
}

fn launch(client: &mut Client, place: u32, blocks: [u32; 3], threads: u32, stream: CUstream) {
    let words = match place {
        0 => [0, MIB, 2 * MIB].map(|offset| client.address(offset)).to_vec(),
        _ => vec![client.address(0), 10 << 32 | 100],
    };
    let mut parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if place == 0 {
        parameters.extend(1000u32.to_le_bytes());
    }
    client.post(&LaunchKernel {
        stream,
        grid: blocks,
        ..one_block(function(place), threads, &parameters)
    });
}

/// The parts of an answer: what `part` makes of a message, and whether more come.
fn parts<T>(server: &Server, part: impl Fn(Answered) -> Option<(bool, T)>) -> Vec<T> {
    let mut parts = Vec::new();
    loop {
        let Message::Answer(Answer { answered, .. }) = server.receive() else { continue };
        let Some((more, part)) = part(answered) else { continue };
        parts.push(part);
        if !more {
            return parts;
        }
    }
}

fn counts(server: &Server, number: u32) -> Vec<CountsPart> {
    server.ask(number, Question::Counts(0));
    parts(server, |answered| match answered {
        Answered::Counts(part) => Some((part.more, part)),
        _ => None,
    })
}

fn trace(server: &Server, number: u32, from: u64) -> Vec<TracePart> {
    server.ask(number, Question::Trace(from));
    parts(server, |answered| match answered {
        Answered::Trace(part) => Some((part.more, part)),
        _ => None,
    })
}

/// A scripted mix: what each kernel should have counted is (launches, blocks, threads).
fn mix(client: &mut Client) -> [(u64, u64, u64); 2] {
    client.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    for _ in 0..30 {
        launch(client, 0, [4, 1, 1], 256, LEGACY);
    }
    for n in 1..=5 {
        launch(client, 0, [n, 2, 1], 64, stream(1));
    }
    for _ in 0..7 {
        launch(client, 1, [1, 1, 1], 32, stream(1));
    }
    client.synchronize(stream(1));
    client.write(0, &[1; 5000]);
    client.post_row(cuMemsetD32Async, &[client.address(0), 7, 16, stream(1).0 as u64]);
    assert_eq!(client.read(0, 3000).len(), 3000);
    client.synchronize(stream(1));
    client.synchronize(LEGACY);
    assert_eq!(client.error(), Ok(()));
    let blocks = 30 * 4 + 2 * (1 + 2 + 3 + 4 + 5);
    [(35, blocks, 30 * 4 * 256 + 30 * 64), (7, 7, 7 * 32)]
}

#[test]
fn counters_are_what_geometry_says() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = connect(&mut server);
    let expected = mix(&mut client);
    let status = server.status().clients.remove(0);
    let submitted = status.submitted;
    assert_eq!((submitted.kernels, submitted.copies), (42, 3));
    assert_eq!((submitted.bytes_in, submitted.bytes_out, submitted.bytes_within), (5000, 3000, 64));
    let parts = counts(&server, 2);
    for (name, (launches, blocks, threads)) in NAMES.into_iter().zip(expected) {
        let rows = parts.iter().flat_map(|part| &part.shapes).filter(|(of, _)| of == name);
        let sum = rows.fold((0, 0, 0), |sum, (_, row)| {
            (sum.0 + row.launches, sum.1 + row.blocks, sum.2 + row.threads)
        });
        assert_eq!(sum, (launches, blocks, threads), "{name}");
        let mut exact = parts.iter().flat_map(|part| &part.exact).filter(|(of, _)| of == name);
        let (_, exact) = exact.next().expect("the device counts");
        assert_eq!((exact.launches, exact.blocks), (launches, blocks), "{name}");
        assert!(exact.device_ns > 0 && exact.sm_active_ns > 0, "{exact:?}");
    }
    let streams: Vec<_> = parts
        .iter()
        .flat_map(|part| &part.streams)
        .map(|s| (s.slot, s.kernels, s.copies, s.bytes_in + s.bytes_out + s.bytes_within))
        .collect();
    assert_eq!(streams, [(0, 30, 2, 8000), (1, 12, 1, 64), (u32::MAX, 0, 0, 0)]);
    let streams: Vec<_> = parts.iter().flat_map(|part| &part.streams).copied().collect();
    let grids: Vec<_> = streams.iter().map(|s| (s.blocks, s.threads)).collect();
    assert_eq!(grids, [(120, 120 * 256), (37, 30 * 64 + 7 * 32), (0, 0)]);
    let requests = status.counts;
    assert_eq!(streams.iter().map(|s| s.waits).sum::<u64>(), requests.waits);
    assert!(streams[..2].iter().all(|s| s.waits > 0), "{streams:?}");
    assert_eq!(requests.streams, 2);
    // A session sees that its work has ended when it looks, at the latest when it has nothing to do.
    wait_until("nothing is in flight", || server.status().clients[0].counts.in_flight == 0);
    let work = status.work.expect("the device counts");
    let device_ns: u64 =
        parts.iter().flat_map(|part| &part.exact).map(|(_, row)| row.device_ns).sum();
    assert_eq!((work.blocks, work.device_ns, work.sampled), (157, device_ns, false));
}

#[test]
fn launches_are_timed_and_their_shapes_have_occupancy() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = connect(&mut server);
    mix(&mut client);
    // A session takes times in when it looks at its work, at the latest when that is done.
    wait_until("the times", || {
        let parts = counts(&server, 2);
        let rows: Vec<_> = parts.iter().flat_map(|part| &part.shapes).collect();
        assert_eq!(rows.len(), 7);
        for (name, row) in &rows {
            assert!(row.blocks_per_sm > 0 && row.registers > 0, "{name}: {row:?}");
        }
        rows.iter().all(|(_, row)| row.samples > 0 && row.mean_ns > 0)
    });
}

#[test]
fn a_trace_has_each_piece_of_work_and_adds_up_to_the_counters() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = connect(&mut server);
    let mut next = trace(&server, 1, 0).last().expect("a part").next;
    // Sessions begin when they are rung for.
    let before = mix(&mut client);
    let mut number = 1;
    let mut records = Vec::new();
    let mut again = |records: &mut Vec<_>| {
        number += 1;
        let parts = trace(&server, number, next);
        next = parts.last().expect("a part").next;
        assert!(parts.iter().all(|part| part.lost == 0));
        for part in parts {
            for record in &part.records {
                records.push((part.names[record.name as usize].clone(), *record));
            }
        }
    };
    wait_until("the first records", || {
        launch(&mut client, 1, [1, 1, 1], 32, stream(1));
        client.synchronize(stream(1));
        again(&mut records);
        !records.is_empty()
    });
    records.clear();
    let counted = |server: &Server| {
        let parts = counts(server, 1000);
        let exact = parts.iter().flat_map(|part| part.exact.clone());
        exact.fold((0, 0), |sum, (_, row)| (sum.0 + row.launches, sum.1 + row.device_ns))
    };
    again(&mut records);
    records.clear();
    let start = counted(&server);
    for _ in 0..20 {
        launch(&mut client, 0, [4, 1, 1], 256, stream(1));
    }
    client.write(0, &[3; 100_000]);
    client.synchronize(stream(1));
    // Records of what was launched to get recording in flight may come as late as now.
    // So may those of the mix, whose blocks of 256 threads were in another stream.
    let is_kernel = |record: &TraceEntry| {
        (record.kind, record.stream, record.block_x) == (trace_kind::KERNEL, 1, 256)
    };
    let is_copy =
        |record: &TraceEntry| record.kind == trace_kind::COPY_IN && record.bytes == 100_000;
    wait_until("all records", || {
        again(&mut records);
        records.iter().filter(|(_, record)| is_kernel(record)).count() >= 20
            && records.iter().any(|(_, record)| is_copy(record))
    });
    let end = counted(&server);
    let kernels: Vec<_> = records.iter().filter(|(_, r)| is_kernel(r)).collect();
    let device_ns: u64 = kernels.iter().map(|(_, r)| r.end_ns - r.start_ns).sum();
    assert_eq!((kernels.len() as u64, device_ns), (end.0 - start.0, end.1 - start.1));
    for (name, r) in &kernels {
        assert_eq!((name.as_str(), r.stream, r.grid_x, r.block_x), ("vector_add", 1, 4, 256));
        assert!(r.submitted_ns > 0 && r.submitted_ns <= r.start_ns && r.start_ns <= r.end_ns);
        let on_sms = records.iter().filter(|(_, on)| {
            on.kind == trace_kind::ON_SM && on.launch == r.launch && on.end_ns <= r.end_ns
        });
        assert!((1..=4).contains(&on_sms.count()), "SMs of {r:?}");
    }
    assert_eq!(records.iter().filter(|(_, r)| is_copy(r)).count(), 1);
    assert_eq!(before[0].0, 35);
}
