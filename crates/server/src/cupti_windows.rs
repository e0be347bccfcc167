//! CUPTI windows: the operator's switch, and the thread that has launches timed in windows.
//!
//! Each record goes to the counters of the client whose stream it names.

use crate::after_start::measure_event_cost;
use crate::common::Common;
use cuda_api::settings::Counting;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a window is: several steps of a network.
const WINDOW: Duration = Duration::from_millis(20);
/// From a window's end to the reading of its records: a program has work for some ten milliseconds
/// at the device, and what has not ended by then is not counted.
const SETTLE: Duration = Duration::from_millis(200);
/// From then to the next window's beginning.
const PAUSE: Duration = Duration::from_millis(780);
/// How soon the thread sees that it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Counts something else from now on. Sessions see it when they look.
///
/// # Errors
/// Why there is no CUPTI; all stays as it was.
pub fn set(common: &Arc<Common>, counting: Counting) -> Result<(), String> {
    let counters = &common.counters;
    if counting == Counting::Cupti {
        if counters.cupti.get().is_none() {
            // Only the main thread sets.
            let _ = counters.cupti.set(common.device.cupti()?);
        }
        counters.counting.store(counting as u8, Ordering::Relaxed);
        if !counters.has_reader.swap(true, Ordering::Relaxed) {
            let of_thread = common.clone();
            let thread = std::thread::Builder::new().name("cupti".into());
            let thread = thread.spawn(move || read(&of_thread));
            common.at_end(thread.map_err(|error| error.to_string())?);
        }
    }
    counters.counting.store(counting as u8, Ordering::Relaxed);
    measure_event_cost(common);
    common.log.line(format!("Counters: {}", counting.name()));
    Ok(())
}

/// Opens windows until something else is counted, or the server ends.
fn read(common: &Arc<Common>) {
    let counters = &common.counters;
    let goes_on = || counters.counting() == Counting::Cupti && !common.is_ending();
    let Some(cupti) = counters.cupti.get() else { return };
    let _ = common.device.make_current();
    let (mut known, mut unknown, mut unfinished, mut broken) = (0u64, 0u64, 0u64, 0u64);
    let pause = |mut left: Duration| {
        while goes_on() && !left.is_zero() {
            std::thread::sleep(LOOK.min(left));
            left = left.saturating_sub(LOOK);
        }
    };
    while goes_on() {
        counters.streams().retain(|_, client| client.strong_count() > 0);
        let since = Instant::now();
        let window = cupti.begin().and_then(|()| {
            std::thread::sleep(WINDOW);
            cupti.end()?;
            pause(SETTLE);
            cupti.read(since.elapsed())
        });
        match window {
            Ok(window) => {
                unfinished += window.unfinished;
                broken += window.broken;
                for record in &window.ended {
                    match counters.take(record) {
                        true => known += 1,
                        false => unknown += 1,
                    }
                }
            }
            Err(error) => {
                common.log.line(format!("CUPTI's records end: it answered {error}"));
                counters.counting.store(Counting::Sampled as u8, Ordering::Relaxed);
                break;
            }
        }
        pause(PAUSE);
    }
    common.log.line(format!(
        "CUPTI timed {known} launches, and {unknown} of kernels or streams that are not counted; \
         {unfinished} had not ended when they were asked for, and {broken} had times that cannot be"
    ));
    counters.has_reader.store(false, Ordering::Relaxed);
}
