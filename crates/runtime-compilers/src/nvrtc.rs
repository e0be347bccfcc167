//! NVRTC: a program that is compiled for a real architecture is compiled for the virtual one of that
//! number, and its PTX is what is given out as machine code.
#![allow(non_snake_case, reason = "functions keep nvrtc.h's names")]

use crate::caller::{In, Out, Text};
use crate::options::for_ptx;
use crate::real::call_real;
use locks::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_void};

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
#[unsafe(no_mangle)]
extern "C" fn openmps_nvrtcCompileProgram(
    program: Program,
    count: c_int,
    options: In<Text>,
) -> c_int {
    let texts = options.texts(usize::try_from(count).unwrap_or(0), OPTIONS_MAX);
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
        None => options.pointer().cast(),
    };
    call_real!(
        c"nvrtcCompileProgram",
        (Program, c_int, *const *const c_char) -> c_int,
        (program, count, options),
        INTERNAL_ERROR
    )
}

/// nvrtcDestroyProgram.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvrtcDestroyProgram(program: Out<Program>) -> c_int {
    if let Some(program) = program.get() {
        as_ptx().remove(&(program as usize));
    }
    call_real!(c"nvrtcDestroyProgram", (Out<Program>) -> c_int, (program), INTERNAL_ERROR)
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
