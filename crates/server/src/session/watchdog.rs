//! Watchdog: ends a client one of whose streams does not get on, if the daemon was told to.
//!
//! Behind what a busy stream has an event is recorded from time to time. If the device does not get
//! there within the limit, what was ahead of it took longer than that: the client gets
//! CUDA_ERROR_LAUNCH_TIMEOUT and its session ends, as `terminate_client` ends one.

use super::streams::Streams;
use super::{End, Session};
use crate::device::{Event, Share};
use cuda_api::{CudaError, environment::OPENMPS_KERNEL_TIMEOUT_S};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// An event behind what a stream had at that time.
pub struct Watch {
    event: Event,
    since: Instant,
}

/// How long what a stream has may take, if there is a limit.
pub fn limit() -> Option<Duration> {
    static LIMIT: OnceLock<Option<Duration>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::env::var(OPENMPS_KERNEL_TIMEOUT_S).ok()?;
        let seconds: u64 = text.trim().parse().ok()?;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    })
}

impl Streams {
    /// True if some stream has not got past what it had `limit` ago.
    fn is_overdue(&mut self, share: &Rc<Share>, limit: Duration) -> Result<bool, CudaError> {
        let mut outcome = Ok(false);
        self.busy_slots(|slot| {
            let mut look = || match &slot.watch {
                Some(watch) if !watch.event.is_done()? => Ok(watch.since.elapsed() >= limit),
                _ => {
                    let event = match slot.watch.take() {
                        Some(watch) => watch.event,
                        None => Event::for_order(share)?,
                    };
                    slot.stream.record(&event)?;
                    slot.watch = Some(Watch { event, since: Instant::now() });
                    Ok(false)
                }
            };
            match (look(), &outcome) {
                (Ok(true), Ok(_)) => outcome = Ok(true),
                (Err(error), Ok(_)) => outcome = Err(error),
                _ => {}
            }
        });
        outcome
    }
}

impl Session {
    /// Ends the session if work of its client takes longer than it may.
    pub(super) fn watch(&mut self) {
        let Some(limit) = limit() else { return };
        match self.streams.is_overdue(&self.share, limit) {
            Ok(false) => {}
            Ok(true) => {
                let (name, seconds) = (self.link.name(), limit.as_secs());
                self.common.log.line(format!(
                    "Client {name} has work that takes longer than {seconds} s: it is terminated"
                ));
                self.region.set_sticky_error(CudaError::LAUNCH_TIMEOUT);
                self.link.end(End::Terminated);
            }
            Err(error) => {
                self.note(error);
            }
        }
    }
}
