//! The device as sessions see it: a thin, owning layer over a provider's functions.
//!
//! Every call of a provider stands in this folder, so every pointer that a provider gets is made
//! here, from locals, from owned objects or from ranges that a session has checked
//! ([`CheckedRange`]). Objects destroy themselves when dropped and are counted while they live
//! ([`Share::leftovers`]). This layer knows no client, no ring and no policy.
//!
//! What a call asks of its arguments is a matter of their types, once for all calls (`safe_calls.rs`); few calls
//! ask for more and are `unsafe` where they are made.
//!
//! # Trust in a provider
//!
//! A provider runs in the server's process, so the process is the unit of trust: a provider that
//! writes where it must not ends the server, and all of its clients. What the server counts on is
//! what the driver API documents, and of each thing that it gives to a provider this:
//!
//! * An argument (names, images, options, flattened parameters, descriptions of nodes, buffers of
//!   answers) is used during the call only.
//! * Memory that asynchronous work uses ([`CheckedRange`]) and host memory that is registered
//!   ([`HostRegistration`]) stays until the work has ended: until `cuStreamQuery` answers success, or
//!   `openmpsTenantEnd` has returned, or an answer says that the context is corrupted, after which a
//!   device runs nothing more.
//! * What is called back later, on a thread of the provider, gets a number and never an address
//!   ([`HostCallback`]). The driver API does not say when a function that was queued will not be
//!   called any more if the context is corrupted, or that its last call has returned.
//! * What is called back during a call (places of managed variables, [`ManagedRoom`]) is called in
//!   that call, on its thread.

mod describe;
mod footprint;
mod host_callback;
mod library;
mod objects;
mod range;
mod safe_calls;
mod share;
mod sms;
pub mod sync;
mod time;

pub use describe::{DeviceInfo, describe_all};
pub use host_callback::HostCallback;
pub use objects::array::{Array, ImageObject, MipmappedArray, Shown};
pub use objects::code_cache::{CodeInUse, CodeKey};
pub use objects::copy::Copy3DSide;
pub use objects::function::{ClusterQuestion, Function};
pub use objects::graph::{ChainWork, Condition, GraphBuilder, NodeChain};
pub use objects::host::HostRegistration;
pub use objects::jit_option::{BuildLog, NumericJitOption};
pub use objects::launch_shape::LaunchShape;
pub use objects::linking::{INPUT_PTX, link};
pub use objects::managed::{ManagedRoom, ManagedVariables};
pub use objects::memory::{
    DeviceMapping, DeviceReservation, Physical, new_chunk, old_chunk, write,
};
pub use objects::module::{IMAGE_PADDING_BYTES, Module, PreparedCode};
pub use objects::stream::{Event, RawEvent, Stream, clusters};
pub use objects::tensor::TensorMapKind;
pub use range::CheckedRange;
pub use safe_calls::SafeCalls;
pub use share::{Leftovers, Share};
pub use sms::green_contexts::KEPT_GREEN_CONTEXTS_MAX;
pub use sms::partition::{SmCount, SmLease, SmPlaces};
pub use sms::placed_graph::PlacedGraph;
pub use sync::context_sync::{
    CallProgress, ContextCall, ContextSync, HELD_PERCENT_MAX, OpenCall, SHALLOW_KERNELS,
    SyncReport, SyncTotals,
};
pub use sync::in_flight::SessionInFlight;
pub use time::cupti::{Cupti, KernelRecord, WindowRecords};
pub use time::event_cost::EventCost;
pub use time::submission_time::SubmissionTime;
pub use time::timing::{Started, Stopwatch, Timed};

use crate::window::ArenaPart;
use cuda_api::attributes;
use cuda_api::extension::Extension;
use cuda_api::{CUcontext, CUdevice, CUmodule, CUresult, CUstream, CUuuid, CudaError, DriverTable};
use objects::code_cache::CodeCache;
use safe_calls::{Live, Owned, SafeExtension};
use sms::green_contexts::KeptGreenContexts;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use time::event_cost::TimingKernels;

/// Hardware queues that a server asks NVIDIA's driver for: as many as it gives. Streams with work
/// share them, and what waits in a queue, for an event, a value, a host function or an earlier
/// kernel of its stream, holds up all work behind it. With fewer queues one client's wait would
/// be other clients' wait, and two clients could wait for each other for ever.
pub const HARDWARE_QUEUES: usize = 32;

/// A provider's functions.
#[derive(Clone, Copy)]
pub struct Driver {
    /// The driver API.
    pub table: &'static DriverTable,
    /// What the software GPU has beyond it.
    pub extension: Option<&'static Extension>,
}

/// The device that a server serves, with the context that its clients share.
pub struct Device {
    driver: Driver,
    ordinal: CUdevice,
    /// Which of how many devices it is.
    part: ArenaPart,
    context: Owned<CUcontext>,
    info: DeviceInfo,
    driver_version: i32,
    stream_priorities: (i32, i32),
    /// Whether conditions of a graph are 1, 2, ...: [`Share::numbers_conditions`].
    counts_conditions: OnceLock<bool>,
    sync: ContextSync,
    local_bytes: AtomicU32,
    code_cache: CodeCache,
    green_contexts: KeptGreenContexts,
    /// Where work is timed by events.
    timing_kernels: OnceLock<TimingKernels>,
    event_cost: OnceLock<EventCost>,
    start_bytes: OnceLock<u64>,
}

/// A step of the start that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{function} answered {error}")]
pub struct DeviceError {
    /// The provider's function.
    pub function: &'static str,
    /// Its answer.
    pub error: CudaError,
}

fn step(function: &'static str, result: CUresult) -> Result<(), DeviceError> {
    result.map_err(|error| DeviceError { function, error })
}

impl Device {
    /// Initialises the provider and makes the shared context on the device with this UUID, or on the
    /// provider's first device. The context is current on this thread afterwards.
    pub fn open(mut driver: Driver, uuid: Option<CUuuid>) -> Result<Self, DeviceError> {
        let calls = SafeCalls(driver.table);
        let version = describe::initialise(calls)?;
        let ordinal = match uuid {
            Some(uuid) => describe::ordinal_of(calls, uuid)?,
            None => 0,
        };
        let mut context = Owned::default();
        let retained = calls.cuDevicePrimaryCtxRetain(&mut context, ordinal);
        step("cuDevicePrimaryCtxRetain", retained)?;
        step("cuCtxSetCurrent", calls.cuCtxSetCurrent(context.live()))?;
        // The functions may be there and the device be set up without tenants. 0 is the tenant of threads
        // without one of their own, to which this thread belongs anyway.
        driver.extension = driver.extension.filter(|e| SafeExtension(e).tenant_bind(0).is_ok());
        let (mut least, mut greatest) = (0, 0);
        let range = calls.cuCtxGetStreamPriorityRange(&mut least, &mut greatest);
        if range.is_err() {
            // A device without priorities has the range 0..0.
            (least, greatest) = (0, 0);
        }
        Ok(Self {
            driver,
            ordinal,
            part: ArenaPart { ordinal: ordinal as u32, of: describe::device_count(calls)? as u32 },
            context,
            info: DeviceInfo::read(calls, ordinal)?,
            driver_version: version,
            stream_priorities: (least, greatest),
            counts_conditions: OnceLock::new(),
            sync: ContextSync::default(),
            local_bytes: AtomicU32::new(0),
            code_cache: CodeCache::default(),
            green_contexts: KeptGreenContexts::default(),
            timing_kernels: OnceLock::new(),
            event_cost: OnceLock::new(),
            start_bytes: OnceLock::new(),
        })
    }

    /// Loads what times work by events, and measures what they cost, once; some tens of milliseconds. A
    /// provider with tenants counts itself, and has nothing of it. The context must be current on this
    /// thread. `goes_on` is asked again and again. False if other work was in the way, and nothing is
    /// known yet; `is_last`: then what was found has to do.
    pub fn measure_event_cost(
        self: &Arc<Self>,
        is_last: bool,
        goes_on: impl Fn() -> bool,
    ) -> Result<bool, CudaError> {
        if self.has_tenants() || self.event_cost.get().is_some() {
            return Ok(true);
        }
        if self.timing_kernels.get().is_none() {
            // Only this thread sets.
            let _ = self.timing_kernels.set(TimingKernels::load(self)?);
        }
        let Some(kernels) = self.timing_kernels.get() else { return Ok(false) };
        let measured = EventCost::measure(self, kernels, goes_on)?;
        let is_known = is_last || measured.is_calm;
        if is_known {
            let _ = self.event_cost.set(measured.cost);
        }
        Ok(is_known)
    }

    /// What events cost cannot be known: nothing is taken off.
    pub fn take_events_for_free(&self) {
        let _ = self.event_cost.set(EventCost::default());
    }

    /// What events add to the time of what is between them: nothing on the software GPU, `None` until it was
    /// measured on others.
    pub fn event_cost(&self) -> Option<EventCost> {
        if self.has_tenants() { Some(EventCost::default()) } else { self.event_cost.get().copied() }
    }

    /// Finds out what device memory this process has; some milliseconds. `None` if that is not known.
    pub fn measure_start_bytes(&self) -> Option<u64> {
        let bytes = footprint::own_bytes(CUuuid { bytes: self.info().uuid })?;
        Some(*self.start_bytes.get_or_init(|| bytes))
    }

    /// Device memory that this process had when it was measured, bytes; 0: it was not, or is not known.
    pub fn start_bytes(&self) -> u64 {
        self.start_bytes.get().copied().unwrap_or(0)
    }

    fn timing_kernels(&self) -> Option<&TimingKernels> {
        self.timing_kernels.get()
    }

    /// The way to calls that wait for the context.
    pub fn sync(&self) -> &ContextSync {
        &self.sync
    }

    /// Code that clients share.
    pub fn code_cache(&self) -> &CodeCache {
        &self.code_cache
    }

    /// Unloads shared code that no client uses but for the last so many bytes of images.
    pub fn unload_unused(&self, bytes_max: u64) {
        for module in self.code_cache.take_unused(bytes_max) {
            let client = ("the code cache", None);
            let unload = || self.unload_shared(module);
            let _ = self.synchronising(ContextCall::UnloadModule, client, &|| false, unload);
        }
    }

    /// Unloads a module that the code cache has given up. The answer changes nothing.
    fn unload_shared(&self, module: Owned<CUmodule>) -> CUresult {
        // It is `ContextCall::UnloadModule` to those who call this.
        self.calls().cuModuleUnload(module)
    }

    /// Makes a call that waits for the context, for `client`, whose session has that in flight, unless
    /// `ends` says meanwhile that the client ends: CUDA_ERROR_MPS_CLIENT_TERMINATED.
    fn synchronising<R>(
        &self,
        call: ContextCall,
        client: (&str, Option<&SessionInFlight>),
        ends: &dyn Fn() -> bool,
        f: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let made = self.sync.make(call, client, &|stream| self.is_done(stream), ends, f);
        made.unwrap_or(Err(CudaError::MPS_CLIENT_TERMINATED))
    }

    /// Makes a call that waits for the context for the server itself if nothing is in flight now; `None`
    /// if something is.
    fn if_quiet<R>(&self, call: ContextCall, f: impl FnOnce() -> R) -> Option<R> {
        self.sync.make_if_quiet(call, &|stream| self.is_done(stream), f)
    }

    /// True if nothing is in flight.
    fn is_quiet(&self) -> bool {
        self.sync.is_quiet(&|stream| self.is_done(stream))
    }

    /// What the provider says of a stream that is alive: true if its work has ended, also by an error.
    fn is_done(&self, stream: CUstream) -> bool {
        // SAFETY: the caller knows that the stream is alive.
        let stream = unsafe { Live::new_unchecked(stream) };
        self.calls().cuStreamQuery(stream) != Err(CudaError::NOT_READY)
    }

    /// Local memory that the context has, by what one thread has of it, bytes.
    fn local_bytes(&self) -> &AtomicU32 {
        &self.local_bytes
    }

    /// Makes the shared context current on this thread: needed once a thread, before anything
    /// else of this layer.
    pub fn make_current(&self) -> CUresult {
        self.calls().cuCtxSetCurrent(self.context.live())
    }

    /// Waits until nothing runs in the shared context any more, which a fault has corrupted.
    pub fn settle_after_fault(&self) {
        // It answers with the fault.
        let _ = self.calls().cuCtxSynchronize();
    }

    /// Gives the context back. Nothing of the device may be in use any more.
    pub fn close(&self) {
        if let Some(kernels) = self.timing_kernels() {
            kernels.unload(self);
        }
        self.green_contexts.clear();
        // SAFETY: releases what `open` retained. The answer changes nothing: the process ends.
        let _ = unsafe { self.driver.table.cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }

    /// The shared context.
    fn context(&self) -> Live<'_, CUcontext> {
        self.context.live()
    }

    /// What is known of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// CUDA version of the provider: major * 1000 + minor * 10.
    pub fn driver_version(&self) -> i32 {
        self.driver_version
    }

    /// Least and greatest priority of a stream; greater priorities are smaller numbers.
    pub fn stream_priorities(&self) -> (i32, i32) {
        self.stream_priorities
    }

    /// Number of its SMs.
    pub fn sms(&self) -> u32 {
        let count = self.info.attributes[attributes::MULTIPROCESSOR_COUNT as usize];
        u32::try_from(count).unwrap_or(0)
    }

    /// The device's ordinal at the provider.
    pub fn ordinal(&self) -> CUdevice {
        self.ordinal
    }

    /// Which share of the arena its server gives out first.
    pub fn part(&self) -> ArenaPart {
        self.part
    }

    /// True if the provider isolates clients from each other's faults.
    pub fn has_tenants(&self) -> bool {
        self.driver.extension.is_some()
    }

    /// How many streams can have work that waits without one holding up another one.
    pub fn queues(&self) -> usize {
        if self.has_tenants() { usize::MAX } else { HARDWARE_QUEUES }
    }

    /// Sets a limit (CUlimit) of the calling thread's tenant.
    pub(crate) fn set_limit(&self, limit: u32, value: usize) -> CUresult {
        self.calls().cuCtxSetLimit(limit, value)
    }

    /// The driver API, for this folder and for the rows that are forwarded as they are.
    pub(crate) fn table(&self) -> &'static DriverTable {
        self.driver.table
    }

    /// Its functions that are safe to call.
    pub fn calls(&self) -> SafeCalls {
        SafeCalls(self.driver.table)
    }

    fn extension(&self) -> Option<SafeExtension> {
        self.driver.extension.map(SafeExtension)
    }

    /// Free and total memory, bytes.
    pub fn memory_info(&self) -> Result<(u64, u64), CudaError> {
        let (mut free, mut total) = (0usize, 0usize);
        self.calls().cuMemGetInfo_v2(&mut free, &mut total)?;
        Ok((free as u64, total as u64))
    }
}

/// The text before the first NUL.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
