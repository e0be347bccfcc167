//! Watchdog: what becomes of a client one of whose streams makes no progress, if the daemon was started so.
//!
//! Behind what a busy stream has an event is recorded from time to time. If the device does not get
//! there within the limit, what was ahead of it took longer than that: the main thread hears of it, and ends the
//! client whose work it was (`run/stalled.rs`). If there are so few kernels ahead of it that one of them must
//! have run for long, the main thread hears of that too: the client can be put into a server of its own.
//!
//! What was ahead of an event is known from the session's own account, and whether the device is there from the
//! provider: nothing that the client can write says whose work it is.

use crate::common::Common;
use crate::device::{Event, Share};
use crate::session::link::{SessionLink, Stall};
use crate::session::stream::slot::{StreamSlot, Watch};
use crate::session::stream::table::Streams;
use cuda_api::CudaError;
use cuda_api::environment::{OPENMPS_ISOLATE_LONG, OPENMPS_KERNEL_TIMEOUT_S};
use recovery::Evidence as InFlightEvidence;
use scheduling::units::duration_ns;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A client whose work has made no progress for this part of the limit may be what another one waits for.
const SLOW_PART: u32 = 8;

/// How long what a stream has may take, if there is a limit.
pub fn limit() -> Option<Duration> {
    static LIMIT: OnceLock<Option<Duration>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::env::var(OPENMPS_KERNEL_TIMEOUT_S).ok()?;
        let seconds: u64 = text.trim().parse().ok()?;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    })
}

/// What a kernel runs for that runs for long, if such a client is to have a server of its own.
pub fn long() -> Option<Duration> {
    static LONG: OnceLock<Option<Duration>> = OnceLock::new();
    *LONG.get_or_init(|| {
        let ns = duration_ns(std::env::var(OPENMPS_ISOLATE_LONG).ok()?.trim())?;
        (ns > 0).then(|| Duration::from_nanos(ns))
    })
}

/// For how long streams have made no progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stalled {
    /// The longest of them.
    stream: Duration,
    /// What a kernel must have taken at least, if that is long and the main thread has not heard it yet.
    kernel: Option<Duration>,
}

impl StreamSlot {
    /// Looks how the stream makes progress; records an event behind what it has now if there is none.
    fn watch(&mut self, share: &Rc<Share>, long: Option<Duration>) -> Result<Stalled, CudaError> {
        if let Some(watch) = &mut self.watch
            && !watch.event.is_done()?
        {
            let stream = watch.since.elapsed();
            let kernel = match u32::try_from(watch.kernels) {
                Ok(kernels @ 1..) => Some(stream / kernels),
                _ => None,
            };
            let kernel =
                kernel.filter(|kernel| !watch.is_reported && long.is_some_and(|l| *kernel >= l));
            watch.is_reported |= kernel.is_some();
            return Ok(Stalled { stream, kernel });
        }
        let event = match self.watch.take() {
            Some(watch) => watch.event,
            None => Event::for_order(share)?,
        };
        self.stream.record(&event)?;
        let submitted = self.submitted_kernels;
        let kernels =
            submitted.wrapping_sub(std::mem::replace(&mut self.watched_kernels, submitted));
        let launched_before = self.code_in_flight.watch();
        let since = Instant::now();
        self.watch = Some(Watch { event, since, kernels, launched_before, is_reported: false });
        Ok(Stalled::default())
    }

    /// How often the rarest code that is not known to be done had been launched before, by the events that
    /// were recorded here; `None` if there is none.
    fn watched(&self) -> Option<u32> {
        let ahead = self.watch.as_ref().and_then(|watch| watch.launched_before);
        [ahead, self.code_in_flight.unwatched()].into_iter().flatten().min()
    }
}

impl Streams {
    /// For how long streams have not got past what they had when they were looked at before.
    fn stalled(&mut self, share: &Rc<Share>, long: Option<Duration>) -> Result<Stalled, CudaError> {
        let mut outcome = Ok(Stalled::default());
        self.busy_slots(|slot| {
            let Ok(longest) = &mut outcome else { return };
            match slot.watch(share, long) {
                Ok(stalled) => {
                    longest.stream = longest.stream.max(stalled.stream);
                    longest.kernel = longest.kernel.max(stalled.kernel);
                }
                Err(error) => outcome = Err(error),
            }
        });
        outcome
    }

    /// The same of all streams.
    fn watched(&mut self) -> Option<u32> {
        let mut least = None;
        self.busy_slots(|slot| {
            least = [least, slot.watched()].into_iter().flatten().min();
        });
        least
    }
}

/// Notifies the main thread if work of the client makes no progress, or a kernel of it runs for long.
pub(in crate::session) fn watch(
    streams: &mut Streams,
    share: &Rc<Share>,
    link: &SessionLink,
    common: &Common,
) -> Result<(), CudaError> {
    // Tenants do not wait for each other's kernels.
    let long = long().filter(|_| !share.is_tenant());
    if limit().is_none() && long.is_none() {
        return Ok(());
    }
    let stalled = streams.stalled(share, long)?;
    if let Some(limit) = limit() {
        let is_slow = stalled.stream >= limit / SLOW_PART;
        let stall = is_slow.then(|| {
            let evidence = match streams.watched() {
                None => InFlightEvidence::Nothing,
                Some(launched_before) => InFlightEvidence::Kernels { launched_before },
            };
            Stall { waited: stalled.stream, evidence }
        });
        if link.set_stalled(stall) && is_slow {
            common.wake_main();
        }
    }
    if let Some(kernel) = stalled.kernel {
        link.set_long_kernel(kernel.as_millis() as u64);
        common.wake_main();
    }
    Ok(())
}
