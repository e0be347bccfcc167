//! Rows of the table that are forwarded as they are: `post` and `call`.
//!
//! A request has one word for each parameter that is no result, in the row's order; a reply has
//! one word for each that is. The code of each row comes from its types: a handle is looked up, a
//! stream is entered, a result gets a place. A range of addresses is not visible in types, so the
//! few rows with device pointers say theirs in [`check_ranges`], and one that says nothing is
//! refused.

use super::memory::Memory;
use super::memory::ranges::extent_of_rows;
use super::stream::submission::Submission;
use super::stream::table::Work;
use crate::device::Share;
use crate::meter::Direction;
use cuda_api::*;
use scheduling::Predicted;
use std::ffi::{c_int, c_uint};

/// Rows' numbers are below this.
const NUMBERS_END: usize = 2048;

/// Reads a row's parameters from words, calls the provider, appends results to the vector.
type Handler = fn(&mut Submission, &Memory, &[u64], &mut Vec<u64>) -> CUresult;

/// A parameter's type as a row names it.
trait Parameter: Sized {
    /// What is kept of it during the call.
    type Place;
    /// Takes it from the request; a result takes nothing.
    fn take(submission: &mut Submission, words: &mut &[u64]) -> Result<Self::Place, CudaError>;
    /// What the provider is given.
    fn give(place: &mut Self::Place) -> Self;
    /// Appends it to the reply if it is a result.
    fn answer(_: &Self::Place, _: &mut Vec<u64>) {}
}

fn next(words: &mut &[u64]) -> Result<u64, CudaError> {
    let (first, rest) = words.split_first().ok_or(CudaError::INVALID_VALUE)?;
    *words = rest;
    Ok(*first)
}

macro_rules! values {
    ($($ty:ty),*) => {$(
        impl Parameter for $ty {
            type Place = Self;
            fn take(_: &mut Submission, words: &mut &[u64]) -> Result<Self, CudaError> {
                <$ty>::from_word(next(words)?).ok_or(CudaError::INVALID_VALUE)
            }
            fn give(place: &mut Self) -> Self {
                *place
            }
        }
    )*};
}

values!(u8, u16, u32, i32, u64, usize, CUdeviceptr);

/// A result: a place of our own, whose address the provider gets.
impl<T: Word + Default> Parameter for *mut T {
    type Place = T;
    fn take(_: &mut Submission, _: &mut &[u64]) -> Result<T, CudaError> {
        Ok(T::default())
    }
    fn give(place: &mut T) -> Self {
        place
    }
    fn answer(place: &T, results: &mut Vec<u64>) {
        results.push(place.to_word());
    }
}

impl Parameter for CUstream {
    type Place = Self;
    fn take(submission: &mut Submission, words: &mut &[u64]) -> Result<Self, CudaError> {
        let stream = next(words)?;
        submission.wait_for_step(stream)?;
        let slot = submission.streams.enter(stream, Work::Ordered)?;
        slot.stream.interrupt();
        slot.stream.count_operation();
        Ok(slot.stream.raw())
    }
    fn give(place: &mut Self) -> Self {
        *place
    }
}

impl Parameter for CUfunction {
    type Place = Self;
    fn take(submission: &mut Submission, words: &mut &[u64]) -> Result<Self, CudaError> {
        Ok(submission.modules.function(next(words)?)?.raw())
    }
    fn give(place: &mut Self) -> Self {
        *place
    }
}

/// On the wire a kernel of a library is a function; the one row about kernels is turned into the
/// one about functions before it comes here ([`as_function_attribute`]).
impl Parameter for CUkernel {
    type Place = Self;
    fn take(_: &mut Submission, _: &mut &[u64]) -> Result<Self, CudaError> {
        Err(CudaError::NOT_SUPPORTED)
    }
    fn give(place: &mut Self) -> Self {
        *place
    }
}

/// Makes a call of the provider; one that submits work is timed as such.
#[inline]
fn made(submits: bool, share: &Share, call: impl FnOnce() -> CUresult) -> CUresult {
    if submits { share.submission_time().of(call) } else { call() }
}

/// True if the text of a type is that of a device address.
const fn is_device_pointer(text: &str) -> bool {
    let (text, wanted) = (text.as_bytes(), b"CUdeviceptr");
    let mut index = 0;
    while index < text.len() && index < wanted.len() && text[index] == wanted[index] {
        index += 1;
    }
    text.len() == wanted.len() && index == wanted.len()
}

macro_rules! handler {
    (post $number:ident $name:ident ($($param:ident: $ty:ty),*)) => {
        handler!(forward true $number $name ($($param: $ty),*))
    };
    (call $number:ident $name:ident ($($param:ident: $ty:ty),*)) => {
        handler!(forward false $number $name ($($param: $ty),*))
    };
    (forward $submits:literal $number:ident $name:ident ($($param:ident: $ty:ty),*)) => {{
        fn handle(
            submission: &mut Submission,
            memory: &Memory,
            words: &[u64],
            results: &mut Vec<u64>,
        ) -> CUresult {
            if const { false $(|| is_device_pointer(stringify!($ty)))* } {
                check_ranges(memory, number::$number, words)?;
            }
            let all = words;
            let mut predicted = None;
            if const { $submits && (false $(|| is_device_pointer(stringify!($ty)))*) } {
                predicted = pass(submission, number::$number, words)?;
            }
            let mut words = words;
            $(let mut $param = <$ty as Parameter>::take(submission, &mut words)?;)*
            if !words.is_empty() {
                return Err(CudaError::INVALID_VALUE);
            }
            // SAFETY: handles were looked up in the session's tables, device addresses were
            // checked to be the session's (check_ranges), and a result's pointer leads to a
            // place of this function.
            let call = || unsafe {
                submission
                    .share
                    .device()
                    .table()
                    .$name($(<$ty as Parameter>::give(&mut $param)),*)
            };
            made($submits, &submission.share, call)?;
            $(<$ty as Parameter>::answer(&$param, results);)*
            if const { false $(|| is_device_pointer(stringify!($ty)))* } {
                return count(submission, number::$number, all, predicted);
            }
            Ok(())
        }
        Some(handle as Handler)
    }};
    ($other:ident $number:ident $name:ident ($($param:ident: $ty:ty),*)) => {
        None
    };
}

macro_rules! handlers {
    ($($number:literal $policy:ident $name:ident $(| $variant:ident)?
        ($($param:ident: $ty:ty),* $(,)?);)*) => {
        /// The handler of each row that is forwarded, by its number.
        static HANDLERS: [Option<Handler>; NUMBERS_END] = {
            let mut handlers: [Option<Handler>; NUMBERS_END] = [None; NUMBERS_END];
            $(handlers[$number] = handler!($policy $name $name ($($param: $ty),*));)*
            handlers
        };
    };
}

driver_functions!(handlers);

/// The handler of a row; `None` if the row is not one that is forwarded.
pub(super) fn handler(number: u16) -> Option<Handler> {
    HANDLERS.get(usize::from(number)).copied().flatten()
}

/// Checks the ranges of device memory that a row reads or writes.
fn check_ranges(memory: &Memory, row: u16, words: &[u64]) -> CUresult {
    let check = |address: u64, bytes: u64| memory.device_range(address, bytes);
    let times = |count: u64, size: u64| count.checked_mul(size).ok_or(CudaError::INVALID_VALUE);
    let fill = |size: u64| match *words {
        [to, _, count, _] => check(to, times(count, size)?),
        _ => Err(CudaError::INVALID_VALUE),
    };
    let fill_rows = |size: u64| match *words {
        [to, pitch, _, width, height, _] => {
            check(to, extent_of_rows(pitch, times(width, size)?, height)?)
        }
        _ => Err(CudaError::INVALID_VALUE),
    };
    let word = |size: u64| match *words {
        [_, at, _, _] if at.is_multiple_of(size) => check(at, size),
        _ => Err(CudaError::INVALID_VALUE),
    };
    match row {
        number::cuMemcpyDtoDAsync_v2 => match *words {
            [to, from, bytes, _] => check(to, bytes).and(check(from, bytes)),
            _ => Err(CudaError::INVALID_VALUE),
        },
        number::cuStreamWriteValue32_v2 | number::cuStreamWaitValue32_v2 => word(4),
        number::cuStreamWriteValue64_v2 | number::cuStreamWaitValue64_v2 => word(8),
        number::cuMemsetD8Async => fill(1),
        number::cuMemsetD16Async => fill(2),
        number::cuMemsetD32Async => fill(4),
        number::cuMemsetD2D8Async => fill_rows(1),
        number::cuMemsetD2D16Async => fill_rows(2),
        number::cuMemsetD2D32Async => fill_rows(4),
        _ => Err(CudaError::NOT_SUPPORTED),
    }
    .map(|_| ())
}

/// Bytes and stream of a row that copies or fills; `None` of another one.
fn bytes_of(row: u16, words: &[u64]) -> Option<(u64, u64)> {
    let area = |element: u64, width: u64, height: u64| {
        element.saturating_mul(width).saturating_mul(height)
    };
    Some(match (row, words) {
        (number::cuMemcpyDtoDAsync_v2, [_, _, bytes, stream]) => (*bytes, *stream),
        (number::cuMemsetD8Async, [_, _, count, stream]) => (*count, *stream),
        (number::cuMemsetD16Async, [_, _, count, stream]) => (area(2, *count, 1), *stream),
        (number::cuMemsetD32Async, [_, _, count, stream]) => (area(4, *count, 1), *stream),
        (number::cuMemsetD2D8Async, [_, _, _, width, height, stream]) => {
            (area(1, *width, *height), *stream)
        }
        (number::cuMemsetD2D16Async, [_, _, _, width, height, stream]) => {
            (area(2, *width, *height), *stream)
        }
        (number::cuMemsetD2D32Async, [_, _, _, width, height, stream]) => {
            (area(4, *width, *height), *stream)
        }
        _ => return None,
    })
}

/// Waits until a copy or a fill may be submitted. Returns what it is predicted to take, if it had to ask.
fn pass(
    submission: &mut Submission,
    row: u16,
    words: &[u64],
) -> Result<Option<Predicted>, CudaError> {
    match bytes_of(row, words) {
        Some((bytes, _)) => submission.pass_copy(Direction::Within, bytes),
        None => Ok(None),
    }
}

/// Counts a copy or a fill that was submitted.
fn count(
    submission: &mut Submission,
    row: u16,
    words: &[u64],
    predicted: Option<Predicted>,
) -> CUresult {
    let Some((bytes, stream)) = bytes_of(row, words) else { return Ok(()) };
    if let Some(counters) = submission.streams.counters(stream) {
        counters.copied(Direction::Within, bytes);
    }
    if predicted.is_none() {
        return Ok(());
    }
    let slot = submission.streams.enter(stream, Work::Mark)?;
    submission.work.submitted_copy(slot, predicted)
}

/// cuKernelSetAttribute's words as those of cuFuncSetAttribute: on the wire a kernel of a library
/// is a function, and there is one device. `attribute, value, kernel, device` become `function,
/// attribute, value`.
pub(super) fn as_function_attribute(words: &[u64]) -> Result<[u64; 3], CudaError> {
    match *words {
        [attribute, value, kernel, 0] => Ok([kernel, attribute, value]),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_to_forward_has_a_handler_and_no_other() {
        for row in ROWS {
            let forwarded = matches!(row.policy, Policy::Post | Policy::Call);
            assert_eq!(handler(row.number).is_some(), forwarded, "{}", row.symbol);
        }
        assert!(handler(u16::MAX).is_none());
    }

    #[test]
    fn device_pointers_are_recognised() {
        assert!(is_device_pointer("CUdeviceptr"));
        for other in ["CUdevice", "*mut CUdeviceptr", "CUdeviceptrs", ""] {
            assert!(!is_device_pointer(other), "{other}");
        }
    }

    #[test]
    fn what_is_set_of_a_kernel_is_set_of_its_function() {
        assert_eq!(as_function_attribute(&[8, 4096, 77, 0]), Ok([77, 8, 4096]));
        assert!(as_function_attribute(&[8, 4096, 77, 1]).is_err());
        assert!(as_function_attribute(&[8, 4096, 77]).is_err());
    }
}
