//! Initialisation, version, errors, entry points, profiler control.

use cuda_api::symbols::{ProcError, SYMBOLS, proc_address};
use cuda_api::*;

use super::tables::driver_version;
use super::{driver, exported, exports};
use crate::error::{Error, Result};

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
        pfn.required()?;
        let found = find(&symbol.text()?, version, flags)?;
        pfn.set(found.map_err(|_| Error::NOT_FOUND)?.cast_mut())
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, pfn: *mut *mut c_void, version: c_int, flags: u64,
        symbol_status: *mut c_uint,
    ) {
        use cuda_api::constants::proc_address::*;
        pfn.required()?;
        let (address, status) = match find(&symbol.text()?, version, flags)? {
            Ok(address) => (address.cast_mut(), SUCCESS),
            Err(ProcError::NotFound) => (std::ptr::null_mut(), SYMBOL_NOT_FOUND),
            Err(ProcError::VersionNotSufficient) => {
                (std::ptr::null_mut(), VERSION_NOT_SUFFICIENT)
            }
        };
        symbol_status.set_if_wanted(status);
        pfn.set(address)
    }

    fn cuGetExportTable(table: *mut *const c_void, id: *const CUuuid) {
        table.set(std::ptr::null())?;
        let id = id.get()?;
        export_tables::install(&super::tables::Tables);
        table.set(export_tables::find(id.bytes).ok_or(Error::INVALID_VALUE)?)
    }

    fn cuGetErrorName(error: c_uint, text: *mut *const c_char) {
        let row = error_row(error);
        text.set(row.map_or(std::ptr::null(), |r| r.name.as_ptr()))?;
        row.map(|_| ()).ok_or(Error::INVALID_VALUE)
    }

    fn cuGetErrorString(error: c_uint, text: *mut *const c_char) {
        let row = error_row(error);
        text.set(row.map_or(std::ptr::null(), |r| r.text.as_ptr()))?;
        row.map(|_| ()).ok_or(Error::INVALID_VALUE)
    }

    fn cuProfilerStart() {
        driver().map(|_| ())
    }

    fn cuProfilerStop() {
        driver()?.device.write_profile();
        Ok(())
    }
}

/// The address of a function by the name and version that cuGetProcAddress knows it by.
fn find(
    name: &CStr,
    version: i32,
    flags: u64,
) -> Result<std::result::Result<*const c_void, ProcError>> {
    // A version beyond the driver's own is refused outright.
    let version = u32::try_from(version).map_err(|_| Error::INVALID_VALUE)?;
    if i64::from(version) > i64::from(driver_version()) || flags > 3 {
        return Err(Error::INVALID_VALUE);
    }
    let Ok(name) = name.to_str() else { return Ok(Err(ProcError::NotFound)) };
    let symbol = match proc_address(name, version, wants_per_thread(flags)) {
        Ok(index) => SYMBOLS[usize::from(index)],
        Err(error) => return Ok(Err(error)),
    };
    Ok(exported(symbol).ok_or(ProcError::NotFound))
}
