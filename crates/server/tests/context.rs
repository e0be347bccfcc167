//! Calls that wait for the whole context, on a provider without tenants: made seldom, and when no
//! client pays for them.

mod support;

use channel::message::{Answer, Answered, Message, Question};
use channel::payload::Payload;
use channel::request::{
    CreateArray, DestroyArray, DeviceToHost, GetFunction, GetGlobal, GlobalInfo, GraphBegin,
    GraphInstantiate, GraphKernel, GraphLaunch, HostReference, HostToDevice, HostUnmap,
    UnloadModule,
};
use channel::ring::{Position, RingMemory};
use cuda_api::constants::array_format;
use cuda_api::constants::function_attribute::PREFERRED_SHARED_MEMORY_CARVEOUT;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUdeviceptr, CUgraphExec, CudaError, number};
use server::device::Driver;
use support::*;

const MODULES: usize = 2;
const PHYSICAL: usize = 3;
const REGISTRATIONS: usize = 6;

fn count(kind: usize) -> usize {
    provider::census()[kind]
}

#[test]
fn an_image_of_several_clients_is_loaded_once_and_stays() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    one.load();
    other.load();
    assert_eq!(count(MODULES), 1);
    for (client, number) in [(&mut one, 31u32), (&mut other, 32)] {
        client.launch("note", LEGACY, &number.to_le_bytes());
        client.synchronize(LEGACY);
    }
    assert_eq!(provider::notes(|n| n == 31 || n == 32), [31, 32]);
    drop(one);
    server.wait_for_clients(1);
    other.launch("note", LEGACY, &33u32.to_le_bytes());
    other.synchronize(LEGACY);
    assert_eq!(provider::notes(|n| n == 33), [33]);
    drop(other);
    server.wait_for_clients(0);
    let mut later = server.connect();
    assert_eq!(count(MODULES), 1, "it is kept for clients that come later");
    later.load();
    assert_eq!(count(MODULES), 1);
    // What a client is answered does not depend on who has loaded it.
    let mut last = server.connect();
    let text = b".extern .func vprintf\0";
    let (first, again) = (later.load_image(module(7), text), last.load_image(module(7), text));
    assert_eq!(first.0, Ok(()));
    assert_eq!(first, again);
    assert_eq!(count(MODULES), 2);
}

#[test]
fn what_a_client_prefers_for_caches_is_not_set_of_kernels_that_others_use() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    one.load();
    other.load();
    let before = provider::preferences();
    let set = |client: &mut Client, place, carveout: i32, preferred: u64| {
        let kernel = function(place).0 as u64;
        let attribute = u64::from(PREFERRED_SHARED_MEMORY_CARVEOUT);
        let words = [kernel, attribute, u64::from(carveout as u32)];
        let result = client.call_row(number::cuFuncSetAttribute, &words).map(drop);
        client.post_row(number::cuFuncSetCacheConfig, &[kernel, preferred]);
        (result, client.error())
    };
    assert_eq!(set(&mut one, 1, 50, 2), (Ok(()), Ok(())));
    assert_eq!(provider::preferences(), before);
    let wrong = Err(CudaError::INVALID_VALUE);
    assert_eq!(set(&mut one, 1, 101, 4), (wrong, wrong));
    // A module of the client's own.
    one.load_image(module(7), WITH_COUNTER).0.expect("a module");
    let (kernel, name) = (function(9), &b"note"[..]);
    one.call(&GetFunction { function: kernel, module: module(7), name }).expect("a kernel");
    assert_eq!(set(&mut one, 9, 50, 2), (Ok(()), Ok(())));
    assert_eq!(provider::preferences(), before + 2);
}

#[test]
fn a_text_is_compiled_while_others_launch_and_only_then_loaded() {
    let driver = Driver { table: provider::table_that_compiles(), extension: None };
    let mut server = Server::start_on(driver);
    let (mut busy, mut client, mut other) = (server.connect(), server.connect(), server.connect());
    busy.load();
    let of_server = provider::modules_of_text();
    let text = b"// gate 8700\n.version 8.0\n.target sm_80\n.address_size 64\n\0";
    client.begin_load(module(7), text);
    wait_until("the text is being compiled", || provider::links() == 1);
    // The others are not held for that.
    busy.launch("note", LEGACY, &8701u32.to_le_bytes());
    busy.synchronize(LEGACY);
    assert_eq!((provider::notes(|n| n == 8701), provider::links()), (vec![8701], 1));
    other.begin_load(module(7), text);
    provider::open_gate(8700);
    for client in [&mut client, &mut other] {
        assert_eq!(client.reply(), Ok(()));
    }
    assert_eq!((count(MODULES), provider::modules_of_text()), (2, of_server));
    // What is wrong with a text is said as ever.
    let (result, loaded) = client.load_image(module(8), b".version 8.0 garbage\0");
    assert_eq!(
        (result, &loaded.error_log[..]),
        (Err(CudaError::INVALID_PTX), &b"line 2: garbage"[..])
    );
    // What linking refuses for another reason, the provider is asked to load.
    let before = provider::modules_of_text();
    let text = b".version 8.0\n.target sm_80\n.address_size 64\n.extern .func f;\n\0";
    assert_eq!(client.load_image(module(9), text).0, Ok(()));
    assert_eq!(provider::modules_of_text(), before + 1);
}

/// An image whose variable has an address, and one with a variable that the provider knows nothing of.
const WITH_TABLE: &[u8] =
    b".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .b8 table[64];\n\0";
const WITH_COUNTER: &[u8] =
    b".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 counter;\n\0";
const TABLE_BYTES: u64 = 64;

/// Where a client finds the variable of its module 7.
fn table(client: &mut Client) -> CUdeviceptr {
    let (result, words) =
        client.ask(&GetGlobal { module: module(7), managed: false, name: b"table" });
    result.expect("the variable");
    let info = GlobalInfo::from_words(&words).expect("an answer");
    assert_eq!(info.bytes, TABLE_BYTES);
    info.address
}

fn fill(client: &mut Client, to: CUdeviceptr, value: u8) {
    client.region.write_staging(0, &[value; TABLE_BYTES as usize]).expect("room in staging");
    let (source, bytes) = (HostReference::Staging(0), TABLE_BYTES);
    client.post(&HostToDevice { destination: to, source, bytes, stream: LEGACY });
    client.synchronize(LEGACY);
}

fn content(client: &mut Client, from: CUdeviceptr) -> Vec<u8> {
    let (destination, bytes) = (HostReference::Staging(1 << 20), TABLE_BYTES);
    client.post(&DeviceToHost { destination, source: from, bytes, stream: LEGACY });
    client.synchronize(LEGACY);
    let mut data = vec![0; TABLE_BYTES as usize];
    client.region.read_staging(1 << 20, &mut data).expect("inside staging");
    data
}

/// What the test provider's load puts there.
const FIRST: [u8; TABLE_BYTES as usize] = [7; TABLE_BYTES as usize];

fn loads(server: &Server) -> u64 {
    let calls = server.status().context.expect("its clients share a context").calls;
    calls.iter().find(|(call, _)| call == "loading code").map_or(0, |(_, counts)| counts.calls)
}

#[test]
fn an_image_with_variables_has_one_user_at_a_time_and_the_next_finds_first_values() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    let mut places = Vec::new();
    for client in [&mut one, &mut other] {
        client.load_image(module(7), WITH_TABLE).0.expect("a module");
        places.push(table(client));
    }
    assert_eq!((count(MODULES), loads(&server)), (2, 2));
    assert_ne!(places[0], places[1]);
    fill(&mut one, places[0], 1);
    assert_eq!(content(&mut other, places[1]), FIRST);
    // Work of a neighbour hinders nothing: the module waits for its next user all the same.
    other.load();
    other.launch("hold", LEGACY, &8400u32.to_le_bytes());
    drop(one);
    server.wait_for_clients(1);
    let before = loads(&server);
    let mut later = server.connect();
    later.load_image(module(7), WITH_TABLE).0.expect("a module");
    assert_eq!((count(MODULES), loads(&server)), (3, before), "it is the one that was there");
    let place = table(&mut later);
    assert_eq!(place, places[0]);
    assert_eq!(content(&mut later, place), FIRST, "what its last user wrote is gone");
    // A program's own second load finds them too.
    fill(&mut later, place, 2);
    later.post(&UnloadModule { module: module(7) });
    later.load_image(module(7), WITH_TABLE).0.expect("a module");
    assert_eq!((count(MODULES), loads(&server)), (3, before));
    let place = table(&mut later);
    assert_eq!(content(&mut later, place), FIRST);
    provider::open_gate(8400);
}

#[test]
fn an_image_with_a_variable_that_has_no_address_is_each_clients_own() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    for client in [&mut one, &mut other] {
        let (result, _) = client.load_image(module(7), WITH_COUNTER);
        result.expect("the provider takes any image");
    }
    assert_eq!(count(MODULES), 2);
    drop((one, other));
    wait_until("the modules' end", || count(MODULES) == 0);
}

#[test]
fn a_graph_that_needs_more_local_memory_waits_at_the_door_as_a_launch_does() {
    let (server, _busy, mut client) = beside_a_kernel(8800);
    client.load_image(module(1), b".version 8.0").0.expect("a module");
    let (function, name) = (function(4), &b"local"[..]);
    client.call(&GetFunction { function, module: module(1), name }).expect("the kernel");
    client.post(&GraphBegin { graph: graph(0) });
    let launch = one_block(function, 32, &[]);
    client.post(&GraphKernel { graph: graph(0), launch });
    let replaces = CUgraphExec::NULL;
    client.call(&GraphInstantiate { graph: graph(0), replaces }).expect("a graph");
    let before = provider::local_runs();
    client.post(&GraphLaunch { graph: graph(0), stream: LEGACY });
    wait_until("it waits", || {
        let context = server.status().context.expect("a context that clients share");
        context.waiting.iter().any(|of| of.call == "taking local memory")
    });
    assert_eq!(provider::local_runs(), before);
    provider::open_gate(8800);
    client.synchronize(LEGACY);
    assert_eq!(provider::local_runs(), before + 1);
    client.post(&GraphLaunch { graph: graph(0), stream: LEGACY });
    client.synchronize(LEGACY);
    let calls = server.status().context.expect("its clients share a context").calls;
    let grown = calls.iter().find(|(call, _)| call == "taking local memory");
    assert_eq!(
        grown.map(|(_, of)| of.calls),
        Some(2),
        "busy's kernel and the graph's first launch"
    );
}

/// A server, a client with a kernel that waits for that gate, and another client.
fn beside_a_kernel(gate: u32) -> (Server, Client, Client) {
    let mut server = Server::start(false);
    let (mut busy, client) = (server.connect(), server.connect());
    busy.load();
    busy.launch("hold", LEGACY, &gate.to_le_bytes());
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    (server, busy, client)
}

#[test]
fn memory_that_a_client_gives_up_is_unregistered_when_the_context_is_idle() {
    let (server, _busy, mut client) = beside_a_kernel(8100);
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    let before = count(REGISTRATIONS);
    client.pin(0, 1 << 20).expect("pinned memory");
    let address = client.welcome.host_window.address;
    client.call(&HostUnmap { address }).expect("it is the client's");
    assert_eq!(count(REGISTRATIONS), before + 1, "unregistering would make the other one wait");
    // The same addresses are used again when the other one's kernel has ended.
    std::thread::scope(|scope| {
        let again = scope.spawn(|| client.pin(0, 2 << 20));
        let waits = |server: &Server| {
            let context = server.status().context.expect("a context that clients share");
            context.waiting.iter().any(|of| of.call == "unregistering host memory")
        };
        wait_until("the call waits", || waits(&server));
        provider::open_gate(8100);
        again.join().expect("the client").expect("pinned memory again");
    });
    assert_eq!(count(REGISTRATIONS), before + 1);
    client.call(&HostUnmap { address }).expect("it is the client's");
    wait_until("an idle context", || count(REGISTRATIONS) == before);
}

#[test]
fn pages_are_there_before_they_are_registered() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    let before = provider::pages_missing();
    client.pin(0, 4 << 20).expect("pinned memory");
    assert_eq!(provider::pages_missing(), before);
}

#[test]
fn a_call_that_waits_sees_how_far_a_long_queue_has_got() {
    let mut server = Server::start(false);
    let (mut busy, mut client) = (server.connect(), server.connect());
    busy.load();
    let timed = |server: &Server| {
        server.ask(9, Question::Counts(0));
        let mut samples = 0;
        loop {
            if let Message::Answer(Answer { answered: Answered::Counts(part), .. }) =
                server.receive()
            {
                let notes = part.shapes.iter().filter(|(name, _)| name == "note");
                samples += notes.map(|(_, shape)| shape.samples).sum::<u64>();
                if !part.more {
                    return samples > 0;
                }
            }
        }
    };
    // The provider says that a kernel takes 1.5 ms.
    wait_until("a time of the kernel", || {
        busy.launch("note", LEGACY, &0u32.to_le_bytes());
        busy.synchronize(LEGACY);
        timed(&server)
    });
    busy.launch("hold", LEGACY, &8900u32.to_le_bytes());
    (0..100).for_each(|_| busy.launch("note", LEGACY, &0u32.to_le_bytes()));
    busy.launch("hold", LEGACY, &8901u32.to_le_bytes());
    let in_flight = |server: &Server| server.status().clients[0].counts.in_flight;
    wait_until("the queue", || in_flight(&server) >= 102);
    client.begin_load(module(7), b".version 8.0\n.target sm_80\n.address_size 64\n\0");
    provider::open_gate(8900);
    wait_until("progress", || in_flight(&server) < 50);
    provider::open_gate(8901);
    assert_eq!(client.reply(), Ok(()));
}

#[test]
fn an_array_that_a_client_gives_up_is_used_again_and_ends_when_the_context_is_idle() {
    let (_server, _busy, mut client) = beside_a_kernel(8500);
    let array = |place| {
        let kind = HandleKind::Array;
        CUarray(Handle { kind, index: place, generation: 0 }.to_word() as usize)
    };
    let of_width = |width| CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: 3,
        Format: array_format::FLOAT,
        NumChannels: 1,
        ..Default::default()
    };
    for round in 0..3 {
        client.call(&CreateArray::new(array(round), &of_width(4))).expect("an array");
        client.post(&DestroyArray { array: array(round) });
    }
    client.call(&CreateArray::new(array(7), &of_width(5))).expect("another one");
    assert_eq!(provider::arrays(), 2, "the first one was used again, not destroyed");
    client.post(&DestroyArray { array: array(7) });
    client.settle();
    assert_eq!(provider::arrays(), 2, "destroying them would make the other one wait");
    provider::open_gate(8500);
    wait_until("an idle context", || provider::arrays() == 0);
}

#[test]
fn a_clients_end_waits_for_an_idle_context_with_what_would_disturb_others() {
    let (mut server, _busy, mut client) = beside_a_kernel(8200);
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    client.chunk(0, 2 << 20).expect("memory");
    let (physical, registrations) = (count(PHYSICAL), count(REGISTRATIONS));
    drop(client);
    server.wait_for_clients(1);
    assert_eq!(count(PHYSICAL), physical - 1, "device memory comes back at once");
    // Clients that come and go meanwhile leave theirs too; by then it would be gone.
    for gone in 1..=3 {
        drop(server.connect());
        server.wait_for_clients(1);
        assert_eq!(count(REGISTRATIONS), registrations + gone, "regions are still registered");
    }
    provider::open_gate(8200);
    wait_until("an idle context", || count(REGISTRATIONS) < registrations);
}

#[test]
fn a_server_that_ends_waits_for_no_idle_context() {
    let (server, busy, client) = beside_a_kernel(8300);
    drop(client);
    server.wait_for_clients(1);
    // The end of the test ends the server, and looks whether anything is left at the provider.
    provider::open_gate(8300);
    drop(busy);
}

#[test]
fn a_client_that_ends_while_another_ones_call_is_made_submits_nothing_more() {
    let mut server = Server::start(false);
    let (mut client, mut loads) = (server.connect(), server.connect());
    client.load();
    // The first launch may have to wait for a quiescent point of its own.
    client.launch("note", LEGACY, &8652u32.to_le_bytes());
    client.synchronize(LEGACY);
    let text = b"// load gate 8650\n.version 8.0\n.target sm_80\n.address_size 64\n\0";
    loads.begin_load(module(7), text);
    wait_until("the load is made", || provider::is_waited_for(8650));
    client.launch("note", LEGACY, &8651u32.to_le_bytes());
    let position = |of| client.region.position(of);
    wait_until("it is taken", || position(Position::Tail) == position(Position::Head));
    drop(client);
    server.wait_for_clients(1);
    provider::open_gate(8650);
    assert_eq!(loads.reply(), Ok(()));
    assert_eq!(provider::notes(|n| n == 8651), []);
}

#[test]
fn a_load_beside_a_kernel_that_does_not_end_is_given_up_when_its_client_ends() {
    let (mut server, mut busy, mut client) = beside_a_kernel(8600);
    let waits = |server: &Server| {
        let waiting = server.status().context.expect("its clients share a context").waiting;
        waiting.iter().filter(|of| of.call == "loading code").count()
    };
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    let mut other = server.connect();
    // Both want the same code: one loads it, the other one waits for that.
    let image = b".version 8.0\n.target sm_80\n.address_size 64\n\0";
    client.begin_load(module(7), image);
    other.begin_load(module(7), image);
    wait_until("both wait", || waits(&server) == 2);
    drop((client, other));
    server.wait_for_clients(1);
    wait_until("nothing waits", || waits(&server) == 0);
    assert!(server.log().contains("loading code is given up after"), "{}", server.log());
    provider::open_gate(8600);
    busy.synchronize(LEGACY);
}
