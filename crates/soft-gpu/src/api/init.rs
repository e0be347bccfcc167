//! Initialisation, version, errors, entry points, profiler control.

use cuda_api::symbols::SYMBOLS;
use cuda_api::*;
use driver_common::entry_point::{self, EntryPointRequest};

use super::tables::driver_version;
use super::{driver, exported, exports};
use crate::error::Error;

exports! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        super::initialize()
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        version.set(driver_version())
    }

    fn cuGetProcAddress(
        symbol: *const c_char, pfn: *mut *mut c_void, version: c_int, flags: u64,
    ) {
        EntryPointRequest { symbol, version, flags }.answer(pfn, driver_version(), address)
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, pfn: *mut *mut c_void, version: c_int, flags: u64,
        symbol_status: *mut c_uint,
    ) {
        let request = EntryPointRequest { symbol, version, flags };
        request.answer_with_status(pfn, symbol_status, driver_version(), address)
    }

    fn cuGetExportTable(table: *mut *const c_void, id: *const CUuuid) {
        table.set(std::ptr::null())?;
        let id = id.get()?;
        export_tables::install(&super::tables::Tables);
        table.set(export_tables::find(id.bytes).ok_or(Error::INVALID_VALUE)?)
    }

    fn cuGetErrorName(error: c_uint, text: *mut *const c_char) {
        entry_point::error_name(error, text)
    }

    fn cuGetErrorString(error: c_uint, text: *mut *const c_char) {
        entry_point::error_text(error, text)
    }

    fn cuProfilerStart() {
        driver().map(|_| ())
    }

    fn cuProfilerStop() {
        driver()?.device.write_profile();
        Ok(())
    }
}

/// The address of a symbol of the table, if it is exported here.
fn address(index: usize) -> Option<*const c_void> {
    exported(SYMBOLS[index])
}
