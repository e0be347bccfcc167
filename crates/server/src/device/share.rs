//! One session's share of the device: its tenant, and the count of what it has made.

use super::safe_calls::{DEFAULT_STREAM, Live, SafeExtension};
use super::sms::green_contexts::GreenContexts;
use super::sync::context_sync::Listed;
use super::time::submission_time::SubmissionTime;
use super::{ContextCall, Device, SessionInFlight};
use cuda_api::extension::{DeviceActivity, KernelUsage, PlaceManaged, TenantUsage, TraceRecord};
use cuda_api::{CUresult, CUstream, CudaError};
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a wait for a fill asks again and again, and the pauses between two looks after that.
const WAIT_SPIN: Duration = Duration::from_micros(50);
const WAIT_PAUSE_MIN: Duration = Duration::from_micros(20);
const WAIT_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Longest text of a fault that is kept, bytes: a line of the log.
const FAULT_TEXT_BYTES_MAX: usize = 1024;

macro_rules! kinds {
    ($($field:ident),*) => {
        /// How many objects of a share are alive at the provider, by kind.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Leftovers {
            $(#[doc = concat!("Objects of the kind: ", stringify!($field), ".")]
            pub $field: u32,)*
        }

        #[derive(Default)]
        pub(super) struct Counts {
            $(pub(super) $field: Cell<u32>,)*
        }

        impl Counts {
            fn read(&self) -> Leftovers {
                Leftovers { $($field: self.$field.get(),)* }
            }
        }

        impl fmt::Display for Leftovers {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                $(if self.$field != 0 {
                    write!(f, "{separator}{} {}", self.$field, stringify!($field))?;
                    separator = ", ";
                })*
                if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
            }
        }
    };
}

kinds!(
    streams,
    events,
    modules,
    chunks,
    mappings,
    reservations,
    registrations,
    graphs,
    arrays,
    objects
);

impl Leftovers {
    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A session's share of the device. It lives on the session's thread, as do the objects made
/// from it.
pub struct Share {
    device: Arc<Device>,
    name: String,
    /// What the session has in flight.
    in_flight: SessionInFlight,
    submission_time: SubmissionTime,
    tenant: Option<u64>,
    /// True if its client ends.
    ends: Box<dyn Fn() -> bool>,
    /// Nothing is in flight in the context for now, by this share's doing.
    quiet: Cell<bool>,
    /// Its client has ended before a fill had: what that writes stays.
    abandoned: Cell<bool>,
    pub(super) counts: Counts,
    pub(super) greens: GreenContexts,
}

impl Share {
    /// Makes the shared context current on this thread, and a tenant if the provider has
    /// tenants, which owns what this thread makes from now on.
    ///
    /// The tenant is called `name` in what the provider says of it. `ends` says whether its client ends:
    /// nothing is waited for on its behalf then.
    pub fn new(
        device: Arc<Device>,
        name: &str,
        ends: impl Fn() -> bool + 'static,
    ) -> Result<Self, CudaError> {
        device.make_current()?;
        let tenant = match device.extension() {
            None => None,
            Some(extension) => {
                let mut tenant = 0;
                let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
                extension.tenant_create(&mut tenant)?;
                extension.tenant_bind(tenant)?;
                extension.tenant_name(tenant, &name)?;
                Some(tenant)
            }
        };
        let greens = GreenContexts::default();
        let name = name.to_owned();
        let in_flight = device.sync().join(&name);
        let (ends, quiet, counts) = (Box::new(ends), Cell::new(false), Counts::default());
        // The address differs from session to session.
        let submission_time = SubmissionTime::new(Arc::as_ptr(&in_flight).addr() as u64);
        let abandoned = Cell::new(false);
        Ok(Self {
            device,
            name,
            in_flight,
            submission_time,
            tenant,
            ends,
            quiet,
            abandoned,
            counts,
            greens,
        })
    }

    /// What the session has in flight, as other sessions see it.
    pub fn in_flight(&self) -> &SessionInFlight {
        &self.in_flight
    }

    /// Time in the calls that submit its work.
    pub fn submission_time(&self) -> &SubmissionTime {
        &self.submission_time
    }

    /// Makes a call that waits for the context, however long that takes. Where the provider has tenants it
    /// waits for nothing of others, and is made at once.
    pub(super) fn synchronising(
        &self,
        call: ContextCall,
        f: impl FnOnce() -> CUresult,
    ) -> CUresult {
        self.make(call, &|| false, f)
    }

    /// As [`Share::synchronising`], unless the client ends meanwhile: CUDA_ERROR_MPS_CLIENT_TERMINATED.
    pub(super) fn unless_it_ends<R>(
        &self,
        call: ContextCall,
        f: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        self.make(call, &*self.ends, f)
    }

    /// Makes calls that wait for the context in `f`, all in one quiescent point, unless the client ends
    /// before there is one: CUDA_ERROR_MPS_CLIENT_TERMINATED.
    pub fn while_quiet(&self, call: ContextCall, f: impl FnOnce()) -> CUresult {
        self.unless_it_ends(call, || {
            self.quiet.set(true);
            f();
            self.quiet.set(false);
            Ok(())
        })
    }

    /// Makes calls that wait for the context in `f` if nothing is in flight now; false if something is, or
    /// another client makes such a call.
    pub fn if_quiet(&self, call: ContextCall, f: impl FnOnce()) -> bool {
        let f = || {
            self.quiet.set(true);
            f();
            self.quiet.set(false);
        };
        if self.is_tenant() {
            f();
            return true;
        }
        self.device.if_quiet(call, f).is_some()
    }

    fn make<R>(
        &self,
        call: ContextCall,
        ends: &dyn Fn() -> bool,
        f: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        if self.is_tenant() || self.quiet.get() {
            return f();
        }
        self.device.synchronising(call, (&self.name, Some(&self.in_flight)), ends, f)
    }

    /// True if the client ends. From the first time on that this is asked, what it does is listed as a wait
    /// for `call`, as long as `listed` lives.
    pub(super) fn ends_while_it_waits<'a>(
        &'a self,
        call: ContextCall,
        listed: &mut Option<Listed<'a>>,
    ) -> bool {
        let list = || self.device.sync().list(call, &self.name, Some(&self.in_flight));
        listed.get_or_insert_with(list);
        (self.ends)()
    }

    /// True if the client has ended before a fill of its new memory had.
    pub fn has_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Waits for a stream in which nothing is but what ends, as copies and fills do. The thread does not wait
    /// within the provider, where work of others may keep it.
    ///
    /// # Errors
    /// CUDA_ERROR_MPS_CLIENT_TERMINATED if the client ends before: the stream still has its work then.
    pub(super) fn wait_for(&self, stream: Live<'_, CUstream>) -> CUresult {
        let mut pause = WAIT_PAUSE_MIN;
        let begun = Instant::now();
        loop {
            match self.device.calls().cuStreamQuery(stream) {
                Err(CudaError::NOT_READY) => {}
                done => return done,
            }
            if (self.ends)() {
                self.abandoned.set(true);
                return Err(CudaError::MPS_CLIENT_TERMINATED);
            }
            if begun.elapsed() < WAIT_SPIN {
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(WAIT_PAUSE_MAX);
        }
    }

    /// Unloads shared code that no client uses but for the last so many bytes of images.
    pub fn unload_unused(&self, bytes_max: u64) -> CUresult {
        if self.device.code_cache().unused_bytes() <= bytes_max {
            return Ok(());
        }
        self.while_quiet(ContextCall::UnloadModule, || self.unload_all_unused(bytes_max))
    }

    /// As [`Share::unload_unused`], if nothing is in flight now.
    pub fn unload_unused_if_quiet(&self, bytes_max: u64) {
        if self.device.code_cache().unused_bytes() > bytes_max {
            self.if_quiet(ContextCall::UnloadModule, || self.unload_all_unused(bytes_max));
        }
    }

    fn unload_all_unused(&self, bytes_max: u64) {
        for module in self.device.code_cache().take_unused(bytes_max) {
            let _ = self.device.unload_shared(module);
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its number at a provider that has tenants.
    pub fn tenant(&self) -> Option<u64> {
        self.tenant
    }

    /// Where the provider has tenants: its functions for them, and the share's number.
    fn at_provider(&self) -> Option<(SafeExtension, u64)> {
        self.device.extension().zip(self.tenant)
    }

    /// True if a fault of this share harms no other share.
    pub fn is_tenant(&self) -> bool {
        self.tenant.is_some()
    }

    /// Tells a provider that looks for mistakes what became of memory that the client deals out by
    /// itself ([`memory_note`](cuda_api::extension::memory_note)). CUDA_ERROR_NOT_SUPPORTED if it
    /// does not look.
    pub fn note_memory(&self, address: u64, bytes: u64, note: u32) -> CUresult {
        let (extension, tenant) = self.at_provider().ok_or(CudaError::NOT_SUPPORTED)?;
        extension.tenant_memory(tenant, address, bytes, note)
    }

    /// The tenant's sticky error. Success where there are no tenants.
    pub fn tenant_error(&self) -> CUresult {
        self.at_provider().map_or(Ok(()), |(extension, tenant)| extension.tenant_error(tenant))
    }

    /// What the provider says of the tenant's fault; empty if it says nothing.
    pub fn tenant_fault(&self) -> String {
        let Some((extension, tenant)) = self.at_provider() else { return String::new() };
        let mut text = [0u8; FAULT_TEXT_BYTES_MAX];
        if extension.tenant_fault(tenant, &mut text).is_ok() {
            super::text(&text)
        } else {
            String::new()
        }
    }

    /// Has a provider without tenants write what kernels have printed so far to its standard output,
    /// as drivers do when a stream is waited for: the default stream, in which nothing is ever left.
    pub fn flush_printf(&self) -> CUresult {
        self.device.calls().cuStreamSynchronize(DEFAULT_STREAM)
    }

    /// Takes what the share's kernels have printed, or what their failed assertions say (one of
    /// [`standard`](cuda_api::extension::standard)), up to the buffer's length; the rest stays for
    /// the next call. Nothing where there are no tenants ([`Share::flush_printf`]).
    pub fn take_printf(&self, standard: u32, buffer: &mut [u8]) -> Result<usize, CudaError> {
        let Some((extension, tenant)) = self.at_provider() else { return Ok(0) };
        let mut written = 0;
        extension.tenant_printf(tenant, standard, buffer, &mut written)?;
        Ok(written.min(buffer.len()))
    }

    /// Lets `place` say where managed variables of this share's modules lie, if the provider can.
    ///
    /// # Safety
    /// `data` is good for `place` until another function is given, or none.
    pub(super) unsafe fn place_managed(
        &self,
        place: Option<PlaceManaged>,
        data: *mut c_void,
    ) -> CUresult {
        let Some((extension, tenant)) = self.at_provider() else { return Ok(()) };
        // SAFETY: the caller vouches for the function and its data.
        unsafe { (extension.0.tenant_place_managed)(tenant, place, data) }
    }

    /// Says where variables of the modules lie that this share loads next: an address and `how`, one of
    /// [`variable_place`](cuda_api::extension::variable_place). Answers how many bytes the variables of
    /// the last one need that was measured. Only for a provider with tenants.
    pub fn place_variables(
        &self,
        (address, bytes): (u64, u64),
        how: u32,
    ) -> Result<u64, CudaError> {
        let (extension, tenant) = self.at_provider().ok_or(CudaError::NOT_SUPPORTED)?;
        let mut needed = 0;
        extension.tenant_place_variables(tenant, address, bytes, how, &mut needed)?;
        Ok(needed)
    }

    /// Ends everything of the share that runs or waits, if the provider can. Returns whether it
    /// did: else what runs has to be waited for.
    pub fn end_work(&self) -> bool {
        self.at_provider().is_some_and(|(extension, tenant)| extension.tenant_end(tenant).is_ok())
    }

    /// Does work of the share in this thread, if the provider lets it be done so; true if it did
    /// some. Short kernels then cost no switch of threads. A fraction of a millisecond, a block
    /// of a kernel up to one.
    pub fn work(&self) -> bool {
        let Some((extension, tenant)) = self.at_provider() else { return false };
        let mut worked = 0;
        extension.tenant_work(tenant, &mut worked).is_ok() && worked != 0
    }

    /// Device memory that the provider has mapped for the share, bytes, if it counts that.
    pub fn mapped_bytes(&self) -> Option<u64> {
        self.device.usage_of(self.tenant?).map(|usage| usage.memory_bytes)
    }

    /// Device memory of the variables of a module that was just loaded, bytes: what has been mapped
    /// since there were `before`, if the provider counts, else what its image says.
    pub fn variable_bytes(&self, before: Option<u64>, image_says: u64) -> u64 {
        match (before, self.mapped_bytes()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => image_says,
        }
    }

    /// Has the provider record the share's work, or not any more.
    pub fn set_trace(&self, on: bool) -> CUresult {
        let (extension, tenant) = self.at_provider().ok_or(CudaError::NOT_SUPPORTED)?;
        extension.tenant_trace(tenant, u32::from(on))
    }

    /// Takes at most so many records of the share's work, oldest first.
    pub fn take_trace(&self, most: usize) -> Vec<TraceRecord> {
        let Some((extension, tenant)) = self.at_provider() else { return Vec::new() };
        let mut records = vec![TraceRecord::default(); most];
        let (mut written, mut lost) = (0, 0);
        let answer = extension.tenant_trace_take(tenant, &mut records, &mut written, &mut lost);
        records.truncate(if answer.is_ok() { written } else { 0 });
        records
    }

    /// What the share has at the provider at present.
    pub fn leftovers(&self) -> Leftovers {
        self.counts.read()
    }
}

impl Device {
    /// What the provider did for a tenant so far; `None` if it does not count, or the tenant has
    /// ended. May be asked from any thread.
    pub fn usage_of(&self, tenant: u64) -> Option<TenantUsage> {
        let mut usage = TenantUsage::default();
        self.extension()?.tenant_usage(tenant, &mut usage).ok()?;
        Some(usage)
    }

    /// What the provider has counted of a tenant's kernels; nothing if it does not count. May be
    /// asked from any thread.
    pub fn kernels_of(&self, tenant: u64) -> Vec<KernelUsage> {
        let Some(extension) = self.extension() else { return Vec::new() };
        let mut count = 0;
        // A capacity of 0 wants no rows, but their number.
        if extension.tenant_kernels(tenant, &mut [], &mut count).is_err() {
            return Vec::new();
        }
        let mut rows = vec![KernelUsage::default(); count];
        if rows.is_empty() {
            return rows;
        }
        let answer = extension.tenant_kernels(tenant, &mut rows, &mut count);
        rows.truncate(if answer.is_ok() { count } else { 0 });
        rows
    }

    /// What the provider has counted of the device; `None` if it does not count. May be asked from any
    /// thread.
    pub fn activity(&self) -> Option<DeviceActivity> {
        let mut activity = DeviceActivity::default();
        self.extension()?.device_activity(self.ordinal(), &mut activity).ok()?;
        Some(activity)
    }

    /// Ends everything of a tenant that runs or waits, as [`Share::end_work`] does, for a session
    /// that waits within the provider. May be called from any thread; a tenant that is gone
    /// already is nothing to end.
    pub fn end_tenant(&self, tenant: u64) {
        if let Some(extension) = self.extension() {
            let _ = extension.tenant_end(tenant);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // All streams are gone: each of them keeps the share.
        self.greens.clear();
        self.device.green_contexts.trim();
        self.device.sync().leave(&self.in_flight);
        if let Some((extension, _)) = self.at_provider() {
            // 0 is the tenant of threads without one of their own. The thread ends, so the answer
            // changes nothing.
            let _ = extension.tenant_bind(0);
        }
    }
}

/// Counts an object that was made.
pub(super) fn made(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

/// Takes an object off its count if the provider says that it is gone; else it stays counted,
/// and the session's end reports it.
pub(super) fn gone(count: &Cell<u32>, result: CUresult) {
    if result.is_ok() {
        count.set(count.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_say_what_is_left() {
        assert_eq!(Leftovers::default().to_string(), "nothing");
        let some = Leftovers { streams: 2, chunks: 1, ..Leftovers::default() };
        assert_eq!(some.to_string(), "2 streams, 1 chunks");
        assert!(!some.is_empty());
    }
}
