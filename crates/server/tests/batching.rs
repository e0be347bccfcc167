//! Repeated batches: sequences of launches that come again go to the provider as graphs, and nothing
//! else changes.

mod device;
mod support;

use channel::message::{Answer, Answered, Message, Question, SetBy};
use channel::region::Waiting;
use channel::request::*;
use channel::ring::{Position, RingMemory};
use cuda_api::constants::function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cuda_api::number::{cuFuncSetAttribute, cuMemsetD32Async};
use cuda_api::settings::{LaunchBatching, Percentage};
use cuda_api::{CUdeviceptr, CUgraphEdgeData, CUstream, CudaError};
use server::device::Driver;
use server::session::OPERATIONS_OF_STREAM_MAX;
use std::os::unix::fs::FileExt;
use support::*;

/// Launches of a step, and steps: more than a stream may have in flight, so that some wait in the ring.
const STEP: u32 = 30;
const STEPS: u32 = 48;
const _: () = assert!(STEP * STEPS > OPERATIONS_OF_STREAM_MAX + 10 * STEP);

/// Settings, and how many cores there are: one client at work is too many for one.
const SETTINGS: [(LaunchBatching, usize); 3] = [
    (LaunchBatching::Off, CORES_ENOUGH),
    (LaunchBatching::On, CORES_ENOUGH),
    (LaunchBatching::Oversubscribed, 1),
];

/// Numbers of gates: a test's own.
fn gate(line: u32) -> u32 {
    7_000_000 + line
}

fn driver(tenants: bool) -> Driver {
    Driver { table: provider::table(), extension: tenants.then(provider::extension) }
}

/// A launch of `note`, one of as many shapes as it has.
fn note(client: &mut Client, stream: CUstream, number: u32, shape: u32) {
    client.post(&launch_of(&number.to_le_bytes(), stream, shape));
}

fn launch_of(number: &[u8; 4], stream: CUstream, shape: u32) -> LaunchKernel<'_> {
    LaunchKernel {
        stream,
        grid: [1 + shape % 5, 1 + shape % 3, 1],
        ..one_block(function(1), 32, number)
    }
}

#[test]
fn launches_that_may_begin_early_may_do_so_in_graphs() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    let (launches, _) = provider::graph_launches();
    let first = 1_800_000;
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, step| {
        for at in 0..STEP {
            // Every third one.
            let flags = if at % 3 == 0 { LAUNCH_PROGRAMMATIC } else { 0 };
            let number = first + step * STEP + at;
            client.post(&LaunchKernel { flags, ..launch_of(&number.to_le_bytes(), LEGACY, at) });
        }
    });
    let all: Vec<u32> = (first..first + STEP * STEPS).collect();
    assert!(notes_of(first..first + STEP * STEPS) == all, "other numbers, or in another order");
    let (launches_after, _) = provider::graph_launches();
    assert!(launches_after > launches + 5, "{} graphs", launches_after - launches);
    let graphs = provider::edges_of_graphs();
    assert!(!graphs.is_empty());
    for edges in graphs {
        let early =
            edges.iter().filter(|(.., data)| *data == CUgraphEdgeData::PROGRAMMATIC).count();
        let full = edges.iter().filter(|(.., data)| data.is_full()).count();
        assert_eq!(early + full, edges.len());
        // Any three launches after each other have one that may begin early.
        assert!(early.abs_diff(edges.len() / 3) <= 1, "{early} of {}", edges.len());
    }
}

#[test]
fn a_launch_behind_a_fill_waits_for_it_though_it_may_begin_early() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    client.chunk(0, 4 * MIB).expect("memory");
    let (launches, _) = provider::graph_launches();
    let (first, of_step) = (1_900_000, 6);
    repeat(&mut client, gate(line!()), CORES_ENOUGH, 5 * STEPS, |client, step| {
        fill(client, 0, step.min(1).into());
        for at in 0..of_step {
            let number = (first + step * of_step + at).to_le_bytes();
            let flags = LAUNCH_PROGRAMMATIC;
            client.post(&LaunchKernel { flags, ..launch_of(&number, LEGACY, at) });
        }
    });
    let all = first..first + 5 * STEPS * of_step;
    assert!(notes_of(all.clone()) == all.collect::<Vec<_>>(), "other numbers, or in another order");
    let (launches_after, _) = provider::graph_launches();
    assert!(launches_after > launches + 5, "{} graphs", launches_after - launches);
    assert_eq!(client.read(0, 256), 1u32.to_le_bytes().repeat(64));
}

/// Repeats a step, of which all records fit into the ring: the session takes the first of them when all are
/// there, and finds work of the device in flight until it has taken the last, however busy the cores are.
/// `step` gets the step's number.
fn repeat(
    client: &mut Client,
    at_gate: u32,
    cores: usize,
    steps: u32,
    step: impl Fn(&mut Client, u32),
) {
    client.launch("hold", LEGACY, &at_gate.to_le_bytes());
    await_oversubscription(client, cores);
    post_together(client, LEGACY, at_gate, |client| {
        (0..steps).for_each(|number| step(client, number));
    });
    provider::open_gate(at_gate);
    client.synchronize(LEGACY);
}

/// Posts records that all fit into the ring, where the session finds them together, and waits until it has taken
/// them. It waits meanwhile in the launch of one kernel more, in a stream that has room.
fn post_together(client: &mut Client, of: CUstream, at_gate: u32, post: impl FnOnce(&mut Client)) {
    let stalls = at_gate + 1_000_000;
    client.launch("stall", of, &stalls.to_le_bytes());
    post(client);
    provider::open_gate(stalls);
    let given = client.region.position(Position::Head);
    wait_until("the ring is empty", || client.region.position(Position::Tail) == given);
}

fn notes_of(range: std::ops::Range<u32>) -> Vec<u32> {
    provider::notes(|number| range.contains(&number))
}

#[test]
fn a_sequence_that_comes_again_goes_as_graphs_and_computes_the_same() {
    for tenants in [false, true] {
        let mut server = Server::start_batched(driver(tenants));
        let mut client = server.connect();
        client.load();
        let first = if tenants { 100_000 } else { 200_000 };
        let (launches, set) = provider::graph_launches();
        repeat(
            &mut client,
            gate(line!() + u32::from(tenants)),
            CORES_ENOUGH,
            STEPS,
            |client, step| {
                for at in 0..STEP {
                    note(client, LEGACY, first + step * STEP + at, at);
                }
            },
        );
        let all: Vec<u32> = (first..first + STEP * STEPS).collect();
        assert!(notes_of(first..first + STEP * STEPS) == all, "other numbers, or in another order");
        let (launches_after, set_after) = provider::graph_launches();
        assert!(launches_after > launches + 5, "{} graphs", launches_after - launches);
        assert!(set_after > set + 40, "each node gets its number");
        assert_eq!(client.error(), Ok(()));
        assert_eq!(server.status().clients[0].submitted.kernels, u64::from(2 + STEP * STEPS));
        drop(client);
        server.wait_for_clients(0);
        wait_until("the summary", || server.log().contains(" launches went in "));
    }
}

#[test]
fn parameters_that_stay_are_not_set_again() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    let (launches, set) = provider::graph_launches();
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, _| {
        // Shapes repeat themselves within a step, and so do numbers.
        (0..STEP).for_each(|at| note(client, LEGACY, 300_000 + at % 15, at));
    });
    let (launches_after, set_after) = provider::graph_launches();
    assert!(launches_after > launches + 5);
    assert_eq!(set_after, set);
    let step: Vec<u32> = (0..STEP).map(|at| 300_000 + at % 15).collect();
    assert!(notes_of(300_000..300_000 + STEP) == step.repeat(STEPS as usize));
}

#[test]
fn launches_with_many_bytes_of_parameters_go_one_by_one() {
    // So many as the ring has room for, of one shape: the first ones of each are timed, one by one.
    let (steps, of_step) = (11, 20);
    for (bytes, first) in [(4096, 340_000), (4104, 345_000)] {
        let mut server = Server::start_batched(driver(false));
        let mut client = server.connect();
        client.load();
        let (launches, _) = provider::graph_launches();
        repeat(&mut client, gate(line!() + bytes), CORES_ENOUGH, steps, |client, step| {
            for at in 0..of_step {
                let mut parameters = vec![0; bytes as usize];
                let number = first + step * of_step + at;
                parameters[..4].copy_from_slice(&number.to_le_bytes());
                client.post(&LaunchKernel {
                    parameters: &parameters,
                    ..launch_of(&[0; 4], LEGACY, 0)
                });
            }
        });
        let all = first..first + steps * of_step;
        assert!(
            notes_of(all.clone()) == all.collect::<Vec<_>>(),
            "other numbers, or in another order"
        );
        let went_as_graphs = provider::graph_launches().0 > launches;
        assert_eq!(went_as_graphs, bytes == 4096, "{bytes} bytes");
    }
}

#[test]
fn parameters_that_come_in_turns_are_seldom_set() {
    const SETS: u32 = 4;
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    let (launches, set) = provider::graph_launches();
    let number = |step: u32, at: u32| 320_000 + step % SETS * STEP + at;
    // As layers with other weights: the same launches with other parameters, which come again.
    repeat(&mut client, gate(line!()), CORES_ENOUGH, 2 * STEPS, |client, step| {
        (0..STEP).for_each(|at| note(client, LEGACY, number(step, at), at));
    });
    let (launches_after, set_after) = provider::graph_launches();
    assert!(launches_after > launches + 5);
    let set = set_after - set;
    assert!(set < u64::from(2 * STEPS * STEP / 4), "{set} parameters were set");
    let all = (0..2 * STEPS).flat_map(|step| (0..STEP).map(move |at| number(step, at)));
    assert!(notes_of(320_000..320_000 + SETS * STEP) == all.collect::<Vec<_>>());
}

#[test]
fn nothing_goes_as_a_graph_unless_it_is_wanted() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    client.load();
    let before = provider::graph_launches();
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, _| {
        (0..STEP).for_each(|at| note(client, LEGACY, 400_000, at));
    });
    assert_eq!(provider::graph_launches(), before);
}

/// Waits until the client's session, which has work, has seen that this is too much for one core.
fn await_oversubscription(client: &Client, cores: usize) {
    wait_until("its session has seen the oversubscription", || {
        cores > 1 || client.region.waiting() == Waiting::Oversubscribed
    });
}

/// Launches of a short step: fewer than twice those of a chunk that ends by what is in it.
const SHORT_STEP: u32 = 12;

/// Repeats a short step that is waited for, so that little is ever in flight. Returns how many graphs
/// were launched.
fn short_steps(server: &mut Server, cores: usize, first: u32, part: u32) -> u64 {
    let mut client = server.connect();
    client.load();
    let mut others = 0;
    wait_until("its session has seen the oversubscription", || {
        client.launch("note", LEGACY, &0u32.to_le_bytes());
        others += 1;
        cores > 1 || client.region.waiting() == Waiting::Oversubscribed
    });
    let (launches, _) = provider::graph_launches();
    for step in 0..STEPS {
        for at in 0..SHORT_STEP {
            note(&mut client, LEGACY, first + step * SHORT_STEP + at, at);
            if (at + 1) % part == 0 {
                // The session finds no more in the ring.
                let taken = || client.region.position(Position::Tail);
                let given = client.region.position(Position::Head);
                while taken() < given {
                    std::thread::yield_now();
                }
            }
        }
        if cores > 1 {
            client.call(&WaitIdle {}).expect("all is done");
        } else {
            // The session does not look at its work, so that the oversubscription stays.
            client.synchronize(LEGACY);
        }
    }
    let (launches_after, _) = provider::graph_launches();
    let all = first..first + STEPS * SHORT_STEP;
    assert!(notes_of(all.clone()) == all.collect::<Vec<_>>(), "other numbers, or in another order");
    assert_eq!(client.error(), Ok(()));
    let kernels = server.status().clients[0].submitted.kernels;
    assert_eq!(kernels, u64::from(others + STEPS * SHORT_STEP));
    launches_after - launches
}

#[test]
fn when_oversubscribed_what_is_in_the_ring_together_goes_as_a_graph_however_little_is_in_flight() {
    let settings = [
        (LaunchBatching::Oversubscribed, true),
        (LaunchBatching::On, true),
        (LaunchBatching::Off, false),
    ];
    for (number, (batches, goes)) in (0..).zip(settings) {
        for tenants in [false, true] {
            let mut server = Server::start_batching(driver(tenants), batches, 1);
            let number = 2 * number + u32::from(tenants);
            let first = 1_000_000 + number * STEPS * SHORT_STEP;
            let graphs = short_steps(&mut server, 1, first, SHORT_STEP);
            assert_eq!(graphs > 5, goes, "{graphs} graphs, {batches:?}, tenants: {tenants}");
        }
    }
}

#[test]
fn when_oversubscribed_a_session_waits_for_the_rest_of_a_chunk_as_long_as_it_polls() {
    let mut server = Server::start_batching(driver(false), LaunchBatching::Oversubscribed, 1);
    let graphs = short_steps(&mut server, 1, 1_100_000, SHORT_STEP / 2);
    assert!(graphs > 0);
    server.wait_for_clients(0);
    wait_until("the summary", || server.log().contains(" launches went in "));
    assert!(!server.log().contains(" 0 sleeps with launches held"), "{}", server.log());
}

#[test]
fn where_there_are_cores_enough_short_steps_are_launched_one_by_one() {
    for (number, batches) in (0..).zip([LaunchBatching::Oversubscribed, LaunchBatching::On]) {
        let mut server = Server::start_batching(driver(false), batches, CORES_ENOUGH);
        let first = 1_200_000 + number * STEPS * SHORT_STEP;
        let graphs = short_steps(&mut server, CORES_ENOUGH, first, SHORT_STEP);
        assert_eq!(graphs, 0, "{batches:?}");
    }
}

#[test]
fn where_there_are_cores_enough_the_oversubscription_setting_leaves_long_queues_alone_too() {
    let mut server =
        Server::start_batching(driver(false), LaunchBatching::Oversubscribed, CORES_ENOUGH);
    let mut client = server.connect();
    client.load();
    let before = provider::graph_launches();
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, _| {
        (0..STEP).for_each(|at| note(client, LEGACY, 1_300_000, at));
    });
    assert_eq!(provider::graph_launches(), before);
}

#[test]
fn events_and_other_streams_keep_their_order() {
    for (batches, cores) in &SETTINGS[1..] {
        let (batches, cores) = (*batches, *cores);
        let mut server = Server::start_batching(driver(false), batches, cores);
        let mut client = server.connect();
        client.load();
        for slot in [1, 2] {
            client.post(&CreateStream { stream: stream(slot), flags: 1, priority: 0 });
        }
        client.post(&CreateEvent { event: event(0), flags: 0 });
        let (first, steps) = (500_000 + 10_000 * batches as u32, 40);
        let at_gate = gate(line!() + batches as u32);
        // Stream 1 begins behind the gate; stream 2 waits for the middle of each step of stream 1, and the
        // next step of stream 1 for stream 2.
        client.launch("hold", stream(1), &at_gate.to_le_bytes());
        await_oversubscription(&client, cores);
        let (launches, _) = provider::graph_launches();
        let order = |client: &mut Client, from: u32, to: u32| {
            client.record(event(0), stream(from));
            client.post(&WaitEvent { stream: stream(to), event: event(0) });
        };
        post_together(&mut client, stream(1), at_gate, |client| {
            for step in 0..steps {
                let number = |at: u32| first + step * 2 * STEP + at;
                (0..STEP).for_each(|at| note(client, stream(1), number(at), at));
                order(client, 1, 2);
                (STEP..2 * STEP).for_each(|at| note(client, stream(2), number(at), at));
                order(client, 2, 1);
            }
        });
        provider::open_gate(at_gate);
        client.synchronize(stream(1));
        let all: Vec<u32> = (first..first + steps * 2 * STEP).collect();
        assert!(
            notes_of(first..first + steps * 2 * STEP) == all,
            "other numbers, or in another order"
        );
        let (launches_after, _) = provider::graph_launches();
        assert!(launches_after > launches + 5, "{} graphs", launches_after - launches);
    }
}

#[test]
fn a_batch_of_one_stream_waits_for_none_of_another_stream() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    for slot in [1, 2, 3] {
        client.post(&CreateStream { stream: stream(slot), flags: 1, priority: 0 });
    }
    let (first, steps) = (560_000, 20);
    let (full, waits) = (gate(line!()), gate(line!() + 1));
    // Stream 3 has more than it may have in flight.
    post_together(&mut client, stream(3), full, |client| {
        client.launch("hold", stream(3), &full.to_le_bytes());
        (0..OPERATIONS_OF_STREAM_MAX).for_each(|_| note(client, stream(3), 0, 0));
    });
    let (launches, _) = provider::graph_launches();
    post_together(&mut client, stream(2), waits, |client| {
        client.launch("hold", stream(1), &waits.to_le_bytes());
        for slot in [1, 2] {
            (0..steps * STEP)
                .for_each(|at| note(client, stream(slot), first * slot + at, at % STEP));
        }
    });
    provider::open_gate(full);
    let of_second: Vec<u32> = (2 * first..2 * first + steps * STEP).collect();
    wait_until("stream 2, while stream 1 waits", || {
        notes_of(2 * first..2 * first + steps * STEP) == of_second
    });
    let (launches_after, _) = provider::graph_launches();
    assert!(launches_after > launches + 10, "{} graphs", launches_after - launches);
    provider::open_gate(waits);
    client.synchronize(stream(1));
    // Graphs of a stream go with it.
    let graphs = provider::graphs();
    client.post(&DestroyStream { stream: stream(2) });
    client.settle();
    assert!((1..graphs).contains(&provider::graphs()), "{} of {graphs}", provider::graphs());
}

#[test]
fn another_function_or_length_of_parameters_ends_a_batch() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    client.chunk(0, 2 << 20).expect("memory");
    let sum = client.address(0);
    let mut add = sum.to_le_bytes().to_vec();
    add.extend([1u32, 1].iter().flat_map(|word| word.to_le_bytes()));
    client.write(0, &[0; 4]);
    let (launches, _) = provider::graph_launches();
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, step| {
        for at in 0..STEP {
            match (step % 20, at) {
                // Another function in the place of one, with other parameters.
                (19, 7) => client.launch("add", LEGACY, &add),
                // Parameters that are longer than they need be, in the place of such as are not.
                (18, 8) => client.post(&LaunchKernel {
                    grid: [1 + at % 5, 1 + at % 3, 1],
                    ..one_block(function(1), 32, &[0x20, 0xf0, 0x0f, 0, 9, 9, 9, 9])
                }),
                _ => note(client, LEGACY, 600_000 + at, at),
            }
        }
    });
    assert!(provider::graph_launches().0 > launches + 5);
    assert_eq!(client.error(), Ok(()));
    let sums = STEPS / 20;
    assert_eq!(client.read(0, 4), sums.to_le_bytes());
    let odd = 0xff020;
    assert_eq!(notes_of(odd..odd + 1).len() as u32, sums);
    let expected = STEP * STEPS - 2 * sums;
    assert_eq!(notes_of(600_000..600_000 + STEP).len() as u32, expected);
}

#[test]
fn a_launch_that_is_refused_is_refused_in_a_batch_too() {
    for (batches, cores) in &SETTINGS[1..] {
        let (batches, cores) = (*batches, *cores);
        let mut server = Server::start_batching(driver(false), batches, cores);
        let first = 700_000 + 10_000 * batches as u32;
        let mut client = server.connect();
        client.load();
        let at_gate = gate(line!() + batches as u32);
        let (launches, _) = provider::graph_launches();
        repeat(&mut client, at_gate, cores, STEPS, |client, step| {
            for at in 0..STEP {
                note(client, LEGACY, first + step * STEP + at, at);
            }
            if step % 2 == 0 {
                // No grid has 0 blocks.
                client.post(&LaunchKernel { grid: [0, 1, 1], ..launch_of(&[0; 4], LEGACY, 0) });
            }
        });
        assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
        let all: Vec<u32> = (first..first + STEP * STEPS).collect();
        assert!(notes_of(first..first + STEP * STEPS) == all, "other numbers, or in another order");
        assert!(provider::graph_launches().0 > launches, "other chunks are graphs");
        assert_eq!(server.status().clients[0].submitted.kernels, u64::from(2 + STEP * STEPS));
    }
}

#[test]
fn graphs_go_with_what_they_were_made_of() {
    let mut server = Server::start_batched(driver(false));
    let mut client = server.connect();
    client.load();
    let steps = |client: &mut Client, at_gate| {
        repeat(client, at_gate, CORES_ENOUGH, STEPS, |client, _| {
            (0..STEP).for_each(|at| note(client, LEGACY, 800_000, at));
        });
    };
    steps(&mut client, gate(line!()));
    assert!(provider::graphs() > 0);
    let words = [function(1).0 as u64, MAX_DYNAMIC_SHARED_SIZE_BYTES.into(), 64];
    client.call_row(cuFuncSetAttribute, &words).expect("an attribute");
    assert_eq!(provider::graphs(), 0, "a node has what its function had");
    steps(&mut client, gate(line!()));
    assert!(provider::graphs() > 0);
    client.post(&UnloadModule { module: module(0) });
    assert_eq!(client.error(), Ok(()));
    assert_eq!(provider::graphs(), 0);
}

#[test]
fn a_client_with_a_share_has_no_batches() {
    let mut server = Server::start_batched(driver(false));
    server.settings.share = (Percentage::parse("25").expect("a share"), SetBy::Daemon);
    let mut client = server.connect();
    client.load();
    let before = provider::graph_launches();
    repeat(&mut client, gate(line!()), CORES_ENOUGH, STEPS, |client, _| {
        (0..STEP).for_each(|at| note(client, LEGACY, 900_000, at));
    });
    // Graphs run on all SMs of a device that is not parted for them.
    assert_eq!(provider::graph_launches(), before);
}

/// Launches by kernel and shape, as the server counts them: blocks, then launches by themselves and by
/// graphs of the program's.
fn counts(server: &Server) -> Vec<(String, [u32; 3], u64, u64)> {
    server.ask(9, Question::Counts(0));
    let mut all = Vec::new();
    loop {
        let Message::Answer(Answer { answered: Answered::Counts(part), .. }) = server.receive()
        else {
            continue;
        };
        all.extend(part.shapes.iter().map(|(name, shape)| {
            let grid = [shape.grid_x, shape.grid_y, shape.grid_z];
            (name.clone(), grid, shape.launches, shape.launches_in_graphs)
        }));
        if !part.more {
            all.sort();
            return all;
        }
    }
}

#[test]
fn launches_are_counted_as_they_are_without_batches() {
    let counted = SETTINGS.map(|(batches, cores)| {
        let mut server = Server::start_batching(driver(false), batches, cores);
        let mut client = server.connect();
        client.load();
        let at_gate = gate(line!() + batches as u32);
        let (launches, _) = provider::graph_launches();
        repeat(&mut client, at_gate, cores, STEPS, |client, step| {
            (0..STEP).for_each(|at| note(client, LEGACY, 950_000 + step, at));
        });
        assert_eq!(provider::graph_launches().0 > launches, batches != LaunchBatching::Off);
        let status = server.status().clients.remove(0);
        (counts(&server), status.submitted.kernels)
    });
    assert_eq!(counted[0], counted[1]);
    assert_eq!(counted[0], counted[2]);
}

/// Two kernels of the real provider in a client: `vector_add`, and one that runs until a word is set.
const IMAGES: [(&str, &str); 2] = [
    (include_str!("../../../samples/kernels/vector_add.ptx"), "vector_add"),
    (include_str!("../../../samples/kernels/spin.ptx"), "spin_until"),
];

fn launch(client: &mut Client, place: u32, blocks: u32, parameters: &[u64]) {
    let parameters: Vec<u8> = parameters.iter().flat_map(|word| word.to_le_bytes()).collect();
    client.post(&LaunchKernel {
        grid: [blocks, 1, 1],
        ..one_block(function(place), 64, &parameters)
    });
}

const MIB: u64 = 1 << 20;

/// Multiples of a number.
fn floats(factor: f32) -> Vec<u8> {
    (0..64u8).flat_map(|number| (factor * f32::from(number)).to_le_bytes()).collect()
}

/// A client with `vector_add`, its operands in its memory, and behind a kernel that spins until it is asked to end in
/// the memory's file.
fn prepare_to_add(server: &mut Server) -> (Client, std::fs::File) {
    let mut client = server.connect();
    for (place, (image, kernel)) in (0..).zip(IMAGES) {
        client.load_image(module(place), image.as_bytes()).0.expect("a module");
        let (function, module, name) = (function(place), module(place), kernel.as_bytes());
        client.call(&GetFunction { function, module, name }).expect("the kernel is there");
    }
    let memory = std::fs::File::from(client.chunk(0, 4 * MIB).expect("memory"));
    client.write(MIB, &floats(1.0));
    client.write(MIB + 4096, &floats(2.0));
    let [flag, seen] = [0, 4096].map(|offset| client.address(offset));
    launch(&mut client, 1, 1, &[flag, seen]);
    (client, memory)
}

/// Has the kernel end, and waits for all behind it.
fn run_added(client: &mut Client, memory: &std::fs::File) {
    memory.write_all_at(&5u32.to_le_bytes(), 0).expect("the word that ends the spinning");
    client.synchronize(LEGACY);
}

/// A client whose steps of `vector_add` wait in its ring behind a kernel that spins, and then run. Its
/// parameters of a launch are what `change` makes of them.
fn add_on_device(server: &mut Server, change: impl Fn(u32, &mut [u64; 4])) -> Client {
    let (mut client, memory) = prepare_to_add(server);
    for number in 0..STEP * STEPS {
        // As in a step: c = a + b, with another c for each launch of it.
        let at = number % STEP;
        let to = client.address(2 * MIB + 1024 * u64::from(at));
        let mut words = [client.address(MIB), client.address(MIB + 4096), to, 64];
        change(number, &mut words);
        launch(&mut client, 0, 1 + at % 5, &words);
    }
    run_added(&mut client, &memory);
    client
}

#[test]
fn real_kernels_compute_the_same_in_batches() {
    let mut server = Server::start_batched(device::driver());
    // The last step writes elsewhere.
    let last = STEP * (STEPS - 1);
    let mut client = add_on_device(&mut server, |number, words| {
        if number >= last {
            words[2] += 512;
        }
    });
    assert_eq!(client.region.sticky_error(), Ok(()));
    for at in 0..u64::from(STEP) {
        let place = 2 * MIB + 1024 * at;
        let sums = [client.read(place, 256), client.read(place + 512, 256)];
        assert_eq!(sums, [floats(3.0), floats(3.0)], "{at}");
    }
    drop(client);
    server.wait_for_clients(0);
    assert!(server.log().contains(" launches went in "), "{}", server.log());
}

/// Posts a fill of 64 words of the client's memory with a value.
fn fill(client: &mut Client, offset: u64, value: u64) {
    let stream = LEGACY.0 as u64;
    client.post_row(cuMemsetD32Async, &[client.address(offset), value, 64, stream]);
}

#[test]
fn fills_between_launches_go_with_them_in_their_order() {
    const LAUNCHES: u32 = 5;
    for always_elsewhere in [false, true] {
        let mut server = Server::start_batched(device::driver());
        let sum = 2 * MIB;
        let (mut client, memory) = prepare_to_add(&mut server);
        for step in 0..3 * STEPS {
            // sum = 0, and a to it some times: too few launches for a graph of them alone.
            fill(&mut client, sum, 0);
            let to = client.address(sum);
            let words = [client.address(MIB), to, to, 64];
            (0..LAUNCHES).for_each(|at| launch(&mut client, 0, 1 + at, &words));
            if always_elsewhere {
                fill(&mut client, sum + 4096 + u64::from(step) * 256, 1f32.to_bits().into());
            }
        }
        run_added(&mut client, &memory);
        assert_eq!(client.region.sticky_error(), Ok(()));
        assert_eq!(client.read(sum, 256), floats(LAUNCHES as f32));
        if always_elsewhere {
            let last = client.read(sum + 4096 + u64::from(3 * STEPS - 1) * 256, 256);
            assert_eq!(last, 1f32.to_le_bytes().repeat(64));
        }
        drop(client);
        server.wait_for_clients(0);
        // One that is new each time ends a chunk.
        let log = server.log();
        assert_eq!(log.contains(" launches went in "), !always_elsewhere, "{log}");
    }
}

#[test]
fn a_fill_of_memory_that_is_gone_is_refused_in_a_batch_too() {
    let mut server = Server::start_batched(device::driver());
    let (mut client, memory) = prepare_to_add(&mut server);
    let gone = client.address(8 * MIB);
    client.chunk(8 * MIB, 4 * MIB).expect("memory");
    let to = client.address(2 * MIB);
    let words = [client.address(MIB), to, to, 64];
    let steps = |client: &mut Client, steps: u32| {
        for _ in 0..steps {
            client.post_row(cuMemsetD32Async, &[gone, 0, 64, LEGACY.0 as u64]);
            (0..5).for_each(|at| launch(client, 0, 1 + at, &words));
        }
    };
    steps(&mut client, 3 * STEPS);
    run_added(&mut client, &memory);
    assert_eq!(client.error(), Ok(()));
    client.call(&ChunkRelease { address: CUdeviceptr(gone) }).expect("the chunk is there");
    steps(&mut client, 10);
    client.synchronize(LEGACY);
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.region.sticky_error(), Ok(()));
}

#[test]
fn a_fault_in_a_batch_names_its_kernel_as_ever() {
    let driver = device::driver();
    if driver.extension.is_none() {
        return eprintln!("left out: the provider has no tenants");
    }
    let said = SETTINGS.map(|(batches, cores)| {
        let mut server = Server::start_batching(driver, batches, cores);
        let client = add_on_device(&mut server, |number, words| {
            if number >= STEP * (STEPS - 1) {
                words[2] += 64 * MIB;
            }
        });
        assert_eq!(client.region.sticky_error(), Err(CudaError::ILLEGAL_ADDRESS));
        drop(client);
        server.wait_for_clients(0);
        let log = server.log();
        let fault = log.lines().find(|line| line.contains("vector_add")).expect("the fault");
        let fault = fault.split_once("kernel").expect("what it was").1.to_owned();
        (fault, log.contains(" launches went in "))
    });
    let [(fault, false), (in_batch, true), (when_oversubscribed, true)] = &said else {
        panic!("{said:?}")
    };
    assert_eq!([in_batch, when_oversubscribed], [fault; 2]);
}
