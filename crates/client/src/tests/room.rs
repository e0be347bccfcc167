//! Room: what a thread does that waits for it, and what others can do meanwhile.

use super::replaced::{attach_on, fill, load_fill};
use super::{attach, server, watched};
use crate::program::Client;
use crate::program::launch::submission::{Event, wire_event, wire_stream};
use crate::program::launch::{Geometry, Launch};
use crate::program::streams::host_functions::HostFunction;
use crate::stream::DefaultStream;
use crate::stream::table::{LEGACY, OwnDefault, Stream};
use channel::limits::LAUNCHES_IN_STALLED_STREAM_MAX;
use channel::region::{HOST_CALL_SLOTS, Region};
use channel::ring::{AWAKE, Flag, RingMemory};
use cuda_api::constants::event_flags;
use cuda_api::constants::stream_flags::NON_BLOCKING;
use cuda_api::handle::Handle;
use cuda_api::{CUfunction, CUmemoryPool, number};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Requests that fill the ring more than once.
const MANY: usize = 60_000;

fn stream(client: &Client) -> Handle {
    let default = OwnDefault::Legacy;
    let stream = Stream { context: 1, green: 0, default, flags: NON_BLOCKING, priority: 0 };
    client.create_stream(stream).unwrap()
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn waits_for_room(region: &Region) -> bool {
    region.flag(Flag::ProducerWaits) != AWAKE
}

/// Posts copies of a word.
fn post_many(client: &Client, stream: Handle, buffer: u64) {
    for _ in 0..MANY {
        let words = [buffer + 4, buffer, 4, stream.to_word()];
        let mut posting = client.posting().unwrap();
        posting.push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words).unwrap();
    }
}

static REGION: OnceLock<Region> = OnceLock::new();

unsafe extern "C-unwind" fn wait_until_the_ring_is_full(_: *mut c_void) {
    until(|| REGION.get().is_some_and(waits_for_room));
}

#[test]
fn a_host_function_ends_while_another_thread_waits_for_room() {
    watched(|| {
        let (client, server) = attach();
        let stream = stream(client);
        let buffer = client.allocate(1, 8, CUmemoryPool::NULL).unwrap();
        REGION.get_or_init(|| server.region.clone());
        let function = Some(wait_until_the_ring_is_full as _);
        // The server goes on when it has been run, and makes room then.
        let function = HostFunction::Plain { function, user_data: 0 };
        client.post_host_function(stream, function).unwrap();
        post_many(client, stream, buffer);
        client.synchronize(stream).unwrap();
    });
}

#[test]
fn questions_are_answered_while_another_thread_waits_for_room() {
    watched(|| {
        let (client, server) = attach();
        let (busy, asked) = (stream(client), stream(client));
        let buffer = client.allocate(1, 8, CUmemoryPool::NULL).unwrap();
        let event = client.create_event(Event::new(1, event_flags::DISABLE_TIMING)).unwrap();
        client.synchronize(LEGACY).unwrap();
        server.held.store(true, Ordering::Release);
        client.record_event(wire_event(event), asked).unwrap();
        std::thread::scope(|scope| {
            let posts = scope.spawn(|| post_many(client, busy, buffer));
            until(|| waits_for_room(&server.region));
            for _ in 0..100 {
                assert_eq!(client.is_idle(busy), Ok(false));
                assert_eq!(client.is_idle(asked), Ok(false));
                assert_eq!(client.is_event_done(wire_event(event)), Ok(false));
            }
            server.held.store(false, Ordering::Release);
            posts.join().unwrap();
        });
        client.synchronize(asked).unwrap();
        assert_eq!(client.is_event_done(wire_event(event)), Ok(true));
    });
}

#[test]
fn a_thread_that_launches_far_ahead_of_a_stream_keeps_no_other_stream_from_going_on() {
    const IMAGE: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n\0";
    watched(|| {
        let (client, server) = attach_on(server::DeviceMemory::default());
        let (context, _, function) = load_fill(client, IMAGE);
        let buffer = client.allocate(1, 8, CUmemoryPool::NULL).unwrap();
        let (far, other) = (stream(client), stream(client));
        client.synchronize(LEGACY).unwrap();
        server.held.store(true, Ordering::Release);
        let launched = AtomicU32::new(0);
        let most = LAUNCHES_IN_STALLED_STREAM_MAX;
        std::thread::scope(|scope| {
            let launches = scope.spawn(|| {
                client.contexts().set_current(context).unwrap();
                for value in 1..=2 * most {
                    launch_in(client, function, far, buffer, value);
                    launched.fetch_add(1, Ordering::AcqRel);
                }
            });
            until(|| launched.load(Ordering::Acquire) == most);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(launched.load(Ordering::Acquire), most, "the next one waits");
            assert!(!waits_for_room(&server.region), "and not for room in the ring");
            for value in 1..=most {
                launch_in(client, function, other, buffer + 4, value);
            }
            fill(client, function, buffer + 4, 1).unwrap();
            server.held.store(false, Ordering::Release);
            launches.join().unwrap();
        });
        client.synchronize(far).unwrap();
        assert_eq!(launched.load(Ordering::Acquire), 2 * most);
    });
}

fn launch_in(client: &Client, function: CUfunction, stream: Handle, to: u64, value: u32) {
    let (mut to, mut count, mut value) = (to, 1u32, value);
    let mut parameters: [*mut c_void; 3] =
        [(&raw mut to).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
    let launch = Launch {
        function,
        geometry: &Geometry { grid: [1; 3], block: [1; 3], shared_bytes: 0 },
        stream: wire_stream(stream),
        default: DefaultStream::Legacy,
        flags: 0,
        kernel_params: super::out(&mut parameters[0]),
        extra: crate::boundary::Out::null(),
    };
    client.launch(&launch).unwrap();
}

static RUN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C-unwind" fn count(_: *mut c_void) {
    RUN.fetch_add(1, Ordering::AcqRel);
}

#[test]
fn more_host_functions_than_there_are_slots_are_all_run() {
    watched(|| {
        let (client, _server) = attach();
        let stream = stream(client);
        let functions = HOST_CALL_SLOTS + 500;
        for _ in 0..functions {
            let call = HostFunction::Plain { function: Some(count as _), user_data: 0 };
            client.post_host_function(stream, call).unwrap();
        }
        client.synchronize(stream).unwrap();
        assert_eq!(RUN.load(Ordering::Acquire), functions);
    });
}
