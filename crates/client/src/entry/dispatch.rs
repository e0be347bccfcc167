//! Dispatch: our own implementation of each row of the table.
//!
//! A row that a program gets and that has no implementation does not compile. `local` and `special`
//! rows are functions of [`crate::api`]; `post` and `call` rows are made from their parameters'
//! types ([`crate::program::forwarded`]), but for those named in `implement!` below, where the client has
//! something to check or to remember.

use super::trace;
use crate::api;
use crate::boundary::{FromProgram, guard, is_short};
use crate::program::SERVER_GONE;
use crate::program::forwarded::generic;
use crate::program::mode;
use crate::program::recovery::reported::take_reported;
use crate::stream::DefaultStream;
use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::*;

/// The expression that answers a call: `implement!(policy name [default stream] (arguments))`.
macro_rules! implement {
    (local $name:ident [$($default:expr)?] ($($argument:expr),*)) => {
        api::$name($($default,)? $($argument),*)
    };
    (special $name:ident [$($default:expr)?] ($($argument:expr),*)) => {
        api::$name($($default,)? $($argument),*)
    };

    // The client knows how long the range is that an address must begin.
    (post cuMemcpyDtoDAsync_v2 $($rest:tt)*) => { implement!(special cuMemcpyDtoDAsync_v2 $($rest)*) };
    (post cuMemsetD8Async $($rest:tt)*) => { implement!(special cuMemsetD8Async $($rest)*) };
    (post cuMemsetD16Async $($rest:tt)*) => { implement!(special cuMemsetD16Async $($rest)*) };
    (post cuMemsetD32Async $($rest:tt)*) => { implement!(special cuMemsetD32Async $($rest)*) };
    (post cuMemsetD2D8Async $($rest:tt)*) => { implement!(special cuMemsetD2D8Async $($rest)*) };
    (post cuMemsetD2D16Async $($rest:tt)*) => { implement!(special cuMemsetD2D16Async $($rest)*) };
    (post cuMemsetD2D32Async $($rest:tt)*) => { implement!(special cuMemsetD2D32Async $($rest)*) };

    // What a context prefers is its functions' preference.
    (post cuFuncSetCacheConfig $($rest:tt)*) => { implement!(special cuFuncSetCacheConfig $($rest)*) };
    // What the client knows is not asked for again.
    (call cuOccupancyMaxActiveBlocksPerMultiprocessor $($rest:tt)*) => {
        implement!(special cuOccupancyMaxActiveBlocksPerMultiprocessor $($rest)*)
    };
    (call cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags $($rest:tt)*) => {
        implement!(special cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags $($rest)*)
    };
    // Flags and alignment are checked before anything is posted, as CUDA does.
    (post cuStreamWriteValue32_v2 $($rest:tt)*) => { implement!(special cuStreamWriteValue32_v2 $($rest)*) };
    (post cuStreamWriteValue64_v2 $($rest:tt)*) => { implement!(special cuStreamWriteValue64_v2 $($rest)*) };
    (post cuStreamWaitValue32_v2 $($rest:tt)*) => { implement!(special cuStreamWaitValue32_v2 $($rest)*) };
    (post cuStreamWaitValue64_v2 $($rest:tt)*) => { implement!(special cuStreamWaitValue64_v2 $($rest)*) };

    (call cuFuncSetAttribute [] ($function:expr, $attribute:expr, $value:expr)) => {{
        let (function, attribute, value) = ($function, $attribute, $value);
        api::set_attribute(function, attribute, value, || generic!(
            call cuFuncSetAttribute, DefaultStream::Legacy, function, attribute, value))
    }};
    (call cuKernelSetAttribute [] ($attribute:expr, $value:expr, $kernel:expr, $device:expr)) => {{
        let (attribute, value, kernel, device) = ($attribute, $value, $kernel, $device);
        let function = mode::client_on(device)?.function_here(CUfunction(kernel.0))?;
        api::set_attribute(function, attribute, value, || generic!(
            call cuFuncSetAttribute, DefaultStream::Legacy, function, attribute, value))
    }};

    // Most limits are the context's, which is the client's own.
    (call cuCtxSetLimit [] ($limit:expr, $value:expr)) => {{
        let (limit, value) = ($limit, $value);
        api::set_limit(limit, value, |value| generic!(
            call cuCtxSetLimit, DefaultStream::Legacy, limit, value))
    }};

    (post $name:ident [] ($($argument:expr),*)) => {
        generic!(post $name, DefaultStream::Legacy $(, $argument)*)
    };
    (post $name:ident [$default:expr] ($($argument:expr),*)) => {
        generic!(post $name, $default $(, $argument)*)
    };
    (call $name:ident [] ($($argument:expr),*)) => {
        generic!(call $name, DefaultStream::Legacy $(, $argument)*)
    };
    (call $name:ident [$default:expr] ($($argument:expr),*)) => {
        generic!(call $name, $default $(, $argument)*)
    };
}

/// True if a call failed because its server is gone, another server has taken that one's place since
/// there were so many recoveries, and nothing of the call was carried out. Launches of several parts
/// may have been posted in part: for them the caller gets the error. An error of earlier work is what the call is
/// there to say.
#[inline(always)]
fn is_worth_repeating(name: &str, result: CUresult, recoveries: u32) -> bool {
    result.is_err()
        && !take_reported()
        && result == Err(SERVER_GONE)
        && !matches!(name, "cuGraphLaunch" | "cuLaunchKernelEx")
        && mode::recovered_since(recoveries)
}

/// A call of the program's failed.
#[cold]
fn failed(name: &'static str, error: CudaError) {
    trace::failed(name, Err(error));
    if let Ok(client) = mode::any_client() {
        client.show_assertions(error);
    }
}

/// One entry point: C on the outside, checked arguments on the inside.
macro_rules! entry_point {
    ($entry:ident = $policy:ident $name:ident $default:tt ($($param:ident: $ty:ty),*)) => {
        pub(super) unsafe extern "C" fn $entry($($param: $ty),*) -> CUresult {
            $(
                // SAFETY: the argument is the program's, passed by cuda.h's signature.
                let $param = unsafe { FromProgram::believe($param) };
            )*
            let result = loop {
                let recoveries = mode::recoveries();
                const IS_SHORT: bool = is_short(stringify!($name));
                let result = guard(IS_SHORT, || implement!($policy $name $default ($($param),*)));
                if !is_worth_repeating(stringify!($name), result, recoveries) {
                    break result;
                }
            };
            if let Err(error) = result {
                failed(stringify!($entry), error);
            }
            result
        }
    };
}

/// The entry points of a row: none if it is not supported, two if it has a variant.
macro_rules! entry_points {
    (unsupported $($rest:tt)*) => {};
    ($policy:ident $name:ident [] $params:tt) => {
        entry_point!($name = $policy $name [] $params);
    };
    ($policy:ident $name:ident [$variant:ident] $params:tt) => {
        entry_point!($name = $policy $name [DefaultStream::Legacy] $params);
        entry_point!($variant = $policy $name [DefaultStream::PerThread] $params);
    };
}

/// Compares a symbol with those of a row.
macro_rules! find {
    ($symbol:ident unsupported $($rest:tt)*) => {};
    ($symbol:ident $policy:ident $name:ident $($variant:ident)?) => {
        if $symbol == stringify!($name) {
            return Some(entries::$name as *const c_void);
        }
        $(if $symbol == stringify!($variant) {
            return Some(entries::$variant as *const c_void);
        })?
    };
}

macro_rules! dispatch {
    ($($number:literal $policy:ident $name:ident $(| $variant:ident)?
        ($($param:ident: $ty:ty),* $(,)?);)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "cuda.h's signatures")]
        mod entries {
            use super::*;
            $(entry_points!($policy $name [$($variant)?] ($($param: $ty),*));)*
        }

        /// The code that answers a symbol's calls; `None` if it is not implemented.
        pub(crate) fn code(symbol: &str) -> Option<*const c_void> {
            $(find!(symbol $policy $name $($variant)?);)*
            None
        }
    };
}

driver_functions!(dispatch);

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::{Policy, ROWS};

    #[test]
    fn every_supported_row_has_code_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for row in ROWS {
            for symbol in [Some(row.symbol), row.variant].into_iter().flatten() {
                let code = code(symbol);
                assert_eq!(code.is_none(), row.policy == Policy::Unsupported, "{symbol}");
                assert!(code.is_none_or(|code| seen.insert(code as usize)), "{symbol}");
            }
        }
    }
}
