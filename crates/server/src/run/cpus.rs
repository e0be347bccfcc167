//! CPU affinity of a server: the CPUs that are said, those near the device, or the daemon's.
//!
//! Threads inherit it, so it is set before there are any: a list before the provider is loaded, nearness
//! once the device is known. A set that the daemon was given (taskset, a container's) is never widened.

use crate::log::Log;
use cuda_api::environment::OPENMPS_CPUS;
use cuda_api::settings::{Cpus, parse_cpus};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// What the environment asks for; a mistake is said and counts as nothing.
fn wanted(log: &Log) -> Cpus {
    let text = std::env::var(OPENMPS_CPUS).ok().filter(|text| !text.trim().is_empty());
    let Some(text) = text else { return Cpus::Near };
    parse_cpus(&text).unwrap_or_else(|error| {
        log.line(format!("{OPENMPS_CPUS} is not taken: {error}"));
        Cpus::Near
    })
}

/// Before the provider is loaded: a list that is said.
pub(super) fn keep_to_list(log: &Log) {
    if let Cpus::List(cpus) = wanted(log) {
        take(log, &cpus, "as they are set");
    }
}

/// Once the device is known: the CPUs near it, unless something else is said. `pci_bus_id` is its
/// address.
pub(super) fn keep_near(log: &Log, pci_bus_id: &str) {
    let path = format!("/sys/bus/pci/devices/{}/local_cpulist", pci_bus_id.to_ascii_lowercase());
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let (Cpus::Near, Ok(Cpus::List(local))) = (wanted(log), parse_cpus(text.trim())) else {
        return;
    };
    if let Some(cpus) = get().ok().and_then(|own| near(&own, &local)) {
        take(log, &cpus, "which are near the device");
    }
}

/// Those of a process's CPUs that are near, if that is fewer and not none.
fn near(own: &[u32], local: &[u32]) -> Option<Vec<u32>> {
    let both: Vec<u32> = own.iter().copied().filter(|cpu| local.contains(cpu)).collect();
    (!both.is_empty() && both.len() < own.len()).then_some(both)
}

fn take(log: &Log, cpus: &[u32], why: &str) {
    let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match set(cpus) {
        Ok(()) => log.line(format!("CPUs are {list}, {why}")),
        Err(error) => log.line(format!("CPUs {list} cannot be had: {error}")),
    }
}

fn set(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU as u32) {
        set.set(*cpu as usize);
    }
    // Of this thread.
    Ok(sched_setaffinity(None, &set)?)
}

fn get() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU as u32).filter(|cpu| set.is_set(*cpu as usize)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_cpus_are_some_of_the_process_s_own() {
        assert_eq!(near(&[0, 1, 2, 3], &[2, 3, 4]), Some(vec![2, 3]));
        assert_eq!(near(&[2, 3], &[2, 3, 4]), None, "it is near already");
        assert_eq!(near(&[0, 1], &[2, 3]), None, "it was put elsewhere on purpose");
    }

    #[test]
    fn threads_inherit_the_set() {
        let own = get().unwrap();
        let first = vec![own[0]];
        let seen = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                set(&first).unwrap();
                std::thread::scope(|inner| inner.spawn(|| get().unwrap()).join().unwrap())
            });
            thread.join().unwrap()
        });
        assert_eq!((seen, get().unwrap()), (first, own));
        assert!(set(&[]).is_err());
    }
}
