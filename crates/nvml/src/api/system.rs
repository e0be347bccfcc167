//! Versions, processes' names, units, topology: what is asked of the system as a whole.

use super::{Handle, functions};
use crate::mode;
use crate::out::Out;
use crate::status::Failure;
use std::ffi::{c_char, c_int, c_uint, c_ulong};

/// Driver branch whose interfaces are presented; the rest of the version is this project's own.
const DRIVER_BRANCH: u32 = 580;
/// Interface of NVML that this is: that of the same branch.
const NVML_VERSION: &str = "13.580.0";
/// NVML_TOPOLOGY_INTERNAL: on one board.
const TOPOLOGY_INTERNAL: c_uint = 0;
/// NVML_TOPOLOGY_SYSTEM: nothing nearer is common to both.
const TOPOLOGY_SYSTEM: c_uint = 50;

functions! {
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let own = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR")];
        version.set_text(&format!("{DRIVER_BRANCH}.{}.{}", own[0], own[1]), length)
    }

    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) {
        version.set_text(NVML_VERSION, length)
    }

    fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) {
        version.set(mode::first()?.driver_version)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        version.set(mode::first()?.driver_version)
    }

    fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) {
        let path = format!("/proc/{pid}/cmdline");
        let words = std::fs::read(path).map_err(|_| Failure::NOT_FOUND)?;
        let program = words.split(|byte| *byte == 0).next().unwrap_or_default();
        let text: String = String::from_utf8_lossy(program).into_owned();
        // Cut at a character, as long as fits.
        let room = (length as usize).saturating_sub(1);
        let end = (0..=text.len().min(room)).rev().find(|end| text.is_char_boundary(*end));
        name.set_text(&text[..end.unwrap_or(0)], length)
    }

    fn nvmlUnitGetCount(count: *mut c_uint) {
        count.set(0)
    }

    fn nvmlSystemGetTopologyGpuSet(
        _cpu: c_uint, count: *mut c_uint, handles: *mut Handle,
    ) {
        let (room, all) = (count.get()? as usize, mode::devices()?.len());
        count.set(all as c_uint)?;
        if handles.is_null() {
            return Ok(());
        }
        (0..all.min(room)).try_for_each(|index| handles.set_at(index, Handle::of(index)))
    }

    fn nvmlDeviceGetTopologyCommonAncestor(one: Handle, other: Handle, path: *mut c_uint) {
        let same = one.index()? == other.index()?;
        path.set(if same { TOPOLOGY_INTERNAL } else { TOPOLOGY_SYSTEM })
    }

    fn nvmlDeviceGetTopologyNearestGpus(
        handle: Handle, _level: c_uint, count: *mut c_uint, _handles: *mut Handle,
    ) {
        handle.device()?;
        count.set(0)
    }

    fn nvmlDeviceOnSameBoard(one: Handle, other: Handle, same: *mut c_int) {
        same.set((one.index()? == other.index()?).into())
    }

    fn nvmlDeviceGetCpuAffinity(handle: Handle, words: c_uint, set: *mut c_ulong) {
        handle.device()?;
        affinity(words, set)
    }

    fn nvmlDeviceGetCpuAffinityWithinScope(
        handle: Handle, words: c_uint, set: *mut c_ulong, _scope: c_uint,
    ) {
        handle.device()?;
        affinity(words, set)
    }
}

/// All CPUs of the machine: the software GPU is as near to one as to another.
fn affinity(words: c_uint, set: Out<c_ulong>) -> crate::status::Answer {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    for word in 0..words as usize {
        let bits = cpus.saturating_sub(word * 64).min(64);
        set.set_at(word, if bits == 64 { c_ulong::MAX } else { (1 << bits) - 1 })?;
    }
    Ok(())
}
