//! Driver entry point access: cuGetProcAddress, the names and texts of errors, how modules are loaded.

use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::constants::{loading_mode, proc_address};
use cuda_api::pointer::{In, Out};
use cuda_api::symbols::{self, ProcError};
use cuda_api::{CUresult, CudaError, ErrorRow, environment, error_row, wants_per_thread};

/// What a program asks cuGetProcAddress for.
#[derive(Clone, Copy)]
pub struct EntryPointRequest {
    /// The function's name without its version.
    pub symbol: In<c_char>,
    /// The version of CUDA that the program was written for, as 12080 for 12.8.
    pub version: c_int,
    /// `CU_GET_PROC_ADDRESS_*`.
    pub flags: u64,
}

impl EntryPointRequest {
    /// The address that stands for a name; the outer error is one of the arguments. A driver of version
    /// `driver_version` has the symbol of an index in [`symbols::SYMBOLS`] at `address`, if it has it.
    fn find(
        self,
        driver_version: c_int,
        address: impl FnOnce(usize) -> Option<*const c_void>,
    ) -> Result<Result<*mut c_void, ProcError>, CudaError> {
        let known = proc_address::FLAG_LEGACY_STREAM | proc_address::FLAG_PER_THREAD_DEFAULT_STREAM;
        // A version beyond the driver's own is refused outright.
        if self.flags & !known != 0 || self.version > driver_version {
            return Err(CudaError::INVALID_VALUE);
        }
        let version = u32::try_from(self.version).map_err(|_| CudaError::INVALID_VALUE)?;
        let name = self.symbol.text()?;
        let Ok(name) = name.to_str() else { return Ok(Err(ProcError::NotFound)) };
        let index = symbols::proc_address(name, version, wants_per_thread(self.flags));
        Ok(index.and_then(|index| {
            let found = address(usize::from(index)).filter(|found| !found.is_null());
            found.map(<*const c_void>::cast_mut).ok_or(ProcError::NotFound)
        }))
    }

    /// cuGetProcAddress: a missing symbol is CUDA_ERROR_NOT_FOUND and leaves `pfn` alone.
    pub fn answer(
        self,
        pfn: Out<*mut c_void>,
        driver_version: c_int,
        address: impl FnOnce(usize) -> Option<*const c_void>,
    ) -> CUresult {
        pfn.required()?;
        let found = self.find(driver_version, address)?;
        pfn.set(found.map_err(|_| CudaError::NOT_FOUND)?)
    }

    /// cuGetProcAddress_v2: a missing symbol is NULL and a status.
    pub fn answer_with_status(
        self,
        pfn: Out<*mut c_void>,
        status: Out<c_uint>,
        driver_version: c_int,
        address: impl FnOnce(usize) -> Option<*const c_void>,
    ) -> CUresult {
        pfn.required()?;
        let (address, found) = match self.find(driver_version, address)? {
            Ok(address) => (address, proc_address::SUCCESS),
            Err(ProcError::NotFound) => (core::ptr::null_mut(), proc_address::SYMBOL_NOT_FOUND),
            Err(ProcError::VersionNotSufficient) => {
                (core::ptr::null_mut(), proc_address::VERSION_NOT_SUFFICIENT)
            }
        };
        status.set_if_wanted(found);
        pfn.set(address)
    }
}

/// cuGetErrorName: NULL and CUDA_ERROR_INVALID_VALUE for a number that is no error's.
pub fn error_name(error: c_uint, text: Out<*const c_char>) -> CUresult {
    of_error(error, text, |row| row.name.as_ptr())
}

/// cuGetErrorString, likewise.
pub fn error_text(error: c_uint, text: Out<*const c_char>) -> CUresult {
    of_error(error, text, |row| row.text.as_ptr())
}

fn of_error(
    error: c_uint,
    text: Out<*const c_char>,
    of: impl FnOnce(&ErrorRow) -> *const c_char,
) -> CUresult {
    let found = error_row(error).map(of);
    text.set(found.unwrap_or(core::ptr::null()))?;
    found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
}

/// cuModuleGetLoadingMode: lazy, unless `CUDA_MODULE_LOADING` is EAGER.
pub fn module_loading_mode() -> c_uint {
    let eager = std::env::var_os(environment::CUDA_MODULE_LOADING).is_some_and(|v| v == "EAGER");
    if eager { loading_mode::EAGER } else { loading_mode::LAZY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;

    fn ask(
        symbol: &core::ffi::CStr,
        version: c_int,
        flags: u64,
    ) -> Result<(usize, c_uint), CudaError> {
        let (mut pfn, mut status) = (core::ptr::null_mut::<c_void>(), 99);
        let (to, status_to) = (passed(&raw mut pfn), passed(&raw mut status));
        let request = EntryPointRequest { symbol: passed(symbol.as_ptr()), version, flags };
        request
            .answer_with_status(to, status_to, 12080, |index| Some((index + 1) as *const c_void))?;
        Ok((pfn as usize, status))
    }

    #[test]
    fn functions_are_found_by_name_version_and_flags() {
        let init = symbols::proc_address("cuInit", 12080, false).unwrap();
        assert_eq!(ask(c"cuInit", 12080, 0), Ok((usize::from(init) + 1, proc_address::SUCCESS)));
        assert_eq!(ask(c"cuNothing", 12080, 0), Ok((0, proc_address::SYMBOL_NOT_FOUND)));
        assert_eq!(ask(c"cuInit", 13000, 0), Err(CudaError::INVALID_VALUE), "a later driver's");
        assert_eq!(ask(c"cuInit", -1, 0), Err(CudaError::INVALID_VALUE));
        assert_eq!(ask(c"cuInit", 12080, 4), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn what_the_driver_lacks_is_not_found() {
        let mut pfn = core::ptr::without_provenance_mut::<c_void>(7);
        let request =
            EntryPointRequest { symbol: passed(c"cuInit".as_ptr()), version: 12080, flags: 0 };
        let result = request.answer(passed(&raw mut pfn), 12080, |_| None);
        assert_eq!(result, Err(CudaError::NOT_FOUND));
        assert_eq!(pfn as usize, 7, "left alone");
    }

    #[test]
    fn errors_have_names_and_texts() {
        let mut text = core::ptr::null::<c_char>();
        let to = passed(&raw mut text);
        assert_eq!(error_name(2, to), Ok(()));
        assert_eq!(passed(text).text(), Ok(c"CUDA_ERROR_OUT_OF_MEMORY".into()));
        assert_eq!(error_text(123_456, to), Err(CudaError::INVALID_VALUE));
        assert!(text.is_null());
    }
}
