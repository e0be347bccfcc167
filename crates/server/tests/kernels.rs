//! Sessions on a real provider: real kernels, real faults, real ends.
//!
//! The provider is that of [`device`]. What only a provider with tenants can do is left out where
//! there are none.

mod device;
mod support;

use channel::memfd;
use channel::message::{Message, Question, Schedule};
use channel::payload::Payload;
use channel::request::*;
use cuda_api::extension::standard;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::number::cuMemsetD32Async;
use cuda_api::{CUdeviceptr, CUgraphExec, CUresult, CUstream, CudaError};
use device::{start, start_with_tenants};
use server::session::RESERVED_BYTES_MAX;
use server::window::ARENA_BASE;
use support::*;

const MIB: u64 = 1 << 20;
const SPIN: &str = include_str!("../../../samples/kernels/spin.ptx");
const FAULT: &str = include_str!("../../../samples/kernels/fault.ptx");
const PRINTF: &str = include_str!("../../../samples/kernels/printf.ptx");
const VECTOR_ADD: &str = include_str!("../../../samples/kernels/vector_add.ptx");

/// A client with a module of one kernel, at module and function 0, and 4 MiB of memory.
fn client(server: &mut Server, image: &str, kernel: &str) -> Client {
    let mut client = server.connect();
    let (result, log) = client.load_image(module(0), image.as_bytes());
    result.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&log.error_log)));
    let request = GetFunction { function: function(0), module: module(0), name: kernel.as_bytes() };
    client.call(&request).expect("the kernel is there");
    client.chunk(0, 4 * MIB).expect("memory");
    client
}

fn launch(client: &mut Client, blocks: u32, stream: CUstream, parameters: &[u8]) {
    client.post(&LaunchKernel {
        stream,
        grid: [blocks, 1, 1],
        ..one_block(function(0), 64, parameters)
    });
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn add_vectors(client: &mut Client) {
    let floats = |f: fn(f32) -> f32| -> Vec<u8> {
        (0..1000u16).flat_map(|i| f(f32::from(i)).to_le_bytes()).collect()
    };
    client.write(0, &floats(|x| x));
    client.write(MIB, &floats(|x| 2.0 * x));
    let parameters = [0, MIB, 2 * MIB].map(|offset| client.address(offset));
    launch(client, 2, LEGACY, &words(&[parameters[0], parameters[1], parameters[2], 1000]));
    assert_eq!(client.read(2 * MIB, 4000), floats(|x| 3.0 * x));
    assert_eq!(client.error(), Ok(()));
}

fn terminate(server: &Server, client: &Client) {
    server.ask(1, Question::Terminate(client.welcome.client_id));
    assert_eq!(server.receive(), done(1, 0));
    assert_eq!(client.region.sticky_error(), Err(CudaError::MPS_CLIENT_TERMINATED));
}

#[test]
fn a_kernel_computes_in_the_clients_window() {
    let mut server = start();
    let mut a = client(&mut server, VECTOR_ADD, "vector_add");
    let mut b = client(&mut server, VECTOR_ADD, "vector_add");
    add_vectors(&mut a);
    add_vectors(&mut b);
    assert_eq!(server.status().clients[1].submitted.kernels, 1);
}

#[test]
fn a_kernel_that_reaches_for_a_neighbour_loses_its_client_only() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut neighbour = client(&mut server, VECTOR_ADD, "vector_add");
    let mut thief = client(&mut server, FAULT, "write_word");
    neighbour.post_row(cuMemsetD32Async, &[neighbour.address(0), 7, 16, LEGACY.0 as u64]);
    launch(&mut thief, 1, LEGACY, &words(&[neighbour.address(0), 4, 99]));
    wait_until("the fault", || thief.region.sticky_error().is_err());
    assert_eq!(thief.region.sticky_error(), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(neighbour.read(0, 64), [7, 0, 0, 0].repeat(16));
    add_vectors(&mut neighbour);
    // It is reported to the client first, then in the log.
    wait_until("the fault's line", || server.log().contains("has a sticky error"));
    let log = server.log();
    let address = neighbour.address(4);
    assert!(log.contains("kernel write_word, block (0,0,0)"), "{log}");
    assert!(log.contains(&format!("write of 4 bytes at {address:#x}")), "{log}");
    // The daemon hears of it before it hears anything else.
    wait_until("the daemon's word", || {
        server.status();
        !server.faults.borrow().is_empty()
    });
    let faults = server.faults.take();
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.pid, fault.is_faulting), (thief.pid, true));
    assert!(fault.error.contains("ILLEGAL_ADDRESS"), "{fault:?}");
    assert!(fault.why.contains("kernel write_word, block (0,0,0)"), "{fault:?}");
}

#[test]
fn an_endless_kernel_ends_with_its_client() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut neighbour = client(&mut server, VECTOR_ADD, "vector_add");
    let mut endless = client(&mut server, SPIN, "spin_forever");
    launch(&mut endless, 4, LEGACY, &[]);
    endless.settle();
    add_vectors(&mut neighbour);
    terminate(&server, &endless);
    // One that takes all of the device keeps neighbours waiting, as on hardware, until its end.
    let mut greedy = client(&mut server, SPIN, "spin_forever");
    launch(&mut greedy, 10_000, LEGACY, &[]);
    greedy.settle();
    terminate(&server, &greedy);
    add_vectors(&mut neighbour);
    // Twenty times by the client's death, in mid-kernel and with more behind it.
    let free_bytes = |client: &mut Client| client.ask(&MemoryInfo { device: 0 }).1[0];
    let before = free_bytes(&mut neighbour);
    for _ in 0..20 {
        let mut endless = client(&mut server, SPIN, "spin_forever");
        endless.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
        launch(&mut endless, 4, stream(1), &[]);
        launch(&mut endless, 4, LEGACY, &[]);
        endless.fence(LEGACY);
        endless.settle();
    }
    server.wait_for_clients(3);
    // Other processes have memory of the device too, and give it back.
    wait_until("the memory's return", || free_bytes(&mut neighbour) >= before);
    add_vectors(&mut neighbour);
}

#[test]
fn blocking_streams_order_real_kernels() {
    let mut server = start();
    let mut client = client(&mut server, SPIN, "spin_until");
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    client.post(&CreateStream { stream: stream(2), flags: 1, priority: 0 });
    let (flag, seen) = (client.address(0), client.address(4096));
    // The kernel waits for a flag that a stream sets which does not block; the legacy stream's
    // copy of what it saw comes after it.
    launch(&mut client, 1, stream(1), &words(&[flag, seen]));
    let copied = client.address(8192);
    let copy = [copied, seen, 4, LEGACY.0 as u64];
    client.post_row(cuda_api::number::cuMemcpyDtoDAsync_v2, &copy);
    let fence = client.fence(LEGACY);
    client.post_row(cuMemsetD32Async, &[flag, 5, 1, stream(2).0 as u64]);
    wait_until("the legacy stream", || client.word(LEGACY) == fence);
    assert_eq!(client.read(8192, 4), [5, 0, 0, 0]);
}

#[test]
fn what_kernels_print_comes_to_their_client() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = client(&mut server, PRINTF, "print_threads");
    launch(&mut client, 1, LEGACY, &[]);
    client.synchronize(LEGACY);
    let mut text = String::new();
    loop {
        let (result, words) = client.ask(&PrintfDrain { standard: standard::OUTPUT });
        assert_eq!(result, Ok(()));
        let piece = PrintfText::from_words(&words).unwrap();
        if piece.bytes.is_empty() {
            break;
        }
        text.push_str(std::str::from_utf8(&piece.bytes).unwrap());
    }
    assert_eq!(text.lines().count(), 64, "{text}");
    assert!(text.contains("block 0 thread 63\n"), "{text}");
}

#[test]
fn what_failed_assertions_say_comes_to_their_client_behind_the_fault() {
    const ASSERTS: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, \
            .param .b64 n, .param .b64 s);\n\
        .global .align 1 .b8 text[7] = {120, 32, 61, 61, 32, 49, 0};\n\
        .visible .entry fail() { .reg .b64 %t, %n; .reg .b32 %l; mov.u64 %t, text;\n\
        cvta.global.u64 %t, %t; mov.u64 %n, 1; mov.u32 %l, 7;\n\
        { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n\
        st.param.b64 [m], %t; st.param.b64 [f], %t; st.param.b32 [l], %l;\n\
        st.param.b64 [n], %t; st.param.b64 [s], %n;\n\
        call __assertfail, (m, f, l, n, s); } ret; }";
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = client(&mut server, ASSERTS, "fail");
    launch(&mut client, 1, LEGACY, &[]);
    wait_until("the assertion to fail", || client.region.sticky_error().is_err());
    assert_eq!(client.ask(&MemoryInfo { device: 0 }).0, Err(CudaError::ASSERT));
    let (result, words) = client.ask(&PrintfDrain { standard: standard::ERROR });
    assert_eq!(result, Ok(()));
    let text = PrintfText::from_words(&words).unwrap().bytes;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Assertion `x == 1` failed.\n"), "{text}");
    let (result, words) = client.ask(&PrintfDrain { standard: standard::OUTPUT });
    assert_eq!((result, PrintfText::from_words(&words).unwrap().bytes), (Ok(()), vec![]));
}

#[test]
fn ptx_that_is_none_says_where() {
    let mut server = start();
    let mut client = server.connect();
    let image = format!("{}\n.visible .entry broken( {{ ret; }}", &SPIN[..200]);
    let (result, log): (CUresult, ModuleLoaded) = client.load_image(module(0), image.as_bytes());
    assert_eq!(result, Err(CudaError::INVALID_PTX));
    let log = String::from_utf8_lossy(&log.error_log).into_owned();
    assert!(log.contains("line") || log.contains(':'), "{log}");
}

#[test]
fn there_is_an_end_to_the_devices_memory() {
    let mut server = start();
    let mut client = server.connect();
    let total = client.ask(&MemoryInfo { device: 0 }).1[1];
    let address = CUdeviceptr(client.address(0));
    let bytes = (total + 2 * MIB).next_multiple_of(2 * MIB);
    let too_much = client.call(&ChunkCreate { device: 0, address, bytes });
    assert_eq!(too_much, Err(CudaError::OUT_OF_MEMORY));
    client.chunk(0, 2 * MIB).unwrap();
}

/// The handle of physical memory at that place.
fn memory(place: u32) -> u64 {
    Handle { kind: HandleKind::Memory, index: place, generation: 0 }.to_word()
}

/// Reserves addresses; where.
fn reserve(client: &mut Client, bytes: u64, alignment: u64) -> Result<CUdeviceptr, CudaError> {
    let (result, reply) =
        client.ask(&ReserveAddresses { wanted: CUdeviceptr(0), bytes, alignment });
    result.map(|()| AddressesReserved::from_words(&reply).unwrap().address)
}

#[test]
fn reservations_are_elsewhere_where_the_driver_refuses_a_place() {
    let mut server = start();
    let mut client = server.connect();
    // A place that the provider has used for something of its own.
    let occupied = memfd::Reservation::at(ARENA_BASE, 4 * MIB).expect("a free place");
    let [first, second] = [0; 2].map(|alignment| reserve(&mut client, 2 * MIB, alignment).unwrap());
    assert!(!occupied.contains(first.0, 1) && !occupied.contains(second.0, 1));
    assert_eq!(second.0, first.0 + 2 * MIB, "one slab has both");
    // What has to be at a place is there, in a slab around it, at any server.
    let wanted = CUdeviceptr(ARENA_BASE + (3 << 40) + 6 * MIB);
    let ask = ReserveAddresses { wanted, bytes: 2 * MIB, alignment: 0 };
    let (result, reply) = client.ask(&ask);
    result.expect("a free place");
    assert_eq!(AddressesReserved::from_words(&reply).unwrap().address, wanted);
    // It is free again when it was given back, and not before.
    let again = client.ask(&ask).1;
    assert_ne!(AddressesReserved::from_words(&again).unwrap().address, wanted);
    client.call(&FreeAddresses { address: wanted, bytes: 2 * MIB }).unwrap();
    assert_eq!(
        AddressesReserved::from_words(&client.ask(&ask).1).unwrap().address,
        wanted,
        "free again"
    );
    let long = reserve(&mut client, 40 << 30, 512 * MIB).unwrap();
    assert!(long.0.is_multiple_of(512 * MIB));
    let wide = reserve(&mut client, 2 * MIB, 32 << 30).unwrap();
    assert!(wide.0.is_multiple_of(32 << 30));
}

/// Makes physical memory.
fn create(client: &mut Client, place: u32, bytes: u64) -> CUresult {
    client.call(&CreateMemory { memory: memory(place), device: 0, bytes })?;
    assert_eq!(client.socket.receive().expect("the memory's file").0, Message::ChunkFd(0));
    Ok(())
}

#[test]
fn virtual_memory_is_what_was_made_and_nothing_else() {
    const BYTES: u64 = 2 * MIB;
    let mut server = start();
    let mut client = server.connect();
    let invalid = CudaError::INVALID_VALUE;
    for (bytes, alignment) in [(0, 0), (3 * MIB, 0), (BYTES, 3 * MIB), (u64::MAX, 0)] {
        assert_eq!(reserve(&mut client, bytes, alignment), Err(invalid), "{bytes} {alignment}");
    }
    let too_much = RESERVED_BYTES_MAX + BYTES;
    assert_eq!(reserve(&mut client, too_much, 0), Err(CudaError::OUT_OF_MEMORY));
    let base = reserve(&mut client, 2 * BYTES, 0).unwrap();
    create(&mut client, 0, BYTES).unwrap();
    assert_eq!(create(&mut client, 0, BYTES), Err(CudaError::INVALID_HANDLE), "taken");
    assert_eq!(create(&mut client, 1, MIB), Err(invalid));

    let map = |address: u64, bytes, offset, place| MapMemory {
        address: CUdeviceptr(address),
        bytes,
        offset,
        memory: memory(place),
    };
    let window = client.address(0);
    for wrong in [
        map(window, BYTES, 0, 0),
        map(base.0 + MIB, BYTES, 0, 0),
        map(base.0 + BYTES, 2 * BYTES, 0, 0),
        map(base.0, 0, 0, 0),
        map(u64::MAX - BYTES + 1, BYTES, 0, 0),
    ] {
        assert_eq!(client.call(&wrong), Err(invalid), "{wrong:?}");
    }
    assert_eq!(client.call(&map(base.0, BYTES, 0, 7)), Err(CudaError::INVALID_HANDLE));
    for part in [map(base.0, BYTES, BYTES, 0), map(base.0, 2 * BYTES, 0, 0)] {
        assert_eq!(client.call(&part), Err(CudaError::NOT_SUPPORTED), "{part:?}");
    }
    client.call(&map(base.0, BYTES, 0, 0)).unwrap();
    assert_eq!(client.call(&map(base.0, BYTES, 0, 0)), Err(invalid), "mapped already");

    // Without access no client can fill it.
    let fill = [base.0, 7, 16, LEGACY.0 as u64];
    client.post_row(cuMemsetD32Async, &fill);
    assert_eq!(client.error(), Err(invalid));
    let access = |bytes| SetAccess { address: base, bytes, access: 3 };
    assert_eq!(client.call(&access(2 * BYTES)), Err(invalid), "only half of it is mapped");
    client.call(&access(BYTES)).unwrap();
    client.post_row(cuMemsetD32Async, &fill);
    client.post_row(cuMemsetD32Async, &[base.0 + BYTES - 4, 7, 2, LEGACY.0 as u64]);
    assert_eq!(client.error(), Err(invalid), "one word beyond");

    let free = |bytes| FreeAddresses { address: base, bytes };
    assert_eq!(client.call(&free(2 * BYTES)), Err(invalid), "something is mapped");
    let held = |server: &Server| server.status().clients[0].memory_bytes;
    assert_eq!(held(&server), BYTES);
    client.call(&ReleaseMemory { memory: memory(0) }).unwrap();
    assert_eq!(held(&server), BYTES, "it is still mapped");
    let twice = client.call(&ReleaseMemory { memory: memory(0) });
    assert_eq!(twice, Err(CudaError::INVALID_HANDLE));
    let unmap = |bytes| UnmapMemory { address: base, bytes };
    assert_eq!(client.call(&unmap(MIB)), Err(invalid));
    client.call(&unmap(BYTES)).unwrap();
    assert_eq!(held(&server), 0);
    client.post_row(cuMemsetD32Async, &fill);
    assert_eq!(client.error(), Err(invalid), "gone");
    assert_eq!(client.call(&free(BYTES)), Err(invalid), "half of a reservation");
    client.call(&free(2 * BYTES)).unwrap();
    // What a client leaves mapped goes with it.
    let base = reserve(&mut client, BYTES, 0).unwrap();
    create(&mut client, 0, BYTES).unwrap();
    client.call(&map(base.0, BYTES, 0, 0)).unwrap();
    drop(client);
    server.wait_for_clients(0);
    assert!(!server.log().contains("left behind"), "{}", server.log());
}

#[test]
fn a_client_opens_what_another_one_exports_and_nothing_else() {
    const BYTES: u64 = 4 * MIB;
    let mut server = start();
    let (mut owner, mut other) = (server.connect(), server.connect());
    owner.chunk(0, BYTES).unwrap();
    owner.post_row(cuMemsetD32Async, &[owner.address(0), 7, 16, LEGACY.0 as u64]);
    owner.synchronize(LEGACY);
    let address = CUdeviceptr(owner.address(0));
    let inside = ShareMemory { address: CUdeviceptr(address.0 + MIB) };
    assert_eq!(owner.call(&inside), Err(CudaError::INVALID_VALUE), "no chunk begins there");
    let shared = |client: &mut Client| {
        let (result, reply) = client.ask(&ShareMemory { address });
        result.unwrap();
        SharedMemory::from_words(&reply).unwrap()
    };
    let token = shared(&mut owner);
    assert_eq!(shared(&mut owner), token, "the same chunk has the same token");
    assert_eq!(token.bytes, BYTES);

    let base = reserve(&mut other, 2 * BYTES, 0).unwrap();
    let open = |bytes, low, high| OpenMemory { address: base, bytes, low, high };
    let stale = Err(CudaError::INVALID_HANDLE);
    assert_eq!(other.call(&open(BYTES, token.low ^ 1, token.high)), stale);
    assert_eq!(other.call(&open(2 * BYTES, token.low, token.high)), stale, "another length");
    other.call(&open(BYTES, token.low, token.high)).unwrap();
    other.chunk(0, BYTES).unwrap();
    let copy = [other.address(0), base.0, 64, LEGACY.0 as u64];
    other.post_row(cuda_api::number::cuMemcpyDtoDAsync_v2, &copy);
    assert_eq!(other.read(0, 64), [7, 0, 0, 0].repeat(16));

    // Its owner gives it up: a client that has opened it keeps it, no other client gets it.
    owner.call(&ChunkRelease { address }).unwrap();
    let again = CUdeviceptr(base.0 + BYTES);
    let late = OpenMemory { address: again, bytes: BYTES, low: token.low, high: token.high };
    assert_eq!(other.call(&late), stale);
    other.post_row(cuda_api::number::cuMemcpyDtoDAsync_v2, &copy);
    assert_eq!(other.read(0, 4), [7, 0, 0, 0]);
    other.call(&UnmapMemory { address: base, bytes: BYTES }).unwrap();
}

#[test]
fn an_event_is_every_clients_that_opens_it() {
    let mut server = start();
    let (mut owner, mut other) = (server.connect(), server.connect());
    owner.post(&CreateEvent { event: event(0), flags: 2 });
    let (result, reply) = owner.ask(&ShareEvent { event: event(0) });
    result.unwrap();
    let token = Token::from_words(&reply).unwrap();
    let open = |low| OpenEvent { event: event(5), low, high: token.high };
    assert_eq!(other.call(&open(token.low ^ 1)), Err(CudaError::INVALID_HANDLE));
    other.call(&open(token.low)).unwrap();
    assert_eq!(other.call(&open(token.low)), Err(CudaError::INVALID_HANDLE), "taken");
    let done = |client: &mut Client, event| {
        let (result, reply) = client.ask(&QueryEvent { event });
        result.unwrap();
        EventState::from_words(&reply).unwrap().done
    };
    assert_eq!(done(&mut other, event(5)), 1, "never recorded");
    // The owner records it behind a wait that only its own write ends.
    owner.chunk(0, 2 * MIB).unwrap();
    let wait = [LEGACY.0 as u64, owner.address(0), 1, 1];
    owner.post_row(cuda_api::number::cuStreamWaitValue32_v2, &wait);
    owner.post(&RecordEvent { event: event(0), stream: LEGACY, value: 1 });
    owner.settle();
    assert_eq!(done(&mut other, event(5)), 0);
    owner.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    let write = [stream(1).0 as u64, owner.address(0), 1, 0];
    owner.post_row(cuda_api::number::cuStreamWriteValue32_v2, &write);
    wait_until("the event", || done(&mut other, event(5)) == 1);
    // It outlives its owner's handle, but is not given out any more.
    owner.post(&DestroyEvent { event: event(0) });
    owner.settle();
    assert_eq!(done(&mut other, event(5)), 1);
    let late = OpenEvent { event: event(6), low: token.low, high: token.high };
    assert_eq!(other.call(&late), Err(CudaError::INVALID_HANDLE));
}

/// A graph's first request, and nodes that fill 16 words of memory with a value and copy them to
/// 1 MiB; not instantiated.
fn fill_and_copy(client: &mut Client, place: u32, value: u32) {
    let graph = graph(place);
    client.post(&GraphBegin { graph });
    let (address, to) = (client.address(0), client.address(MIB));
    client.post(&GraphFill {
        graph,
        address: CUdeviceptr(address),
        pitch: 0,
        value,
        element_bytes: 4,
        width: 16,
        height: 1,
    });
    client.post(&copy_node(place, address, to, 64));
    client.post(&GraphEdges { graph, node: 1, from: &[0] });
}

fn copy_node(place: u32, source: u64, destination: u64, bytes: u64) -> GraphCopy {
    let end = |address| Copy3DEnd::Device { address: CUdeviceptr(address), pitch: bytes, rows: 1 };
    let (source, destination) = (end(source), end(destination));
    GraphCopy {
        graph: graph(place),
        copy: Copy3DParams { destination, source, extent: [bytes, 1, 1] },
    }
}

fn instantiate(client: &mut Client, place: u32, replaces: CUgraphExec) -> CUresult {
    client.call(&GraphInstantiate { graph: graph(place), replaces })
}

fn run_graph(client: &mut Client, place: u32) -> CUresult {
    client.post(&GraphLaunch { graph: graph(place), stream: LEGACY });
    client.synchronize(LEGACY);
    client.error()
}

#[test]
fn a_graph_runs_at_each_launch_and_can_be_replaced() {
    let mut server = start();
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    fill_and_copy(&mut client, 0, 3);
    let at = |offset| client.address(offset);
    let parameters = words(&[at(0), at(MIB), at(2 * MIB), 16]);
    let launch = one_block(function(0), 64, &parameters);
    client.post(&GraphKernel { graph: graph(0), launch });
    client.post(&GraphEdges { graph: graph(0), node: 2, from: &[0, 1] });
    assert_eq!(instantiate(&mut client, 0, CUgraphExec::NULL), Ok(()));
    assert_eq!(client.read(0, 4), [0; 4]);
    for _ in 0..2 {
        assert_eq!(run_graph(&mut client, 0), Ok(()));
    }
    assert_eq!(client.read(MIB, 64), [3, 0, 0, 0].repeat(16));
    // As floats three units of the smallest are doubled.
    assert_eq!(client.read(2 * MIB, 64), [6, 0, 0, 0].repeat(16));
    assert_eq!(server.status().clients[0].submitted.kernels, 2);
    // Of the same form and of another one; the one that was replaced is gone.
    fill_and_copy(&mut client, 1, 4);
    assert_eq!(instantiate(&mut client, 1, graph(0)), Ok(()));
    fill_and_copy(&mut client, 2, 5);
    assert_eq!(instantiate(&mut client, 2, graph(1)), Ok(()));
    assert_eq!(run_graph(&mut client, 2), Ok(()));
    assert_eq!(client.read(MIB, 4), [5, 0, 0, 0]);
    assert_eq!(run_graph(&mut client, 1), Err(CudaError::INVALID_HANDLE));
    client.post(&GraphDestroy { graph: graph(2) });
    assert_eq!(client.error(), Ok(()));
}

#[test]
fn a_graph_touches_nothing_but_its_clients_own() {
    let mut server = start();
    let neighbour = client(&mut server, VECTOR_ADD, "vector_add");
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    let (own, theirs) = (client.address(0), neighbour.address(0));
    let fill = |address, bytes: u64| GraphFill {
        graph: graph(0),
        address: CUdeviceptr(address),
        pitch: 0,
        value: 1,
        element_bytes: 1,
        width: bytes,
        height: 1,
    };
    let mut refused = |what: &str, add: &dyn Fn(&mut Client)| {
        client.post(&GraphBegin { graph: graph(0) });
        add(&mut client);
        // More is no way out.
        client.post(&GraphEmpty { graph: graph(0) });
        let answer = instantiate(&mut client, 0, CUgraphExec::NULL);
        assert!(answer.is_err(), "{what}");
        assert_eq!(client.error(), Ok(()), "{what}");
    };
    refused("a neighbour's memory filled", &|c| c.post(&fill(theirs, 16)));
    refused("beyond one's own", &|c| c.post(&fill(own, 1 << 40)));
    refused("a length without end", &|c| c.post(&fill(own, u64::MAX)));
    refused("a copy from a neighbour", &|c| c.post(&copy_node(0, theirs, own, 16)));
    refused("a copy to a neighbour", &|c| c.post(&copy_node(0, own, theirs, 16)));
    refused("staging, which is gone before the graph is", &|c| {
        let mut node = copy_node(0, own, own, 16);
        node.copy.source =
            Copy3DEnd::Host { reference: HostReference::Staging(64), pitch: 16, rows: 1 };
        c.post(&node);
    });
    refused("slices without end", &|c| {
        let mut node = copy_node(0, own, own + 4096, 16);
        node.copy.extent[2] = u64::MAX;
        node.copy.source =
            Copy3DEnd::Device { address: CUdeviceptr(own), pitch: 16, rows: u64::MAX };
        c.post(&node);
    });
    refused("edges of no nodes", &|c| {
        c.post(&GraphEdges { graph: graph(0), node: 0, from: &[7] });
    });
    refused("a function that is none", &|c| {
        let launch = one_block(function(9), 1, &[]);
        c.post(&GraphKernel { graph: graph(0), launch });
    });
    refused("parameters that are too short", &|c| {
        let launch = one_block(function(0), 1, &[0; 8]);
        c.post(&GraphKernel { graph: graph(0), launch });
    });
    assert_eq!(run_graph(&mut client, 0), Err(CudaError::INVALID_HANDLE));
    assert_eq!(instantiate(&mut client, 5, CUgraphExec::NULL), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn a_graph_does_not_outlive_what_it_uses() {
    let mut server = start();
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    fill_and_copy(&mut client, 0, 3);
    assert_eq!(instantiate(&mut client, 0, CUgraphExec::NULL), Ok(()));
    assert_eq!(run_graph(&mut client, 0), Ok(()));
    let memory = CUdeviceptr(client.address(0));
    assert_eq!(client.call(&ChunkRelease { address: memory }), Ok(()));
    assert_eq!(run_graph(&mut client, 0), Err(CudaError::INVALID_VALUE));
    client.chunk(0, 4 * MIB).unwrap();
    assert_eq!(run_graph(&mut client, 0), Ok(()));
    assert_eq!(client.read(MIB, 4), [3, 0, 0, 0]);
    let at = |offset| client.address(offset);
    let parameters = words(&[at(0), at(MIB), at(2 * MIB), 16]);
    client.post(&GraphBegin { graph: graph(1) });
    let launch = one_block(function(0), 64, &parameters);
    client.post(&GraphKernel { graph: graph(1), launch });
    assert_eq!(instantiate(&mut client, 1, CUgraphExec::NULL), Ok(()));
    assert_eq!(run_graph(&mut client, 1), Ok(()));
    client.post(&UnloadModule { module: module(0) });
    assert_eq!(run_graph(&mut client, 1), Err(CudaError::INVALID_HANDLE));
    assert_eq!(run_graph(&mut client, 0), Ok(()));
}

/// Adds a conditional node with one body, the graph `body`.
fn choose(client: &mut Client, place: u32, rule: u32, word: u64, body: u32) {
    let bodies = [graph(body).0 as u64];
    client.post(&GraphConditional { graph: graph(place), rule, condition: word, bodies: &bodies });
}

#[test]
fn a_word_of_the_clients_chooses_what_runs() {
    use cuda_api::constants::graph_conditional::{IF, WHILE};
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    assert_eq!(client.ask(&GraphCanChoose {}), (Ok(()), vec![0]), "words");
    let (word, zeroes) = (client.address(3 * MIB), client.address(2 * MIB));
    let fill = |place, address, value, width| GraphFill {
        graph: graph(place),
        address: CUdeviceptr(address),
        pitch: 0,
        value,
        element_bytes: 4,
        width,
        height: 1,
    };
    client.post(&GraphBegin { graph: graph(0) });
    client.post(&fill(0, word, 1, 1));
    choose(&mut client, 0, WHILE, word, 1);
    client.post(&GraphEdges { graph: graph(0), node: 1, from: &[0] });
    // Once round: the body itself clears the word. What is in it is not done in the end.
    client.post(&fill(1, client.address(0), 7, 16));
    choose(&mut client, 1, IF, zeroes, 2);
    client.post(&fill(2, client.address(MIB), 9, 16));
    client.post(&copy_node(1, zeroes, word, 4));
    client.post(&GraphEdges { graph: graph(1), node: 1, from: &[0] });
    client.post(&GraphEdges { graph: graph(1), node: 2, from: &[1] });
    assert_eq!(instantiate(&mut client, 0, CUgraphExec::NULL), Ok(()));
    // The bodies are a part of the graph now.
    let gone = instantiate(&mut client, 1, CUgraphExec::NULL);
    assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
    for _ in 0..2 {
        client.write(0, &[0; 64]);
        assert_eq!(run_graph(&mut client, 0), Ok(()));
        assert_eq!(client.read(0, 64), [7, 0, 0, 0].repeat(16));
        assert_eq!(client.read(MIB, 64), [0; 64]);
    }
}

#[test]
fn a_condition_of_the_drivers_chooses_what_runs() {
    use cuda_api::constants::graph_conditional::{ASSIGN_DEFAULT, IF};
    let mut server = start();
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    let begin = |client: &mut Client, condition, default| {
        client.post(&GraphBegin { graph: graph(0) });
        let (graph, flags) = (graph(0), ASSIGN_DEFAULT);
        client.post(&GraphCondition { graph, condition, default, flags });
    };
    if client.ask(&GraphCanChoose {}) == (Ok(()), vec![0]) {
        begin(&mut client, 1, 1);
        let refused = instantiate(&mut client, 0, CUgraphExec::NULL);
        assert_eq!(refused, Err(CudaError::INVALID_VALUE), "the provider takes words");
        return;
    }
    for (default, found) in [(1, 7), (0, 0)] {
        begin(&mut client, 1, default);
        choose(&mut client, 0, IF, 1, 1);
        client.post(&GraphFill {
            graph: graph(1),
            address: CUdeviceptr(client.address(0)),
            pitch: 0,
            value: 7,
            element_bytes: 1,
            width: 64,
            height: 1,
        });
        assert_eq!(instantiate(&mut client, 0, CUgraphExec::NULL), Ok(()));
        client.write(0, &[0; 64]);
        assert_eq!(run_graph(&mut client, 0), Ok(()));
        assert_eq!(client.read(0, 64), [found; 64], "{default}");
        client.post(&GraphDestroy { graph: graph(0) });
    }
    begin(&mut client, 2, 1);
    let counted_otherwise = instantiate(&mut client, 0, CUgraphExec::NULL);
    assert_eq!(counted_otherwise, Err(CudaError::NOT_SUPPORTED));
    begin(&mut client, 1, 1);
    choose(&mut client, 0, IF, 2, 1);
    let unknown = instantiate(&mut client, 0, CUgraphExec::NULL);
    assert_eq!(unknown, Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_word_is_the_clients_own_and_bodies_touch_nothing_else() {
    use cuda_api::constants::graph_conditional::IF;
    let Some(mut server) = start_with_tenants() else { return };
    let neighbour = client(&mut server, VECTOR_ADD, "vector_add");
    let mut client = client(&mut server, VECTOR_ADD, "vector_add");
    let (own, foreign) = (client.address(0), neighbour.address(0));
    let refused = |client: &mut Client, rule, word, touched| {
        client.post(&GraphBegin { graph: graph(0) });
        choose(client, 0, rule, word, 1);
        client.post(&copy_node(1, touched, own, 16));
        let result = instantiate(client, 0, CUgraphExec::NULL);
        client.post(&GraphDestroy { graph: graph(1) });
        client.post(&GraphDestroy { graph: graph(0) });
        let _ = client.error();
        result
    };
    assert_eq!(refused(&mut client, IF, own, own + 64), Ok(()));
    for (rule, word, touched) in
        [(IF, foreign, own), (IF, own + 2, own), (9, own, own), (IF, own, foreign), (IF, 16, own)]
    {
        let result = refused(&mut client, rule, word, touched);
        assert!(result.is_err(), "{rule} {word:#x} {touched:#x}");
    }
    // The code that walks through a graph goes only so deep.
    client.post(&GraphBegin { graph: graph(0) });
    for depth in 0..200 {
        choose(&mut client, depth, IF, own, depth + 1);
    }
    assert!(instantiate(&mut client, 0, CUgraphExec::NULL).is_err());
}

fn schedule(server: &Server, settings: &str) {
    let change = Schedule { client: 0, settings: settings.to_owned() };
    server.ask(9, Question::Schedule(change));
    assert_eq!(server.receive(), done(9, 0));
}

#[test]
fn a_graph_of_a_batch_client_is_paused_between_its_pieces_and_computes_the_same() {
    const NODES: u32 = 24;
    let Some(mut server) = start_with_tenants() else { return };
    schedule(&server, "in-flight=40us pause-max=1ms");
    server.scheduling = "class=latency".to_owned();
    let mut critical = client(&mut server, SPIN, "spin_forever");
    server.scheduling = "class=batch".to_owned();
    let mut batch = client(&mut server, VECTOR_ADD, "vector_add");
    let floats = |x: f32| (0..1000).flat_map(|_| x.to_le_bytes()).collect::<Vec<u8>>();
    batch.write(0, &floats(1.0));
    batch.write(MIB, &floats(0.0));
    let [one, sum] = [0, MIB].map(|offset| batch.address(offset));
    let parameters = words(&[one, sum, sum, 1000]);
    batch.post(&GraphBegin { graph: graph(0) });
    for node in 0..NODES {
        let launch = LaunchKernel { grid: [16, 1, 1], ..one_block(function(0), 64, &parameters) };
        batch.post(&GraphKernel { graph: graph(0), launch });
        if node > 0 {
            batch.post(&GraphEdges { graph: graph(0), node, from: &[u64::from(node - 1)] });
        }
    }
    instantiate(&mut batch, 0, CUgraphExec::NULL).expect("a graph");
    let holds = |server: &Server| server.status().clients[1].scheduling.pauses;
    launch(&mut critical, 1, LEGACY, &[]);
    critical.settle();
    let before = holds(&server);
    run_graph(&mut batch, 0).expect("the graph runs beside the endless kernel");
    assert!(holds(&server) - before >= u64::from(NODES) - 1, "each piece was paused");
    assert_eq!(batch.read(MIB, 4000), floats(NODES as f32));
    assert_eq!(server.status().clients[1].submitted.kernels, u64::from(NODES));
    schedule(&server, "pieces=off");
    let before = holds(&server);
    run_graph(&mut batch, 0).expect("the graph runs as a whole");
    assert!(holds(&server) - before <= 3, "one launch");
    assert_eq!(batch.read(MIB, 4000), floats(2.0 * NODES as f32));
}
