//! Limits of clients on a real provider: memory by each way of making it, changed while they run.

mod device;
mod support;

use channel::message::{Answer, Answered, Change, ClientLimits, Message, Question, SetBy};
use channel::payload::Payload;
use channel::request::*;
use cuda_api::constants::array_format;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::settings::MemoryLimit;
use cuda_api::{
    CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUdeviceptr, CUmipmappedArray, CUresult, CudaError,
};
use device::{start, start_with_tenants};
use std::os::fd::{AsFd, OwnedFd};
use support::*;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
const REFUSED: CUresult = Err(CudaError::OUT_OF_MEMORY);

fn word(kind: HandleKind, index: u32) -> u64 {
    Handle { kind, index, generation: 1 }.to_word()
}

/// Clients to come have the limit.
fn limit(server: &mut Server, bytes: u64) {
    let limit = MemoryLimit { device: "0".into(), bytes };
    server.settings.memory = vec![(limit, SetBy::Server)];
}

fn floats(elements: u64) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: 1024,
        Height: (elements / 1024) as usize,
        Depth: 0,
        Format: array_format::FLOAT,
        NumChannels: 1,
        Flags: 0,
    }
}

fn array(client: &mut Client, index: u32, bytes: u64) -> CUresult {
    let array = CUarray(word(HandleKind::Array, index) as usize);
    client.call(&CreateArray::new(array, &floats(bytes / 4)))
}

fn mipmapped(client: &mut Client, index: u32, bytes: u64) -> CUresult {
    let handle = CUmipmappedArray(word(HandleKind::MipmappedArray, index) as usize);
    client.call(&CreateMipmappedArray::new(handle, &floats(bytes / 4), 1))
}

fn create(client: &mut Client, index: u32, bytes: u64) -> CUresult {
    client.call(&CreateMemory { memory: word(HandleKind::Memory, index), device: 0, bytes })?;
    assert_eq!(client.socket.receive().expect("the memory's file").0, Message::ChunkFd(0));
    Ok(())
}

fn module_with(client: &mut Client, index: u32, bytes: u64) -> CUresult {
    let image = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .b8 v[{bytes}];\n"
    );
    client.load_image(module(index), image.as_bytes()).0
}

/// Opens what another client, which has no limit, exports.
fn import(client: &mut Client, owner: &mut Client, offset: u64, bytes: u64) -> CUresult {
    owner.chunk(offset, bytes).expect("memory of the owner");
    let address = CUdeviceptr(owner.address(offset));
    let (result, reply) = owner.ask(&ShareMemory { address });
    result.expect("a token");
    let SharedMemory { low, high, bytes } = SharedMemory::from_words(&reply).expect("a token");
    let (result, reply) =
        client.ask(&ReserveAddresses { wanted: CUdeviceptr(0), bytes, alignment: 0 });
    result.expect("addresses");
    let address = AddressesReserved::from_words(&reply).expect("addresses").address;
    client.call(&OpenMemory { address, bytes, low, high })
}

fn seen(client: &mut Client) -> (u64, u64) {
    let (result, words) = client.ask(&MemoryInfo { device: 0 });
    result.expect("an answer");
    (words[0], words[1])
}

#[test]
fn a_limit_holds_for_every_way_of_making_memory() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut owner = server.connect();
    type Make<'a> = &'a mut dyn FnMut(&mut Client, u32, u64) -> CUresult;
    let mut imported = 0;
    let ways: [(&str, Make<'_>); 6] = [
        ("chunks", &mut |client, index, bytes| {
            client.chunk(u64::from(index) * LIMIT, bytes).map(drop)
        }),
        ("virtual memory", &mut create),
        ("arrays", &mut array),
        ("mipmapped arrays", &mut mipmapped),
        ("module variables", &mut module_with),
        ("imports", &mut |client, _, bytes| {
            imported += 1;
            import(client, &mut owner, imported * LIMIT, bytes)
        }),
    ];
    limit(&mut server, LIMIT);
    for (name, make) in ways {
        let mut client = server.connect();
        let (free, total) = seen(&mut client);
        assert!(free <= LIMIT && total > LIMIT, "{name}: {free} of {total} bytes are free");
        make(&mut client, 0, LIMIT / 2).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (free, _) = seen(&mut client);
        assert!(free <= LIMIT / 2 && free > LIMIT / 4, "{name}: {free} bytes are free");
        assert_eq!(make(&mut client, 1, LIMIT), REFUSED, "{name}");
        // A chunk and the other way are one account.
        assert_eq!(client.chunk(3 * LIMIT, LIMIT).map(drop), REFUSED, "{name}");
        client.chunk(3 * LIMIT, LIMIT / 4).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(server.log().contains("is at its device memory limit of 67108864 bytes"));
    }
    // Others are unharmed.
    server.settings.memory.clear();
    server.connect().chunk(0, 2 * LIMIT).expect("no limit");
}

#[test]
fn an_allocation_that_is_refused_twice_is_one_line_of_the_log() {
    let mut server = start();
    limit(&mut server, LIMIT);
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.chunk(0, 2 * LIMIT).map(drop), REFUSED);
        client.post(&AllocationRetry {});
        assert_eq!(client.chunk(0, 2 * LIMIT).map(drop), REFUSED);
    }
    let log = server.log();
    assert_eq!(log.matches(" are refused (").count(), 2, "{log}");
    assert!(log.contains("(2 times so far)") && !log.contains("(4 times so far)"), "{log}");
}

#[test]
fn a_limit_changes_while_the_client_runs() {
    let mut server = start();
    limit(&mut server, LIMIT);
    let mut client = server.connect();
    client.chunk(0, LIMIT).expect("all that it may have");
    assert_eq!(client.chunk(LIMIT, 2 * MIB).map(drop), REFUSED);
    let id = client.welcome.client_id;
    let set = |number, change| {
        server.ask(number, Question::Set(id, change));
        server.receive()
    };
    assert_eq!(set(1, Change::Memory(Some(LIMIT + 2 * MIB))), done(1, 0));
    client.chunk(LIMIT, 2 * MIB).expect("more than before");
    assert_eq!(set(2, Change::Memory(Some(2 * MIB))), done(2, 0));
    assert_eq!(seen(&mut client).0, 0);
    let limits = |server: &Server| server.status().clients[0].limits;
    assert_eq!(limits(&server).memory, Some((2 * MIB, SetBy::Live)));
    assert_eq!(set(3, Change::Memory(None)), done(3, 0));
    client.chunk(2 * LIMIT, LIMIT).expect("no limit");
    assert_eq!(limits(&server).memory, None);
    // Nothing changes for the number of no client, nor by what the device has not.
    let refused = |message| match message {
        Message::Answer(Answer { answered: Answered::Refused(reason), .. }) => reason,
        other => panic!("{other:?}"),
    };
    server.ask(4, Question::Set(99, Change::Memory(None)));
    assert_eq!(refused(server.receive()), "there is no client 99 any more");
    let before: ClientLimits = limits(&server);
    let reason = refused(set(5, Change::Sms(before.sms_of_device + 1)));
    assert!(reason.contains("is allowed"), "{reason}");
    assert_eq!(limits(&server), before);
}

/// Computes for so many rounds with one thread.
const ROUNDS: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry rounds(.param .u32 n) {\n\
    .reg .b32 %n; .reg .pred %q; ld.param.u32 %n, [n];\n\
    again: sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra again; ret; }\n";

#[test]
fn streams_of_one_queue_do_their_work_in_the_order_of_its_submission() {
    let mut server = start();
    server.settings.connections = 1;
    let mut client = server.connect();
    client.load_image(module(0), ROUNDS.as_bytes()).0.expect("a module");
    let request = GetFunction { function: function(0), module: module(0), name: b"rounds" };
    client.call(&request).expect("a kernel");
    let (first, second) = (stream(1), stream(2));
    for stream in [first, second] {
        client.post(&CreateStream { stream, flags: 1, priority: 0 });
    }
    let launch = |client: &mut Client, stream, rounds: u32| {
        client.post(&LaunchKernel { stream, ..one_block(function(0), 1, &rounds.to_le_bytes()) });
        client.fence(stream)
    };
    for turn in 0..3 {
        let long = launch(&mut client, first, 2_000_000);
        launch(&mut client, second, 1);
        client.synchronize(second);
        assert!(channel::wait::reached(client.word(first), long), "turn {turn}");
    }
    assert_eq!(client.error(), Ok(()));
}

#[test]
fn memory_that_was_given_back_comes_again_within_the_limit_alone() {
    let mut server = start();
    limit(&mut server, LIMIT);
    let adopt = |client: &mut Client, offset: u64, file: &OwnedFd| {
        client.socket.send(&Message::HostFd(()), &[file.as_fd()]).expect("room in the socket");
        let address = CUdeviceptr(client.address(offset));
        client.call(&AdoptChunk { device: 0, address, bytes: LIMIT / 2 })
    };
    let mut client = server.connect();
    // Its files stay with the client.
    let files: Vec<OwnedFd> = (0..3)
        .map(|_| {
            let file = client.chunk(0, LIMIT / 2).expect("within the limit");
            let address = CUdeviceptr(client.address(0));
            assert_eq!(client.call(&ChunkRelease { address }), Ok(()));
            file
        })
        .collect();
    let mut adopted = (0u64..).zip(&files).map(|(n, file)| adopt(&mut client, n * LIMIT, file));
    assert_eq!([adopted.next(), adopted.next()], [Some(Ok(())); 2]);
    assert_eq!(adopted.next(), Some(REFUSED), "all of it would be more than the limit");
    drop(client);
    // One that the daemon says comes from another server has what it had there, until it works.
    server.comes_again = true;
    let mut client = server.connect();
    for (n, file) in (0u64..).zip(&files) {
        assert_eq!(adopt(&mut client, n * LIMIT, file), Ok(()));
    }
    client
        .post_row(cuda_api::number::cuMemsetD8Async, &[client.address(0), 0, 16, LEGACY.0 as u64]);
    client.settle();
    assert_eq!(adopt(&mut client, 3 * LIMIT, &files[0]), REFUSED, "its work has begun");
}
