//! Classes of clients at the gate: which client is made to wait for which, with kernels that run
//! until asked to end.

mod support;

use channel::message::{Answer, Answered, Message, Question, Schedule};
use channel::request::*;
use cuda_api::number::{cuMemcpyDtoDAsync_v2, cuMemsetD32Async};
use cuda_api::{CUdeviceptr, CUgraphExec};
use support::*;

const MIB: u64 = 1 << 20;

fn u32_bytes(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

/// A client of some settings, with the test provider's kernels loaded.
fn client(server: &mut Server, settings: &str) -> Client {
    server.scheduling = settings.to_owned();
    let mut client = server.connect();
    client.load();
    client
}

fn change(server: &Server, client: u32, settings: &str, result: u32) {
    server.ask(77, Question::Schedule(Schedule { client, settings: settings.to_owned() }));
    assert_eq!(server.receive(), done(77, result));
}

fn refuse(server: &Server, client: u32, settings: &str, why: &str) {
    server.ask(78, Question::Schedule(Schedule { client, settings: settings.to_owned() }));
    match server.receive() {
        Message::Answer(Answer { number: 78, answered: Answered::Refused(text) }) => {
            assert!(text.contains(why), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// Waits until a client is held at the gate for the nth time.
fn wait_until_held(server: &Server, index: usize, holds: u64) {
    wait_until("the client is held", || server.status().clients[index].scheduling.pauses >= holds);
}

#[test]
fn batch_work_stays_in_the_ring_while_latency_work_is_there() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    change(&server, 0, "pause-max=none", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9001));
    critical.settle();
    batch.launch("note", LEGACY, &u32_bytes(9002));
    wait_until_held(&server, 1, 1);
    assert_eq!(provider::notes(|n| n == 9002), []);
    provider::open_gate(9001);
    wait_until("the batch kernel has run", || provider::notes(|n| n == 9002) == [9002]);
    assert_eq!(server.status().clients[0].scheduling.pauses, 0);
    // Without a pause it runs beside the other one.
    change(&server, 0, "pause=off", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9003));
    critical.settle();
    batch.launch("note", LEGACY, &u32_bytes(9004));
    wait_until("the batch kernel has run", || provider::notes(|n| n == 9004) == [9004]);
    provider::open_gate(9003);
}

#[test]
fn a_paused_client_goes_on_when_its_class_changes_or_the_pause_is_over() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    change(&server, 0, "pause-max=none", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9011));
    critical.settle();
    batch.launch("note", LEGACY, &u32_bytes(9012));
    wait_until_held(&server, 1, 1);
    change(&server, batch.welcome.client_id, "class=normal", 0);
    wait_until("it is no batch any more", || provider::notes(|n| n == 9012) == [9012]);
    assert_eq!(server.status().clients[1].scheduling.settings, "class=normal");
    change(&server, batch.welcome.client_id, "class=batch", 0);
    batch.launch("note", LEGACY, &u32_bytes(9013));
    wait_until_held(&server, 1, 2);
    change(&server, 0, "pause-max=1ms", 0);
    wait_until("the pause has an end", || provider::notes(|n| n == 9013) == [9013]);
    provider::open_gate(9011);
    refuse(&server, 0, "speed=9", "\"speed\" is no setting");
    refuse(&server, 4711, "class=batch", "4711");
}

#[test]
fn a_paused_client_can_end_and_so_can_the_one_that_it_waits_for() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    let mut other = client(&mut server, "class=batch");
    change(&server, 0, "pause-max=none", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9021));
    critical.settle();
    batch.launch("note", LEGACY, &u32_bytes(9022));
    other.launch("note", LEGACY, &u32_bytes(9023));
    wait_until_held(&server, 1, 1);
    wait_until_held(&server, 2, 1);
    drop(batch);
    server.wait_for_clients(2);
    drop(critical);
    wait_until("the other goes on", || provider::notes(|n| n == 9023) == [9023]);
    assert_eq!(provider::notes(|n| n == 9022), []);
}

#[test]
fn work_in_flight_is_bounded_by_its_predicted_time() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    // A kernel of which nothing is known counts as 20 us. The bound is there while critical work is, and a second
    // longer, which a slow machine may need for less than this test.
    change(&server, 0, "in-flight=60us pause=off", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9031));
    critical.settle();
    batch.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    batch.launch("hold", stream(1), &u32_bytes(9032));
    for _ in 0..9 {
        batch.launch("note", LEGACY, &u32_bytes(9033));
    }
    for n in 0..9 {
        batch.launch("note", stream(1), &u32_bytes(9040 + n));
    }
    batch.launch("note", LEGACY, &u32_bytes(9034));
    // The kernel that holds its stream up and two behind it are in flight, and no more.
    wait_until("three are in flight", || server.status().clients[1].submitted.kernels == 12);
    let paused_ns = || server.status().clients[1].scheduling.paused_ns;
    let before = paused_ns();
    wait_until("the next one is held", || paused_ns() > before + 1_000_000);
    assert_eq!(server.status().clients[1].submitted.kernels, 12);
    assert_eq!(provider::notes(|n| n == 9034), []);
    provider::open_gate(9032);
    wait_until("all run in their order", || provider::notes(|n| n == 9034) == [9034]);
    assert_eq!(provider::notes(|n| (9040..9049).contains(&n)), (9040..9049).collect::<Vec<_>>());
    provider::open_gate(9031);
}

#[test]
fn a_long_copy_goes_in_slices_and_copies_everything() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    change(&server, 0, "slices=64K", 0);
    critical.launch("note", LEGACY, &u32_bytes(9051));
    critical.synchronize(LEGACY);
    batch.chunk(0, 4 * MIB).unwrap();
    batch.pin(0, 2 * MIB).unwrap();
    let host = batch.welcome.host_window.address;
    let device = CUdeviceptr(batch.address(0));
    let pattern: Vec<u8> = (0..MIB + 100).map(|i| (i % 251) as u8).collect();
    provider::put_bytes(host, &pattern);
    let bytes = pattern.len() as u64;
    batch.post(&HostToDevice {
        destination: device,
        source: HostReference::Mapped(host),
        bytes,
        stream: LEGACY,
    });
    batch.synchronize(LEGACY);
    assert_eq!(batch.error(), Ok(()));
    assert!(provider::bytes_at(device.0, pattern.len()) == pattern, "all slices are there");
    // 42 us a MiB: as the slices were charged, one by one.
    let charged = server.status().clients[1].scheduling.charged_ns;
    assert!((16 * 2_000..=17 * 3_000).contains(&charged), "{charged}");
}

#[test]
fn a_stream_without_work_gets_the_priority_of_its_clients_new_class() {
    let mut server = Server::start(true);
    let mut batch = client(&mut server, "class=batch");
    batch.launch("note", LEGACY, &u32_bytes(9061));
    batch.synchronize(LEGACY);
    let made = provider::priorities_made();
    assert_eq!(made.last(), Some(&0), "batch has the least priority");
    change(&server, batch.welcome.client_id, "class=latency", 0);
    wait_until("its stream is seen idle", || {
        batch.launch("note", LEGACY, &u32_bytes(9062));
        batch.synchronize(LEGACY);
        provider::priorities_made().last() < Some(&-2)
    });
    change(&server, 0, "priorities=off", 0);
    wait_until("its stream has the priority that it asked for", || {
        batch.launch("note", LEGACY, &u32_bytes(9063));
        batch.synchronize(LEGACY);
        provider::priorities_made().last() == Some(&0)
    });
}

#[test]
fn a_launch_has_its_own_priority_as_its_clients_class_allows() {
    let mut server = Server::start(true);
    let mut client = client(&mut server, "class=batch");
    let note = client::KERNELS.iter().position(|name| *name == "note").unwrap() as u32;
    let asked = |levels: u32| LaunchKernel {
        flags: priority_flags(levels),
        ..one_block(function(note), 32, &[0x65, 0x23, 0, 0])
    };
    let before = provider::launch_priorities().len();
    client.post(&asked(5));
    client.synchronize(LEGACY);
    assert_eq!(provider::launch_priorities()[before..], [0], "batch has the least priority");
    change(&server, 0, "priorities=off", 0);
    for levels in [3, 0, 7] {
        client.post(&asked(levels));
    }
    client.launch("note", LEGACY, &u32_bytes(9062));
    client.synchronize(LEGACY);
    assert_eq!(client.error(), Ok(()));
    let made = &provider::launch_priorities()[before + 1..];
    assert_eq!(made, [-3, 0, -5], "a launch without one has its stream's");
}

#[test]
fn a_graphs_kernel_has_its_own_priority_as_its_clients_class_allows() {
    let mut server = Server::start(true);
    let mut client = client(&mut server, "class=batch");
    let note = client::KERNELS.iter().position(|name| *name == "note").unwrap() as u32;
    let made = |client: &mut Client, place: u32, flags: [u32; 2]| {
        let graph = graph(place);
        let before = provider::launch_priorities().len();
        client.post(&GraphBegin { graph });
        for flags in flags {
            let launch =
                LaunchKernel { flags, ..one_block(function(note), 32, &[0x65, 0x23, 0, 0]) };
            client.post(&GraphKernel { graph, launch });
        }
        assert_eq!(client.call(&GraphInstantiate { graph, replaces: CUgraphExec::NULL }), Ok(()));
        provider::launch_priorities()[before..].to_vec()
    };
    let own = [priority_flags(3), priority_flags(5)];
    assert_eq!(made(&mut client, 0, own), [0, 0], "batch has the least priority");
    change(&server, 0, "priorities=off", 0);
    assert_eq!(made(&mut client, 1, own), [-3, -5]);
    assert_eq!(made(&mut client, 2, [0, priority_flags(2)]), [-2]);
    assert_eq!(made(&mut client, 3, [0, 0]), []);
}

#[test]
fn a_stream_of_another_priority_keeps_the_order_with_the_default_stream() {
    let mut server = Server::start(true);
    let mut client = client(&mut server, "class=batch");
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    let mut gate = 9100;
    let mut next = || {
        gate += 10;
        gate
    };
    // The stream that waits is idle and gets another priority then: a blocking one, the default one behind a
    // launch, and the default one behind a stream that goes.
    for case in 0..3 {
        let number = next();
        let (held, waits) = if case == 0 { (LEGACY, stream(1)) } else { (stream(1), LEGACY) };
        // Both have the priority of the class before, and are seen idle.
        for _ in 0..2 {
            for idle in [LEGACY, stream(1)] {
                client.launch("note", idle, &u32_bytes(number + 1));
                client.synchronize(idle);
            }
            assert_eq!(client.call(&WaitIdle {}), Ok(()));
        }
        let made = provider::priorities_made().len();
        client.launch("hold", held, &u32_bytes(number));
        client.launch("note", held, &u32_bytes(number + 2));
        client.settle();
        let class = ["class=latency", "class=batch", "class=latency"][case];
        change(&server, client.welcome.client_id, class, 0);
        if case == 2 {
            client.post(&DestroyStream { stream: held });
        }
        client.launch("note", waits, &u32_bytes(number + 3));
        client.settle();
        assert!(provider::priorities_made().len() > made, "case {case}: the stream was replaced");
        assert_eq!(provider::notes(|n| n == number + 3), [], "case {case}: it waits");
        provider::open_gate(number);
        client.synchronize(waits);
        let order = provider::notes(|n| n == number + 2 || n == number + 3);
        assert_eq!(order, [number + 2, number + 3]);
    }
}

#[test]
fn a_client_that_is_held_has_work_all_the_time() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    change(&server, 0, "pause-max=none", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9071));
    critical.settle();
    batch.launch("note", LEGACY, &u32_bytes(9072));
    let scheduling = || server.status().clients[1].scheduling.clone();
    wait_until("it is held for a while", || scheduling().paused_ns >= 50_000_000);
    assert_eq!(scheduling().pauses, 1);
    provider::open_gate(9071);
    wait_until("the batch kernel has run", || provider::notes(|n| n == 9072) == [9072]);
    assert!(scheduling().paused_ns >= 50_000_000);
}

#[test]
fn a_pause_holds_copies_and_fills_too() {
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut others: Vec<Client> =
        ["class=batch", "class=normal"].map(|class| client(&mut server, class)).into();
    change(&server, 0, "slices=none pause=others pause-max=none", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9081));
    critical.settle();
    // A fill, a copy within the device, a 3-D one, and one from the host.
    let at = |client: &Client| client.address(0);
    let host = |client: &Client| client.welcome.host_window.address;
    for (index, other) in others.iter_mut().enumerate() {
        other.chunk(0, 4 * MIB).unwrap();
        other.pin(0, 2 * MIB).unwrap();
        let (device, host) = (at(other), host(other));
        provider::put_bytes(host, &[3; 64]);
        match index {
            0 => other.post_row(cuMemsetD32Async, &[device, 7, 16, LEGACY.0 as u64]),
            _ => other.post(&HostToDevice {
                destination: CUdeviceptr(device),
                source: HostReference::Mapped(host),
                bytes: 64,
                stream: LEGACY,
            }),
        }
        other.post_row(cuMemcpyDtoDAsync_v2, &[device + 64, device, 64, LEGACY.0 as u64]);
        let end = |at| Copy3DEnd::Device { address: CUdeviceptr(at), pitch: 64, rows: 1 };
        let (source, destination) = (end(device), end(device + 128));
        let copy = Copy3DParams { destination, source, extent: [64, 1, 1] };
        other.post(&Copy3D { stream: LEGACY, copy });
    }
    wait_until_held(&server, 1, 1);
    wait_until_held(&server, 2, 1);
    let byte = |address: u64| provider::bytes_at(address, 1)[0];
    for other in &others {
        assert_eq!([0, 64, 128].map(|offset| byte(at(other) + offset)), [0; 3]);
    }
    provider::open_gate(9081);
    for (index, other) in others.iter_mut().enumerate() {
        other.synchronize(LEGACY);
        assert_eq!(other.error(), Ok(()));
        let filled = [7, 3][index];
        assert_eq!([0, 64, 128].map(|offset| byte(at(other) + offset)), [filled; 3]);
        let charged = server.status().clients[index + 1].scheduling.charged_ns;
        assert!(charged > 0, "copies are charged: {charged}");
    }
}

#[test]
fn graphs_are_cut_when_their_client_is_bounded_and_by_the_times_of_their_pieces() {
    const NODES: u32 = 10;
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut other = client(&mut server, "class=normal");
    change(&server, 0, "in-flight=200us pause=off", 0);
    critical.launch("hold", LEGACY, &u32_bytes(9091));
    critical.settle();
    let graph = graph(0);
    other.post(&GraphBegin { graph });
    for node in 0..NODES {
        // `note`, of the test provider's kernels.
        let parameters = u32_bytes(9092);
        let launch = one_block(function(1), 32, &parameters);
        other.post(&GraphKernel { graph, launch });
        if node > 0 {
            other.post(&GraphEdges { graph, node, from: &[u64::from(node - 1)] });
        }
    }
    let replaces = cuda_api::CUgraphExec::NULL;
    other.call(&GraphInstantiate { graph, replaces }).expect("a graph");
    // What a launch of it is submitted as, and what it is charged.
    let run = |server: &Server, client: &mut Client| {
        let charged = || server.status().clients[1].scheduling.charged_ns;
        let (before, launched) = (charged(), provider::graph_launches().0);
        client.post(&GraphLaunch { graph, stream: LEGACY });
        client.synchronize(LEGACY);
        assert_eq!(client.error(), Ok(()));
        (provider::graph_launches().0 - launched, charged() - before)
    };
    change(&server, other.welcome.client_id, "class=batch", 0);
    // Nothing is known of its kernels: two pieces of 100 us. Each takes 1.5 ms by the test provider's events, as
    // every kernel and piece does.
    assert_eq!(run(&server, &mut other).0, 2);
    wait_until("each kernel is a piece, and charged", || {
        run(&server, &mut other) == (u64::from(NODES), 1_500_000 * u64::from(NODES))
    });
    change(&server, 0, "in-flight=40ms", 0);
    assert_eq!(run(&server, &mut other).0, 1, "with another bound it is cut anew");
    change(&server, 0, "in-flight=200us", 0);
    assert_eq!(run(&server, &mut other).0, u64::from(NODES));
    change(&server, other.welcome.client_id, "class=normal", 0);
    assert_eq!(run(&server, &mut other).0, 1, "not bounded");
    provider::open_gate(9091);
}

#[test]
fn batch_work_goes_on_beside_a_latency_client_that_is_never_idle() {
    const LAUNCHES: u32 = 200;
    let mut server = Server::start(true);
    let mut critical = client(&mut server, "class=latency");
    let mut batch = client(&mut server, "class=batch");
    critical.launch("hold", LEGACY, &u32_bytes(9101));
    critical.settle();
    // In turns it would have one piece of work each `pause-max`, 20 s in all.
    let began = std::time::Instant::now();
    for _ in 0..LAUNCHES {
        batch.launch("note", LEGACY, &u32_bytes(9102));
        batch.synchronize(LEGACY);
    }
    let took = began.elapsed();
    assert_eq!(provider::notes(|n| n == 9102).len() as u32, LAUNCHES);
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    let status = server.status();
    assert!(status.clients[1].scheduling.space_sms > 0);
    assert!(status.clients.iter().all(|client| client.scheduling.space_changes > 0));
    // Without sharing in space it waits for its turn.
    change(&server, 0, "space=off pause-max=none", 0);
    batch.launch("note", LEGACY, &u32_bytes(9103));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(provider::notes(|n| n == 9103), []);
    assert_eq!(server.status().clients[1].scheduling.space_sms, 0);
    provider::open_gate(9101);
    batch.synchronize(LEGACY);
}
