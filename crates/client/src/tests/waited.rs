//! Waited work: what a program knows to be done, however it learnt that, is not repeated from memory
//! that it has filled anew since.

use super::replaced::{attach_on, fill, load_fill, replace};
use super::{server, watched, words_at};
use crate::connection::SERVER_GONE;
use crate::memory::HostKind;
use crate::memory::address::Side;
use crate::program::Client;
use crate::program::launch::submission::{Event, wire_event};
use crate::program::streams::host_functions::HostFunction;
use crate::stream::table::{LEGACY, OwnDefault, Stream};
use channel::request::MemoryInfo;
use cuda_api::constants::stream_flags::{DEFAULT, NON_BLOCKING};
use cuda_api::handle::Handle;
use cuda_api::{CUmemoryPool, CUresult, number};
use recovery::ReplayPolicy;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// Words of the buffers.
const WORDS: usize = 4;
const BYTES: u64 = 4 * WORDS as u64;

/// A program that copies a buffer of its own to the device.
struct Copying {
    client: &'static Client,
    server: server::Handle,
    memory: server::DeviceMemory,
    source: Box<[u32; WORDS]>,
    device: u64,
}

impl Copying {
    fn new() -> Self {
        let memory = server::DeviceMemory::default();
        let (client, server) = attach_on(memory.clone());
        let context = client.contexts().retain(0).unwrap();
        client.contexts().set_current(context).unwrap();
        let device = client.allocate(1, BYTES, CUmemoryPool::NULL).unwrap();
        Self { client, server, memory, source: Box::new([1, 2, 3, 4]), device }
    }

    fn stream(&self, flags: u32) -> Handle {
        let default = OwnDefault::Legacy;
        let stream = Stream { context: 1, green: 0, default, flags, priority: 0 };
        self.client.create_stream(stream).unwrap()
    }

    fn copy(&self, stream: Handle) {
        let source = self.source.as_ptr() as u64;
        self.client.copy_to_device(self.device, source, Side::Pinned, BYTES, stream).unwrap();
    }

    /// Changes the device's buffer in place: its words go one further.
    fn shift(&self, stream: Handle) {
        let words = [self.device + 4, self.device, BYTES - 4, stream.to_word()];
        let mut posting = self.client.posting().unwrap();
        posting.push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words).unwrap();
    }

    /// The program fills its buffer anew, changes the device's in place, and loses its server when that was
    /// taken: the buffer has what it would have undisturbed, or the loss is reported.
    fn expect_old_source_or_error(mut self, stream: Handle) {
        self.source.fill(9);
        self.shift(stream);
        // The server has done it, and said nothing.
        self.client.call(&MemoryInfo { device: 0 }).unwrap();
        replace(self.client, &self.server);
        let result: CUresult = self.client.synchronize_all();
        let memory = self.memory.lock().unwrap();
        let (start, bytes) = memory.range(..=self.device).next_back().unwrap();
        let bytes = &bytes[(self.device - start) as usize..][..BYTES as usize];
        let words: Vec<u32> =
            bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert!(result == Ok(()) || result == Err(SERVER_GONE), "{result:?}");
        assert!(result.is_err() || words == [1, 1, 2, 3], "{words:?}");
    }
}

#[test]
fn what_a_stream_waited_for_is_waited_for_with_it() {
    watched(|| {
        let program = Copying::new();
        let client = program.client;
        let (copies, works) = (program.stream(NON_BLOCKING), program.stream(NON_BLOCKING));
        let event = client.create_event(Event::new(1, 0)).unwrap();
        program.copy(copies);
        client.record_event(wire_event(event), copies).unwrap();
        client.wait_event(event, works).unwrap();
        client.synchronize(works).unwrap();
        program.expect_old_source_or_error(works);
    });
}

#[test]
fn what_an_event_says_is_done_is_waited_for() {
    watched(|| {
        let program = Copying::new();
        let client = program.client;
        let stream = program.stream(NON_BLOCKING);
        let event = client.create_event(Event::new(1, 0)).unwrap();
        program.copy(stream);
        client.record_event(wire_event(event), stream).unwrap();
        while !client.is_event_done(wire_event(event)).unwrap() {
            std::thread::yield_now();
        }
        program.expect_old_source_or_error(stream);
    });
}

#[test]
fn streams_that_take_turns_are_waited_for_with_each_other() {
    watched(|| {
        // The default stream comes after a blocking one, with and without work of its own between.
        for own_work in [false, true] {
            let program = Copying::new();
            let stream = program.stream(DEFAULT);
            program.copy(stream);
            if own_work {
                program.shift(LEGACY);
                program.copy(LEGACY);
            }
            program.client.synchronize(LEGACY).unwrap();
            program.expect_old_source_or_error(stream);
        }
        // A blocking stream comes after the default one.
        let program = Copying::new();
        let stream = program.stream(DEFAULT);
        program.copy(LEGACY);
        program.copy(stream);
        program.client.synchronize(stream).unwrap();
        program.expect_old_source_or_error(stream);
    });
}

/// Counts that it was called.
extern "C-unwind" fn count(calls: *mut c_void) {
    words_at(calls as u64, 1)[0].fetch_add(1, Ordering::Release);
}

/// Calls [`count`] when a stream gets there.
fn post_count(client: &'static Client, stream: Handle, calls: &AtomicU32) {
    let user_data = core::ptr::from_ref(calls) as usize;
    let function = HostFunction::Plain { function: Some(count), user_data };
    client.post_host_function(stream, function).unwrap();
}

#[test]
fn a_host_function_that_has_run_is_not_waited_for_again_at_the_next_server() {
    watched(|| {
        let program = Copying::new();
        program.client.state().replay = ReplayPolicy::Always;
        let client = program.client;
        let (stream, calls) = (program.stream(NON_BLOCKING), AtomicU32::new(0));
        program.copy(stream);
        post_count(client, stream, &calls);
        while client.state().streams.waited_values()[stream.index as usize] < 2 {
            std::thread::yield_now();
        }
        program.copy(stream);
        client.call(&MemoryInfo { device: 0 }).unwrap();
        // One more that the server has not seen.
        program.server.held.store(true, Ordering::Release);
        post_count(client, stream, &calls);
        replace(client, &program.server);
        assert_eq!(client.synchronize(stream), Ok(()));
        assert_eq!(calls.load(Ordering::Acquire), 2, "each is called once");
    });
}

#[test]
fn a_kernel_that_writes_what_the_program_sees_at_once_is_not_repeated() {
    const IMAGE: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry fill(.param .u64 to, .param .u32 count, .param .u32 value)\n{\n\
        .reg .u64 %rd<2>; .reg .u32 %r<2>;\n\
        ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [value]; st.u32 [%rd1], %r1; ret;\n}\n\0";
    watched(|| {
        let (client, server) = attach_on(server::DeviceMemory::default());
        let (context, _, function) = load_fill(client, IMAGE);
        let flag = client.allocate_pinned(context.0 as u64, 4, 0, HostKind::Pinned).unwrap();
        fill(client, function, flag, 1).unwrap();
        let flag = &words_at(flag, 1)[0];
        while flag.swap(0, Ordering::AcqRel) == 0 {
            std::thread::yield_now();
        }
        replace(client, &server);
        let result = client.synchronize_all();
        assert!(result == Err(SERVER_GONE) || flag.load(Ordering::Acquire) == 0, "it rises once");
    });
}
