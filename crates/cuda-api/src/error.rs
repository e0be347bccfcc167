//! Errors of the driver API. The rows are generated (`generated.rs`).

mod generated;

use core::ffi::CStr;
use core::fmt;
use core::num::NonZero;

/// A CUresult other than CUDA_SUCCESS.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaError(NonZero<u32>);

/// What every driver function returns: `Ok(())` is 0 by layout, so `?` works at the C boundary.
pub type CUresult = Result<(), CudaError>;

/// One row of the error table.
pub struct ErrorRow {
    /// The CUresult.
    pub code: u32,
    /// Its name in cuda.h.
    pub name: &'static CStr,
    /// What cuGetErrorString says.
    pub text: &'static CStr,
}

/// All CUresults known, CUDA_SUCCESS included, ascending.
pub const ERROR_ROWS: &[ErrorRow] = generated::ERROR_ROWS;

impl CudaError {
    pub(crate) const fn known(code: u32) -> Self {
        match NonZero::new(code) {
            Some(code) => Self(code),
            None => panic!("0 is success"),
        }
    }

    /// The error with that number; `None` for 0, which is success.
    pub const fn from_code(code: u32) -> Option<Self> {
        match NonZero::new(code) {
            Some(code) => Some(Self(code)),
            None => None,
        }
    }

    /// The CUresult.
    pub const fn code(self) -> u32 {
        self.0.get()
    }

    /// Its row; `None` for a number that cuda.h does not name.
    pub fn row(self) -> Option<&'static ErrorRow> {
        error_row(self.code())
    }

    /// True for errors after which every call of the context fails with the same error.
    pub const fn is_sticky(self) -> bool {
        matches!(self.code(), 700 | 702 | 710 | 714..=719 | 806 | 810)
    }
}

/// The row of a CUresult; `None` for a number that cuda.h does not name.
pub fn error_row(code: u32) -> Option<&'static ErrorRow> {
    ERROR_ROWS.binary_search_by_key(&code, |r| r.code).ok().map(|i| &ERROR_ROWS[i])
}

/// The number of a result: 0 for success.
pub const fn result_code(result: CUresult) -> u32 {
    match result {
        Ok(()) => 0,
        Err(e) => e.code(),
    }
}

/// The result with that number.
pub const fn result_from_code(code: u32) -> CUresult {
    match CudaError::from_code(code) {
        None => Ok(()),
        Some(e) => Err(e),
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some(row) => f.write_str(row.name.to_str().unwrap_or("CUDA_ERROR")),
            None => write!(f, "CUDA error {}", self.code()),
        }
    }
}

impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for CudaError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_number_at_the_c_boundary() {
        assert_eq!(size_of::<CUresult>(), 4);
        // SAFETY: Result<(), transparent NonZero<u32>> has the layout of u32, 0 being Ok.
        let code = unsafe { core::mem::transmute::<CUresult, u32>(Ok(())) };
        assert_eq!(code, 0);
        assert_eq!(result_code(Err(CudaError::NOT_SUPPORTED)), 801);
        assert_eq!(result_from_code(700), Err(CudaError::ILLEGAL_ADDRESS));
    }

    #[test]
    fn rows_ascend() {
        assert!(ERROR_ROWS.windows(2).all(|w| w[0].code < w[1].code));
    }
}
