//! The driver and its devices: what can be asked without a context.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem, ptr,
};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

use crate::{
    Check,
    support::{Outcome, Stop, call, equal, holds, refused, status, succeeded},
};

/// To be run before `cuInit`.
pub(crate) const BEFORE_INIT: &[Check<()>] = &[("driver.before_init", before_init)];

pub(crate) const CHECKS: &[Check<()>] = &[
    ("driver.init_again", init_again),
    ("driver.version", version),
    ("driver.error_names", error_names),
    ("driver.proc_address", proc_address),
    ("driver.proc_address_versions", proc_address_versions),
    ("driver.export_table", export_table),
    ("device.count_and_ordinals", ordinals),
    ("device.name", name),
    ("device.uuid", uuid),
    ("device.memory", memory),
    ("device.pci_bus_id", pci_bus_id),
    ("device.attributes", attributes),
    ("device.attribute_list", attribute_list),
    ("device.loading_mode", loading_mode),
];

/// The newest API that this program asks for by number.
const VERSION: c_int = 12_080;

fn before_init(_: &()) -> Outcome {
    let mut number = 0;
    refused!(cuDeviceGetCount(&mut number), CUDA_ERROR_NOT_INITIALIZED)?;
    let mut context = ptr::null_mut();
    refused!(cuCtxGetCurrent(&mut context), CUDA_ERROR_NOT_INITIALIZED)?;
    let mut address = 0;
    refused!(cuMemAlloc_v2(&mut address, 256), CUDA_ERROR_NOT_INITIALIZED)?;
    // These work at any time.
    call!(cuDriverGetVersion(&mut number))?;
    let mut name = ptr::null();
    call!(cuGetErrorName(CUresult::CUDA_ERROR_OUT_OF_MEMORY, &mut name))?;
    refused!(cuInit(1), CUDA_ERROR_INVALID_VALUE)
}

fn init_again(_: &()) -> Outcome {
    call!(cuInit(0))?;
    call!(cuInit(0))
}

fn version(_: &()) -> Outcome {
    let mut version = 0;
    call!(cuDriverGetVersion(&mut version))?;
    holds("the driver is of CUDA 12.8 or later", version >= VERSION)?;
    refused!(cuDriverGetVersion(ptr::null_mut()), CUDA_ERROR_INVALID_VALUE)
}

/// The entry point of `name` as of `version`, null if there is none, and how the search went.
fn find(name: &CStr, version: c_int, flags: u64) -> Outcome<(*mut c_void, u32)> {
    let mut entry = ptr::null_mut();
    let mut found = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    let status =
        status!(cuGetProcAddress_v2(name.as_ptr(), &mut entry, version, flags, &mut found));
    // The manual has an error for names that are not found; drivers answer success and say it by
    // the query result.
    if status != CUresult::CUDA_ERROR_NOT_FOUND {
        succeeded("cuGetProcAddress_v2", status)?;
    }
    Ok((entry, found as u32))
}

/// The entry point of a function that must exist.
pub(crate) fn entry(name: &CStr, version: c_int, flags: u64) -> Outcome<*mut c_void> {
    let (entry, found) = find(name, version, flags)?;
    equal("query result", found, 0)?;
    holds("the entry point is not null", !entry.is_null())?;
    Ok(entry)
}

fn error_names(_: &()) -> Outcome {
    type Text = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    for (function, expected) in [
        (c"cuGetErrorName", [(0, "CUDA_SUCCESS"), (2, "CUDA_ERROR_OUT_OF_MEMORY")]),
        (c"cuGetErrorString", [(0, "no error"), (2, "out of memory")]),
    ] {
        let entry = entry(function, VERSION, 0)?;
        let ask = |error: c_int| {
            let mut answer = ptr::null();
            // SAFETY: the manual's signature, with a plain number for the enumeration, so that one
            // outside it can be asked. An answer is a C string that lives as long as the library.
            unsafe {
                let status = mem::transmute::<*mut c_void, Text>(entry)(error, &mut answer);
                (status, (!answer.is_null()).then(|| CStr::from_ptr(answer).to_string_lossy()))
            }
        };
        for (error, expected) in expected {
            let (status, answer) = ask(error);
            equal("status", status, 0)?;
            equal("text", answer.as_deref(), Some(expected))?;
        }
        let (status, answer) = ask(99_999);
        equal("status for an unknown error", status, CUresult::CUDA_ERROR_INVALID_VALUE as c_int)?;
        equal("text for an unknown error", answer, None)?;
    }
    Ok(())
}

fn proc_address(_: &()) -> Outcome {
    type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
    let entry = entry(c"cuDeviceGetCount", VERSION, 0)?;
    let mut count = 0;
    // SAFETY: the manual's signature; the argument is a place for the number.
    let status = unsafe { mem::transmute::<*mut c_void, GetCount>(entry)(&mut count) };
    equal("status", status, 0)?;
    holds("there is a device", count > 0)?;

    let (absent, found) = find(c"cuNoSuchFunction", VERSION, 0)?;
    holds("a function that does not exist has no entry point", absent.is_null())?;
    equal("query result", found, 1)
}

fn proc_address_versions(_: &()) -> Outcome {
    // Introduced by CUDA 12.0.
    let (absent, found) = find(c"cuLibraryLoadData", 11_080, 0)?;
    holds("a function has no entry point before its version", absent.is_null())?;
    equal("query result", found, 2)?;
    entry(c"cuLibraryLoadData", 12_000, 0)?;
    // Per-thread variants exist for functions that take a stream, and only for those matter.
    let per_thread =
        sys::CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM as u64;
    for name in [c"cuStreamSynchronize", c"cuLaunchKernel", c"cuMemcpyHtoD"] {
        let legacy = entry(name, VERSION, 0)?;
        let twin = entry(name, VERSION, per_thread)?;
        holds("the per-thread twin is another function", legacy != twin)?;
    }
    equal(
        "without a twin, the function itself",
        entry(c"cuDeviceGetCount", VERSION, per_thread)?,
        entry(c"cuDeviceGetCount", VERSION, 0)?,
    )
}

fn export_table(_: &()) -> Outcome {
    let mut table = ptr::null();
    let unknown = sys::CUuuid { bytes: [0x5a; 16] };
    let status = status!(cuGetExportTable(&mut table, &unknown));
    holds("an unknown table is refused", status != CUresult::CUDA_SUCCESS)?;
    holds("and no pointer is given", table.is_null())
}

fn first() -> Outcome<sys::CUdevice> {
    let mut device = 0;
    call!(cuDeviceGet(&mut device, 0))?;
    Ok(device)
}

fn ordinals(_: &()) -> Outcome {
    let mut count = 0;
    call!(cuDeviceGetCount(&mut count))?;
    holds("there is a device", count > 0)?;
    let mut device = 0;
    for ordinal in 0..count {
        call!(cuDeviceGet(&mut device, ordinal))?;
    }
    refused!(cuDeviceGet(&mut device, count), CUDA_ERROR_INVALID_DEVICE)?;
    refused!(cuDeviceGet(&mut device, -1), CUDA_ERROR_INVALID_DEVICE | CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuDeviceGet(ptr::null_mut(), 0), CUDA_ERROR_INVALID_VALUE)
}

fn name(_: &()) -> Outcome {
    let device = first()?;
    let read = |length: usize| -> Outcome<String> {
        let mut bytes = vec![0x7fu8; 256];
        call!(cuDeviceGetName(bytes.as_mut_ptr().cast(), length as c_int, device))?;
        let end = bytes.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| Stop::Wrong("the name does not end".to_owned()))?;
        holds("the name stays within its place", end < length)?;
        holds("nothing is written beyond it", bytes[length..].iter().all(|&byte| byte == 0x7f))?;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let whole = read(200)?;
    holds("the device has a name", !whole.is_empty())?;
    let cut = read(4)?;
    holds("a short place gets the beginning", whole.starts_with(&cut))
}

fn uuid(_: &()) -> Outcome {
    let device = first()?;
    let mut old = sys::CUuuid { bytes: [0; 16] };
    let mut new = sys::CUuuid { bytes: [0; 16] };
    let mut again = sys::CUuuid { bytes: [0; 16] };
    call!(cuDeviceGetUuid(&mut old, device))?;
    call!(cuDeviceGetUuid_v2(&mut new, device))?;
    call!(cuDeviceGetUuid_v2(&mut again, device))?;
    holds("the identifier is not all zero", old.bytes.iter().any(|&byte| byte != 0))?;
    equal("the identifier", again.bytes, new.bytes)
}

fn memory(_: &()) -> Outcome {
    let mut bytes = 0;
    call!(cuDeviceTotalMem_v2(&mut bytes, first()?))?;
    holds("the device has memory", bytes > 0)?;
    refused!(
        cuDeviceTotalMem_v2(&mut bytes, 1000),
        CUDA_ERROR_INVALID_DEVICE | CUDA_ERROR_INVALID_VALUE
    )
}

fn pci_bus_id(_: &()) -> Outcome {
    let device = first()?;
    let mut text = [0 as c_char; 32];
    call!(cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, device))?;
    let mut found = -1;
    call!(cuDeviceGetByPCIBusId(&mut found, text.as_ptr()))?;
    equal("the device of that address", found, device)
}

fn attributes(_: &()) -> Outcome {
    let device = first()?;
    let read = |attribute| -> Outcome<i32> {
        let mut value = -1;
        call!(cuDeviceGetAttribute(&mut value, attribute, device))?;
        Ok(value)
    };
    equal("warp size", read(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?, 32)?;
    equal("threads of a block", read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?, 1024)?;
    let shared = read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
    holds("a block has 48 KiB of shared memory", shared >= 48 << 10)?;
    let sms = read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    holds("the device has multiprocessors", sms > 0)?;
    let major = read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    holds("the compute capability is 8.0 or later", major >= 8)?;
    equal("unified addressing", read(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)?, 1)
}

/// The attributes that every program linked to CUDA's runtime library asks for at its start, by
/// number; each must be answered, with 0 if nothing else.
fn attribute_list(_: &()) -> Outcome {
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, sys::CUdevice) -> c_int;
    let device = first()?;
    let entry = entry(c"cuDeviceGetAttribute", VERSION, 0)?;
    let get = |attribute: c_int| {
        let mut value = 0;
        // SAFETY: the manual's signature, with a plain number for the enumeration, so that any
        // number can be asked. The first argument is a place for the answer.
        unsafe { mem::transmute::<*mut c_void, GetAttribute>(entry)(&mut value, attribute, device) }
    };
    let known = (1..=12).chain([14, 16, 18, 19]).chain(21..=35).chain(37..=43).chain(45..=68);
    let known = known.chain(70..=86).chain([88, 89, 90, 91, 95, 97, 99, 100, 101, 106, 108, 109]);
    for attribute in known.chain(111..=119) {
        equal(&format!("status of attribute {attribute}"), get(attribute), 0)?;
    }
    for attribute in [0, -1, 100_000] {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE as c_int;
        equal(&format!("status of attribute {attribute}"), get(attribute), invalid)?;
    }
    Ok(())
}

fn loading_mode(_: &()) -> Outcome {
    let mut mode = sys::CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING;
    call!(cuModuleGetLoadingMode(&mut mode))
}
