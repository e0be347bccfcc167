//! What the channel costs: `cargo bench -p channel`. Prints a table; asserts nothing.
//!
//! The server is this program once more, in another process. Without `--bench` (as cargo test runs
//! it) each figure comes from a few rounds only and says nothing.

use channel::message::{Hello, Message, Welcome};
use channel::region::{RECORD_BYTES_MAX, Region, STAGING_BYTES};
use channel::reply::{ReplyReader, ReplyWriter};
use channel::request::{ElapsedTime, ElapsedTimeReply, Fence, LaunchKernel, Request};
use channel::ring::{Consumer, Producer, Record};
use channel::socket::SeqPacket;
use channel::wait::{SpinPolicy, wait_until_reached, wake};
use cuda_api::{CUevent, CUfunction, CUstream};
use std::hint::black_box;
use std::io::stdin;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "CHANNEL_BENCH_ROLE";

fn main() {
    if std::env::var_os(ROLE).is_some() {
        return serve();
    }
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 200 } else { 2 };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    println!("{cores} cores, {:?}\n", SpinPolicy::of_process());
    println!("{:<46} {:>10} {:>10} {:>10}", "", "p50", "p99", "unit");
    push_and_pop(rounds);
    two_processes(rounds);
    staging(rounds);
}

fn row(name: &str, mut samples: Vec<f64>, unit: &str) {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
    println!("{name:<46} {:>10.1} {:>10.1} {unit:>10}", at(0.5), at(0.99));
}

fn launch(parameters: &[u8]) -> LaunchKernel<'_> {
    LaunchKernel {
        function: CUfunction(1),
        stream: CUstream(2),
        grid: [64, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        flags: 0,
        parameters,
    }
}

fn alive() -> bool {
    true
}

/// Pushes a quarter of the ring, then pops it: the bare costs, with the ring in the cache.
fn push_and_pop(rounds: usize) {
    const COUNT: u32 = 2000;
    for (name, parameters) in [("24", &[1u8; 24][..]), ("256", &[1; 256]), ("4096", &[1; 4096])] {
        let (region, _file) = Region::create().expect("a region");
        let mut producer = Producer::new(region.clone(), SpinPolicy::NONE);
        let mut consumer = Consumer::new(region, SpinPolicy::NONE).expect("a new ring");
        let mut record = Record::new();
        let count = COUNT.min(400_000 / parameters.len() as u32 / 2);
        let (mut pushes, mut pops) = (Vec::new(), Vec::new());
        for _ in 0..rounds * 5 {
            let start = Instant::now();
            for _ in 0..count {
                producer.push_request(&launch(black_box(parameters)), &alive).expect("room");
            }
            pushes.push(start.elapsed().as_nanos() as f64 / f64::from(count));
            let start = Instant::now();
            while consumer.pop(&mut record).expect("a sound ring") {
                let launch = record.decode::<LaunchKernel<'_>>().expect("a launch");
                black_box(launch);
            }
            pops.push(start.elapsed().as_nanos() as f64 / f64::from(count));
        }
        row(&format!("push a launch, {name} B of parameters"), pushes, "ns");
        row(&format!("pop and decode it, {name} B"), pops, "ns");
    }
}

/// A burst of launches to a server that pops them at the same time, and calls.
fn two_processes(rounds: usize) {
    let (socket, theirs) = SeqPacket::pair().expect("sockets");
    let mut server = Command::new(std::env::current_exe().expect("a path"))
        .env(ROLE, "server")
        .stdin(Stdio::from(theirs.into_fd()))
        .spawn()
        .expect("another process");
    let (region, file) = Region::create().expect("a region");
    socket.send(&Message::Hello(Hello::default()), &[file.as_fd()]).expect("a server");
    socket.receive().expect("a Welcome");
    let policy = SpinPolicy::of_process();
    let alive = || !socket.is_hung_up();
    let mut producer = Producer::new(region.clone(), policy);
    let mut replies = ReplyReader::new(region.clone(), policy);

    const BURST: u32 = 2000;
    let mut pushes = Vec::new();
    let wakeups = region.wakeups().load();
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..BURST {
            producer.push_request(&launch(black_box(&[1; 24])), &alive).expect("a server");
        }
        pushes.push(start.elapsed().as_nanos() as f64 / f64::from(BURST));
        call(&mut producer, &mut replies, &alive);
    }
    row("push to a server that pops, bursts of 2000", pushes, "ns");
    let wakeups = f64::from(region.wakeups().load().wrapping_sub(wakeups));
    row("  wake-ups of the server a burst", vec![wakeups / rounds as f64], "calls");

    // A program that does something else between its launches: the server has long popped one when
    // the next one comes.
    let mut pushes = Vec::new();
    let wakeups = region.wakeups().load();
    for _ in 0..rounds * 100 {
        let start = Instant::now();
        producer.push_request(&launch(black_box(&[1; 24])), &alive).expect("a server");
        pushes.push(start.elapsed().as_nanos() as f64);
        while start.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
    }
    let wakeups = f64::from(region.wakeups().load().wrapping_sub(wakeups));
    let per_hundred = wakeups / rounds as f64;
    row("push every 20 us (with reading the clock)", pushes, "ns");
    row("  wake-ups of the server for 100 pushes", vec![per_hundred], "calls");

    let mut calls = Vec::new();
    for _ in 0..rounds * 50 {
        let start = Instant::now();
        call(&mut producer, &mut replies, &alive);
        calls.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    row("call and reply, back to back", calls, "us");

    let mut calls = Vec::new();
    for _ in 0..rounds * 2 {
        std::thread::sleep(Duration::from_micros(300));
        let start = Instant::now();
        call(&mut producer, &mut replies, &alive);
        calls.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    row("call and reply, server asleep", calls, "us");
    for kernel_us in [0, 20, 50, 90, 200] {
        let waits = launches_and_waits(&mut producer, &region, kernel_us, rounds * 20);
        row(&format!("launch of a kernel of {kernel_us} us, and wait"), waits, "us");
    }
    drop(socket);
    server.wait().expect("the server's end");
}

/// Launches of a kernel that takes so long, each waited for: as through a daemon, whose session runs it.
fn launches_and_waits(
    producer: &mut Producer,
    region: &Region,
    kernel_us: u32,
    rounds: usize,
) -> Vec<f64> {
    let word = region.completion_word(0).expect("a word");
    let policy = SpinPolicy::of_process();
    let expected = Duration::ZERO;
    let mut waits = Vec::new();
    for _ in 0..rounds {
        let value = word.load().wrapping_add(1);
        let start = Instant::now();
        let launch = LaunchKernel { shared_bytes: kernel_us, ..launch(black_box(&[1; 24])) };
        producer.push_request(&launch, &alive).expect("a server");
        producer.push_request(&Fence { stream: CUstream(2), value }, &alive).expect("a server");
        let nothing = || Ok::<_, ()>(());
        wait_until_reached(word, value, policy, expected, nothing, nothing).expect("a server");
        waits.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    waits
}

fn call(producer: &mut Producer, replies: &mut ReplyReader, alive: &dyn Fn() -> bool) {
    let request = ElapsedTime { start: CUevent(1), end: CUevent(2) };
    producer.push_request(&request, alive).expect("a server");
    let reply = replies.wait(alive).expect("a reply");
    black_box(reply.decode::<ElapsedTimeReply>().expect("a time"));
}

/// The other process: pops launches, answers calls.
fn serve() {
    let socket = stdin().as_fd().try_clone_to_owned().expect("standard input");
    let socket = SeqPacket::from_fd(socket).expect("a socket");
    let (_, fds) = socket.receive().expect("a Hello");
    let region = Region::open(&fds[0]).expect("a region");
    socket.send(&Message::Welcome(Welcome::default()), &[]).expect("a client");
    let mut consumer = Consumer::new(region.clone(), SpinPolicy::of_process()).expect("a new ring");
    let mut replies = ReplyWriter::new(region.clone());
    let word = region.completion_word(0).expect("a word");
    let mut record = Record::new();
    while !socket.is_hung_up() {
        while consumer.pop(&mut record).expect("a sound ring") {
            if record.opcode() == ElapsedTime::OPCODE {
                let reply = ElapsedTimeReply { milliseconds: 1.0 };
                replies.send(Ok(()), &reply).expect("a short reply");
            } else if record.opcode() == LaunchKernel::OPCODE {
                let launch = record.decode::<LaunchKernel<'_>>().expect("a launch");
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(launch.shared_bytes.into()) {
                    std::hint::spin_loop();
                }
            } else if record.opcode() == Fence::OPCODE {
                let fence = record.decode::<Fence>().expect("a fence");
                word.store(fence.value);
                wake(word);
            }
        }
        consumer.wait(Duration::from_millis(100)).expect("a sound ring");
    }
}

/// Copies into staging beside plain ones.
fn staging(rounds: usize) {
    let (region, _file) = Region::create().expect("a region");
    let source = vec![1u8; STAGING_BYTES as usize];
    let mut target = vec![2u8; STAGING_BYTES as usize];
    for bytes in [4096, RECORD_BYTES_MAX as usize, 1 << 20, STAGING_BYTES as usize] {
        let repeat = ((16 << 20) / bytes).clamp(1, 100);
        let rate = |start: Instant| (bytes * repeat) as f64 / start.elapsed().as_secs_f64() / 1e9;
        let (mut shared, mut back, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let start = Instant::now();
            for _ in 0..repeat {
                region.write_staging(0, black_box(&source[..bytes])).expect("in range");
            }
            shared.push(rate(start));
            let start = Instant::now();
            for _ in 0..repeat {
                region.read_staging(0, black_box(&mut target[..bytes])).expect("in range");
            }
            back.push(rate(start));
            let start = Instant::now();
            for _ in 0..repeat {
                target[..bytes].copy_from_slice(black_box(&source[..bytes]));
                black_box(&mut target);
            }
            plain.push(rate(start));
        }
        row(&format!("copy {} KiB into staging", bytes >> 10), shared, "GB/s");
        row("  out of staging", back, "GB/s");
        row("  memcpy in private memory", plain, "GB/s");
    }
}
