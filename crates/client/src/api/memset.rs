//! Memory sets. Their synchronous form is the asynchronous one in the default stream; as in CUDA
//! it does not wait where it writes what is the device's, and does where the host looks with its
//! own eyes (pinned and managed memory).

use super::copy::Ends;
use crate::attach::Attached;
use crate::memory::where_is::Side;
use crate::mode;
use crate::state::wire_stream;
use crate::threads::DefaultStream;
use core::ffi::c_uint;
use cuda_api::{CUdeviceptr, CUresult, CUstream, CudaError, Word, number};
use graph::{FillNode, NodeKind};

/// Checks a fill: rows of elements at multiples of an element, within one allocation.
pub(crate) fn check_fill(client: &Attached, fill: &FillNode) -> CUresult {
    let element = u64::from(fill.elementSize);
    let aligned = fill.dst.0.is_multiple_of(element)
        && (fill.height <= 1 || (fill.pitch as u64).is_multiple_of(element));
    let bytes = rows_bytes(fill.pitch, element, fill.width, fill.height);
    match bytes.filter(|_| aligned).ok_or(CudaError::INVALID_VALUE)? {
        0 => Ok(()),
        bytes => client.memory().check_device_range(fill.dst.0, bytes),
    }
}

/// Posts a fill: the row `opcode` with `words` before the stream's word.
fn post<const N: usize>(
    default: DefaultStream,
    stream: CUstream,
    opcode: u16,
    fill: FillNode,
    words: [u64; N],
    ends: Ends,
) -> CUresult {
    const WORDS_MAX: usize = 8;
    let client = mode::client()?;
    let stream = client.stream(stream, default)?;
    check_fill(client, &fill)?;
    if client.captured(stream, || Ok(NodeKind::Fill(fill)))? {
        return Ok(());
    }
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    let mut all = [0; WORDS_MAX];
    all[..N].copy_from_slice(&words);
    all[N] = wire_stream(stream).to_word();
    client.state().push_words_in(stream, opcode, &all[..=N])?;
    let seen_by_host =
        ends == Ends::WithCall && client.memory().side(fill.dst.0, 1)? == Side::Pinned;
    if seen_by_host { client.synchronize(stream) } else { Ok(()) }
}

/// A fill with elements of type `T`.
fn fill<T>(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) -> FillNode {
    FillNode { dst, pitch, value, elementSize: size_of::<T>() as c_uint, width, height }
}

/// Bytes of `height` rows of `width` elements.
fn rows_bytes(pitch: usize, element: u64, width: usize, height: usize) -> Option<u64> {
    let row = element.checked_mul(width as u64)?;
    if row == 0 || height == 0 {
        return Some(0);
    }
    if height > 1 && (pitch as u64) < row {
        return None;
    }
    (height as u64 - 1).checked_mul(pitch as u64)?.checked_add(row)
}

macro_rules! linear {
    ($($name:ident, $in_stream:ident, $ty:ty;)*) => {$(
        pub(crate) fn $name(
            default: DefaultStream,
            pointer: CUdeviceptr,
            value: $ty,
            count: usize,
        ) -> CUresult {
            let fill = fill::<$ty>(pointer, 0, value.into(), count, 1);
            let words = [pointer.0, value.to_word(), count as u64];
            post(default, CUstream::NULL, number::$in_stream, fill, words, Ends::WithCall)
        }

        pub(crate) fn $in_stream(
            default: DefaultStream,
            pointer: CUdeviceptr,
            value: $ty,
            count: usize,
            stream: CUstream,
        ) -> CUresult {
            let fill = fill::<$ty>(pointer, 0, value.into(), count, 1);
            let words = [pointer.0, value.to_word(), count as u64];
            post(default, stream, number::$in_stream, fill, words, Ends::InStream)
        }
    )*};
}

linear! {
    cuMemsetD8_v2, cuMemsetD8Async, u8;
    cuMemsetD16_v2, cuMemsetD16Async, u16;
    cuMemsetD32_v2, cuMemsetD32Async, c_uint;
}

macro_rules! pitched {
    ($($name:ident, $in_stream:ident, $ty:ty;)*) => {$(
        pub(crate) fn $name(
            default: DefaultStream,
            pointer: CUdeviceptr,
            pitch: usize,
            value: $ty,
            width: usize,
            height: usize,
        ) -> CUresult {
            let fill = fill::<$ty>(pointer, pitch, value.into(), width, height);
            let words = [pointer.0, pitch as u64, value.to_word(), width as u64, height as u64];
            post(default, CUstream::NULL, number::$in_stream, fill, words, Ends::WithCall)
        }

        pub(crate) fn $in_stream(
            default: DefaultStream,
            pointer: CUdeviceptr,
            pitch: usize,
            value: $ty,
            width: usize,
            height: usize,
            stream: CUstream,
        ) -> CUresult {
            let fill = fill::<$ty>(pointer, pitch, value.into(), width, height);
            let words = [pointer.0, pitch as u64, value.to_word(), width as u64, height as u64];
            post(default, stream, number::$in_stream, fill, words, Ends::InStream)
        }
    )*};
}

pitched! {
    cuMemsetD2D8_v2, cuMemsetD2D8Async, u8;
    cuMemsetD2D16_v2, cuMemsetD2D16Async, u16;
    cuMemsetD2D32_v2, cuMemsetD2D32Async, c_uint;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reach_from_the_first_to_the_end_of_the_last() {
        assert_eq!(rows_bytes(512, 4, 10, 3), Some(2 * 512 + 40));
        assert_eq!(rows_bytes(0, 4, 10, 1), Some(40));
        assert_eq!(rows_bytes(8, 4, 10, 2), None, "rows overlap");
        assert_eq!(rows_bytes(usize::MAX, 1, 1, usize::MAX), None);
        assert_eq!(rows_bytes(0, 4, 0, 7), Some(0));
    }
}
