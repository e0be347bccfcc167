//! Streams and events: objects of the provider, owned.

use crate::device::host_callback::HostCallback;
use crate::device::safe_calls::{DEFAULT_STREAM, Live, Owned, SafeCalls};
use crate::device::share::{gone, made};
use crate::device::{CheckedRange, ClusterQuestion, Device, Function, LaunchShape, Share};
use cuda_api::constants::{event_flags, stream_flags, stream_value};
use cuda_api::{CUevent, CUresult, CUstream, CudaError};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A stream. It never synchronises with the provider's own default stream.
pub struct Stream {
    share: Rc<Share>,
    raw: Owned<CUstream>,
    /// The SMs that its blocks stay on, if not on all.
    sms: Option<Range<u32>>,
    /// Something else than a kernel or a mark was submitted: what comes next may have to wait for more
    /// than what is recorded before it.
    broken: Cell<bool>,
    /// CUPTI's number is known.
    numbered: Cell<bool>,
    /// Operations that were submitted and are not known to be done: entries of its hardware queue.
    queued: Cell<u32>,
    /// Those of them behind the last mark.
    unmarked: Cell<u32>,
}

impl Stream {
    /// Makes one with a priority, which the provider clamps to its range.
    pub fn new(share: &Rc<Share>, priority: i32) -> Result<Self, CudaError> {
        let mut raw = Owned::default();
        let calls = share.device().calls();
        calls.cuStreamCreateWithPriority(&mut raw, stream_flags::NON_BLOCKING, priority)?;
        made(&share.counts.streams);
        Ok(Self::of(share, raw, None))
    }

    /// Makes one whose blocks stay on some of the device's SMs.
    pub fn on_sms(share: &Rc<Share>, priority: i32, sms: Range<u32>) -> Result<Self, CudaError> {
        let green = share.green_context(sms.clone())?;
        let mut raw = Owned::default();
        let calls = share.device().calls();
        // The share keeps the green context for its life.
        let green = green.live();
        calls.cuGreenCtxStreamCreate(&mut raw, green, stream_flags::NON_BLOCKING, priority)?;
        made(&share.counts.streams);
        Ok(Self::of(share, raw, Some(sms)))
    }

    fn of(share: &Rc<Share>, raw: Owned<CUstream>, sms: Option<Range<u32>>) -> Self {
        let (broken, numbered) = (Cell::new(false), Cell::new(false));
        share.in_flight().add_stream(raw.live().raw());
        let (queued, unmarked) = (Cell::new(0), Cell::new(0));
        Self { share: share.clone(), raw, sms, broken, numbered, queued, unmarked }
    }

    /// Counts an operation: each call that submits one is to say so.
    pub fn count_operation(&self) {
        self.queued.set(self.queued.get().saturating_add(1));
        self.unmarked.set(self.unmarked.get().saturating_add(1));
    }

    /// Operations that are not known to be done.
    #[inline]
    pub fn queued(&self) -> u32 {
        self.queued.get()
    }

    /// Those of them behind the last mark.
    #[inline]
    pub fn unmarked(&self) -> u32 {
        self.unmarked.get()
    }

    /// Everything submitted so far has a mark; how many operations the mark stands for.
    pub fn take_unmarked(&self) -> u32 {
        self.unmarked.take()
    }

    /// The oldest operations are done, so many.
    pub fn passed(&self, operations: u32) {
        self.queued.set(self.queued.get().saturating_sub(operations));
    }

    /// All operations are done.
    pub fn all_passed(&self) {
        self.queued.set(0);
        self.unmarked.set(0);
    }

    /// The SMs that its blocks stay on, if not on all.
    pub fn sms(&self) -> Option<&Range<u32>> {
        self.sms.as_ref()
    }

    /// Says that what comes next may wait for more than what was launched before it.
    pub fn interrupt(&self) {
        self.broken.set(true);
    }

    /// Whether [`Stream::interrupt`] was said since this was asked last.
    pub fn take_interrupted(&self) -> bool {
        self.broken.replace(false)
    }

    /// True the first time.
    pub fn is_new_to_cupti(&self) -> bool {
        !self.numbered.replace(true)
    }

    /// Whose it is.
    pub(in crate::device) fn share(&self) -> &Share {
        &self.share
    }

    /// The provider's handle.
    pub(crate) fn raw(&self) -> CUstream {
        self.live().raw()
    }

    /// The provider's handle, while the stream is there.
    pub(in crate::device) fn live(&self) -> Live<'_, CUstream> {
        self.raw.live()
    }

    /// The provider's number of it, unique as long as it lives.
    pub fn number(&self) -> Result<u64, CudaError> {
        let mut number = 0;
        self.share.device().calls().cuStreamGetId(self.live(), &mut number)?;
        Ok(number)
    }

    /// True if all that was submitted is done.
    pub fn is_idle(&self) -> Result<bool, CudaError> {
        match self.share.device().calls().cuStreamQuery(self.live()) {
            Ok(()) => Ok(true),
            Err(CudaError::NOT_READY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Records an event behind what was submitted.
    pub fn record(&self, event: &Event) -> CUresult {
        self.count_operation();
        let calls = self.share.device().calls();
        self.share.submission_time().of(|| calls.cuEventRecord(event.live(), self.live()))
    }

    /// Lets what is submitted from now on wait for an event.
    pub fn wait(&self, event: &Event) -> CUresult {
        self.interrupt();
        self.count_operation();
        self.share.device().calls().cuStreamWaitEvent(self.live(), event.live())
    }

    /// Lets the device write a 32-bit word when all before is done.
    pub fn write_word(&self, word: CheckedRange, value: u32) -> CUresult {
        debug_assert_eq!(word.bytes(), 4);
        self.count_operation();
        let (calls, flags) = (self.share.device().calls(), stream_value::WRITE_DEFAULT);
        self.share
            .submission_time()
            .of(|| calls.cuStreamWriteValue32_v2(self.live(), word, value, flags))
    }

    /// Lets what is submitted from now on wait until a 32-bit word has a value.
    pub fn wait_word(&self, word: CheckedRange, value: u32) -> CUresult {
        self.interrupt();
        self.count_operation();
        debug_assert_eq!(word.bytes(), 4);
        let (calls, flags) = (self.share.device().calls(), stream_value::WAIT_EQ);
        self.share
            .submission_time()
            .of(|| calls.cuStreamWaitValue32_v2(self.live(), word, value, flags))
    }

    /// Calls a function on a thread of the provider when all before is done. It may be called at any
    /// time until the process ends, or never: only the provider knows what becomes of it when its
    /// context is corrupted.
    pub fn call_host(&self, callback: HostCallback) -> CUresult {
        self.interrupt();
        self.count_operation();
        self.share.device().calls().cuLaunchHostFunc(self.live(), callback)
    }

    /// Copies from host memory that the provider knows (registered) to the device.
    pub fn copy_in(&self, to: CheckedRange, from: CheckedRange) -> CUresult {
        debug_assert_eq!(to.bytes(), from.bytes());
        self.count_operation();
        let calls = self.share.device().calls();
        self.share.submission_time().of(|| calls.cuMemcpyHtoDAsync_v2(to, from, self.live()))
    }

    /// Copies from the device to host memory that the provider knows (registered).
    pub fn copy_out(&self, to: CheckedRange, from: CheckedRange) -> CUresult {
        debug_assert_eq!(to.bytes(), from.bytes());
        self.count_operation();
        let calls = self.share.device().calls();
        self.share.submission_time().of(|| calls.cuMemcpyDtoHAsync_v2(to, from, self.live()))
    }

    /// Fills a range of device memory with a byte.
    pub fn fill(&self, range: CheckedRange, value: u8) -> CUresult {
        self.count_operation();
        let calls = self.share.device().calls();
        self.share.submission_time().of(|| calls.cuMemsetD8Async(range, value, self.live()))
    }

    /// Launches a kernel. `parameters` is the flattened parameter buffer; it is copied.
    pub fn launch(&self, function: &Function, shape: LaunchShape, parameters: &[u8]) -> CUresult {
        let calls = self.share.device().calls();
        self.count_operation();
        self.share.launching(function.local_bytes(), || {
            function.launch(calls, shape, self.live(), parameters)
        })
    }
}

/// What the provider says of the clusters of such a launch on the SMs of a stream, or on all SMs.
pub fn clusters(
    calls: SafeCalls,
    function: &Function,
    question: ClusterQuestion,
    shape: LaunchShape,
    stream: Option<&Stream>,
) -> Result<i32, CudaError> {
    function.clusters(calls, question, shape, stream.map_or(DEFAULT_STREAM, Stream::live))
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.share.in_flight().remove_stream(self.raw());
        let result = self.share.device().calls().cuStreamDestroy_v2(self.raw.take());
        gone(&self.share.counts.streams, result);
    }
}

/// The provider's event, which several sessions may hold. Destroyed with the last of them.
pub struct RawEvent {
    device: Arc<Device>,
    raw: Owned<CUevent>,
}

impl RawEvent {
    /// Destroys the event, which has no other owner. Returns the provider's answer.
    fn destroy(&mut self) -> CUresult {
        self.device.calls().cuEventDestroy_v2(self.raw.take())
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        if self.raw != Owned::default() {
            // No caller is left to whom an error could be reported.
            let _ = self.destroy();
        }
    }
}

/// An event, as one session has it.
pub struct Event {
    share: Rc<Share>,
    raw: Arc<RawEvent>,
}

impl Event {
    /// Makes one with flags of cuEventCreate.
    pub fn new(share: &Rc<Share>, flags: u32) -> Result<Self, CudaError> {
        let mut raw = Owned::default();
        let device = share.device();
        device.calls().cuEventCreate(&mut raw, flags)?;
        Ok(Self::of(share, Arc::new(RawEvent { device: device.clone(), raw })))
    }

    /// An event that another session has made.
    pub fn of(share: &Rc<Share>, raw: Arc<RawEvent>) -> Self {
        made(&share.counts.events);
        Self { share: share.clone(), raw }
    }

    /// Makes one that only orders, without a time.
    pub fn for_order(share: &Rc<Share>) -> Result<Self, CudaError> {
        Self::new(share, event_flags::DISABLE_TIMING)
    }

    /// What another session can make the same event of.
    pub fn shared(&self) -> &Arc<RawEvent> {
        &self.raw
    }

    /// True if another session has it too, or may come to.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.raw) > 1
    }

    fn live(&self) -> Live<'_, CUevent> {
        self.raw.raw.live()
    }

    /// True if what was recorded last is done, or nothing was.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        match self.share.device().calls().cuEventQuery(self.live()) {
            Ok(()) => Ok(true),
            Err(CudaError::NOT_READY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Time from `self` to `end`, ms.
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32, CudaError> {
        let mut ms = 0.0;
        self.share.device().calls().cuEventElapsedTime(&mut ms, self.live(), end.live())?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let result = Arc::get_mut(&mut self.raw).map_or(Ok(()), RawEvent::destroy);
        gone(&self.share.counts.events, result);
    }
}
