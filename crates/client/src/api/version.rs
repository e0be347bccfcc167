//! Initialisation, version, error names, entry points (the manual's "Initialization", "Version
//! Management", "Error Handling" and "Driver Entry Point Access").

use super::export_table_host::Tables;
use crate::boundary::{In, Out};
use crate::program::mode;
use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::{CUresult, CUuuid, CudaError};
use driver_common::entry_point::{self, EntryPointRequest};
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

pub(crate) fn cuGetProcAddress(
    symbol: In<c_char>,
    pfn: Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> CUresult {
    let request = EntryPointRequest { symbol, version, flags };
    request.answer(pfn, mode::driver_version(), exported_address)
}

pub(crate) fn cuGetProcAddress_v2(
    symbol: In<c_char>,
    pfn: Out<*mut c_void>,
    version: c_int,
    flags: u64,
    symbol_status: Out<c_uint>,
) -> CUresult {
    let request = EntryPointRequest { symbol, version, flags };
    request.answer_with_status(pfn, symbol_status, mode::driver_version(), exported_address)
}

/// What says where each exported symbol is, by its index.
static ADDRESSES: OnceLock<fn(usize) -> *mut c_void> = OnceLock::new();

/// Has [`cuGetProcAddress`] find symbols' addresses. The first one stays.
pub(crate) fn find_symbols_by(address: fn(usize) -> *mut c_void) {
    let _ = ADDRESSES.set(address);
}

fn exported_address(index: usize) -> Option<*const c_void> {
    ADDRESSES.get().map(|address| address(index).cast_const())
}

/// An id that stands for no table is refused with a NULL pointer, as a driver does.
pub(crate) fn cuGetExportTable(table: Out<*const c_void>, id: In<CUuuid>) -> CUresult {
    table.set(core::ptr::null())?;
    let id = id.get()?;
    export_tables::install(&Tables);
    table.set(export_tables::find(id.bytes).ok_or(CudaError::INVALID_VALUE)?)
}

pub(crate) fn cuGetErrorName(error: c_uint, text: Out<*const c_char>) -> CUresult {
    entry_point::error_name(error, text)
}

pub(crate) fn cuGetErrorString(error: c_uint, text: Out<*const c_char>) -> CUresult {
    entry_point::error_text(error, text)
}

pub(crate) fn cuModuleGetLoadingMode(mode: Out<c_uint>) -> CUresult {
    mode::program()?;
    mode.set(entry_point::module_loading_mode())
}

/// Programs mark where they want to be profiled; nothing profiles them here.
pub(crate) fn cuProfilerStart() -> CUresult {
    mode::program().map(|_| ())
}

pub(crate) fn cuProfilerStop() -> CUresult {
    mode::program().map(|_| ())
}
