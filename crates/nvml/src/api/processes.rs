//! Processes: which ones use the device, and how much. Three functions in three versions; graphics
//! has no process.

use super::{Handle, functions};
use crate::device::ProcessSample;
use crate::out::Out;
use crate::status::{Answer, Failure};
use std::ffi::c_uint;

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProcessV1 {
    pid: c_uint,
    memory_bytes: u64,
}

/// `nvmlProcessInfo_v2_t` and `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProcessV2 {
    pid: c_uint,
    memory_bytes: u64,
    /// All ones: no MIG.
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UtilizationSample {
    pid: c_uint,
    at_us: u64,
    /// Percent of the time.
    sm: c_uint,
    /// Not known of ordinary memory.
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

/// One of our rows as a version of the structure.
trait Process: Copy {
    fn new(pid: u32, memory_bytes: u64) -> Self;
}

impl Process for ProcessV1 {
    fn new(pid: u32, memory_bytes: u64) -> Self {
        Self { pid, memory_bytes }
    }
}

impl Process for ProcessV2 {
    fn new(pid: u32, memory_bytes: u64) -> Self {
        Self { pid, memory_bytes, gpu_instance: u32::MAX, compute_instance: u32::MAX }
    }
}

functions! {
    fn nvmlDeviceGetComputeRunningProcesses(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV1,
    ) {
        all(handle, count, processes)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        all(handle, count, processes)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        all(handle, count, processes)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV1,
    ) {
        clients(handle, count, processes)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        clients(handle, count, processes)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        clients(handle, count, processes)
    }

    fn nvmlDeviceGetProcessUtilization(
        handle: Handle, samples: *mut UtilizationSample, count: *mut c_uint, last_us: u64,
    ) {
        utilization(handle, samples, count, last_us)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV1,
    ) {
        no_process(handle, count, processes)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        no_process(handle, count, processes)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: Handle, count: *mut c_uint, processes: *mut ProcessV2,
    ) {
        no_process(handle, count, processes)
    }
}

/// Samples that are newer than the caller's last one.
fn utilization(
    handle: Handle,
    samples: Out<UtilizationSample>,
    count: Out<c_uint>,
    last_us: u64,
) -> Answer {
    let mut found = handle.device()?.process_samples();
    found.retain(|sample| sample.at_us > last_us);
    let room = count.get()? as usize;
    if found.is_empty() {
        return Err(Failure::NOT_FOUND);
    }
    count.set(found.len() as c_uint)?;
    if samples.is_null() || found.len() > room {
        return Err(Failure::INSUFFICIENT_SIZE);
    }
    for (index, sample) in found.into_iter().enumerate() {
        let ProcessSample { pid, at_us, percent: sm } = sample;
        let (memory, encoder, decoder) = (0, 0, 0);
        samples.set_at(index, UtilizationSample { pid, at_us, sm, memory, encoder, decoder })?;
    }
    Ok(())
}

/// All processes with memory on the device, with a daemon or without.
fn all<P: Process>(handle: Handle, count: Out<c_uint>, processes: Out<P>) -> Answer {
    let users = handle.device()?.users();
    list(users.clients.iter().chain(&users.alone), count, processes)
}

/// Those that share it through a daemon.
fn clients<P: Process>(handle: Handle, count: Out<c_uint>, processes: Out<P>) -> Answer {
    list(handle.device()?.users().clients.iter(), count, processes)
}

fn no_process<P: Process>(handle: Handle, count: Out<c_uint>, processes: Out<P>) -> Answer {
    handle.device()?;
    list([].iter(), count, processes)
}

/// Fills the caller's array, or says how long it would have to be.
fn list<'a, P: Process>(
    users: impl Iterator<Item = &'a crate::device::User>,
    count: Out<c_uint>,
    processes: Out<P>,
) -> Answer {
    let users: Vec<_> = users.collect();
    let room = count.get()? as usize;
    count.set(users.len() as c_uint)?;
    if users.len() > room {
        return Err(Failure::INSUFFICIENT_SIZE);
    }
    for (index, user) in users.iter().enumerate() {
        processes.set_at(index, P::new(user.pid, user.memory_bytes))?;
    }
    Ok(())
}
