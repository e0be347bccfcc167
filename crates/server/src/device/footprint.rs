//! Footprint: the device memory that this process holds, as NVIDIA's management library says.
//!
//! The driver API has no such number: a context that is made takes memory that no call reports. The
//! library is loaded when it is asked for, and again unloaded.

use super::library::Library;
use cuda_api::CUuuid;
use std::ffi::{CString, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// Processes on a device that it is shown; more are not looked through.
const PROCESSES_MAX: usize = 1024;
/// What the library says where it cannot know a number.
const UNKNOWN: u64 = u64::MAX;

/// `nvmlProcessInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessInfo {
    pid: c_uint,
    used_bytes: u64,
    instance: c_uint,
    compute_instance: c_uint,
}

const _: () = assert!(size_of::<ProcessInfo>() == 24);

type Plain = unsafe extern "C" fn() -> c_uint;
type ByUuid = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_uint;
type Processes = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut ProcessInfo) -> c_uint;

/// The device memory of this process on a device, bytes; `None` if it is not known.
pub fn own_bytes(device: CUuuid) -> Option<u64> {
    let path = provider::find_vendor_nvml().ok()?;
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the library's initialisers are NVIDIA's.
    let library = unsafe { Library::load(path) }.ok()?;
    let [begin, end] = [c"nvmlInit_v2", c"nvmlShutdown"].map(|name| library.find(name).ok());
    let by_uuid = library.find(c"nvmlDeviceGetHandleByUUID").ok()?;
    let processes = library.find(c"nvmlDeviceGetComputeRunningProcesses_v3").ok()?;
    // SAFETY: the functions have these signatures in `nvml.h`, of every version that has their names.
    let (begin, end, by_uuid, processes) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Plain>(begin?),
            std::mem::transmute::<*mut c_void, Plain>(end?),
            std::mem::transmute::<*mut c_void, ByUuid>(by_uuid),
            std::mem::transmute::<*mut c_void, Processes>(processes),
        )
    };
    let uuid = CString::new(device.to_string()).ok()?;
    let mut infos = vec![ProcessInfo::default(); PROCESSES_MAX];
    let (mut handle, mut count) = (ptr::null_mut(), PROCESSES_MAX as c_uint);
    // SAFETY: the library is open; the locals are written, the list of at most its length.
    let answer = unsafe {
        if begin() != 0 {
            return None;
        }
        let found = by_uuid(uuid.as_ptr(), &mut handle);
        let answer = match found {
            0 => processes(handle, &mut count, infos.as_mut_ptr()),
            other => other,
        };
        end();
        answer
    };
    infos.truncate(count as usize);
    (answer == 0).then(|| bytes_of(&infos, std::process::id()))?
}

/// What of a list is a process's: it may be there once for each part of a device.
fn bytes_of(infos: &[ProcessInfo], pid: u32) -> Option<u64> {
    let its = infos.iter().filter(|info| info.pid == pid && info.used_bytes != UNKNOWN);
    its.map(|info| info.used_bytes).reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_what_is_said_of_it() {
        let info = |pid, used_bytes| ProcessInfo { pid, used_bytes, ..ProcessInfo::default() };
        let infos = [info(7, 500), info(8, UNKNOWN), info(7, 20), info(9, 3)];
        assert_eq!(bytes_of(&infos, 7), Some(520));
        assert_eq!((bytes_of(&infos, 8), bytes_of(&infos, 6)), (None, None));
    }
}
