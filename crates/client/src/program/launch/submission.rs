//! Submission: what the one short lock protects, the ring and the tables that say what may be put
//! into it.
//!
//! A launch takes this lock once: it looks up function and stream, writes the record, counts it.
//! Nothing here allocates or makes a system call in the steady state. A thread that holds the lock
//! takes no other one, and does not wait for the server: who is going to post takes it as a
//! [`Posting`](crate::program::launch::posting::Posting), which has room in the ring.

use crate::handles::Table;
use crate::memory::known_variables::KnownVariables;
use crate::program::Client;
use crate::program::launch::check::{Launch, check};
use crate::program::recovery::lost_at_work::LostAtWork;
use recovery::{Journal, Mark, ReplayPolicy};

use crate::connection::{Connection, SERVER_GONE, prepares_here};
use crate::memory::kept_file::KeptFile;
use crate::module::kernel_params::{Layout, PARAM_BYTES_MAX};
use crate::replay::effects::{self, Effects};
use crate::stream::table::{LEGACY, Streams};
use channel::limits::{EVENTS_MAX, FUNCTIONS_MAX, GRAPHS_MAX, MODULES_MAX};
use channel::region::{RECORD_BYTES_MAX, RING_BYTES};
use channel::request::{CodeWords, FUNCTION_ATTRIBUTES, Fence, JitOption, LaunchKernel, Request};
use channel::ring::{Producer, PushError, Room};

use core::ffi::c_uint;
use cuda_api::constants::event_flags;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUevent, CUfunction, CUmodule, CUresult, CUstream, CudaError};
use driver_common::old_launch::OldLaunch;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// An event.
pub(crate) struct Event {
    pub(crate) context: u64,
    pub(crate) flags: c_uint,
    /// Where it was recorded last.
    pub(crate) recorded: Option<Mark>,
    /// When that was asked for, if it takes times.
    pub(crate) asked: Option<Instant>,
    /// The device writes the stream's completion word behind that record, or has passed it.
    pub(crate) is_marked: bool,
    /// A thread has asked about a record of it that was not done: the next ones are marked at once.
    pub(crate) is_awaited: bool,
}

impl Event {
    /// An event of a context that was not recorded yet.
    pub(crate) fn new(context: u64, flags: c_uint) -> Self {
        let (recorded, asked) = (None, None);
        Self { context, flags, recorded, asked, is_marked: false, is_awaited: false }
    }

    /// True if other processes may record it too, so that [`Self::recorded`] says little.
    pub(crate) fn is_shared(&self) -> bool {
        self.flags & event_flags::INTERPROCESS != 0
    }
}

/// A module, or a library: the same thing with another kind of handle.
pub(crate) struct Module {
    /// The context it belongs to; 0 for a library, which belongs to none.
    pub(crate) context: u64,
    /// Its functions by name.
    pub(crate) functions: BTreeMap<CString, Handle>,
    /// What it was loaded from: another device, or another server, loads it from the same.
    pub(crate) source: Arc<ModuleSource>,
    /// Where its variables lie in the client's device memory: address, bytes.
    pub(crate) place: Option<(u64, u64)>,
    /// By what servers find its code, if nothing in it can change but variables of the server's.
    pub(crate) code: CodeWords,
    /// Its kernels may print.
    pub(crate) prints: bool,
    /// It has such variables.
    pub(crate) changes: bool,
}

/// Longest image that is read for its kernels' effects, bytes: those of a source file with some kernels are below.
const EFFECTS_IMAGE_BYTES_MAX: u64 = 1 << 20;

/// What a module is loaded from.
pub(crate) struct ModuleSource {
    /// The sealed image; its pages are those that servers map.
    pub(crate) image: KeptFile,
    pub(crate) image_bytes: u64,
    pub(crate) options: Vec<JitOption>,
    /// What its kernels do with memory, once it was asked for.
    effects: OnceLock<HashMap<String, Effects>>,
}

impl ModuleSource {
    /// A source of which nothing is known yet.
    pub(crate) fn new(image: KeptFile, image_bytes: u64, options: Vec<JitOption>) -> Self {
        Self { image, image_bytes, options, effects: OnceLock::new() }
    }

    /// What its kernels do with memory, by their names, as far as there is PTX; `None` for an image that would
    /// take too long to read while the program waits.
    pub(crate) fn effects(&self) -> Option<&HashMap<String, Effects>> {
        if self.image_bytes > EFFECTS_IMAGE_BYTES_MAX {
            return None;
        }
        let read = || self.bytes().map(|image| effects::of_image(&image)).unwrap_or_default();
        Some(self.effects.get_or_init(read))
    }

    /// The image's bytes; `None` if they cannot be read.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.image_bytes).ok()?];
        let file = std::fs::File::from(self.image.as_fd().try_clone_to_owned().ok()?);
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).ok()?;
        Some(bytes)
    }
}

impl Module {
    pub(crate) fn is_library(&self) -> bool {
        self.context == 0
    }
}

/// A function, or a kernel: the same thing with another kind of handle.
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) name: CString,
    pub(crate) layout: Layout,
    /// By CUfunction_attribute.
    pub(crate) attributes: [i32; FUNCTION_ATTRIBUTES],
    /// CU_FUNC_CACHE_PREFER_*, set for it alone.
    pub(crate) cache: u32,
    /// What the server said of its occupancy.
    pub(crate) occupancy: Occupancy,
    /// It was launched.
    pub(crate) launched: bool,
    /// What was set at it as before CUDA 4.0.
    pub(crate) old_launch: Option<OldLaunch>,
}

/// Launches of a function whose occupancy is remembered: libraries ask before each launch, for a
/// few block sizes.
const OCCUPANCY_MAX: usize = 16;

/// How many blocks an SM takes, by block size, dynamic shared memory and flags.
#[derive(Default)]
pub(crate) struct Occupancy {
    known: Vec<((i32, usize, u32), i32)>,
}

impl Occupancy {
    pub(crate) fn get(&self, launch: (i32, usize, u32)) -> Option<i32> {
        self.known.iter().find(|(known, _)| *known == launch).map(|(_, blocks)| *blocks)
    }

    /// Remembers an answer; the oldest makes room.
    pub(crate) fn put(&mut self, launch: (i32, usize, u32), blocks: i32) {
        if self.known.len() >= OCCUPANCY_MAX {
            self.known.remove(0);
        }
        self.known.push((launch, blocks));
    }

    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }
}

/// The requests that a graph was made by, in their order: opcodes and payloads. Another server makes
/// it of the same.
#[derive(Default)]
pub(crate) struct GraphRecords(pub(crate) Vec<(u16, Vec<u64>)>);

/// What became of a launch.
pub(crate) enum Launched {
    /// It was posted to that stream.
    In(Handle),
    /// As many of its stream are in flight as may be: this has to pass first.
    Behind(Mark),
}

/// The tables and the ring.
pub(crate) struct Submission {
    ring: Producer,
    pub(in crate::program) journal: Journal,
    /// What becomes of work in flight when the server is lost.
    pub(crate) replay: ReplayPolicy,
    /// Servers that were lost at work that makes no progress.
    pub(in crate::program) lost_at_work: LostAtWork,
    connection: &'static Connection,
    /// True while a connection is prepared: only the thread that does it pushes.
    closed: bool,
    pub(crate) streams: Streams,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    /// Graphs that the server has, by what made them.
    pub(crate) graphs: Table<GraphRecords>,
    /// Where a launch's parameters are put together.
    pub(crate) params: Box<[u8; PARAM_BYTES_MAX]>,
    /// True if kernels ran since device printf was drained.
    pub(crate) launched: bool,
    /// Of so many new events a thread is expected to wait for the first record.
    pub(crate) awaited_expected: u32,
    /// How often a thread has asked about work that was not done.
    asked_in_vain: u32,
}

/// After so many questions a look whether the server is there.
const ASKED_PER_LOOK: u32 = 64;

/// A stream as requests name it.
#[inline(always)]
pub(crate) fn wire_stream(handle: Handle) -> CUstream {
    CUstream(handle.to_word() as usize)
}

/// An event as requests name it.
pub(crate) fn wire_event(handle: Handle) -> CUevent {
    CUevent(handle.to_word() as usize)
}

/// A module as requests name it, whether the program holds it as a module or as a library.
pub(crate) fn wire_module(handle: Handle) -> CUmodule {
    CUmodule(Handle { kind: HandleKind::Module, ..handle }.to_word() as usize)
}

/// A function as requests name it, whether the program holds it as a function or as a kernel.
#[inline(always)]
pub(crate) fn wire_function(handle: Handle) -> CUfunction {
    CUfunction(Handle { kind: HandleKind::Function, ..handle }.to_word() as usize)
}

/// Bytes of the ring for what is posted under one lock.
const POSTING_BYTES: u64 = RING_BYTES / 4;
/// Of them, those that fences which are not asked for leave to records.
const RECORDS_BYTES: u64 = 2 * RECORD_BYTES_MAX;
const _: () = assert!(2 * RECORDS_BYTES <= POSTING_BYTES);

#[inline(always)]
fn has_room(ring: &mut Producer, connection: &Connection, bytes: u64) -> Result<bool, CudaError> {
    ring.has_room(bytes).map_err(|error| push_error(error, connection))
}

#[cold]
pub(in crate::program) fn push_error(error: PushError, connection: &Connection) -> CudaError {
    match error {
        PushError::TooLong { .. } => CudaError::INVALID_VALUE,
        PushError::Opcode => CudaError::UNKNOWN,
        PushError::PeerGone | PushError::Broken(_) => connection.gone(),
    }
}

/// Has streams say how far they are, by fences, and the journal forget what is done: before more of
/// the ring is written.
#[cold]
fn journal_is_due(
    ring: &mut Producer,
    journal: &mut Journal,
    streams: &mut Streams,
    connection: &Connection,
    policy: ReplayPolicy,
) -> CUresult {
    for mark in streams.unfenced() {
        // What is to be posted needs the rest. Streams without a fence say later how far they are.
        if !has_room(ring, connection, RECORDS_BYTES)? {
            break;
        }
        let stream = wire_stream(streams.handle_in(mark.slot));
        ring.push_request(&Fence { stream, value: mark.value as u32 }, &|| connection.is_alive())
            .map_err(|error| push_error(error, connection))?;
        streams.fenced(mark);
    }
    let keeps_waited = policy == ReplayPolicy::Always;
    let waited = streams.waited_values();
    let was_waited_for =
        |mark: Mark| waited.get(mark.slot as usize).is_some_and(|value| *value >= mark.value);
    let done =
        |mark| streams.passed(mark, connection.region()) && (!keeps_waited || was_waited_for(mark));
    journal.look_through(ring.head(), connection.region(), done, was_waited_for);
    Ok(())
}

impl Submission {
    pub(crate) fn new(device: CUdevice, connection: &'static Connection) -> Self {
        Self {
            ring: connection.producer(),
            journal: Journal::new(),
            replay: crate::replay::policy(),
            lost_at_work: LostAtWork::default(),
            connection,
            closed: false,
            streams: Streams::new(device),
            events: Table::on(HandleKind::Event, device, 0, EVENTS_MAX),
            modules: Table::on(HandleKind::Module, device, 0, MODULES_MAX),
            functions: Table::on(HandleKind::Function, device, 0, FUNCTIONS_MAX),
            graphs: Table::on(HandleKind::GraphExec, device, 0, GRAPHS_MAX),
            params: Box::new([0; PARAM_BYTES_MAX]),
            launched: false,
            awaited_expected: 0,
            asked_in_vain: 0,
        }
    }

    /// Fails while a connection is prepared in place of a lost one, but in the thread that does it.
    #[inline(always)]
    pub(crate) fn check_open(&self) -> CUresult {
        match self.closed && !prepares_here() {
            false => Ok(()),
            true => Err(SERVER_GONE),
        }
    }

    /// The connection of the ring.
    pub(crate) fn connection(&self) -> &'static Connection {
        self.connection
    }

    /// Lets only the thread that prepares a connection push, or all threads again.
    pub(in crate::program) fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Puts another connection's ring in the place of this one.
    pub(in crate::program) fn replace_ring(&mut self, connection: &'static Connection) {
        self.ring = connection.producer();
        self.connection = connection;
    }

    /// As [`Posting::launch`](crate::program::launch::posting::Posting::launch).
    #[inline(always)]
    pub(in crate::program) fn launch_now(
        &mut self,
        client: &Client,
        function: CUfunction,
        launch: &Launch<'_>,
        literal: Option<Handle>,
        known: Option<&mut KnownVariables>,
    ) -> Result<Launched, CudaError> {
        self.check_open()?;
        let handle = function_handle(function.0)?;
        let function = self.functions.get_mut(handle).ok_or(CudaError::INVALID_HANDLE)?;
        function.launched = true;
        let stream = match literal {
            Some(stream) => stream,
            None => self.streams.lookup(launch.stream)?,
        };
        let geometry = launch.geometry;
        check(client, &function.attributes, geometry)?;
        if let Some(mark) = self.streams.full_behind(stream.index, self.connection.region()) {
            return Ok(Launched::Behind(mark));
        }
        let bytes = function.layout.fill(launch.kernel_params, launch.extra, &mut self.params)?;
        if let Some(known) = known {
            known.find_in(&mut self.params[..bytes]);
        }
        if self.journal.is_due(self.ring.head()) {
            self.look_through_journal()?;
        }
        let request = LaunchKernel {
            function: wire_function(handle),
            stream: wire_stream(stream),
            grid: geometry.grid,
            block: geometry.block,
            shared_bytes: geometry.shared_bytes,
            flags: launch.flags,
            parameters: &self.params[..bytes],
        };
        let connection = self.connection;
        self.ring
            .push_request(&request, &|| connection.is_alive())
            .map_err(|error| push_error(error, connection))?;
        let mark = self.streams.issue(stream.index);
        self.journal.note(self.ring.last_position(), mark);
        self.launched = true;
        self.launched_in(mark)?;
        Ok(Launched::In(stream))
    }

    /// What has to pass before another launch may go to a stream, if that has as many in flight as may be.
    pub(in crate::program) fn full_behind(&mut self, stream: Handle) -> Option<Mark> {
        self.streams.full_behind(stream.index, self.connection.region())
    }

    /// Counts a launch that was posted, and has its stream say from time to time how far it is.
    #[inline(always)]
    pub(in crate::program) fn launched_in(&mut self, mark: Mark) -> CUresult {
        match self.streams.launched(mark) {
            false => Ok(()),
            true => self.fence_launches(mark),
        }
    }

    #[cold]
    fn fence_launches(&mut self, mark: Mark) -> CUresult {
        self.streams.fence_for(mark).map_or(Ok(()), |fence| self.push_fence(fence))
    }

    /// Counts the operation that was pushed last.
    #[inline(always)]
    pub(in crate::program) fn issue(&mut self, stream: Handle) -> Mark {
        let mark = self.streams.issue(stream.index);
        self.note(mark);
        mark
    }

    /// Notes what was pushed last in the journal.
    #[inline(always)]
    pub(in crate::program) fn note(&mut self, mark: Mark) {
        self.journal.note(self.ring.last_position(), mark);
    }

    #[inline(always)]
    fn look_through_journal(&mut self) -> CUresult {
        match self.journal.is_due(self.ring.head()) {
            false => Ok(()),
            true => journal_is_due(
                &mut self.ring,
                &mut self.journal,
                &mut self.streams,
                self.connection,
                self.replay,
            ),
        }
    }

    #[inline(always)]
    pub(in crate::program) fn check_stream(&self, stream: Handle) -> CUresult {
        match stream == LEGACY || self.streams.get(stream).is_some() {
            true => Ok(()),
            false => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// Has a fence underway by which one learns that `mark` has passed, if there is room for one now: for a
    /// thread that only asks.
    pub(crate) fn fence_if_room(&mut self, mark: Mark) -> CUresult {
        match self.streams.fence_for(mark) {
            Some(fence) if self.has_room()? => self.push_fence(fence),
            Some(_) | None => {
                self.hasten();
                Ok(())
            }
        }
    }

    /// Posts a fence of a stream.
    pub(in crate::program) fn push_fence(&mut self, (stream, fence): (Handle, Mark)) -> CUresult {
        self.push_now(&Fence { stream: wire_stream(stream), value: fence.value as u32 })?;
        self.streams.fenced(fence);
        Ok(())
    }

    /// True if there is room in the ring for all that is posted under one lock.
    #[inline(always)]
    pub(in crate::program) fn has_room(&mut self) -> Result<bool, CudaError> {
        has_room(&mut self.ring, self.connection, POSTING_BYTES)
    }

    /// What to wait with for room, without the lock, and at which server.
    pub(in crate::program) fn room(&self) -> (Room, &'static Connection) {
        (self.ring.room(), self.connection)
    }

    /// True if the ring is not this thread's to post to now.
    pub(in crate::program) fn is_closed_here(&self) -> bool {
        self.check_open().is_err()
    }

    /// Writes a request into the ring, which has room.
    #[inline(always)]
    pub(in crate::program) fn push_now<'a>(&mut self, request: &impl Request<'a>) -> CUresult {
        self.check_open()?;
        let connection = self.connection;
        self.look_through_journal()?;
        self.ring
            .push_request(request, &|| connection.is_alive())
            .map_err(|error| push_error(error, connection))
    }

    /// Writes a generic row's request into the ring, which has room.
    #[inline(always)]
    pub(in crate::program) fn push_words_now(&mut self, opcode: u16, words: &[u64]) -> CUresult {
        self.check_open()?;
        let connection = self.connection;
        self.look_through_journal()?;
        self.ring
            .push(opcode, words, &[], &|| connection.is_alive())
            .map_err(|error| push_error(error, connection))
    }

    /// Has the server look at what was posted, if it is in a poll sleep: a thread waits for it.
    pub(crate) fn hasten(&self) {
        self.ring.end_poll_sleep();
    }

    /// True if the operation has passed.
    #[inline]
    pub(crate) fn passed(&mut self, mark: Mark) -> bool {
        self.streams.passed(mark, self.connection.region())
    }

    /// True now and then for a thread that asks again and again whether work is done: it is to see whether the server
    /// is there, which is a system call.
    pub(crate) fn looks_at_server(&mut self) -> bool {
        self.asked_in_vain = self.asked_in_vain.wrapping_add(1);
        self.asked_in_vain.is_multiple_of(ASKED_PER_LOOK)
    }

    /// As [`Self::passed`], or known by what the server said.
    pub(crate) fn has_passed(&mut self, mark: Mark) -> bool {
        self.streams.has_passed(mark, self.connection.region())
    }

    /// The end of everything posted to a stream so far.
    pub(crate) fn end_of(&mut self, stream: Handle) -> Mark {
        // A default stream comes after blocking streams' work that it has not seen.
        if self.streams.has_news(stream.index, self.connection.region()) {
            return self.streams.issue(stream.index);
        }
        self.streams.last(stream.index)
    }

    /// Looks up a function by what the program passed: a function or a kernel.
    #[inline(always)]
    pub(crate) fn function(&self, word: usize) -> Result<(Handle, &Function), CudaError> {
        let handle = function_handle(word)?;
        let function = self.functions.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
        Ok((handle, function))
    }

    /// Looks up a module by what the program passed.
    pub(crate) fn module(
        &self,
        word: usize,
        kind: HandleKind,
    ) -> Result<(Handle, &Module), CudaError> {
        let handle = Handle::from_word(word as u64)
            .filter(|handle| handle.kind == kind)
            .ok_or(CudaError::INVALID_HANDLE)?;
        Ok((handle, self.modules.get(handle).ok_or(CudaError::INVALID_HANDLE)?))
    }
}

/// The handle of a function or kernel.
#[inline(always)]
pub(crate) fn function_handle(word: usize) -> Result<Handle, CudaError> {
    Handle::from_word(word as u64)
        .filter(|handle| matches!(handle.kind, HandleKind::Function | HandleKind::Kernel))
        .ok_or(CudaError::INVALID_HANDLE)
}
