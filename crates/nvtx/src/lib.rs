//! An NVTX injection library: what programs mark by NVTX (ranges of threads, and ranges that begin
//! and end anywhere) becomes lines of a file, which `openmps run --trace` puts into its trace.
//!
//! NVTX's headers load the library that `NVTX_INJECTION64_PATH` names and call
//! [`InitializeInjectionNvtx2`]. The file is `PID.nvtx` beside that name; a line is `process thread
//! domain start end name`, times of CLOCK_MONOTONIC in ns; the domain is `default`, its name, or `-` for a range
//! that may overlap others. It is not for marks, payloads, categories and wide
//! characters.
//!
//! Invariant: nothing here panics, prints or ends the program; what cannot be written is left out.

mod callbacks;
mod write;

use callbacks::Callbacks;
use std::ffi::{c_int, c_uint, c_void};

/// Gives a table of NVTX by its number.
pub type GetExportTable = unsafe extern "C" fn(number: u32) -> *const c_void;

/// The table of callbacks.
const CALLBACKS: u32 = 1;

/// What NVTX's table of callbacks begins with.
#[repr(C)]
struct CallbacksTable {
    struct_size: usize,
    get_module_functions: Option<
        unsafe extern "C" fn(
            module: c_uint,
            table: *mut *mut *mut *const c_void,
            size: *mut c_uint,
        ) -> c_int,
    >,
}

/// Puts this library's functions into NVTX's tables; 1 for success.
///
/// # Safety
/// To be called by NVTX's headers only, with their own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get: Option<GetExportTable>) -> c_int {
    let Some(get) = get else { return 0 };
    if !write::open() {
        return 0;
    }
    // SAFETY: NVTX's own function; the table that it answers with is NVTX's, for the process's life.
    let table = unsafe { get(CALLBACKS).cast::<CallbacksTable>().as_ref() };
    let Some(table) = table.filter(|t| t.struct_size >= size_of::<CallbacksTable>()) else {
        return 0;
    };
    let Some(functions) = table.get_module_functions else { return 0 };
    for Callbacks { module, rows } in callbacks::ALL {
        let (mut places, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the locals are written.
        if unsafe { functions(*module, &mut places, &mut count) } == 0 || places.is_null() {
            continue;
        }
        for (number, function) in *rows {
            if *number >= count {
                continue;
            }
            // SAFETY: NVTX says that there are `count` places, each the address of a function
            // pointer, or null.
            unsafe {
                let place = *places.add(*number as usize);
                if !place.is_null() {
                    *place = function.0;
                }
            }
        }
    }
    1
}
