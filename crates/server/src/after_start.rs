//! Work after a server's start, each piece in a thread of its own: no client waits for it.

use crate::common::Common;
use crate::device::EventCost;
use cuda_api::CudaError;
use cuda_api::settings::Counting;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// From a server's start to a measurement: clients that come from another server come before.
const AFTER: Duration = Duration::from_secs(1);
/// So long the measurement of events' cost waits for clients that have work: times are upper bounds meanwhile.
const IDLE_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is measured again because other work was in the way.
const ATTEMPTS: u32 = 5;
/// How soon a thread sees that the server ends.
const LOOK: Duration = Duration::from_millis(20);

/// Finds out what device memory the process has and, if launches are timed, what events cost. A provider
/// with tenants has nothing of it.
pub fn measure(common: &Arc<Common>) {
    if common.device.has_tenants() {
        return;
    }
    measure_event_cost(common);
    shortly(common, "device memory", |common| match common.device.measure_start_bytes() {
        Some(bytes) => {
            let mib = bytes >> 20;
            common.log.line(format!("This process has {mib} MiB of device memory"));
        }
        None => common.log.line("NVML does not say what device memory this process has"),
    });
}

/// Measures what events cost, once, if launches are timed.
pub fn measure_event_cost(common: &Arc<Common>) {
    let off = common.counters.counting() == Counting::Off || common.device.has_tenants();
    if off || common.counters.measures.swap(true, Ordering::Relaxed) {
        return;
    }
    shortly(common, "event cost", |common| {
        let Common { device, log, .. } = &**common;
        for attempt in 1..=ATTEMPTS {
            // It loads a kernel, which holds up clients that have work: as a client's load does, if they
            // never have none.
            let since = Instant::now();
            while !device.sync().is_idle() && since.elapsed() < IDLE_PATIENCE {
                std::thread::sleep(LOOK);
                if common.is_ending() {
                    return;
                }
            }
            let measured = device.make_current().and_then(|()| {
                device.measure_event_cost(attempt == ATTEMPTS, || !common.is_ending())
            });
            match measured {
                Ok(true) => {
                    let EventCost { pair_ns, cost_ns } = device.event_cost().unwrap_or_default();
                    return log.line(format!(
                        "Device time by events: {cost_ns} ns of each are theirs ({pair_ns} ns around \
                         an empty kernel)"
                    ));
                }
                // Other work was in the way.
                Ok(false) => {}
                Err(CudaError::NOT_READY) if attempt < ATTEMPTS => {}
                Err(error) => {
                    device.take_events_for_free();
                    return log.line(format!("What events cost cannot be measured: {error}"));
                }
            }
        }
    });
}

/// Loads what clients of other servers load, for as long as this one has none.
pub fn load_ahead(common: &Arc<Common>) {
    if !common.warm.is_kept() {
        return;
    }
    let of_thread = common.clone();
    let follow = move || {
        let Common { device, log, warm, .. } = &*of_thread;
        match device.make_current() {
            Ok(()) => warm.follow(device, log, || of_thread.is_ending()),
            Err(error) => log.line(format!("This server does not load ahead: {error}")),
        }
    };
    match std::thread::Builder::new().name("warm list".into()).spawn(follow) {
        Ok(thread) => common.at_end(thread),
        Err(error) => common.log.line(format!("This server does not load ahead: {error}")),
    }
}

/// Makes green contexts before clients need them, where clients share a context.
pub fn make_green_contexts(common: &Arc<Common>) {
    if common.device.has_tenants() {
        return;
    }
    common.green_ahead.look_again();
    let of_thread = common.clone();
    let make = move || {
        let common = &*of_thread;
        let made = common.device.make_current().and_then(|()| keep_green_contexts_ready(common));
        if let Err(error) = made {
            common.log.line(format!("Green contexts are not made ahead: {error}"));
        }
    };
    match std::thread::Builder::new().name("green contexts".into()).spawn(make) {
        Ok(thread) => common.at_end(thread),
        Err(error) => common.log.line(format!("Green contexts are not made ahead: {error}")),
    }
}

/// Makes those that are wanted, until the server ends or the provider makes none.
fn keep_green_contexts_ready(common: &Common) -> Result<(), CudaError> {
    let Common { device, places, green_ahead, scheduler, .. } = common;
    let mut seen = 0;
    while !common.is_ending() {
        seen = green_ahead.wait(seen);
        let mut made = Vec::new();
        for sms in green_ahead.wanted(device, places, scheduler.floor_sms()) {
            match device.make_green_context_ahead(sms.clone()) {
                Ok(true) => made.push(format!("{} to {}", sms.start, sms.end - 1)),
                // SMs that the provider does not part so: the session says it that gets them.
                Ok(false) | Err(CudaError::INVALID_RESOURCE_CONFIGURATION) => {}
                Err(CudaError::NOT_READY) => {
                    // In the next quiescent point, if they are still wanted then.
                    green_ahead.look_again();
                    std::thread::sleep(LOOK);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !made.is_empty() {
            common.log.line(format!("Green contexts are made ahead: SMs {}", made.join(", ")));
        }
    }
    Ok(())
}

fn shortly(common: &Arc<Common>, name: &str, run: fn(&Arc<Common>)) {
    let of_thread = common.clone();
    let wait_and_run = move || {
        let mut left = AFTER;
        while !of_thread.is_ending() && !left.is_zero() {
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
        if !of_thread.is_ending() {
            run(&of_thread);
        }
    };
    match std::thread::Builder::new().name(name.to_owned()).spawn(wait_and_run) {
        Ok(thread) => common.at_end(thread),
        Err(error) => common.log.line(format!("{name} is not measured: {error}")),
    }
}
