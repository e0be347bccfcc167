//! Events: made, recorded, waited for, timed.

use locks::Mutex;
use std::sync::Arc;

use cuda_api::constants::{capture, event_flags};
use cuda_api::*;

use super::shared_words::SharedWords;
use super::{driver, exports, thread};
use crate::device::Device;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::stream::event::EventPoint;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};

/// An event that the program made.
pub(crate) struct Event {
    pub(crate) context: u64,
    timing: bool,
    tenant: Arc<Tenant>,
    point: Mutex<Option<Arc<EventPoint>>>,
    /// What other processes see of it.
    shared: Option<SharedWords>,
}

impl Event {
    pub(super) fn new(
        context: u64,
        flags: u32,
        tenant: Arc<Tenant>,
        shared: Option<SharedWords>,
    ) -> Self {
        let timing = flags & event_flags::DISABLE_TIMING == 0;
        Self { context, timing, tenant, point: Mutex::default(), shared }
    }

    /// What other processes see of it, if it was made for that.
    pub(super) fn shared_words(&self) -> Option<SharedWords> {
        self.shared
    }

    /// True if it was ever recorded, as far as this process can know.
    pub(super) fn has_work(&self) -> bool {
        self.shared.is_some_and(|words| !words.is_over()) || self.point().is_some()
    }

    /// Makes what is submitted to `stream` from now on wait for it.
    pub(super) fn wait_in(&self, device: &Device, stream: Key<Stream>) -> Result {
        if let Some(words) = self.shared {
            return words.wait_in(device, stream);
        }
        match self.point() {
            Some(point) => device.wait_for_point(stream, &point),
            None => Ok(()),
        }
    }

    /// What the event was last recorded as; `None` if never.
    pub(crate) fn point(&self) -> Option<Arc<EventPoint>> {
        self.point.lock().clone()
    }

    /// Records the event in a stream.
    pub(crate) fn record(&self, device: &Device, stream: Key<Stream>) -> Result {
        // Kept locked so that two threads that record at once leave the later point.
        let mut point = self.point.lock();
        if let Some(words) = self.shared {
            words.record(device, stream)?;
        }
        *point = Some(device.record(stream)?);
        Ok(())
    }
}

exports! {
    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        let driver = driver()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        event.required()?;
        let known = event_flags::BLOCKING_SYNC
            | event_flags::DISABLE_TIMING
            | event_flags::INTERPROCESS;
        let timing = flags & event_flags::DISABLE_TIMING == 0;
        let interprocess = flags & event_flags::INTERPROCESS != 0;
        if flags & !known != 0 || (interprocess && timing) {
            return Err(Error::INVALID_VALUE);
        }
        let shared = match interprocess {
            true => Some(driver.new_shared_words()?),
            false => None,
        };
        let made = Event::new(context.number(), flags, tenant, shared);
        event.set(CUevent(driver.events.insert(made)?))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        let driver = driver()?;
        driver.events.remove(event.0)?;
        driver.graphs.forget_event(event);
        Ok(())
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) | cuEventRecord_ptsz per_thread {
        record(event, stream, per_thread, 0)
    }

    fn cuEventRecordWithFlags(
        event: CUevent, stream: CUstream, flags: c_uint,
    ) | cuEventRecordWithFlags_ptsz per_thread {
        if flags & !capture::EVENT_EXTERNAL != 0 {
            return Err(Error::INVALID_VALUE);
        }
        record(event, stream, per_thread, flags)
    }

    fn cuEventQuery(event: CUevent) {
        let driver = driver()?;
        driver.graphs.asking_event(event)?;
        let event = driver.events.get(event.0)?;
        event.tenant.alive()?;
        if let Some(words) = event.shared {
            // A thread that asks does not wait, so no thread does the work by waiting.
            driver.device.announce();
            return if words.is_over() { Ok(()) } else { Err(Error::NOT_READY) };
        }
        match event.point() {
            Some(point) if point.reached_ns().is_none() => Err(Error::NOT_READY),
            _ => Ok(()),
        }
    }

    fn cuEventSynchronize(event: CUevent) {
        let driver = driver()?;
        driver.graphs.asking_event(event)?;
        let event = driver.events.get(event.0)?;
        // The last record may be another process', but what is to be done here is done first.
        if let Some(point) = event.point() {
            driver.device.synchronize_point(&point)?;
        }
        if let Some(words) = event.shared {
            words.synchronize(|| event.tenant.alive())?;
        }
        driver.flush_printf(&event.tenant);
        event.tenant.alive()
    }

    fn cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent) {
        p_milliseconds.required()?;
        p_milliseconds.set(elapsed_ms(h_start, h_end)?)
    }

    fn cuEventElapsedTime_v2(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent) {
        p_milliseconds.required()?;
        p_milliseconds.set(elapsed_ms(h_start, h_end)?)
    }
}

/// Records an event in a stream, or in the capture that the stream takes part in.
pub(super) fn record(event: CUevent, stream: CUstream, per_thread: bool, flags: u32) -> Result {
    let driver = driver()?;
    let found = driver.events.get(event.0)?;
    let key = driver.stream(stream, per_thread)?;
    if driver.graphs.watches_events()
        && driver.graphs.record_event(driver.stream_key(key)?, event, flags)?
    {
        return Ok(());
    }
    // Only a capture has a node for it.
    if flags & capture::EVENT_EXTERNAL != 0 {
        return Err(Error::ILLEGAL_STATE);
    }
    found.record(&driver.device, key)
}

fn elapsed_ms(start: CUevent, end: CUevent) -> Result<f32> {
    let driver = driver()?;
    driver.graphs.check_event(start)?;
    driver.graphs.check_event(end)?;
    let (start, end) = (driver.events.get(start.0)?, driver.events.get(end.0)?);
    start.tenant.alive()?;
    if !start.timing || !end.timing {
        return Err(Error::INVALID_HANDLE);
    }
    let start = start.point().ok_or(Error::INVALID_HANDLE)?;
    let end = end.point().ok_or(Error::INVALID_HANDLE)?;
    match (start.reached_ns(), end.reached_ns()) {
        (Some(from), Some(to)) => Ok(((i128::from(to) - i128::from(from)) as f64 / 1e6) as f32),
        _ => Err(Error::NOT_READY),
    }
}
