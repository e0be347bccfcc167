//! Memory sets. Their synchronous form is the asynchronous one in the default stream; as in CUDA
//! it does not wait where it writes what is the device's, and does where the host looks with its
//! own eyes (pinned and managed memory).

use super::copy::Ends;
use crate::memory::address::Side;
use crate::program::launch::submission::wire_stream;
use crate::program::memory::fill::check_fill;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::c_uint;
use cuda_api::{CUdeviceptr, CUresult, CUstream, Word, number};
use graph::{FillNode, NodeKind};

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
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    check_fill(client, &fill)?;
    if client.captured(stream, || Ok(NodeKind::Fill(fill)))? {
        client.write_unseen(fill.dst.0);
        return Ok(());
    }
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    let mut all = [0; WORDS_MAX];
    all[..N].copy_from_slice(&words);
    all[N] = wire_stream(stream).to_word();
    let present = client.present_address(fill.dst.0);
    all[0] = present;
    let bytes = u64::from(fill.elementSize) * fill.width as u64;
    if fill.height > 1 {
        client.write_unseen(fill.dst.0);
    } else if let Some(copy) = client.copy_of_variable(fill.dst.0, bytes)? {
        all[0] = copy;
        client.posting()?.push_words_in(stream, opcode, &all[..=N])?;
        let words = [present, copy, bytes, wire_stream(stream).to_word()];
        client.posting()?.push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words)?;
        return Ok(());
    }
    client.posting()?.push_words_in(stream, opcode, &all[..=N])?;
    let seen_by_host = ends == Ends::WithCall && client.end(fill.dst.0, 1)?.0 == Side::Pinned;
    if seen_by_host { client.synchronize(stream) } else { Ok(()) }
}

/// A fill with elements of type `T`.
fn fill<T>(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) -> FillNode {
    FillNode { dst, pitch, value, elementSize: size_of::<T>() as c_uint, width, height }
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
