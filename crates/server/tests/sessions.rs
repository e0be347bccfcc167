//! Sessions: what they do with requests that are as they should be.

mod support;

use channel::message::Message;
use channel::region::HOST_CALL_DONE;
use channel::request::*;
use cuda_api::extension::standard;
use cuda_api::number::*;
use cuda_api::{CUarray, CUdeviceptr, CUstream, CudaError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use support::*;

const MIB: u64 = 1 << 20;

fn u32_bytes(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

#[test]
fn a_client_gets_what_it_needs_to_know() {
    let mut server = Server::start(true);
    let (a, b) = (server.connect(), server.connect());
    assert_eq!((a.welcome.client_id, b.welcome.client_id), (1, 2));
    assert_eq!(a.welcome.driver_version, 13000);
    assert_eq!((a.welcome.priority_least, a.welcome.priority_greatest), (0, -5));
    use channel::message::{WELCOME_HAS_TENANTS, WELCOME_TAKES_UNMARKED};
    assert_eq!(a.welcome.flags, WELCOME_HAS_TENANTS | WELCOME_TAKES_UNMARKED);
    let device = &a.welcome.devices[0];
    assert_eq!((device.name.as_str(), device.pci_bus_id.as_str()), ("Test device", "0000:06:00.0"));
    assert_eq!(device.attributes[16], 160);
    assert_eq!(device.attributes[0], 0, "an attribute that the provider does not know");
    let (wa, wb) = (a.welcome.window, b.welcome.window);
    assert!(wa.address + wa.bytes <= wb.address || wb.address + wb.bytes <= wa.address);
    let (ha, hb) = (a.welcome.host_window, b.welcome.host_window);
    assert!(ha.address + ha.bytes <= hb.address || hb.address + hb.bytes <= ha.address);
}

#[test]
fn memory_is_made_cleared_used_and_given_back() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let file = client.chunk(0, 2 * MIB).unwrap();
    assert!(client.read(4096, 16).iter().all(|b| *b == 0), "another client's bytes");
    client.write(100, b"hello device");
    assert_eq!(client.read(100, 12), b"hello device");
    // The fd is the memory.
    let mut seen = [0u8; 12];
    let read = rustix::io::pread(&file, &mut seen, 100);
    assert_eq!((read, &seen), (Ok(12), b"hello device"));
    client.chunk(4 * MIB, 2 * MIB).unwrap();
    assert_eq!(server.status().clients[0].memory_bytes, 4 * MIB);
    let (result, words) = client.ask(&MemoryInfo { device: 0 });
    assert_eq!(result, Ok(()));
    let total = provider::MEMORY_BYTES;
    assert_eq!(words, [total - 4 * MIB, total]);
    let address = CUdeviceptr(client.address(0));
    assert_eq!(client.call(&ChunkRelease { address }), Ok(()));
    assert_eq!(client.call(&ChunkRelease { address }), Err(CudaError::INVALID_VALUE));
    assert_eq!(server.status().clients[0].memory_bytes, 2 * MIB);
    // What the fd stands for outlives the mapping.
    let read = rustix::io::pread(&file, &mut seen, 100);
    assert_eq!((read, &seen), (Ok(12), b"hello device"));
    client.write(4 * MIB, b"x");
    assert_eq!(client.error(), Ok(()));
}

#[test]
fn there_is_an_end_to_memory() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let half = provider::MEMORY_BYTES / 2;
    client.chunk(0, half).unwrap();
    client.chunk(half, half).unwrap();
    let more = client.chunk(2 * half, 2 * MIB).err();
    assert_eq!(more, Some(CudaError::OUT_OF_MEMORY));
    let address = CUdeviceptr(client.address(0));
    assert_eq!(client.call(&ChunkRelease { address }), Ok(()));
    client.chunk(2 * half, 2 * MIB).unwrap();
}

#[test]
fn pinned_memory_is_good_everywhere() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.chunk(0, 2 * MIB).unwrap();
    client.pin(0, 8192).unwrap();
    let host = client.welcome.host_window.address;
    client.write(0, b"from the device");
    let (device, stream) = (CUdeviceptr(client.address(0)), LEGACY);
    client.post(&DeviceToHost {
        destination: HostReference::Mapped(host + 4096),
        source: device,
        bytes: 15,
        stream,
    });
    // The device reads pinned memory by the same address.
    client.post_row(cuMemcpyDtoDAsync_v2, &[device.0 + 64, host + 4096, 15, stream.0 as u64]);
    assert_eq!(client.read(64, 15), b"from the device");
    assert_eq!(client.call(&HostUnmap { address: host }), Ok(()));
    assert_eq!(client.call(&HostUnmap { address: host }), Err(CudaError::INVALID_VALUE));
    client.post_row(cuMemcpyDtoDAsync_v2, &[device.0, host, 15, stream.0 as u64]);
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
}

#[test]
fn kernels_are_found_described_and_launched() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let (result, words) =
        client.ask(&GetFunction { function: function(9), module: module(0), name: b"add" });
    assert_eq!(result, Ok(()));
    let info: FunctionInfo = channel::payload::Payload::from_words(&words).unwrap();
    assert_eq!(info.attributes[4], 104);
    let layout: Vec<_> = info.parameters.iter().map(|p| (p.offset_bytes, p.size_bytes)).collect();
    assert_eq!(layout, [(0, 8), (8, 4), (12, 4)]);
    client.chunk(0, 2 * MIB).unwrap();
    client.write(0, &[1; 16]);
    let mut parameters = client.address(0).to_le_bytes().to_vec();
    parameters.extend([u32_bytes(4), u32_bytes(2)].concat());
    client.launch("add", LEGACY, &parameters);
    assert_eq!(client.read(0, 16), [3, 1, 1, 1].repeat(4));
    assert_eq!(server.status().clients[0].submitted.kernels, 1);
    // Too few bytes of parameters, no blocks.
    client.launch("add", LEGACY, &parameters[..12]);
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.error(), Ok(()), "an error is reported once");
    let nothing =
        client.ask(&GetFunction { function: function(10), module: module(0), name: b"nothing" });
    assert_eq!(nothing.0, Err(CudaError::NOT_FOUND));
    client.post(&UnloadModule { module: module(0) });
    client.launch("note", LEGACY, &u32_bytes(1));
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn fences_are_kept_back_while_sessions_share_queues() {
    let mut server = Server::start(false);
    let at_work = server::device::HARDWARE_QUEUES + 2;
    let mut clients: Vec<Client> = (0..at_work).map(|_| server.connect()).collect();
    let gates = 7000..;
    for (client, gate) in clients.iter_mut().zip(gates.clone()) {
        client.load();
        client.launch("hold", LEGACY, &u32_bytes(gate));
        client.settle();
    }
    let mut last = Vec::new();
    for client in &mut clients {
        wait_until("a fence that is kept back", || {
            let before = provider::words_to_write();
            client.fence(LEGACY);
            client.settle();
            provider::words_to_write() == before
        });
        last.push(client.fence(LEGACY));
        client.settle();
    }
    // Work behind a fence gives it to the device.
    let before = provider::words_to_write();
    clients[0].launch("note", LEGACY, &u32_bytes(7000));
    clients[0].settle();
    assert_eq!(provider::words_to_write(), before + 1);
    // So does its stream's end, after which the session would not look at it.
    let client = &mut clients[1];
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    client.launch("hold", stream(1), &u32_bytes(7900));
    client.settle();
    let before = provider::words_to_write();
    let value = client.fence(stream(1));
    client.settle();
    assert_eq!(provider::words_to_write(), before);
    client.post(&DestroyStream { stream: stream(1) });
    client.settle();
    assert_eq!(provider::words_to_write(), before + 1);
    let open = 7001;
    provider::open_gate(open);
    provider::open_gate(7900);
    wait_until("the destroyed stream's fence", || client.word(stream(1)) == value);
    for ((client, value), gate) in clients.iter().zip(&last).zip(gates) {
        if gate != open {
            assert!(client.word(LEGACY) < *value);
            provider::open_gate(gate);
        }
        wait_until("the fence", || client.word(LEGACY) == *value);
    }
}

#[test]
fn images_that_do_not_load_say_why() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let (result, loaded) = client.load_image(module(1), b"garbage");
    assert_eq!(result, Err(CudaError::INVALID_PTX));
    assert_eq!(loaded.error_log, b"line 1: garbage");
    let (result, _) = client.load_image(module(1), &0x4662_43B1u32.to_le_bytes());
    assert_eq!(result, Err(CudaError::INVALID_IMAGE), "a wrapper holds a pointer");
    let (result, loaded) = client.load_image(module(1), b".extern .func vprintf\0");
    assert_eq!((result, loaded.flags), (Ok(()), MODULE_PRINTS));
    let (result, words) = client.ask(&PrintfDrain { standard: standard::OUTPUT });
    let text: PrintfText = channel::payload::Payload::from_words(&words).unwrap();
    assert_eq!((result, text.bytes.as_slice()), (Ok(()), &b"hello"[..]));
}

#[test]
fn globals_become_the_clients_while_their_module_lives() {
    let mut server = Server::start(true);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.load();
    client.chunk(0, 2 * MIB).unwrap();
    let (result, words) =
        client.ask(&GetGlobal { module: module(0), managed: false, name: b"table" });
    assert_eq!((result, words[1]), (Ok(()), 64));
    let copy = [client.address(0), words[0], 64, LEGACY.0 as u64];
    client.post_row(cuMemcpyDtoDAsync_v2, &copy);
    assert_eq!(client.read(0, 64), [7; 64]);
    other.chunk(0, 2 * MIB).unwrap();
    let theft = [other.address(0), words[0], 64, LEGACY.0 as u64];
    other.post_row(cuMemcpyDtoDAsync_v2, &theft);
    assert_eq!(other.error(), Err(CudaError::INVALID_VALUE));
    client.post(&UnloadModule { module: module(0) });
    client.post_row(cuMemcpyDtoDAsync_v2, &copy);
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
}

#[test]
fn managed_variables_are_placed_where_the_provider_does_not_ask() {
    const CUBIN: &[u8] = include_bytes!("../../ptx/tests/data/managed_sm_90.cubin");
    let mut server = Server::start(false);
    let mut client = server.connect();
    let (result, loaded) = client.load_image(module(0), CUBIN);
    assert_eq!(result, Ok(()));
    let (message, mut files) = client.socket.receive().expect("the variables' file");
    assert_eq!(message, Message::ManagedFd(()));
    let (address, bytes) = loaded.managed;
    assert!(client.welcome.host_window.managed().contains(address, bytes), "{address:#x}");
    let mut find = |name: &str, managed| {
        let name = name.as_bytes();
        let (result, words) = client.ask(&GetGlobal { module: module(0), managed, name });
        result.map(|()| (words[0], words[1]))
    };
    let (total, four) = find("total", true).unwrap();
    assert_eq!((four, find("total", false)), (4, Ok((total, 4))));
    // The provider has a variable of that name, which is 64 bytes long.
    let (table, length) = find("table", true).unwrap();
    assert_eq!(length, 2400);
    assert!((address..address + bytes - length + 1).contains(&table));
    assert_eq!(find("plain", true), Err(CudaError::NOT_FOUND));
    let (pair, eight) = find("pair", true).unwrap();
    let file = File::from(files.remove(0));
    let first = |at: u64, bytes: u64| {
        let mut value = vec![0; bytes as usize];
        file.read_exact_at(&mut value, at - address).map(|()| value).unwrap()
    };
    assert_eq!(first(total, four), u32_bytes(3), "what it begins with");
    assert_eq!(first(pair, eight), [1, 0, 0, 0, 0, 0, 0, 64]);
    // A module without any has none, and the place is free again as soon as the session has rested.
    client.post(&UnloadModule { module: module(0) });
    assert_eq!(client.load_image(module(1), b".version 8.0").1.managed, (0, 0));
    support::wait_until("the place of the variables", || {
        let (_, again) = client.load_image(module(0), CUBIN);
        client.post(&UnloadModule { module: module(0) });
        again.managed == (address, bytes)
    });
}

#[test]
fn rows_are_forwarded_as_they_are() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let add = function(0).0 as u64;
    assert_eq!(client.call_row(cuFuncSetAttribute, &[add, 8, 4096]), Ok(vec![]));
    let negative = -1i64 as u64;
    let answer = client.call_row(cuFuncSetAttribute, &[add, 8, negative]);
    assert_eq!(answer, Err(CudaError::INVALID_VALUE));
    let occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor;
    assert_eq!(client.call_row(occupancy, &[add, 256, 0]), Ok(vec![8]));
    // A kernel of a library is a function.
    assert_eq!(client.call_row(cuKernelSetAttribute, &[8, 4096, add, 0]), Ok(vec![]));
    client.chunk(0, 2 * MIB).unwrap();
    let (base, stream) = (client.address(0), LEGACY.0 as u64);
    client.post_row(cuMemsetD8Async, &[base, 5, 8, stream]);
    client.post_row(cuMemsetD32Async, &[base + 8, 0x0403_0201, 2, stream]);
    client.post_row(cuMemsetD2D16Async, &[base + 32, 8, 0xabcd, 2, 2, stream]);
    assert_eq!(client.read(0, 16), [5, 5, 5, 5, 5, 5, 5, 5, 1, 2, 3, 4, 1, 2, 3, 4]);
    let rows = [0xcd, 0xab, 0xcd, 0xab, 0, 0, 0, 0, 0xcd, 0xab, 0xcd, 0xab, 0, 0, 0, 0];
    assert_eq!(client.read(32, 16), rows);
    assert_eq!(client.error(), Ok(()));
}

#[test]
fn rows_are_copied_in_two_dimensions() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.chunk(0, 2 * MIB).unwrap();
    client.region.write_staging(0, b"ab..cd..ef..").unwrap();
    let base = client.address(0);
    let device =
        |offset, pitch| Copy3DEnd::Device { address: CUdeviceptr(base + offset), pitch, rows: 0 };
    let staged = Copy3DEnd::Host { reference: HostReference::Staging(0), pitch: 4, rows: 0 };
    let copy = |source, destination, extent| Copy3D {
        stream: LEGACY,
        copy: Copy3DParams { source, destination, extent },
    };
    client.post(&copy(staged, device(0, 2), [2, 3, 1]));
    assert_eq!(client.read(0, 7), b"abcdef\0");
    client.post(&copy(device(0, 2), device(64, 3), [2, 3, 1]));
    assert_eq!(client.read(64, 8), b"ab\0cd\0ef");
    client.post(&copy(device(0, 2), device(64, 3), [3, 3, 1]));
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE), "rows that overlap");
    client.post(&copy(device(0, 2), device(64, 3), [2, u64::MAX / 2, 1]));
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE));
    client.post(&copy(device(0, 2), device(64, 3), [2, 1, u64::MAX]));
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE), "slices without rows");
    let no_array = Copy3DEnd::Array { array: CUarray(base as usize), offset: [0; 3] };
    client.post(&copy(device(0, 2), no_array, [2, 1, 1]));
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn a_record_that_is_not_marked_orders_streams_and_writes_no_word() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let (a, b) = (stream(1), stream(2));
    for stream in [a, b] {
        client.post(&CreateStream { stream, flags: 1, priority: 0 });
    }
    client.post(&CreateEvent { event: event(3), flags: 2 });
    client.launch("hold", a, &u32_bytes(141));
    client.post(&RecordEvent { event: event(3), stream: a, value: RECORD_UNMARKED });
    client.post(&WaitEvent { stream: b, event: event(3) });
    client.launch("note", b, &u32_bytes(1411));
    let done = |client: &mut Client| client.ask(&QueryEvent { event: event(3) });
    assert_eq!(done(&mut client), (Ok(()), vec![0]));
    provider::open_gate(141);
    client.synchronize(b);
    assert_eq!(provider::notes(|n| n / 10 == 141), [1411]);
    assert_eq!(done(&mut client), (Ok(()), vec![1]));
    assert_eq!((client.word(a), client.error()), (0, Ok(())));
    // One that fails writes none either.
    client.post(&RecordEvent { event: event(9), stream: a, value: RECORD_UNMARKED });
    client.post(&Fence { stream: a, value: 7 });
    client.settle();
    assert_eq!(client.word(a), 7);
    assert!(client.error().is_err());
}

#[test]
fn fences_events_and_notes_come_in_the_order_of_their_stream() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let (a, b) = (stream(1), stream(2));
    for stream in [a, b] {
        client.post(&CreateStream { stream, flags: 1, priority: -1 });
    }
    client.post(&CreateEvent { event: event(3), flags: 0 });
    client.post(&CreateEvent { event: event(4), flags: 0 });
    client.launch("hold", a, &u32_bytes(101));
    client.launch("note", a, &u32_bytes(1011));
    client.post(&RecordEvent { event: event(3), stream: a, value: 1 });
    client.post(&WaitEvent { stream: b, event: event(3) });
    client.launch("note", b, &u32_bytes(1012));
    client.post(&RecordEvent { event: event(4), stream: b, value: 1 });
    client.launch("note", LEGACY, &u32_bytes(1010));
    client.synchronize(LEGACY);
    let mine = |n: u32| n / 10 == 101;
    assert_eq!(provider::notes(mine), [1010], "streams that do not block run on");
    assert_eq!((client.word(a), client.word(b)), (0, 0));
    let (result, _) = client.ask(&ElapsedTime { start: event(3), end: event(4) });
    assert_eq!(result, Err(CudaError::NOT_READY));
    client.post(&Notify { stream: b, value: 1 });
    client.settle();
    provider::open_gate(101);
    wait_until("both streams", || (client.word(a), client.word(b)) == (1, 1));
    assert_eq!(provider::notes(mine), [1010, 1011, 1012]);
    let (result, words) = client.ask(&ElapsedTime { start: event(3), end: event(4) });
    assert_eq!((result, words), (Ok(()), vec![u64::from(1.5f32.to_bits())]));
    client.post(&DestroyEvent { event: event(3) });
    client.post(&WaitEvent { stream: b, event: event(3) });
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn blocking_streams_take_turns_with_the_legacy_stream() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let (blocking, free) = (stream(1), stream(2));
    client.post(&CreateStream { stream: blocking, flags: 0, priority: 0 });
    client.post(&CreateStream { stream: free, flags: 1, priority: 0 });
    client.launch("hold", blocking, &u32_bytes(201));
    client.launch("note", LEGACY, &u32_bytes(2011));
    client.launch("note", blocking, &u32_bytes(2012));
    client.launch("note", free, &u32_bytes(2010));
    client.synchronize(free);
    let fence = client.fence(LEGACY);
    client.settle();
    let mine = |n: u32| n / 10 == 201;
    assert_eq!(provider::notes(mine), [2010]);
    assert!(client.word(LEGACY) < fence);
    provider::open_gate(201);
    wait_until("the legacy stream", || client.word(LEGACY) == fence);
    assert_eq!(provider::notes(mine), [2010, 2011, 2012]);
}

#[test]
fn a_stream_on_some_sms_is_refused_where_the_provider_has_no_parts() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    for (sm_first, sms, error) in
        [(4, 4, CudaError::NOT_SUPPORTED), (u32::MAX, 2, CudaError::INVALID_VALUE)]
    {
        let stream = stream(1);
        client.post(&CreateGreenStream {
            stream,
            flags: 1,
            priority: 0,
            sm_first,
            sms,
            default: CUstream::NULL,
        });
        assert_eq!(client.error(), Err(error), "{sm_first} {sms}");
    }
    // The handle is still free.
    client.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    let fence = client.fence(stream(1));
    wait_until("the stream", || client.word(stream(1)) == fence);
}

#[test]
fn a_stream_that_is_destroyed_finishes_and_the_legacy_stream_waits_for_it() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    client.launch("hold", stream(1), &u32_bytes(301));
    client.launch("note", stream(1), &u32_bytes(3011));
    client.post(&DestroyStream { stream: stream(1) });
    client.launch("note", LEGACY, &u32_bytes(3012));
    client.launch("note", stream(1), &u32_bytes(3010));
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
    let mine = |n: u32| n / 10 == 301;
    assert!(provider::notes(mine).is_empty());
    provider::open_gate(301);
    client.synchronize(LEGACY);
    assert_eq!(provider::notes(mine), [3011, 3012]);
}

#[test]
fn host_functions_run_in_the_client_while_the_stream_waits() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    client.post(&HostFunc { stream: LEGACY, slot: 9, ticket: 77 });
    client.launch("note", LEGACY, &u32_bytes(4011));
    let region = client.region.clone();
    let word = region.host_call_slot(9).unwrap();
    wait_until("the request", || word.load() == 77);
    assert_eq!(region.host_call_signal().load(), 1);
    client.settle();
    assert!(provider::notes(|n| n == 4011).is_empty());
    word.store(77 | HOST_CALL_DONE);
    client.synchronize(LEGACY);
    assert_eq!(provider::notes(|n| n == 4011), [4011]);
}

#[test]
fn work_in_flight_has_a_bound() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    client.launch("hold", LEGACY, &u32_bytes(501));
    for _ in 0..server::session::OPERATIONS_OF_STREAM_MAX + 100 {
        client.launch("note", LEGACY, &u32_bytes(5010));
    }
    let most = u64::from(server::session::OPERATIONS_OF_STREAM_MAX);
    // The session's own marks and samples are operations too.
    wait_until("the gate", || server.status().clients[0].submitted.kernels > most * 9 / 10);
    std::thread::sleep(Duration::from_millis(20));
    assert!(server.status().clients[0].submitted.kernels <= most);
    provider::open_gate(501);
    client.synchronize(LEGACY);
    assert_eq!(server.status().clients[0].submitted.kernels, most + 101);
    assert_eq!(provider::notes(|n| n == 5010).len() as u64, most + 100);
}

#[test]
fn room_for_events_comes_back_in_steps() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    client.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    client.post(&CreateStream { stream: stream(2), flags: 1, priority: 0 });
    client.post(&CreateEvent { event: event(0), flags: 2 });
    // Two operations each, an event and a fence: one half has room, and both have none.
    let records = server::session::OPERATIONS_OF_STREAM_MAX * 3 / 10;
    let mut value = 0;
    for gate in [502, 503] {
        client.launch("hold", stream(1), &u32_bytes(gate));
        for _ in 0..records {
            value += 1;
            client.post(&RecordEvent { event: event(0), stream: stream(1), value });
        }
    }
    client.launch("note", stream(2), &u32_bytes(5020));
    provider::open_gate(502);
    // The session takes it while the second half is held.
    wait_until("what is behind the records", || provider::notes(|n| n == 5020) == [5020]);
    provider::open_gate(503);
    client.synchronize(stream(1));
}

#[test]
fn a_reset_takes_everything_but_the_session() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    client.chunk(0, 2 * MIB).unwrap();
    client.pin(0, 4096).unwrap();
    client.post(&CreateStream { stream: stream(1), flags: 0, priority: 0 });
    client.launch("note", stream(1), &u32_bytes(6011));
    assert_eq!(client.call(&Reset {}), Ok(()));
    assert_eq!(server.status().clients[0].memory_bytes, 0);
    client.fence(stream(1));
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
    client.load();
    client.chunk(0, 2 * MIB).unwrap();
    client.pin(0, 4096).unwrap();
    client.write(0, b"again");
    assert_eq!(client.read(0, 5), b"again");
}

#[test]
fn the_legacy_streams_literals_are_the_legacy_stream() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    for literal in [CUstream(0), CUstream(1), LEGACY] {
        client.launch("note", literal, &u32_bytes(7011));
    }
    client.synchronize(LEGACY);
    assert_eq!(provider::notes(|n| n == 7011).len(), 3);
    assert_eq!(client.error(), Ok(()));
}
