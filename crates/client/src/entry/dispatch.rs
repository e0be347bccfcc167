//! Our own implementations by symbol.

use crate::api::version as api;
use crate::boundary::{FromProgram, guard};
use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::*;

macro_rules! raw {
    ($($name:ident($($param:ident: $ty:ty),*);)*) => {
        $(
            #[allow(non_snake_case, reason = "cuda.h's name")]
            unsafe extern "C" fn $name($($param: $ty),*) -> CUresult {
                // SAFETY: the arguments are the program's, by cuda.h's signature.
                guard(|| unsafe { api::$name($($param.from_program()),*) })
            }
        )*
        /// The code of a symbol; `None` if it is not implemented.
        pub(crate) fn code(symbol: &str) -> Option<*const c_void> {
            match symbol {
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

raw! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(driver_version: *mut c_int);
    cuGetProcAddress(symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64);
    cuGetProcAddress_v2(symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64, symbol_status: *mut c_uint);
    cuGetExportTable(pp_export_table: *mut *const c_void, p_export_table_id: *const CUuuid);
    cuGetErrorName(error: c_uint, p_str: *mut *const c_char);
    cuGetErrorString(error: c_uint, p_str: *mut *const c_char);
    cuModuleGetLoadingMode(mode: *mut c_uint);
    cuProfilerStart();
    cuProfilerStop();
}
