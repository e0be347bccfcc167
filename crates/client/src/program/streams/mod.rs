//! What each thread has of its own: its per-thread default stream.
//!
//! It is a hidden stream that takes turns with the legacy default stream, made when the thread
//! first uses it and destroyed when the thread ends.

pub(crate) mod host_functions;
pub(crate) mod mem_ops;
pub(in crate::program) mod wait;

use crate::context::affinity::SmsWanted;
use crate::context::current;
use crate::context::table::current_green;
use crate::handles::device_of_word;
use crate::program::Client;
use crate::program::launch::submission::{wire_event, wire_stream};
use crate::program::mode;
use crate::stderr::say;
use crate::stream::DefaultStream;
use crate::stream::table::{LEGACY, OwnDefault, Stream};
use channel::message::DEVICES_MAX;
use channel::per_thread::PerThread;
use channel::region::STREAM_SLOTS;
use channel::request::{CreateGreenStream, CreateStream, DestroyStream, Notify, WaitEvent};
use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::attributes as attribute;
use cuda_api::constants::stream_flags;
use cuda_api::handle::Handle;
use cuda_api::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUcontext, CUresult, CUstream, CudaError};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Called for each stream that the program destroys, before it is gone.
static STREAM_ENDS: OnceLock<fn(u64)> = OnceLock::new();

/// Has streams' ends reported to a layer above. The first one stays.
pub(crate) fn at_stream_end(notify: fn(u64)) {
    let _ = STREAM_ENDS.set(notify);
}

/// A thread's hidden streams, one a device, and one a context that has SMs of its own (by the context's
/// word); its end is theirs.
struct Hidden([Cell<u64>; DEVICES_MAX], RefCell<BTreeMap<u64, u64>>);

impl Drop for Hidden {
    fn drop(&mut self) {
        let own = std::mem::take(self.1.get_mut()).into_values();
        for word in self.0.iter().map(Cell::get).filter(|word| *word != 0).chain(own) {
            // In a forked child the parent's streams are none of our business: there is no state.
            if let Ok(client) = mode::client_of(word as usize) {
                let _ = client.destroy_stream(CUstream(word as usize));
            }
        }
    }
}

impl Default for Hidden {
    fn default() -> Self {
        Self([const { Cell::new(0) }; DEVICES_MAX], RefCell::new(BTreeMap::new()))
    }
}

static HIDDEN: PerThread<Hidden> = PerThread::new();

impl Client {
    /// The stream that a program's word stands for, the literals 0, 1 and 2 included, which are
    /// streams of the current context: an error if there is none.
    #[inline(always)]
    pub(crate) fn stream(
        &self,
        stream: CUstream,
        default: DefaultStream,
    ) -> Result<Handle, CudaError> {
        match stream {
            CU_STREAM_LEGACY => self.legacy_stream(),
            CUstream::NULL if default == DefaultStream::Legacy => self.legacy_stream(),
            CUstream::NULL | CU_STREAM_PER_THREAD => self.thread_stream(),
            other => self.state().streams.lookup(other),
        }
    }

    /// The legacy default stream; in a green context its own default stream.
    #[inline(always)]
    fn legacy_stream(&self) -> Result<Handle, CudaError> {
        let context = self.context_here()?;
        match current_green() {
            0 => Ok(self.contexts().own_default(context).unwrap_or(LEGACY)),
            green => self.green_stream(context, green),
        }
    }

    /// The default stream of a context, as its streams have it; a green context's take turns with the
    /// legacy default stream.
    pub(crate) fn default_of(&self, context: u64, green: u64) -> OwnDefault {
        match self.contexts().own_default(context) {
            Some(stream) if green == 0 => OwnDefault::Other(stream),
            _ => OwnDefault::Legacy,
        }
    }

    /// Gives a context SMs of its own, with a default stream on them. CUDA_ERROR_OUT_OF_MEMORY if the
    /// program has too many streams.
    pub(crate) fn give_sms(&self, context: CUcontext, sms: u32, unit: u32) -> CUresult {
        let all = self.description().attributes[attribute::MULTIPROCESSOR_COUNT as usize];
        let count = SmsWanted { sms, unit, all: all.max(1) as u32 };
        self.contexts().place(context, count)?;
        let stream = self.create_stream(Stream {
            context: context.0 as u64,
            green: 0,
            default: OwnDefault::Itself,
            flags: stream_flags::DEFAULT,
            priority: self.priority_range().0.min(0),
        });
        let stream = stream.inspect_err(|_| self.contexts().unplace(context))?;
        self.contexts().set_own_default(context, stream)
    }

    /// SMs that launches in the current context may have: what occupancy and cooperative launches go by.
    pub(crate) fn sms_here(&self) -> c_int {
        let word = current::word();
        let all = self.description().attributes[attribute::MULTIPROCESSOR_COUNT as usize];
        match device_of_word(word) == Some(self.device) {
            true => self.contexts().sms_of(word).map_or(all, |sms| (sms.end - sms.start) as c_int),
            false => all,
        }
    }

    /// The current context, which is of this device. CUDA_ERROR_INVALID_HANDLE if it is another
    /// one's: what was passed beside a default stream is not of that stream's device.
    #[inline(always)]
    fn context_here(&self) -> Result<u64, CudaError> {
        let context = self.contexts().current()?;
        match device_of_word(context) == Some(self.device) {
            true => Ok(context),
            false => Err(CudaError::INVALID_HANDLE),
        }
    }

    #[cold]
    fn green_stream(&self, context: u64, green: u64) -> Result<Handle, CudaError> {
        if let Some(stream) = self.contexts().with_green(green, |green| green.default_stream)? {
            return Ok(stream);
        }
        let priority = self.priority_range().0.min(0);
        let flags = stream_flags::DEFAULT;
        let default = OwnDefault::Legacy;
        let made = self.create_stream(Stream { context, green, default, flags, priority })?;
        let kept = self.contexts().with_green(green, |green| {
            // Another thread may have been faster.
            *green.default_stream.get_or_insert(made)
        })?;
        if kept != made {
            self.destroy_stream(wire_stream(made))?;
        }
        Ok(kept)
    }

    /// The calling thread's own stream. CUDA_ERROR_INVALID_HANDLE in a green context.
    fn thread_stream(&self) -> Result<Handle, CudaError> {
        let context = self.context_here()?;
        if current_green() != 0 {
            return Err(CudaError::INVALID_HANDLE);
        }
        let device = self.device as usize;
        let default = self.default_of(context, 0);
        let is_own = default != OwnDefault::Legacy;
        let word = HIDDEN
            .with(|hidden| match is_own {
                true => hidden.1.borrow().get(&context).copied().unwrap_or(0),
                false => hidden.0[device].get(),
            })
            .ok_or(CudaError::OUT_OF_MEMORY)?;
        if word != 0 {
            // It is gone if the context was reset.
            if let Ok(handle) = self.state().streams.lookup(CUstream(word as usize)) {
                return Ok(handle);
            }
        }
        let handle = self.create_stream(Stream {
            context,
            green: 0,
            default,
            flags: stream_flags::DEFAULT,
            priority: self.priority_range().0.min(0),
        })?;
        let _ = HIDDEN.with(|hidden| match is_own {
            true => drop(hidden.1.borrow_mut().insert(context, handle.to_word())),
            false => hidden.0[device].set(handle.to_word()),
        });
        Ok(handle)
    }

    /// The context of a stream: its own, or the current one if it is the legacy default stream.
    pub(crate) fn context_of(&self, stream: Handle) -> Result<u64, CudaError> {
        let own = self.state().streams.get(stream).map(|stream| stream.context);
        own.map_or_else(|| self.contexts().current(), Ok)
    }

    /// Makes a stream.
    pub(crate) fn create_stream(&self, stream: Stream) -> Result<Handle, CudaError> {
        let sms = self.contexts().sms_of_stream(stream.context, stream.green);
        let mut state = self.posting()?;
        let created = state.streams.create(stream, self.connection().region());
        let handle = created.inspect_err(|_| say_that_streams_are_taken())?;
        let Stream { flags, priority, .. } = stream;
        let wire = wire_stream(handle);
        let posted = match sms {
            None => state.push(&CreateStream { stream: wire, flags, priority }),
            Some(sms) => {
                let (sm_first, sms) = (sms.start, sms.end - sms.start);
                let default = wire_default(stream.default, handle);
                state.push(&CreateGreenStream {
                    stream: wire,
                    flags,
                    priority,
                    sm_first,
                    sms,
                    default,
                })
            }
        };
        if let Err(error) = posted {
            state.streams.destroy(handle, self.connection().region());
            return Err(error);
        }
        Ok(handle)
    }

    /// Destroys a stream; its work goes on.
    pub(crate) fn destroy_stream(&self, stream: CUstream) -> CUresult {
        let handle = self.state().streams.lookup(stream)?;
        if let Some(ended) = STREAM_ENDS.get() {
            ended(handle.to_word());
        }
        let mut state = self.posting()?;
        // Another thread may have destroyed it meanwhile.
        state.streams.lookup(stream)?;
        // The client learns from it when the slot may be used again. A thread that waits for the
        // work until then cannot ask any more to be woken.
        let end = state.fence_all_of(handle)?;
        if !state.passed(end) {
            state.push(&Notify { stream: wire_stream(handle), value: end.value as u32 })?;
        }
        state.push(&DestroyStream { stream: wire_stream(handle) })?;
        state.streams.destroy(handle, self.connection().region());
        Ok(())
    }

    /// Makes a stream wait for an event. One that was never recorded is nothing to wait for.
    pub(crate) fn wait_event(&self, event: Handle, stream: Handle) -> CUresult {
        let mut state = self.posting()?;
        let found = state.events.get(event).ok_or(CudaError::INVALID_HANDLE)?;
        let (recorded, is_shared) = (found.recorded, found.is_shared());
        if recorded.is_none() && !is_shared {
            return Ok(());
        }
        let request = WaitEvent { stream: wire_stream(stream), event: wire_event(event) };
        let mark = state.push_in(stream, &request)?;
        match recorded {
            // Another process may have recorded it since.
            Some(recorded) if is_shared => state.streams.not_followed(recorded),
            Some(recorded) => state.streams.comes_behind(mark, recorded),
            None => {}
        }
        Ok(())
    }
}

/// Says once that the program has as many streams as a client of a server can have.
#[cold]
fn say_that_streams_are_taken() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let most = STREAM_SLOTS - 1;
        say(format_args!(
            "the program has {most} streams at a time, which is the most through a daemon"
        ));
    }
}

/// A stream's default stream as the server knows it.
pub(super) fn wire_default(default: OwnDefault, itself: Handle) -> CUstream {
    match default {
        OwnDefault::Legacy => CUstream::NULL,
        OwnDefault::Itself => wire_stream(itself),
        OwnDefault::Other(stream) => wire_stream(stream),
    }
}
