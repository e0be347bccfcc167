//! NVRTC: a program that is compiled for a real architecture is compiled for the virtual one of that
//! number, and its PTX is what is given out as machine code.
#![allow(non_snake_case, reason = "functions keep nvrtc.h's names")]

use crate::options::for_ptx;
use crate::real::call_real;
use locks::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// nvrtcProgram: a number to look up.
type Program = *mut c_void;

const INTERNAL_ERROR: c_int = 11;
/// More options than a compiler is given.
const OPTIONS_MAX: usize = 1 << 16;

/// Programs that were to become machine code, and became PTX.
static AS_PTX: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn as_ptx() -> MutexGuard<'static, BTreeSet<usize>> {
    AS_PTX.lock()
}

/// nvrtcCompileProgram.
///
/// # Safety
/// As the manual has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmps_nvrtcCompileProgram(
    program: Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    let given = usize::try_from(count).unwrap_or(0);
    let readable = !options.is_null() && given <= OPTIONS_MAX;
    // SAFETY: the program says that there are `count` options, each a C string.
    let texts: Vec<&CStr> = unsafe {
        let all = (0..if readable { given } else { 0 }).map(|index| *options.add(index));
        all.map(|text| if text.is_null() { c"" } else { CStr::from_ptr(text) }).collect()
    };
    let changed: Option<Vec<CString>> = for_ptx(&texts);
    match changed {
        Some(_) => as_ptx().insert(program as usize),
        None => as_ptx().remove(&(program as usize)),
    };
    let pointers: Vec<*const c_char>;
    let options = match &changed {
        Some(changed) => {
            pointers = changed.iter().map(|text| text.as_ptr()).collect();
            pointers.as_ptr()
        }
        None => options,
    };
    call_real!(
        c"nvrtcCompileProgram",
        (Program, c_int, *const *const c_char) -> c_int,
        (program, count, options),
        INTERNAL_ERROR
    )
}

/// nvrtcDestroyProgram.
///
/// # Safety
/// As the manual has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmps_nvrtcDestroyProgram(program: *mut Program) -> c_int {
    // SAFETY: the program passes NULL or the place of its handle.
    if let Some(program) = unsafe { program.as_ref() } {
        as_ptx().remove(&(*program as usize));
    }
    call_real!(c"nvrtcDestroyProgram", (*mut Program) -> c_int, (program), INTERNAL_ERROR)
}

/// nvrtcGetCUBINSize.
///
/// # Safety
/// As the manual has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmps_nvrtcGetCUBINSize(program: Program, bytes: *mut usize) -> c_int {
    if as_ptx().contains(&(program as usize)) {
        return call_real!(
            c"nvrtcGetPTXSize", (Program, *mut usize) -> c_int, (program, bytes), INTERNAL_ERROR);
    }
    call_real!(
        c"nvrtcGetCUBINSize", (Program, *mut usize) -> c_int, (program, bytes), INTERNAL_ERROR)
}

/// nvrtcGetCUBIN.
///
/// # Safety
/// As the manual has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmps_nvrtcGetCUBIN(program: Program, to: *mut c_char) -> c_int {
    if as_ptx().contains(&(program as usize)) {
        return call_real!(
            c"nvrtcGetPTX", (Program, *mut c_char) -> c_int, (program, to), INTERNAL_ERROR);
    }
    call_real!(c"nvrtcGetCUBIN", (Program, *mut c_char) -> c_int, (program, to), INTERNAL_ERROR)
}
