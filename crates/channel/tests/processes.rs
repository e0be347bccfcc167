//! Client and server as two processes: the whole way from the handshake to the death of either.
//!
//! The other process is this test binary, run again with a role in its environment and one end of
//! a socket pair as its standard input.

mod support;

use channel::message::{Hello, Message, Welcome};
use channel::payload::Payload;
use channel::region::{RECORD_BYTES_MAX, Region, STAGING_BYTES, STREAM_SLOTS, ServerState};
use channel::reply::{ReplyError, ReplyReader, ReplyWriter};
use channel::request::{
    ElapsedTime, ElapsedTimeReply, Fence, GetFunction, LaunchKernel, ModuleLoaded, PrintfText,
    Request,
};
use channel::ring::{Arrival, Consumer, Producer, PushError, Record};
use channel::socket::{Interest, ReceiveError, SeqPacket, poll};
use channel::wait::{self, SpinPolicy, Woken};
use cuda_api::{CUevent, CUfunction, CUmodule, CUstream, CudaError};
use std::io::stdin;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio, abort};
use std::thread;
use std::time::Duration;
use support::watchdog;

const ROLE: &str = "CHANNEL_TEST_ROLE";
const LONG: Duration = Duration::from_secs(100);
const LAUNCHES: u64 = 20_000;
const CALLS: u32 = 2_000;

/// Starts another process in that role.
fn start(role: &str) -> (Child, SeqPacket) {
    let (ours, theirs) = SeqPacket::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::from(theirs.into_fd()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, ours)
}

/// What the other process does. As a test of its own it does nothing.
#[test]
fn other_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let _watchdog = watchdog("other_process");
    let stdin = stdin().as_fd().try_clone_to_owned().unwrap();
    let socket = SeqPacket::from_fd(stdin).unwrap();
    match role.as_str() {
        "client" => client(&socket, policy()),
        "client that dies" => client_that_dies(&socket),
        "server that dies" => server_that_dies(&socket),
        "device" => device(&socket),
        _ => panic!("there is no role {role}"),
    }
}

/// Both kinds of waiting are tested: with spinning where there are cores, else by sleeping.
fn policy() -> SpinPolicy {
    SpinPolicy::new(thread::available_parallelism().unwrap().get(), None)
}

/// The client's half of the handshake.
fn attach(socket: &SeqPacket) -> Region {
    let (region, file) = Region::create().unwrap();
    let hello = Hello { pid: std::process::id(), ..Hello::default() };
    socket.send(&Message::Hello(hello), &[file.as_fd()]).unwrap();
    assert!(matches!(socket.receive().unwrap().0, Message::Welcome(_)));
    assert_eq!(region.server_state(), ServerState::Running);
    region
}

/// The server's half of the handshake.
fn accept(socket: &SeqPacket) -> Region {
    let (message, fds) = socket.receive().unwrap();
    let Message::Hello(hello) = message else { panic!("{message:?} is no Hello") };
    assert_ne!(hello.pid, std::process::id());
    let region = Region::open(&fds[0]).unwrap();
    region.set_server_state(ServerState::Running);
    socket.send(&Message::Welcome(Welcome::default()), &[]).unwrap();
    region
}

fn parameters(i: u64) -> Vec<u8> {
    (0..i % 100).map(|k| (i + k) as u8).collect()
}

fn launch<'a>(i: u64, parameters: &'a [u8]) -> LaunchKernel<'a> {
    LaunchKernel {
        function: CUfunction(i as usize),
        stream: CUstream(3),
        grid: [i as u32, 2, 3],
        block: [4, 5, 6],
        shared_bytes: 7,
        flags: 0,
        parameters,
    }
}

/// Launches, calls, a record of the largest size now and then, staging.
fn client(socket: &SeqPacket, policy: SpinPolicy) {
    let region = attach(socket);
    let alive = || !socket.is_hung_up();
    let mut producer = Producer::new(region.clone(), policy);
    let mut replies = ReplyReader::new(region.clone(), policy);
    for i in 0..LAUNCHES {
        producer.push_request(&launch(i, &parameters(i)), &alive).unwrap();
        if i % 1000 == 0 {
            let words = vec![i; RECORD_BYTES_MAX as usize / 8 - 1];
            producer.push(9, &words, &[], &alive).unwrap();
        }
    }
    for i in 0..CALLS {
        let call = ElapsedTime { start: CUevent(i as usize), end: CUevent(1) };
        producer.push_request(&call, &alive).unwrap();
        let reply = replies.wait(&alive).unwrap();
        assert_eq!(reply.result, Ok(()));
        let time: ElapsedTimeReply = reply.decode().unwrap();
        assert_eq!(time.milliseconds, i as f32);
    }
    // An error with a payload, as for an image that cannot be loaded.
    let name = GetFunction { function: CUfunction(1), module: CUmodule(2), name: b"kernel" };
    producer.push_request(&name, &alive).unwrap();
    let reply = replies.wait(&alive).unwrap();
    assert_eq!(reply.result, Err(CudaError::NOT_FOUND));
    assert_eq!(reply.decode::<ModuleLoaded>().unwrap().error_log, b"no such kernel");
    // The largest reply, and a reply to something else.
    for fits in [true, false] {
        producer.push(10, &[], &[], &alive).unwrap();
        let reply = replies.wait(&alive).unwrap();
        match reply.decode::<PrintfText>() {
            Ok(text) => assert_eq!((text.bytes.len(), fits), (PrintfText::BYTES_MAX, true)),
            Err(error) => assert!(matches!(error, ReplyError::Malformed(_)) && !fits),
        }
    }
    let mut bytes = [0; 1000];
    region.read_staging(STAGING_BYTES - 1000, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0x5A));
    assert!(region.read_staging(STAGING_BYTES - 999, &mut bytes).is_err());
    assert_eq!(region.take_async_error(), Err(CudaError::INVALID_VALUE));
    assert_eq!(region.take_async_error(), Ok(()));
    assert_eq!(region.sticky_error(), Err(CudaError::ILLEGAL_ADDRESS));
}

/// Waits for the next record; false if the client is gone.
fn next(consumer: &mut Consumer, socket: &SeqPacket, record: &mut Record) -> bool {
    loop {
        if consumer.pop(record).unwrap() {
            return true;
        }
        if consumer.wait(LONG).unwrap() == Arrival::Rung && socket.is_hung_up() {
            // What was pushed before the end counts.
            return consumer.pop(record).unwrap();
        }
    }
}

/// Runs a server's thread beside one that rings when the client's socket hangs up.
fn serve(socket: &SeqPacket, consumer: Consumer, body: impl FnOnce(Consumer) + Send) {
    let bell = consumer.doorbell();
    thread::scope(|scope| {
        scope.spawn(move || {
            while !poll(&[Interest::hang_up(socket)], None).unwrap()[0].hung_up {}
            bell.ring();
        });
        body(consumer);
    });
}

#[test]
fn a_client_is_served() {
    let _watchdog = watchdog("a_client_is_served");
    let (mut child, socket) = start("client");
    let region = accept(&socket);
    let consumer = Consumer::new(region.clone(), policy()).unwrap();
    let mut replies = ReplyWriter::new(region.clone());
    region.write_staging(STAGING_BYTES - 1000, &[0x5A; 1000]).unwrap();
    region.note_async_error(CudaError::INVALID_VALUE);
    region.note_async_error(CudaError::OUT_OF_MEMORY);
    region.set_sticky_error(CudaError::ILLEGAL_ADDRESS);
    region.set_sticky_error(CudaError::OUT_OF_MEMORY);
    serve(&socket, consumer, |mut consumer| {
        let mut record = Record::new();
        let (mut launches, mut calls, mut texts) = (0, 0, 0);
        while next(&mut consumer, &socket, &mut record) {
            match record.opcode() {
                LaunchKernel::OPCODE => {
                    let expected = parameters(launches);
                    assert_eq!(record.decode(), Ok(launch(launches, &expected)));
                    launches += 1;
                }
                9 => assert!(record.words().iter().all(|word| *word == launches - 1)),
                ElapsedTime::OPCODE => {
                    let call: ElapsedTime = record.decode().unwrap();
                    assert_eq!(call.start, CUevent(calls));
                    let reply = ElapsedTimeReply { milliseconds: calls as f32 };
                    replies.send(Ok(()), &reply).unwrap();
                    calls += 1;
                }
                GetFunction::OPCODE => {
                    assert_eq!(record.decode::<GetFunction<'_>>().unwrap().name, b"kernel");
                    let reply = ModuleLoaded {
                        managed: (0, 0),
                        error_log: b"no such kernel".to_vec(),
                        ..ModuleLoaded::default()
                    };
                    replies.send(Err(CudaError::NOT_FOUND), &reply).unwrap();
                }
                10 => {
                    let bytes = vec![1; PrintfText::BYTES_MAX + 8 * texts];
                    let text = PrintfText { bytes };
                    // One that does not fit is not sent, so something else must be.
                    if replies.send(Ok(()), &text).is_err() {
                        assert_eq!(texts, 1);
                        replies.send(Ok(()), &[u64::MAX]).unwrap();
                    }
                    texts += 1;
                }
                opcode => panic!("{opcode} was not sent"),
            }
        }
        assert_eq!((launches, calls, texts), (LAUNCHES, CALLS as usize, 2));
    });
    assert!(child.wait().unwrap().success());
}

fn client_that_dies(socket: &SeqPacket) {
    let region = attach(socket);
    let mut producer = Producer::new(region, SpinPolicy::NONE);
    for i in 0..10 {
        producer.push(1, &[i], &[], &|| true).unwrap();
    }
    assert!(matches!(socket.receive().unwrap().0, Message::Exiting(())));
    abort();
}

#[test]
fn a_server_that_sleeps_learns_that_its_client_died() {
    let _watchdog = watchdog("a_server_that_sleeps_learns_that_its_client_died");
    let (mut child, socket) = start("client that dies");
    let region = accept(&socket);
    let consumer = Consumer::new(region, policy()).unwrap();
    serve(&socket, consumer, |mut consumer| {
        let mut record = Record::new();
        for i in 0..10 {
            assert!(next(&mut consumer, &socket, &mut record));
            assert_eq!(record.words(), [i]);
        }
        socket.send(&Message::Exiting(()), &[]).unwrap();
        assert!(!next(&mut consumer, &socket, &mut record));
    });
    assert!(matches!(socket.receive(), Err(ReceiveError::Closed)));
    assert!(!child.wait().unwrap().success());
}

/// Takes one record and dies without an answer.
fn server_that_dies(socket: &SeqPacket) {
    let region = accept(socket);
    let mut consumer = Consumer::new(region, policy()).unwrap();
    let mut record = Record::new();
    while !consumer.pop(&mut record).unwrap() {
        consumer.wait(LONG).unwrap();
    }
    abort();
}

#[test]
fn a_client_that_waits_for_a_reply_learns_that_its_server_died() {
    let _watchdog = watchdog("a_client_that_waits_for_a_reply_learns_that_its_server_died");
    let (mut child, socket) = start("server that dies");
    let region = attach(&socket);
    let alive = || !socket.is_hung_up();
    let mut producer = Producer::new(region.clone(), policy());
    let mut replies = ReplyReader::new(region.clone(), policy());
    producer.push(1, &[], &[], &alive).unwrap();
    assert_eq!(replies.wait(&alive).unwrap_err(), ReplyError::PeerGone);
    // Every other wait of the client ends as well: room in the ring, a stream.
    let error = loop {
        if let Err(error) = producer.push(1, &[0; 1000], &[], &alive) {
            break error;
        }
    };
    assert_eq!(error, PushError::PeerGone);
    let word = region.completion_word(5).unwrap();
    let still_alive = || if alive() { Ok(()) } else { Err("gone") };
    let waited =
        wait::wait_until_reached(word, 1, policy(), Duration::ZERO, || Ok(()), still_alive);
    assert_eq!(waited, Err("gone"));
    assert!(!child.wait().unwrap().success());
}

/// Does what a device does at a Fence, and wakes only who asked for it.
fn device(socket: &SeqPacket) {
    let region = accept(socket);
    let mut consumer = Consumer::new(region.clone(), policy()).unwrap();
    let mut record = Record::new();
    loop {
        while consumer.pop(&mut record).unwrap() {
            match record.opcode() {
                Fence::OPCODE => {
                    let fence: Fence = record.decode().unwrap();
                    region.completion_word(fence.stream.0 as u32).unwrap().store(fence.value);
                }
                _ => wait::wake(region.completion_word(record.words()[0] as u32).unwrap()),
            }
        }
        consumer.wait(Duration::from_millis(20)).unwrap();
        if socket.is_hung_up() {
            return;
        }
    }
}

#[test]
fn a_stream_is_awaited_by_its_completion_word() {
    let _watchdog = watchdog("a_stream_is_awaited_by_its_completion_word");
    let (mut child, socket) = start("device");
    let region = attach(&socket);
    let producer = std::cell::RefCell::new(Producer::new(region.clone(), policy()));
    let word = region.completion_word(STREAM_SLOTS - 1).unwrap();
    assert!(region.completion_word(STREAM_SLOTS).is_none());
    // The counter wraps on the way.
    word.store(u32::MAX - 500);
    for i in 0..1000 {
        let value = (u32::MAX - 499).wrapping_add(i);
        let fence = Fence { stream: CUstream(STREAM_SLOTS as usize - 1), value };
        assert_eq!(fence.words(), 2);
        producer.borrow_mut().push_request(&fence, &|| true).unwrap();
        let ask = || producer.borrow_mut().push(1, &[u64::from(STREAM_SLOTS) - 1], &[], &|| true);
        wait::wait_until_reached(word, value, policy(), Duration::ZERO, ask, || Ok(())).unwrap();
        assert_eq!(word.load(), value);
    }
    drop(socket);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_sleep_ends_by_its_timeout_or_by_a_change() {
    let (region, _file) = Region::create().unwrap();
    let word = region.host_call_signal();
    assert_eq!(wait::sleep(word, 0, Some(Duration::from_millis(1))), Woken::TimedOut);
    word.store(1);
    assert_eq!(wait::sleep(word, 0, Some(LONG)), Woken::LookAgain);
}
