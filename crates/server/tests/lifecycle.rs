//! How sessions and servers begin and end, and that nothing stays behind: every [`Server`] looks
//! at its end what is left at the provider.

mod support;

use channel::memfd::{Seals, create, create_sealed};
use channel::message::{Ask, Message, Question};
use channel::region::{REGION_BYTES, Region, SessionEnd};
use channel::request::*;
use channel::ring::{Position, RingMemory};
use cuda_api::{CUdeviceptr, CudaError};
use rustix::process::{Resource, Rlimit};
use server::Exit;
use server::device::Driver;
use std::os::fd::AsFd;
use support::*;

const MIB: u64 = 1 << 20;

/// A client with a bit of everything, as its death finds it.
fn busy(server: &mut Server, gate: u32) -> Client {
    let mut client = server.connect();
    client.load();
    client.chunk(0, 2 * MIB).unwrap();
    client.pin(0, 4096).unwrap();
    client.ask(&GetGlobal { module: module(0), managed: false, name: b"table" }).0.unwrap();
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    client.post(&CreateStream { stream: stream(2), flags: 1, priority: 0 });
    client.post(&CreateEvent { event: event(1), flags: 0 });
    client.launch("hold", stream(1), &gate.to_le_bytes());
    client.post(&RecordEvent { event: event(1), stream: stream(1), value: 1 });
    client.post(&WaitEvent { stream: stream(2), event: event(1) });
    client.post(&Notify { stream: stream(2), value: 1 });
    client.launch("note", LEGACY, &gate.to_le_bytes());
    client.settle();
    client
}

fn has_memory(server: &Server, client: &Client, bytes: u64) -> bool {
    let clients = server.status().clients;
    clients.iter().any(|c| c.pid == client.pid && c.memory_bytes == bytes)
}

#[test]
fn a_client_that_dies_leaves_nothing_whatever_it_was_doing() {
    let mut server = Server::start(true);
    let mut neighbour = busy(&mut server, 9001);

    // Before it was welcome.
    drop(server.introduce());
    // Idle, busy, waiting for memory to go, waiting at the gate.
    drop(server.connect());
    drop(busy(&mut server, 9002));
    let mut client = busy(&mut server, 9003);
    client.post(&ChunkRelease { address: CUdeviceptr(client.address(0)) });
    drop(client);
    let mut client = busy(&mut server, 9004);
    for _ in 0..2 * server::session::OPERATIONS_OF_STREAM_MAX {
        client.launch("note", stream(1), &9004u32.to_le_bytes());
    }
    drop(client);
    // With a host function that no client will run.
    let mut client = busy(&mut server, 9005);
    client.post(&HostFunc { stream: LEGACY, slot: 3, ticket: 4 });
    client.settle();
    drop(client);
    // While a stream that it has destroyed is still at work.
    let mut client = busy(&mut server, 9006);
    client.post(&DestroyStream { stream: stream(1) });
    client.settle();
    drop(client);

    server.wait_for_clients(1);
    provider::open_gate(9001);
    neighbour.synchronize(LEGACY);
    neighbour.write(0, b"still here");
    assert_eq!(neighbour.read(0, 10), b"still here");
    assert_eq!(provider::notes(|n| n == 9001).len(), 1);
    assert!(provider::notes(|n| (9002..9010).contains(&n)).is_empty());
}

#[test]
fn deaths_in_a_row_leave_nothing() {
    let mut server = Server::start(true);
    for _ in 0..100 {
        drop(busy(&mut server, 9100));
    }
    server.wait_for_clients(0);
}

#[test]
fn without_tenants_work_of_a_dead_client_is_waited_for() {
    let mut server = Server::start(false);
    let client = busy(&mut server, 9200);
    let pid = client.pid;
    drop(client);
    let mut other = server.connect();
    other.chunk(0, 2 * MIB).unwrap();
    other.write(0, b"meanwhile");
    assert_eq!(other.read(0, 9), b"meanwhile");
    assert!(server.status().clients.iter().any(|c| c.pid == pid));
    provider::open_gate(9200);
    server.wait_for_clients(1);
    assert_eq!(provider::notes(|n| n == 9200).len(), 1, "what was posted was run");
}

#[test]
fn without_tenants_a_dead_clients_host_functions_hold_up_nothing() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    for ticket in 1..4 {
        client.post(&HostFunc { stream: LEGACY, slot: ticket, ticket });
    }
    client.settle();
    drop(client);
    server.wait_for_clients(0);
}

#[test]
fn a_function_that_the_provider_calls_after_its_session_has_ended_touches_nothing() {
    for tenants in [true, false] {
        let mut server = Server::start(tenants);
        let mut client = server.connect();
        provider::hold_host_calls();
        client.post(&HostFunc { stream: LEGACY, slot: 3, ticket: 4 });
        client.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
        client.post(&Notify { stream: stream(1), value: 1 });
        client.settle();
        server.ask(1, Question::Terminate(client.welcome.client_id));
        assert_eq!(server.receive(), done(1, 0));
        client.wait_for_end();
        wait_until("the session's objects to go", || has_memory(&server, &client, 0));
        let (pid, region) = (client.pid, client.region.clone());
        drop(client);
        assert_eq!(server.receive(), Message::ClientGone(pid));
        let before = region.host_call_signal().load();
        // A provider with tenants wakes its clients by itself.
        assert_eq!(provider::let_host_calls_go(), if tenants { 1 } else { 2 });
        assert_eq!(region.host_call_signal().load(), before);
        // A newcomer is not taken for the one that was there.
        let mut newcomer = server.connect();
        newcomer.settle();
    }
}

#[test]
fn a_chunk_outlives_its_session_in_its_file() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let file = client.chunk(0, 2 * MIB).unwrap();
    client.write(500, b"durable");
    drop(client);
    server.wait_for_clients(0);
    let mut seen = [0u8; 7];
    let read = rustix::io::pread(&file, &mut seen, 500);
    assert_eq!((read, &seen), (Ok(7), b"durable"));
}

#[test]
fn a_terminated_client_sees_it_and_stays_listed_until_it_goes() {
    let mut server = Server::start(true);
    let (client, mut other) = (busy(&mut server, 9300), server.connect());
    server.ask(1, Question::Terminate(client.welcome.client_id));
    assert_eq!(server.receive(), done(1, 0));
    client.wait_for_end();
    let terminated = CudaError::MPS_CLIENT_TERMINATED;
    assert_eq!(client.region.sticky_error(), Err(terminated));
    assert!(has_memory(&server, &client, 0));
    // Once more, and a client that is not there.
    server.ask(2, Question::Terminate(client.welcome.client_id));
    assert_eq!(server.receive(), done(2, 0));
    server.ask(3, Question::Terminate(7));
    assert_eq!(server.receive(), done(3, CudaError::INVALID_VALUE.code()));
    let pid = client.pid;
    drop(client);
    assert_eq!(server.receive(), Message::ClientGone(pid));
    other.settle();
    let log = server.log();
    for line in ["MPS server requesting client {PID: ", "Client termination succeeded."] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
}

#[test]
fn a_call_in_progress_ends_with_the_client() {
    let mut server = Server::start(true);
    let mut client = busy(&mut server, 9400);
    let address = CUdeviceptr(client.address(0));
    let (daemon, id) = (server.daemon.try_clone().unwrap(), client.welcome.client_id);
    let region = client.region.clone();
    let before = region.position(Position::Head);
    let terminator = std::thread::spawn(move || {
        wait_until("the session has the call's record", || {
            let head = region.position(Position::Head);
            head > before && region.position(Position::Tail) == head
        });
        let question = Question::Terminate(id);
        daemon.send(&Message::Ask(Ask { number: 1, question }), &[]).unwrap();
    });
    // The client's work never ends, so this waits until the session is ended.
    assert!(client.call(&ChunkRelease { address }).is_err());
    assert_eq!(client.region.sticky_error(), Err(CudaError::MPS_CLIENT_TERMINATED));
    terminator.join().unwrap();
    assert_eq!(server.receive(), done(1, 0));
}

#[test]
fn a_daemon_that_does_not_read_holds_up_no_client() {
    const ASKED: u32 = 20_000;
    let mut server = Server::start(true);
    let mut client = server.connect();
    for number in 0..ASKED {
        server.ask(number, Question::Status);
    }
    client.settle();
    let pid = client.pid;
    drop(client);
    wait_until("the client's end", || server.log().contains("disconnected"));
    // The message that must come, and the answer to the last question, for the newest reports stay: it may
    // come before or after, as the server reads the questions.
    let (mut answers, mut is_gone, mut is_last) = (0, false, false);
    while !(is_gone && is_last) {
        match server.receive() {
            Message::Answer(answer) => {
                answers += 1;
                is_last |= answer.number == ASKED - 1;
            }
            Message::ClientGone(gone) => is_gone = gone == pid,
            other => panic!("{other:?}"),
        }
    }
    assert!((8000..ASKED).contains(&answers), "{answers}");
    wait_until("it says what it dropped", || {
        server.log().contains(" reports were dropped: the control daemon did not read")
    });
}

#[test]
fn a_fault_of_a_tenant_is_its_own() {
    let mut server = Server::start(true);
    let (mut client, mut other) = (busy(&mut server, 9500), busy(&mut server, 9501));
    client.launch("fault", stream(2), &[]);
    client.launch("fault", LEGACY, &[]);
    provider::open_gate(9500);
    // No request comes: the session looks at its work by itself.
    wait_until("the fault", || client.region.sticky_error().is_err());
    let illegal = CudaError::ILLEGAL_ADDRESS;
    assert_eq!(client.region.sticky_error(), Err(illegal));
    assert_eq!(client.call(&MemoryInfo { device: 0 }), Err(illegal));
    assert_eq!(client.pin(MIB, 4096), Err(illegal));
    assert_eq!(client.load_image(module(5), b"text").0, Err(illegal));
    client.launch("note", LEGACY, &9502u32.to_le_bytes());
    client.settle();
    assert!(provider::notes(|n| n == 9502).is_empty());
    provider::open_gate(9501);
    other.synchronize(stream(2));
    assert_eq!(other.region.sticky_error(), Ok(()));
    let log = server.log();
    let text = "has a sticky error, CUDA_ERROR_ILLEGAL_ADDRESS: kernel fault: illegal address 0x10";
    assert_eq!(log.matches(text).count(), 1, "{log}");
    let newcomer = server.connect();
    drop(newcomer);
}

#[test]
fn a_server_that_shall_end_waits_for_its_clients() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    server.daemon.send(&Message::Shutdown(false), &[]).unwrap();
    let refused = Client::welcome(server.introduce()).err().expect("no more clients");
    assert_eq!(refused.0, CudaError::MPS_SERVER_NOT_READY.code());
    client.settle();
    drop(client);
    assert_eq!(server.wait(), Exit::Clean);
    let log = server.log();
    for line in [
        "Server was unable to shutdown due to 1 active clients",
        "Waiting for current clients to finish",
        "exiting. Number of active client contexts is 0.",
        "Exiting",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
}

#[test]
fn a_server_that_must_end_takes_its_clients_with_it() {
    for signal in [true, false] {
        let mut server = Server::start(true);
        let client = busy(&mut server, 9600);
        if signal {
            server.stop();
        } else {
            server.daemon.send(&Message::Shutdown(true), &[]).unwrap();
        }
        assert_eq!(server.wait(), Exit::Clean);
        assert_eq!(client.region.sticky_error(), Err(CudaError::MPS_CLIENT_TERMINATED));
        assert_eq!(client.region.session_end(), Some(SessionEnd::ServerShutDown));
    }
}

#[test]
fn a_server_outlives_its_daemon_as_long_as_it_has_clients() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let (no_daemon, _) = channel::socket::SeqPacket::pair().unwrap();
    drop(std::mem::replace(&mut server.daemon, no_daemon));
    assert!(client.chunk(0, 2 << 20).is_ok(), "it is served on");
    assert_eq!(client.region.session_end(), None);
    drop(client);
    assert_eq!(server.wait(), Exit::Clean);
}

#[test]
fn there_is_a_last_client() {
    let mut server = Server::start(true);
    // Each takes descriptors on both sides, which are of this process here.
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let before = open();
    let first = server.connect();
    let (each, wanted) = (open() - before, server::window::CLIENTS_MAX as u64);
    drop(first);
    server.wait_for_clients(0);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit { current: maximum, maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).expect("one's own limit");
    let files = maximum.unwrap_or(u64::MAX);
    if files < open() + each * wanted + 64 {
        return eprintln!("left out: {} open files are too few for {wanted} clients", files);
    }
    let clients: Vec<Client> = (0..server::window::CLIENTS_MAX).map(|_| server.connect()).collect();
    let refused = Client::welcome(server.introduce()).err().expect("no window is left");
    assert_eq!(refused.0, CudaError::MPS_MAX_CLIENTS_REACHED.code());
    assert!(refused.1.contains("1024"), "{}", refused.1);
    server.wait_for_clients(server::window::CLIENTS_MAX);
    drop(clients);
    server.wait_for_clients(0);
    server.connect().settle();
}

#[test]
fn a_client_with_a_bad_region_is_refused() {
    let mut server = Server::start(true);
    let unsealed = create(c"region", REGION_BYTES).unwrap();
    let short = create_sealed(c"region", 4096, Seals::SIZE).unwrap();
    let empty = create_sealed(c"region", REGION_BYTES, Seals::SIZE).unwrap();
    for (region, why) in [(unsealed, "seals"), (short, "bytes"), (empty, "mark")] {
        let (_, socket) = server.hand_over(region);
        match socket.receive().unwrap().0 {
            Message::Refused(refused) => {
                assert_eq!(refused.result, CudaError::MPS_CONNECTION_FAILED.code());
                assert!(refused.reason.contains(why), "{}", refused.reason);
            }
            other => panic!("{other:?}"),
        }
    }
    // A hole where the tail of a ring must be.
    let (region, file) = Region::create().unwrap();
    provider::put_bytes(region.base() as u64 + 128, &3u64.to_ne_bytes());
    let (_, socket) = server.hand_over(file);
    assert!(matches!(socket.receive().unwrap().0, Message::Refused(_)));
    drop(socket);
    server.wait_for_clients(0);
}

#[test]
fn a_provider_that_does_not_start_is_reported() {
    let table = Box::leak(Box::new(provider::resolved(|_| None)));
    let (daemon, control) = channel::socket::SeqPacket::pair().unwrap();
    let options = server::Options {
        device: None,
        warm: server::warm::PreloadOptions::default(),
        launch_batching: Default::default(),
        oversubscription: server::oversubscription::OversubscriptionOptions::default(),
        log: server::log::Log::none(),
        pipe_directory: "/tmp/test".into(),
        stop: None,
    };
    let driver = Driver { table, extension: None };
    assert_eq!(server::run::run_on(driver, control, options), Exit::StartFailed);
    let message = daemon.receive().unwrap().0;
    let reason = "cuInit answered CUDA_ERROR_NOT_SUPPORTED";
    assert_eq!(message, Message::Failed(reason.into()));
}

#[test]
fn the_daemon_hears_when_a_client_has_restored_what_it_had_at_another_server() {
    let mut server = Server::start(false);
    let mut maker = server.connect();
    let file = maker.chunk(0, 2 * MIB).expect("a chunk");
    drop(maker);
    server.comes_again = true;
    let mut client = server.connect();
    client.socket.send(&Message::HostFd(()), &[file.as_fd()]).expect("room in the socket");
    let address = CUdeviceptr(client.address(0));
    assert_eq!(client.call(&AdoptChunk { device: 0, address, bytes: 2 * MIB }), Ok(()));
    client.load();
    client.post(&Repeats { operations: 7, kernels: 2, lost: 0 });
    // What comes first of the program's own work.
    client.synchronize(LEGACY);
    // It counts with what is restored alone.
    client.post(&Repeats { operations: 9, kernels: 9, lost: 0 });
    client.synchronize(LEGACY);
    assert_eq!(client.error(), Ok(()));
    let log = server.log();
    assert!(log.contains(" repeats 7 operations, 2 of them kernels and graphs"), "{log}");
    assert!(!log.contains("9 operations"), "{log}");
    loop {
        let message = server.daemon.receive().expect("a message of the server").0;
        if let Message::Restored(restored) = message {
            assert_eq!((restored.process, restored.operations), (client.pid, 7));
            break assert!(!restored.is_lost);
        }
    }
}
