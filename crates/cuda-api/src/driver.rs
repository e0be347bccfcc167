//! What the rows of the table become: a provider's functions, the list of rows, their policies.

#![allow(non_snake_case, reason = "functions keep cuda.h's names")]

use crate::types::*;
use crate::{CudaError, constants::*};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Where a client's call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// In the client, from what it knows.
    Local,
    /// Written to the ring; no reply. An error surfaces at the next call that can report it.
    Post,
    /// Written to the ring; the client waits for the reply.
    Call,
    /// Written by hand on one side or both.
    Special,
    /// Not offered to programs: CUDA_ERROR_NOT_SUPPORTED. The row is there for providers.
    Unsupported,
}

impl Policy {
    /// The word the table uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Post => "post",
            Self::Call => "call",
            Self::Special => "special",
            Self::Unsupported => "unsupported",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The function's number on the wire.
    pub number: u16,
    /// Where a client's call is answered.
    pub policy: Policy,
    /// The exported symbol.
    pub symbol: &'static str,
    /// The symbol of the per-thread default stream variant.
    pub variant: Option<&'static str>,
    /// The parameters' types, as the table has them.
    pub parameters: &'static [&'static str],
}

macro_rules! policy {
    (local) => {
        Policy::Local
    };
    (post) => {
        Policy::Post
    };
    (call) => {
        Policy::Call
    };
    (special) => {
        Policy::Special
    };
    (unsupported) => {
        Policy::Unsupported
    };
}

macro_rules! define {
    ($($number:literal $policy:ident $name:ident $(| $variant:ident)?
        ($($param:ident: $ty:ty),* $(,)?);)*) => {
        /// All rows in the table's order.
        pub const ROWS: &[Row] = &[$(Row {
            number: $number,
            policy: policy!($policy),
            symbol: stringify!($name),
            variant: define!(@variant $($variant)?),
            parameters: &[$(stringify!($ty)),*],
        }),*];

        /// Functions' numbers on the wire by their names.
        #[allow(non_upper_case_globals, missing_docs, reason = "cuda.h's names")]
        pub mod number {
            $(pub const $name: u16 = $number;)*
        }

        /// C types of the functions by their names.
        #[allow(non_camel_case_types, missing_docs, reason = "cuda.h's names")]
        pub mod signature {
            use super::*;
            $(pub type $name = unsafe extern "C" fn($($param: $ty),*) -> CUresult;)*
        }

        /// A provider's functions: one C function pointer a row.
        pub struct DriverTable {
            $(/// The provider's function, or one that answers CUDA_ERROR_NOT_SUPPORTED.
            pub $name: signature::$name,)*
        }

        impl DriverTable {
            /// Builds the table from `lookup`, which gives the address of an exported symbol.
            /// What it does not give answers CUDA_ERROR_NOT_SUPPORTED.
            ///
            /// # Safety
            /// An address that `lookup` gives must be that of the function of that name with
            /// cuda.h's signature, callable for as long as the table is used.
            pub unsafe fn resolve(mut lookup: impl FnMut(&CStr) -> Option<*const c_void>) -> Self {
                $(unsafe extern "C" fn $name($(_: $ty),*) -> CUresult {
                    Err(CudaError::NOT_SUPPORTED)
                })*
                const fn symbol(bytes: &'static str) -> &'static CStr {
                    match CStr::from_bytes_with_nul(bytes.as_bytes()) {
                        Ok(s) => s,
                        Err(_) => panic!("a symbol is a C string"),
                    }
                }
                Self {$(
                    $name: match lookup(const { symbol(concat!(stringify!($name), "\0")) }) {
                        // SAFETY: the caller vouches for the address and the signature.
                        Some(address) => unsafe {
                            core::mem::transmute::<*const c_void, signature::$name>(address)
                        },
                        None => $name,
                    },
                )*}
            }

            $(
                /// Calls the provider's function of that name.
                ///
                /// # Safety
                /// As CUDA's manual says for the function's pointers.
                #[inline(always)]
                #[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
                pub unsafe fn $name(&self, $($param: $ty),*) -> CUresult {
                    // SAFETY: the caller's promise is the function's.
                    unsafe { (self.$name)($($param),*) }
                }
            )*
        }
    };
    (@variant) => { None };
    (@variant $variant:ident) => { Some(stringify!($variant)) };
}

driver_functions!(define);

/// The row of an exported symbol (its own or its variant's).
pub fn row_of_symbol(symbol: &str) -> Option<&'static Row> {
    ROWS.iter().find(|r| r.symbol == symbol || r.variant == Some(symbol))
}

/// The row with that number on the wire.
pub fn row_of_number(number: u16) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&number, |r| r.number).ok().map(|i| &ROWS[i])
}

/// True if cuGetProcAddress' flags ask for the per-thread default stream.
pub const fn wants_per_thread(flags: u64) -> bool {
    flags & proc_address::FLAG_PER_THREAD_DEFAULT_STREAM != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_symbols_are_known() {
        assert!(ROWS.windows(2).all(|w| w[0].number < w[1].number));
        for row in ROWS {
            for symbol in [Some(row.symbol), row.variant].into_iter().flatten() {
                assert!(crate::symbols::index_of(symbol).is_some(), "{symbol} is not exported");
            }
            assert_eq!(row_of_number(row.number), Some(row));
        }
    }

    #[test]
    fn an_empty_provider_answers_not_supported() {
        // SAFETY: no address is given, so none is called; the stand-in touches no pointer.
        let result = unsafe { DriverTable::resolve(|_| None).cuInit(0) };
        assert_eq!(result, Err(CudaError::NOT_SUPPORTED));
    }
}
