//! Initialisation: what works before nvmlInit, itself and the error texts. Exported as they are.

use crate::entry;
use crate::mode::{self, Mode};
use crate::status::{self, Answer, Failure};
use locks::Mutex;
use std::ffi::{c_char, c_uint, c_void};

/// How often nvmlInit was called and not yet answered by nvmlShutdown.
static USERS: Mutex<u32> = Mutex::new(0);

/// Initialises the library, ours or NVIDIA's; `init` is the call that NVIDIA's library gets.
fn initialise(init: impl FnOnce(&mode::Vendor) -> u32) -> u32 {
    let answer = || -> Answer<u32> {
        match mode::decide()? {
            Mode::Vendor(vendor) => {
                entry::lead_to(vendor);
                Ok(init(vendor))
            }
            Mode::Own(_) => {
                let mut users = USERS.lock();
                if *users == 0 {
                    entry::lead_to_own();
                }
                *users += 1;
                Ok(0)
            }
        }
    };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer)) {
        Ok(answer) => answer.unwrap_or_else(|failure| failure.0),
        Err(_) => Failure::UNKNOWN.0,
    }
}

/// Calls NVIDIA's function of that name, which takes `$argument`.
macro_rules! call {
    ($vendor:ident, $name:literal ($($ty:ty),*) ($($argument:expr),*)) => {
        match $vendor.function($name) {
            // SAFETY: this is the signature of nvml.h; the arguments are the program's own.
            Some(code) => unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn($($ty),*) -> u32>(code)(
                    $($argument),*
                )
            },
            None => Failure::FUNCTION_NOT_FOUND.0,
        }
    };
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> u32 {
    initialise(|vendor| call!(vendor, "nvmlInit"()()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    initialise(|vendor| call!(vendor, "nvmlInit_v2"()()))
}

/// The flags say what may be missing: nothing of that is here.
#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(flags: c_uint) -> u32 {
    initialise(|vendor| call!(vendor, "nvmlInitWithFlags"(c_uint)(flags)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    if let Ok(Mode::Vendor(vendor)) = mode::decide() {
        return call!(vendor, "nvmlShutdown"()());
    }
    let mut users = USERS.lock();
    match *users {
        0 => return Failure::UNINITIALIZED.0,
        1 => entry::lead_nowhere(),
        _ => {}
    }
    *users -= 1;
    0
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    status::text(code).as_ptr()
}

/// Not in nvml.h: nvidia-smi asks for tables by it. Only NVIDIA's library has any.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlInternalGetExportTable(
    table: *mut *const c_void,
    id: *const c_void,
) -> u32 {
    match mode::decide() {
        Ok(Mode::Vendor(vendor)) => call!(
            vendor,
            "nvmlInternalGetExportTable"(*mut *const c_void, *const c_void)(table, id)
        ),
        Ok(Mode::Own(_)) => Failure::NOT_FOUND.0,
        Err(failure) => failure.0,
    }
}
