//! The start of a server: environment, provider, context.

use super::Options;
use crate::common::{Common, Wakeups};
use crate::cupti_windows;
use crate::device::{
    CallProgress, Device, DeviceError, Driver, HARDWARE_QUEUES, HELD_PERCENT_MAX, SyncReport,
};
use crate::log::Log;
use crate::printed::Printed;
use crate::warm::Warm;
use cuda_api::environment::{CUDA_VISIBLE_DEVICES, OPENMPS_HOLD_MAX};
use cuda_api::settings::{Counting, LaunchBatching};
use scheduling::units::duration_ns;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Sets what NVIDIA's driver reads from the environment.
pub(super) fn prepare_environment(log: &Log) {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count());
    if threads != 1 {
        let text = "The driver's environment is left as it is: the process has";
        return log.line(format!("{text} {threads} threads"));
    }
    let (without_daemon, yes) = provider::WITHOUT_DAEMON;
    let queues = HARDWARE_QUEUES.to_string();
    for (name, value) in [("CUDA_DEVICE_MAX_CONNECTIONS", queues.as_str()), (without_daemon, yes)] {
        // SAFETY: as just counted, no other thread runs that could read the environment.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Loads the provider that the environment asks for; its file too. It stays loaded for good.
pub(super) fn load_provider() -> Result<(Driver, &'static Path), String> {
    let provider = provider::load().map_err(|error| error.to_string())?;
    let provider = Box::leak(Box::new(provider));
    Ok((Driver { table: provider.table(), extension: provider.extension() }, provider.path()))
}

/// Takes the standard output over if the provider would write there what clients' kernels print.
pub(super) fn take_over_output(driver: &Driver, log: &Log) -> Printed {
    if driver.extension.is_some() {
        return Printed::none();
    }
    Printed::of_standard_output().unwrap_or_else(|error| {
        log.line(format!("What kernels print goes to the server's output: {error}"));
        Printed::none()
    })
}

/// Why there is no device, with what of the environment may be the reason.
pub(super) fn why_no_device(error: &DeviceError) -> String {
    match provider::wants_a_device() {
        true => error.to_string(),
        false => format!("{error}, as {CUDA_VISIBLE_DEVICES} of the daemon names no device"),
    }
}

/// The bound on holds that a variable says: at least 1 ms.
fn hold_max_of(text: &str) -> Option<Duration> {
    let bound = Duration::from_nanos(duration_ns(text.trim())?);
    (bound >= Duration::from_millis(1)).then_some(bound)
}

/// Major version of NVIDIA's driver in the kernel, if there is one.
fn display_driver() -> Option<u32> {
    major_version(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// The first number of the first version in a text: of `580.159.04`, 580.
fn major_version(text: &str) -> Option<u32> {
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        word.contains('.') && parts.all(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.split_whitespace().find(is_version)?.split('.').next()?.parse().ok()
}

/// Makes the shared context.
pub(super) fn open(
    driver: Driver,
    printed: Printed,
    options: &Options,
) -> Result<(Arc<Common>, Wakeups), String> {
    let log = options.log.clone();
    let device = Device::open(driver, options.device).map_err(|error| why_no_device(&error))?;
    let (ordinal, info) = (device.ordinal(), device.info());
    super::cpus::keep_near(&log, &info.pci_bus_id);
    log.line(format!("Creating server context on device {ordinal} ({})", info.name));
    let version = env!("CARGO_PKG_VERSION");
    log.line(format!("CUDA MPS Server for Linux/Unix. Binary version: openmps {version}"));
    log.line(format!("CUDA version of the provider: {}", device.driver_version()));
    // The software GPU has no driver in the kernel, even if this machine has a GPU.
    if !device.has_tenants()
        && let Some(version) = display_driver()
    {
        log.line(format!("Display Driver version: {version}"));
    }
    let sync_log = log.clone();
    device.sync().report_to(move |report| sync_log.line(line_of(report)));
    if let Some(bound) = std::env::var(OPENMPS_HOLD_MAX).ok().and_then(|text| hold_max_of(&text)) {
        device.sync().set_hold_max(bound);
    }
    let warm = Warm::start(&device, &options.warm, &log);
    let of_provider = LaunchBatching::default_of(device.has_tenants());
    let launch_batching = options.launch_batching.unwrap_or(of_provider);
    // Mutexes are tried for a shorter time where few submissions are left.
    let mut oversubscription = options.oversubscription;
    if launch_batching == LaunchBatching::Off {
        oversubscription.notify = |_| {};
    }
    let common =
        Common::new(Arc::new(device), printed, warm, log, oversubscription, launch_batching);
    let (common, wakeups) = common.map_err(|error| error.to_string())?;
    if common.counters.counting() == Counting::Cupti
        && let Err(reason) = cupti_windows::set(&common, Counting::Cupti)
    {
        common.log.line(reason);
    }
    Ok((common, wakeups))
}

/// The log's line of a call that waits for the context.
fn line_of(report: &SyncReport) -> String {
    let SyncReport { call, client, waited, progress, others, stalled } = report;
    let (call, waited) = (call.text(), waited.as_millis());
    match progress {
        CallProgress::Made(took) => {
            let took = took.as_millis();
            let beside = match others.len() {
                0 => "no other client had".to_owned(),
                1 => format!("client {} had", others[0]),
                _ => format!("clients {} had", others.join(", ")),
            };
            format!(
                "Client {client}: {call} took {took} ms, while {beside} kernels in flight and no \
                 client could launch; it waited {waited} ms for a quiescent point"
            )
        }
        CallProgress::GivenUp => {
            format!(
                "Client {client}: {call} is given up after {waited} ms, because the client ends"
            )
        }
        CallProgress::Waits if stalled.is_empty() => {
            let others = others.join(", ");
            format!(
                "Client {client}: {call} waits since {waited} ms for a quiescent point of {others}"
            )
        }
        CallProgress::Waits => {
            let of = |(client, since): &(String, Duration)| {
                format!("{client}, which has made no progress for {} ms", since.as_millis())
            };
            let stalled: Vec<String> = stalled.iter().map(of).collect();
            format!(
                "Client {client}: {call} waits since {waited} ms for work of {}; the others are held back \
                 for at most {HELD_PERCENT_MAX} % of the time",
                stalled.join("; ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_on_holds_is_a_time() {
        assert_eq!(hold_max_of(" 2ms "), Some(Duration::from_millis(2)));
        assert_eq!(["", "2", "10us", "0"].map(hold_max_of), [None; 4]);
    }

    #[test]
    fn the_version_of_the_display_driver_is_found() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release \
                    Build  (dvs-builder@U22)  Tue Sep  9 2025\nGCC version:  gcc version 12.3.0\n";
        assert_eq!(major_version(open), Some(580));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13";
        assert_eq!(major_version(closed), Some(470));
        assert_eq!(major_version("NVRM version: . none"), None);
    }
}
