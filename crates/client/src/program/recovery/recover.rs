//! Recovery: another connection in the place of a lost one, and all that the program owns declared to
//! its server.
//!
//! The daemon gives another server, with the same windows of addresses. Chunks are imported at their
//! addresses by the descriptors that the client holds, so that their content is what it was; modules
//! are loaded from the images that were kept; handles are the client's own numbers and stay. Then
//! work in flight is sorted and posted again ([`crate::program::recovery::replay`]), or it is reported to the program that it is
//! lost. Programs that had nothing in flight see nothing but a pause.
//!
//! While a connection is prepared, no other thread posts: the short lock is closed to them, and
//! calls fail with [`SERVER_GONE`], upon which the entry points wait here and begin again.

use crate::connection::{Connection, Preparing, SERVER_GONE};
use crate::memory::known_variables::KnownVariables;
use crate::module::kernel_params::Layout;
use crate::program::Client;
use crate::program::Program;
use crate::program::launch::submission::{
    ModuleSource, wire_event, wire_function, wire_module, wire_stream,
};
use crate::program::memory::allocate::WIRE_DEVICE;
use crate::program::mode;
use crate::program::peers::Peers;
use crate::program::recovery::replay::Outcome;
use crate::program::streams::wire_default;
use crate::replay::variables;
use crate::stderr::say;
use crate::stream::table::OwnDefault;
use channel::message::Message;
use channel::region::{Region, STAGING_BYTES};
use channel::request::{
    AdoptChunk, CreateEvent, CreateGreenStream, CreateStream, FUNCTION_ATTRIBUTES, GetFunction,
    GraphInstantiate, HostMap,
};
use channel::signals::{Blocked, Uncancellable};
use channel::wait::wake;
use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;
use cuda_api::constants::{event_flags, function_attribute, host_flags};
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUgraphExec, CUresult, CudaError, Word, number};
use recovery::{Attempts, InFlight, Obstacle};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// How often completion words of a lost connection are made to follow.
const FOLLOW_PERIOD: Duration = Duration::from_micros(200);
/// How long a server may have no memory for what the program has, and how often that is tried again.
const ROOM_MAX: Duration = Duration::from_secs(10);
const ROOM_PAUSE: Duration = Duration::from_millis(50);
/// All host memory is registered so that all contexts and the device reach it.
const HOST_FLAGS: u32 = host_flags::PORTABLE | host_flags::DEVICE_MAP;

/// What a new server could not be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::program) struct Losses {
    /// Modules whose variables the program uses.
    pub(in crate::program) variables: u32,
    /// Arrays, whose content was the old server's alone.
    pub(in crate::program) arrays: u32,
    /// Texture and surface objects that have another handle now.
    pub(in crate::program) objects: u32,
    /// Memory and events of other processes, and what they opened of this one.
    pub(in crate::program) shared: u32,
}

impl Losses {
    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.variables, "modules' variables"),
            (self.arrays, "arrays' contents"),
            (self.objects, "texture or surface objects"),
            (self.shared, "things shared with other processes"),
        ];
        let named = counts.into_iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = named.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&named.join(", "))
    }
}

/// What a lost server has left of a program's work.
struct Left {
    in_flight: InFlight,
    known: Option<KnownVariables>,
    /// The error of a fault that the program is likely to have caused.
    fault: Option<CudaError>,
}

/// Says on standard error that work is lost.
fn say_lost(server: u32, fault: Option<CudaError>) {
    match fault {
        Some(fault) => say(format_args!(
            "the server (PID {server}) was lost by a fault, {fault}, that a kernel of this program most likely \
             caused; its work cannot be repeated, that is reported once, and the program goes on at another server"
        )),
        None => say(format_args!(
            "the server (PID {server}) was lost with work that cannot be repeated; that is reported \
             once, and the program goes on at another server"
        )),
    }
}

impl Program {
    /// Puts other connections in the place of those that are lost. The thread holds no lock.
    pub(crate) fn recover_lost(&'static self) {
        let _whole = Uncancellable::begin();
        let _one_at_a_time = self.connecting.lock();
        for client in self.clients().filter(|client| client.connection().is_lost()) {
            let old = client.connection();
            client.recover();
            if self.has_several() {
                client.follow(old);
            }
            mode::count_recovery();
        }
    }
}

impl Client {
    /// Puts another connection in the place of the lost one; if none is to be had, every call fails
    /// from now on.
    fn recover(&'static self) {
        let _here = Preparing::begin();
        let mut in_flight = None;
        let mut attempts = Attempts::default();
        let mut replaced = Vec::new();
        loop {
            let lost = self.connection();
            let moved = self.move_to_another(&mut in_flight);
            if !core::ptr::eq(lost, self.connection()) {
                replaced.push(lost);
            }
            let obstacle = match moved {
                Ok(losses) => {
                    let connection = self.connection();
                    if !losses.is_empty() {
                        say(format_args!(
                            "another server has taken the place of the one that was lost; with that \
                             one went {losses}"
                        ));
                        connection.region().note_async_error(SERVER_GONE);
                    }
                    self.state().set_closed(false);
                    connection.go_live();
                    return replaced
                        .iter()
                        .for_each(|lost| lost.retire(self.program.has_several()));
                }
                Err(SERVER_GONE | CudaError::MPS_CONNECTION_FAILED) => Obstacle::Lost,
                Err(CudaError::MPS_SERVER_NOT_READY) => Obstacle::NotReady,
                Err(error) => {
                    say(format_args!(
                        "another server does not take what this program has: {error}"
                    ));
                    break;
                }
            };
            match attempts.failed(obstacle) {
                Some(pause) => std::thread::sleep(pause),
                None => break,
            }
        }
        self.connection().give_up_for_good();
        self.state().set_closed(false);
    }

    /// Connects, restores state and goes on with what was in flight.
    fn move_to_another(&'static self, in_flight: &mut Option<Left>) -> Result<Losses, CudaError> {
        let old = self.connection();
        let known = self.known_variables();
        let passed = {
            let mut state = self.state();
            state.set_closed(true);
            // What was posted again to a server that is lost too is in the first list as well.
            let taken = state.take_in_flight(old.region());
            if in_flight.is_none() {
                state.lost_behind(taken.first_undone());
            }
            let fault = old.region().likely_fault();
            in_flight.get_or_insert(Left { in_flight: taken, known, fault });
            state.streams.forget_fences();
            state.streams.completed().collect::<Vec<_>>()
        };
        let prepare = |region: &Region| {
            for mark in &passed {
                if let Some(word) = region.completion_word(mark.slot) {
                    word.store(mark.value as u32);
                }
            }
            // Slices that are in use have the same places there.
            if old.staging.lock().in_use() > 0 {
                copy_staging(old.region(), region);
            }
        };
        let new = (self.program.connect)(self.description(), &prepare)?;
        let (had, has) = (old.welcome(), new.welcome());
        if (had.window, had.host_window) != (has.window, has.host_window) {
            // Another program has the addresses: nothing of this one's fits.
            return Err(CudaError::ALREADY_MAPPED);
        }
        new.prepare();
        let slices = old.staging.lock().take_all();
        *new.staging.lock() = slices;
        let new: &'static Connection = Box::leak(Box::new(new));
        self.state().replace_ring(new);
        self.set_connection(new);
        // What was not reported to the program yet is reported by this one.
        if let Err(error) = old.region().take_async_error() {
            new.region().note_async_error(error);
        }
        let mut losses = Losses::default();
        self.declare_memory(&mut losses)?;
        // Before modules, whose kernels may have a heap.
        self.declare_limits()?;
        self.declare_modules(&mut losses)?;
        self.declare_streams()?;
        self.declare_events(&mut losses)?;
        self.declare_arrays(&mut losses)?;
        self.declare_graphs()?;
        self.declare_peers(&mut losses)?;
        if let Some(Left { in_flight, known, fault }) = in_flight {
            let error = fault.unwrap_or(SERVER_GONE);
            if self.replay(in_flight, known.as_ref(), error)? == Outcome::Lost {
                say_lost(had.server_pid, *fault);
                // What other devices do with what is lost is wrong too: whichever is asked first reports it.
                for other in self.others() {
                    other.connection().region().note_async_error(error);
                }
            }
        }
        Ok(losses)
    }

    /// Device memory, host memory, virtual memory.
    fn declare_memory(&self, losses: &mut Losses) -> CUresult {
        let (chunks, pieces) = {
            let memory = self.memory();
            (memory.chunks_to_declare()?, memory.host_pieces()?)
        };
        for (address, bytes, file) in chunks {
            let address = CUdeviceptr(address);
            let request = AdoptChunk { device: WIRE_DEVICE, address, bytes };
            patiently(|| self.call_with(Message::HostFd(()), file.as_fd(), &request))?;
        }
        for (address, bytes, file) in pieces {
            let request = HostMap { address, bytes, flags: HOST_FLAGS };
            self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
        }
        losses.shared += self.declare_virtual_memory()?;
        Ok(())
    }

    /// Modules from their images, and functions with the attributes that the program set.
    fn declare_limits(&self) -> CUresult {
        let limits = self.server_limits.lock().clone();
        for (limit, value) in limits {
            let (opcode, words) = (number::cuCtxSetLimit, [u64::from(limit), value as u64]);
            self.call_row(opcode, |state| state.push_words(opcode, &words), |_| Ok(()))?;
        }
        Ok(())
    }

    fn declare_modules(&self, losses: &mut Losses) -> CUresult {
        let mut modules: Vec<_> = {
            let state = self.state();
            let all = state.modules.iter();
            all.map(|(handle, module)| (handle, Arc::clone(&module.source), 0)).collect()
        };
        // Managed variables are placed in the order of loading: the first are at the lowest address.
        {
            let memory = self.memory();
            for (handle, _, address) in &mut modules {
                *address = memory.managed_of(wire_module(*handle).0 as u64).unwrap_or(u64::MAX);
            }
        }
        modules.sort_by_key(|(_, _, address)| *address);
        for (handle, source, managed_at) in &modules {
            let ((loaded, file), in_place) = patiently(|| {
                let ((result, loaded, file), in_place) = self.load_again(*handle, source)?;
                result.map(|()| ((loaded, file), in_place))
            })?;
            if let (Some(loaded), Some(file)) = (loaded, file)
                && (loaded.managed.0 != *managed_at
                    || !self.memory().move_managed(*managed_at, file)?)
            {
                losses.variables += 1;
            }
            let kept = in_place || self.declare_variables(*handle, source)?;
            losses.variables += u32::from(!kept);
        }
        self.wait_for_variables()?;
        self.declare_functions()
    }

    /// True if kernels of a module may have changed its variables on the lost server.
    pub(in crate::program) fn changed_variables(
        &self,
        module: Handle,
        source: &ModuleSource,
    ) -> bool {
        let launched: Vec<String> = {
            let mut state = self.state();
            // A graph's kernels are launched with it.
            let all = state.graphs.iter().next().is_some();
            let state = &mut *state;
            let functions = state.functions.iter().filter(|(_, f)| f.module == module);
            let launched = functions.filter(|(_, f)| f.launched || all);
            launched.map(|(_, f)| f.name.to_string_lossy().into_owned()).collect()
        };
        if launched.is_empty() {
            return false;
        }
        // An image that cannot be read could not be loaded either.
        let Some(image) = source.bytes() else { return false };
        variables::may_be_changed(&image, launched.iter().map(String::as_str))
    }

    fn declare_functions(&self) -> CUresult {
        let functions: Vec<_> = {
            let state = self.state();
            let all = state.functions.iter();
            all.map(|(handle, f)| (handle, f.module, f.name.clone(), f.attributes)).collect()
        };
        for (handle, module, name, attributes) in functions {
            let function = wire_function(handle);
            let module = wire_module(module);
            let request = GetFunction { function, module, name: name.to_bytes() };
            let info = self.call(&request)?;
            for attribute in settable() {
                let (wanted, found) = (attributes[attribute], info.attributes[attribute]);
                if wanted == found {
                    continue;
                }
                let words = [function.to_word(), attribute as u64, wanted.to_word()];
                let opcode = number::cuFuncSetAttribute;
                self.call_row(opcode, |state| state.push_words(opcode, &words), |_| Ok(()))?;
            }
            let mut state = self.posting()?;
            if let Some(known) = state.functions.get_mut(handle) {
                let params = info.parameters.iter().map(|p| (p.offset_bytes, p.size_bytes));
                known.layout = Layout::new(params).ok_or(CudaError::UNKNOWN)?;
                let cache = known.cache;
                if cache != 0 {
                    let words = [function.to_word(), cache.into()];
                    state.push_words(number::cuFuncSetCacheConfig, &words)?;
                }
            }
        }
        Ok(())
    }

    fn declare_streams(&self) -> CUresult {
        let mut streams: Vec<_> =
            self.state().streams.iter().map(|(handle, stream)| (handle, *stream)).collect();
        // Others name them.
        streams.sort_by_key(|(_, stream)| stream.default != OwnDefault::Itself);
        for (handle, stream) in streams {
            let (flags, priority) = (stream.flags, stream.priority);
            let sms = self.contexts().sms_of_stream(stream.context, stream.green);
            let default = wire_default(stream.default, handle);
            let stream = wire_stream(handle);
            let mut state = self.posting()?;
            match sms {
                None => state.push(&CreateStream { stream, flags, priority })?,
                Some(sms) => {
                    let (sm_first, sms) = (sms.start, sms.end - sms.start);
                    state.push(&CreateGreenStream {
                        stream,
                        flags,
                        priority,
                        sm_first,
                        sms,
                        default,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn declare_events(&self, losses: &mut Losses) -> CUresult {
        let mut state = self.posting()?;
        let events: Vec<_> =
            state.events.iter().map(|(handle, event)| (handle, event.flags)).collect();
        for (handle, flags) in events {
            losses.shared += u32::from(flags & event_flags::INTERPROCESS != 0);
            let flags = flags & !event_flags::INTERPROCESS;
            state.make_room()?;
            state.push(&CreateEvent { event: wire_event(handle), flags })?;
        }
        Ok(())
    }

    /// Graphs, of the requests that made them.
    fn declare_graphs(&self) -> CUresult {
        let graphs: Vec<_> = {
            let mut state = self.state();
            let handles: Vec<_> = state.graphs.iter().map(|(handle, _)| handle).collect();
            let take = |handle| state.graphs.get_mut(handle).map(|g| (handle, g.0.clone()));
            handles.into_iter().filter_map(take).collect()
        };
        for (handle, records) in graphs.into_iter().filter(|(_, records)| !records.is_empty()) {
            {
                let mut state = self.posting()?;
                for (opcode, words) in &records {
                    state.make_room()?;
                    state.push_words(*opcode, words)?;
                }
            }
            let graph = CUgraphExec(handle.to_word() as usize);
            patiently(|| self.call(&GraphInstantiate { graph, replaces: CUgraphExec::NULL }))?;
        }
        Ok(())
    }

    /// What of other devices the lost server knew.
    fn declare_peers(&self, losses: &mut Losses) -> CUresult {
        let known = core::mem::replace(&mut *self.peers.lock(), Peers::new(self.device));
        losses.shared += known.mappings.len() as u32;
        match self.program.has_several() {
            true => self.learn_peers().and_then(|()| self.adopt_again(&known)),
            false => Ok(()),
        }
    }

    /// Has the completion words of a lost connection follow those of the present one, until all has
    /// passed that was posted so far: other devices wait for the lost one's words, and perhaps this one
    /// for them, so nothing waits for it here.
    fn follow(&'static self, old: &'static Connection) {
        let ends = self.state().streams.ends();
        let follow = move || {
            let mut left = ends;
            while !left.is_empty() {
                let now = self.connection();
                // Nothing gets anywhere any more: others find that out by themselves.
                let over = now.region().sticky_error().is_err();
                left.retain(|end| {
                    let (region, value) = (now.region(), end.value as u32);
                    let (Some(from), Some(to)) =
                        (region.completion_word(end.slot), old.region().completion_word(end.slot))
                    else {
                        return false;
                    };
                    let passed = if over { value } else { from.load() };
                    if !reached(to.load(), passed) {
                        to.store(passed);
                        wake(to);
                    }
                    !reached(passed, value)
                });
                std::thread::sleep(FOLLOW_PERIOD);
            }
        };
        // The program's signal handlers are for its own threads.
        let _blocked = Blocked::all();
        let thread = std::thread::Builder::new().name("cuda-follow".to_owned()).spawn(follow);
        if thread.is_err() {
            say(format_args!("no thread can be had; other devices may wait for a lost server"));
        }
    }

    fn set_connection(&self, connection: &'static Connection) {
        let pointer = core::ptr::from_ref(connection).cast_mut();
        self.connection.store(pointer, Ordering::Release);
    }
}

/// Restores something that takes memory of the device, once more where there is none for now: the server that is
/// lost may still have a context, with its code.
pub(in crate::program) fn patiently<T>(
    mut declare: impl FnMut() -> Result<T, CudaError>,
) -> Result<T, CudaError> {
    let start = Instant::now();
    loop {
        match declare() {
            Err(CudaError::OUT_OF_MEMORY) if start.elapsed() < ROOM_MAX => {
                std::thread::sleep(ROOM_PAUSE);
            }
            other => return other,
        }
    }
}

/// True if a completion word has come to a value, or past it.
fn reached(word: u32, value: u32) -> bool {
    word.wrapping_sub(value).cast_signed() >= 0
}

/// Attributes of functions that a program sets.
fn settable() -> impl Iterator<Item = usize> {
    use function_attribute::*;
    let all = [
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        MAX_DYNAMIC_SHARED_SIZE_BYTES,
        PREFERRED_SHARED_MEMORY_CARVEOUT,
        REQUIRED_CLUSTER_WIDTH,
        REQUIRED_CLUSTER_HEIGHT,
        REQUIRED_CLUSTER_DEPTH,
        CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    ];
    all.into_iter().map(|attribute| attribute as usize).filter(|a| *a < FUNCTION_ATTRIBUTES)
}

/// Copies all staging: slices of copies in flight keep their places.
fn copy_staging(from: &Region, to: &Region) {
    let mut bytes = vec![0_u8; STAGING_BYTES as usize];
    let copied = from.read_staging(0, &mut bytes).and_then(|()| to.write_staging(0, &bytes));
    debug_assert!(copied.is_ok(), "all of staging");
}
