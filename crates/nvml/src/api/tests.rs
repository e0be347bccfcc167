//! The library as a program sees it: exported symbols, C types, return codes.

use crate::device::Device;
use crate::mode;
use crate::status::Failure;
use cuda_api::extension::DeviceDescription;
use locks::{Mutex, MutexGuard};
use std::ffi::{CStr, c_char, c_uint, c_void};

unsafe extern "C" {
    safe fn nvmlInit_v2() -> u32;
    safe fn nvmlShutdown() -> u32;
    safe fn nvmlErrorString(code: c_uint) -> *const c_char;
    safe fn nvmlDeviceGetCount_v2(count: &mut c_uint) -> u32;
    safe fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: &mut usize) -> u32;
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: &mut usize) -> u32;
    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, handle: &mut usize) -> u32;
    fn nvmlDeviceGetName(handle: usize, name: *mut c_char, length: c_uint) -> u32;
    fn nvmlDeviceGetUUID(handle: usize, name: *mut c_char, length: c_uint) -> u32;
    safe fn nvmlDeviceGetMemoryInfo(handle: usize, memory: &mut [u64; 3]) -> u32;
    safe fn nvmlDeviceGetMemoryInfo_v2(handle: usize, memory: &mut [u64; 5]) -> u32;
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        handle: usize,
        count: &mut c_uint,
        processes: *mut c_void,
    ) -> u32;
    safe fn nvmlDeviceGetClockInfo(handle: usize, kind: c_uint, mhz: &mut c_uint) -> u32;
    safe fn nvmlDeviceGetTemperature(handle: usize, sensor: c_uint, degrees: &mut c_uint) -> u32;
    safe fn nvmlDeviceGetComputeMode(handle: usize, mode: &mut c_uint) -> u32;
    safe fn nvmlDeviceSetComputeMode(handle: usize, mode: c_uint) -> u32;
    fn nvmlDeviceGetFieldValues(handle: usize, count: i32, values: *mut [u64; 5]) -> u32;
}

/// The library, initialised, about a device that no process uses; one test at a time.
struct Session(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Session {
    fn begin() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let guard = ONE.lock();
        mode::decide_for_test(|| {
            let mut description = DeviceDescription {
                name: [0; 64],
                pci_bus_id: [0; 32],
                shared_directory: [0; 256],
                uuid: [0xab; 16],
                memory_bytes: 1 << 30,
                compute_major: 8,
                compute_minor: 0,
                sms: 8,
                clock_khz: 1_500_000,
                memory_clock_khz: 2_000_000,
                memory_bus_bits: 128,
            };
            description.name[..4].copy_from_slice(b"test");
            description.pci_bus_id[..12].copy_from_slice(b"0000:3b:00.0");
            let first = Device::new(&description, 13_000);
            description.uuid = [0xcd; 16];
            description.pci_bus_id[..12].copy_from_slice(b"0000:3c:00.0");
            vec![first, Device::new(&description, 13_000)]
        });
        assert_eq!(nvmlInit_v2(), 0);
        Self(guard)
    }

    fn handle(&self) -> usize {
        let mut handle = 0;
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &mut handle), 0);
        handle
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        nvmlShutdown();
    }
}

#[test]
fn nothing_answers_but_between_init_and_shutdown() {
    let session = Session::begin();
    let mut count = 0;
    assert_eq!((nvmlDeviceGetCount_v2(&mut count), count), (0, 2));
    assert_eq!(nvmlInit_v2(), 0);
    assert_eq!(nvmlShutdown(), 0);
    assert_eq!(nvmlDeviceGetCount_v2(&mut count), 0);
    assert_eq!(nvmlShutdown(), 0);
    assert_eq!(nvmlDeviceGetCount_v2(&mut count), Failure::UNINITIALIZED.0);
    assert_eq!(nvmlShutdown(), Failure::UNINITIALIZED.0);
    // SAFETY: texts are C strings that stay.
    assert_eq!(unsafe { CStr::from_ptr(nvmlErrorString(1)) }, c"Uninitialized");
    assert_eq!(nvmlInit_v2(), 0);
    drop(session);
}

#[test]
fn the_device_is_found_by_all_its_names_and_by_no_other() {
    let session = Session::begin();
    let device = session.handle();
    let (mut handle, mut text) = (0, [0; 96]);
    let uuid = c"GPU-abababab-abab-abab-abab-abababababab";
    // SAFETY: for all calls of this test, texts are C strings, places are writable for their length.
    unsafe {
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(2, &mut handle), Failure::INVALID_ARGUMENT.0);
        assert_eq!(nvmlDeviceGetUUID(device, text.as_mut_ptr(), 96), 0);
        assert_eq!(CStr::from_ptr(text.as_ptr()), uuid);
        assert_eq!(nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &mut handle), 0);
        assert_eq!(handle, device);
        // The other one has names of its own.
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &mut handle), 0);
        assert_ne!(handle, device);
        assert_eq!(nvmlDeviceGetUUID(handle, text.as_mut_ptr(), 96), 0);
        assert_eq!(CStr::from_ptr(text.as_ptr()), c"GPU-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd");
        let second = nvmlDeviceGetHandleByPciBusId_v2(c"0000:3c:00.0".as_ptr(), &mut handle);
        assert_eq!((second, handle), (0, device + 1));
        let none = nvmlDeviceGetHandleByUUID(c"GPU-0".as_ptr(), &mut handle);
        assert_eq!(none, Failure::NOT_FOUND.0);
        let by_bus = nvmlDeviceGetHandleByPciBusId_v2(c"00000000:3B:00.0".as_ptr(), &mut handle);
        assert_eq!(by_bus, 0);
        let none = nvmlDeviceGetHandleByUUID(std::ptr::null(), &mut handle);
        assert_eq!(none, Failure::INVALID_ARGUMENT.0);
        assert_eq!(nvmlDeviceGetName(device, text.as_mut_ptr(), 5), 0);
        assert_eq!(CStr::from_ptr(text.as_ptr()), c"test");
        let short = nvmlDeviceGetName(device, text.as_mut_ptr(), 4);
        assert_eq!(short, Failure::INSUFFICIENT_SIZE.0);
        let foreign = nvmlDeviceGetName(device + 2, text.as_mut_ptr(), 96);
        assert_eq!(foreign, Failure::INVALID_ARGUMENT.0);
    }
}

#[test]
fn memory_is_answered_in_the_version_that_was_asked_for() {
    let session = Session::begin();
    let device = session.handle();
    let (mut v1, mut v2) = ([0; 3], [0; 5]);
    assert_eq!(nvmlDeviceGetMemoryInfo(device, &mut v1), 0);
    assert_eq!(v1, [1 << 30, 1 << 30, 0]);
    let unversioned = nvmlDeviceGetMemoryInfo_v2(device, &mut v2);
    assert_eq!(unversioned, Failure::ARGUMENT_VERSION_MISMATCH.0);
    v2[0] = 0x0200_0028;
    assert_eq!(nvmlDeviceGetMemoryInfo_v2(device, &mut v2), 0);
    assert_eq!(v2[1..], [1 << 30, 0, 1 << 30, 0]);
}

#[test]
fn what_is_not_there_says_so() {
    let session = Session::begin();
    let device = session.handle();
    let (mut number, mut fields) = (7, [[0; 5]; 2]);
    // SAFETY: for all calls of this test, the places are writable and as many as is said.
    unsafe {
        let degrees = nvmlDeviceGetTemperature(device, 0, &mut number);
        assert_eq!((degrees, number), (Failure::NOT_SUPPORTED.0, 7));
        assert_eq!((nvmlDeviceGetClockInfo(device, 2, &mut number), number), (0, 2000));
        let wrong = nvmlDeviceGetClockInfo(device, 9, &mut number);
        assert_eq!(wrong, Failure::INVALID_ARGUMENT.0);
        assert_eq!(nvmlDeviceGetFieldValues(device, 2, fields.as_mut_ptr()), 0);
        let status = |field: [u64; 5]| (field[3] >> 32) as u32;
        assert_eq!(fields.map(status), [Failure::NOT_SUPPORTED.0; 2]);
        let mut count = 0;
        let no_process =
            nvmlDeviceGetComputeRunningProcesses_v3(device, &mut count, std::ptr::null_mut());
        // A daemon of this user may have clients; without room they are only counted.
        assert_eq!(no_process, if count == 0 { 0 } else { Failure::INSUFFICIENT_SIZE.0 });
    }
}

#[test]
fn the_compute_mode_is_read_and_set_where_processes_meet() {
    const EXCLUSIVE_PROCESS: c_uint = 3;
    let session = Session::begin();
    let (handle, mut mode) = (session.handle(), 9);
    assert_eq!((nvmlDeviceGetComputeMode(handle, &mut mode), mode), (0, 0));
    // The test's device has no such place, and EXCLUSIVE_THREAD is a mode no more.
    for refused in [EXCLUSIVE_PROCESS, 1, 4] {
        assert_eq!(nvmlDeviceSetComputeMode(handle, refused), Failure::NOT_SUPPORTED.0);
    }
    let directory = std::env::temp_dir().join(format!("openmps-nvml-mode-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut description = DeviceDescription {
        name: [0; 64],
        pci_bus_id: [0; 32],
        shared_directory: [0; 256],
        uuid: [1; 16],
        memory_bytes: 1,
        compute_major: 8,
        compute_minor: 0,
        sms: 8,
        clock_khz: 1,
        memory_clock_khz: 1,
        memory_bus_bits: 1,
    };
    let path = directory.to_str().unwrap().as_bytes();
    for (to, from) in description.shared_directory.iter_mut().zip(path) {
        *to = *from as _;
    }
    let device = Device::new(&description, 13_000);
    let exclusive = provider::compute_mode::ComputeMode::ExclusiveProcess;
    device.set_compute_mode(exclusive).unwrap();
    assert_eq!(device.compute_mode(), exclusive);
    std::fs::remove_dir_all(&directory).unwrap();
}
