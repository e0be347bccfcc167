//! Hostile clients: they write anything, and a session never panics nor touches another client's
//! memory.

mod support;

use channel::limits::EVENTS_MAX;
use channel::request::RequestName;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CudaError, Policy, ROWS};
use proptest::prelude::*;
use std::cell::Cell;
use support::*;

const MIB: u64 = 1 << 20;

/// A word of a request, before it is known what is where.
#[derive(Clone, Copy, Debug)]
enum Word {
    Any(u64),
    Small(u64),
    Own(u64),
    Theirs(u64),
    Host(u64),
    Handle(u8, u32, u32),
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        any::<u64>().prop_map(Word::Any),
        prop::sample::select(vec![u64::MAX, 1 << 63, u64::MAX - 4095, 1 << 32]).prop_map(Word::Any),
        (0u64..4100).prop_map(Word::Small),
        (0u64..4 * MIB).prop_map(Word::Own),
        (0u64..2 * MIB).prop_map(Word::Theirs),
        (0u64..3).prop_map(|page| Word::Host(page * 4096)),
        (0u8..14, 0u32..5, 0u32..2).prop_map(|(k, i, g)| Word::Handle(k, i, g)),
        (0u32..5).prop_map(|i| Word::Handle(HandleKind::Stream as u8, i, 0)),
        (0u32..4).prop_map(|i| Word::Handle(HandleKind::Function as u8, i, 0)),
    ]
}

fn opcode() -> impl Strategy<Value = u16> {
    let rows = ROWS
        .iter()
        .filter(|row| matches!(row.policy, Policy::Post | Policy::Call | Policy::Special))
        .map(|row| row.number);
    // Those of graphs are local but for a few, and still stand for what graphs consist of.
    let requests = RequestName::ALL.iter().map(|name| name.opcode());
    let known: Vec<u16> = rows.chain(1051..1200).chain(requests).collect();
    prop_oneof![9 => prop::sample::select(known), 1 => 1u16..]
}

fn record() -> impl Strategy<Value = (u16, Vec<Word>)> {
    (opcode(), prop::collection::vec(word(), 0..14))
}

/// The victim's memory, as it must stay.
fn pattern() -> Vec<u8> {
    (0..4096u32).map(|i| (i * 31 + 7) as u8).collect()
}

#[test]
fn no_request_harms_anybody_but_its_client() {
    let mut server = Server::start(true);
    let mut victim = server.connect();
    victim.chunk(0, 2 * MIB).unwrap();
    victim.pin(0, 4096).unwrap();
    victim.write(8192, &pattern());
    let theirs = victim.address(0);
    let server = Cell::new(Some(server));
    let records = prop::collection::vec(record(), 1..120);
    let config = ProptestConfig { cases: 96, ..ProptestConfig::default() };
    let result = proptest::test_runner::TestRunner::new(config).run(&records, |records| {
        let mut owner = server.take().expect("one case at a time");
        let mut attacker = owner.connect();
        attacker.load();
        attacker.chunk(0, 2 * MIB).unwrap();
        attacker.pin(0, 4096).unwrap();
        for slot in 1..3 {
            attacker.post(&channel::request::CreateStream {
                stream: stream(slot),
                flags: slot & 1,
                priority: 0,
            });
        }
        attacker.settle();
        let (own, host) = (attacker.address(0), attacker.welcome.host_window.address);
        for (opcode, words) in &records {
            let words: Vec<u64> = words
                .iter()
                .map(|word| match *word {
                    Word::Any(value) | Word::Small(value) => value,
                    Word::Own(offset) => own + offset,
                    Word::Theirs(offset) => theirs + offset,
                    Word::Host(offset) => host + offset,
                    Word::Handle(kind, index, generation) => {
                        0x48 << 56
                            | u64::from(kind) << 48
                            | u64::from(generation) << 24
                            | u64::from(index)
                    }
                })
                .collect();
            attacker.push_anything(*opcode, &words);
        }
        // It goes while the server is still reading.
        drop(attacker);
        server.set(Some(owner));
        Ok(())
    });
    let server = server.take().expect("all cases are over");
    server.wait_for_clients(1);
    assert_eq!(victim.read(8192, 4096), pattern());
    assert_eq!(victim.region.sticky_error(), Ok(()));
    assert_eq!(victim.error(), Ok(()));
    let log = server.log();
    assert!(!log.contains("failed:"), "a session panicked\n{log}");
    drop(victim);
    drop(server);
    result.unwrap();
}

#[test]
fn a_broken_ring_ends_its_session_only() {
    let mut server = Server::start(true);
    let mut other = server.connect();
    for (offset, value) in [(64u64, 7u64), (64, u64::MAX - 7), (64, 64 << 20)] {
        let client = server.connect();
        let head = client.region.base().wrapping_add(offset as usize);
        provider::put_bytes(head as u64, &value.to_ne_bytes());
        // The sleeping session is woken by a client that knows where its futex is.
        let asleep = client.region.base().wrapping_add(192).cast::<u32>();
        wait_until("the session's end", || {
            // SAFETY: the word is inside the region; waking it is what a client does.
            unsafe {
                asleep.write_volatile(0);
                libc::syscall(libc::SYS_futex, asleep, libc::FUTEX_WAKE, i32::MAX);
            }
            client.region.server_state() == channel::region::ServerState::Ended
        });
        assert_eq!(client.region.sticky_error(), Err(CudaError::MPS_RPC_FAILURE));
    }
    assert!(server.log().contains("broke the protocol"), "{}", server.log());
    other.settle();
}

#[test]
fn a_client_may_send_files_that_were_not_asked_for() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    let file = channel::memfd::sealed_image(b"unused").unwrap();
    use channel::message::Message;
    use std::os::fd::AsFd;
    for _ in 0..3 {
        client.socket.send(&Message::ImageFd(()), &[file.as_fd()]).unwrap();
    }
    assert_eq!(client.pin(0, 4096), Ok(()), "older files are passed over");
    client.socket.send(&Message::Exiting(()), &[]).unwrap();
    assert_eq!(client.pin(4096, 4096), Err(CudaError::INVALID_VALUE));
    // A file that can shrink under the server is refused.
    let mut client = server.connect();
    let loose = channel::memfd::create(c"loose", 4096).unwrap();
    client.socket.send(&Message::HostFd(()), &[loose.as_fd()]).unwrap();
    let address = client.welcome.host_window.address;
    let map = channel::request::HostMap { address, bytes: 4096, flags: 0 };
    assert_eq!(client.call(&map), Err(CudaError::INVALID_VALUE));
}

#[test]
fn handles_have_one_kind_and_one_life() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let odd = |kind, index, generation| Handle { kind, index, generation }.to_word();
    let streams = [
        odd(HandleKind::Stream, 5, 0),
        odd(HandleKind::Stream, 0, 1),
        odd(HandleKind::Event, 0, 0),
        2,
        0x7f00_0000_0000,
    ];
    for stream in streams {
        client.launch("note", cuda_api::CUstream(stream as usize), &77u32.to_le_bytes());
        assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE), "{stream:#x}");
    }
    for index in [0, channel::region::STREAM_SLOTS, Handle::INDEX_MAX] {
        client.post(&channel::request::CreateStream {
            stream: stream(index),
            flags: 0,
            priority: 0,
        });
        assert!(client.error().is_err(), "{index}");
    }
    // What the client's own table gives out is what the server takes.
    for (index, taken) in [(EVENTS_MAX - 1, true), (EVENTS_MAX, false)] {
        client.post(&channel::request::CreateEvent { event: event(index), flags: 0 });
        assert_eq!(client.error().is_ok(), taken, "{index}");
    }
    assert!(provider::notes(|n| n == 77).is_empty());
}

#[test]
fn no_thread_waits_for_a_stream_or_an_event_that_could_not_be_made() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    // As if its creation had failed: nothing was ever made there.
    let missing = stream(9);
    client.synchronize(missing);
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
    let value = client.word(missing) + 1;
    client.post(&channel::request::RecordEvent { event: event(3), stream: missing, value });
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.word(missing), value);
    // The stream is there and the event is not: its fence comes in its place.
    let legacy = stream(0);
    let value = client.word(legacy) + 1;
    client.post(&channel::request::RecordEvent { event: event(3), stream: legacy, value });
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE));
    wait_until("the record's fence", || client.word(legacy) == value);
}

#[test]
fn files_without_end_do_not_keep_a_session() {
    use channel::message::Message;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    const SENT_MAX: u32 = 100_000;
    let mut server = Server::start(true);
    let mut client = server.connect();
    let file = channel::memfd::sealed_image(b"unused").unwrap();
    let socket = client.socket.try_clone().unwrap();
    // Once the answer is there the session reads nothing more.
    socket.set_nonblocking(true).unwrap();
    let answered = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !answered.load(Ordering::Relaxed) && sent < SENT_MAX {
                sent += u32::from(socket.send(&Message::ImageFd(()), &[file.as_fd()]).is_ok());
            }
            sent
        });
        let address = client.welcome.host_window.address;
        let map = channel::request::HostMap { address, bytes: 4096, flags: 0 };
        assert_eq!(client.call(&map), Err(CudaError::INVALID_VALUE));
        answered.store(true, Ordering::Relaxed);
        sender.join().unwrap()
    });
    assert!(sent < SENT_MAX, "the answer came while files did");
}

#[test]
fn a_client_takes_no_more_windows_of_others_than_there_are_devices() {
    use channel::message::{DEVICES_MAX, Message};
    use channel::request::AdoptChunk;
    use cuda_api::CUdeviceptr;
    use std::os::fd::AsFd;
    const MIB: u64 = 1 << 20;
    let mut server = Server::start(true);
    let mut client = server.connect();
    let chunk = client.chunk(0, 2 * MIB).unwrap();
    let none = std::fs::File::open("/dev/null").unwrap();
    let own = client.welcome.window;
    let mut adopt = |number: u64, file: std::os::fd::BorrowedFd<'_>| {
        client.socket.send(&Message::HostFd(()), &[file]).unwrap();
        let address = CUdeviceptr(own.address + number * own.bytes);
        client.call(&AdoptChunk { device: 0, address, bytes: 2 * MIB })
    };
    let before = provider::census();
    assert!(adopt(1, none.as_fd()).is_err());
    assert_eq!(provider::census(), before, "a window without memory is not kept");
    for number in 1..=DEVICES_MAX as u64 {
        assert_eq!(adopt(number, chunk.as_fd()), Ok(()), "{number}");
    }
    let more = adopt(DEVICES_MAX as u64 + 1, chunk.as_fd());
    assert_eq!(more, Err(CudaError::INVALID_VALUE));
}
