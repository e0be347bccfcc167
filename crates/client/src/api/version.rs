//! Initialisation, version, error names, entry points (the manual's "Initialization", "Version
//! Management", "Error Handling" and "Driver Entry Point Access").

use super::export_table_host::Tables;
use crate::boundary::{In, Out};
use crate::program::mode;
use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::constants::{loading_mode, proc_address};
use cuda_api::symbols::{self, ProcError};
use cuda_api::{CUresult, CUuuid, CudaError, environment, error_row, wants_per_thread};
use std::sync::OnceLock;

pub(crate) fn cuInit(flags: c_uint) -> CUresult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    mode::initialize()
}

pub(crate) fn cuDriverGetVersion(version: Out<c_int>) -> CUresult {
    version.set(mode::driver_version())
}

/// Before version 2 of the function, a missing symbol is an error and leaves `pfn` alone.
pub(crate) fn cuGetProcAddress(
    symbol: In<c_char>,
    pfn: Out<*mut c_void>,
    cuda_version: c_int,
    flags: u64,
) -> CUresult {
    pfn.required()?;
    match find(symbol, cuda_version, flags)? {
        Ok(address) => pfn.set(address),
        Err(_) => Err(CudaError::NOT_FOUND),
    }
}

pub(crate) fn cuGetProcAddress_v2(
    symbol: In<c_char>,
    pfn: Out<*mut c_void>,
    cuda_version: c_int,
    flags: u64,
    symbol_status: Out<c_uint>,
) -> CUresult {
    pfn.required()?;
    let (address, status) = match find(symbol, cuda_version, flags)? {
        Ok(address) => (address, proc_address::SUCCESS),
        Err(ProcError::NotFound) => (core::ptr::null_mut(), proc_address::SYMBOL_NOT_FOUND),
        Err(ProcError::VersionNotSufficient) => {
            (core::ptr::null_mut(), proc_address::VERSION_NOT_SUFFICIENT)
        }
    };
    symbol_status.set_if_wanted(status);
    pfn.set(address)
}

/// What says where each exported symbol is, by its index.
static ADDRESSES: OnceLock<fn(usize) -> *mut c_void> = OnceLock::new();

/// Has [`cuGetProcAddress`] find symbols' addresses. The first one stays.
pub(crate) fn find_symbols_by(address: fn(usize) -> *mut c_void) {
    let _ = ADDRESSES.set(address);
}

fn exported_address(index: usize) -> *mut c_void {
    ADDRESSES.get().map_or(core::ptr::null_mut(), |address| address(index))
}

/// The address that stands for a name; the outer error is one of the arguments.
fn find(
    symbol: In<c_char>,
    cuda_version: c_int,
    flags: u64,
) -> Result<Result<*mut c_void, ProcError>, CudaError> {
    let known = proc_address::FLAG_LEGACY_STREAM | proc_address::FLAG_PER_THREAD_DEFAULT_STREAM;
    if flags & !known != 0 || cuda_version > mode::driver_version() {
        return Err(CudaError::INVALID_VALUE);
    }
    let requested = u32::try_from(cuda_version).map_err(|_| CudaError::INVALID_VALUE)?;
    let symbol = symbol.text()?;
    let Ok(name) = symbol.to_str() else { return Ok(Err(ProcError::NotFound)) };
    Ok(symbols::proc_address(name, requested, wants_per_thread(flags))
        .map(|index| exported_address(usize::from(index))))
}

/// An id that stands for no table is refused with a NULL pointer, as a driver does.
pub(crate) fn cuGetExportTable(table: Out<*const c_void>, id: In<CUuuid>) -> CUresult {
    table.set(core::ptr::null())?;
    let id = id.get()?;
    export_tables::install(&Tables);
    table.set(export_tables::find(id.bytes).ok_or(CudaError::INVALID_VALUE)?)
}

pub(crate) fn cuGetErrorName(error: c_uint, p_str: Out<*const c_char>) -> CUresult {
    let row = error_row(error);
    p_str.set(row.map_or(core::ptr::null(), |row| row.name.as_ptr()))?;
    row.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
}

pub(crate) fn cuGetErrorString(error: c_uint, p_str: Out<*const c_char>) -> CUresult {
    let row = error_row(error);
    p_str.set(row.map_or(core::ptr::null(), |row| row.text.as_ptr()))?;
    row.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
}

pub(crate) fn cuModuleGetLoadingMode(mode: Out<c_uint>) -> CUresult {
    mode::program()?;
    let eager = std::env::var_os(environment::CUDA_MODULE_LOADING).is_some_and(|v| v == "EAGER");
    mode.set(if eager { loading_mode::EAGER } else { loading_mode::LAZY })
}

/// Programs mark where they want to be profiled; nothing profiles them here.
pub(crate) fn cuProfilerStart() -> CUresult {
    mode::program().map(|_| ())
}

pub(crate) fn cuProfilerStop() -> CUresult {
    mode::program().map(|_| ())
}
