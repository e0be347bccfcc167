//! Copies in three dimensions, between contexts, and in batches.

use std::ptr;

use cudarc::driver::sys::{self, CUDA_MEMCPY3D_st as Copy3D, CUmemorytype as MemoryType};

use crate::{
    Check,
    support::{Env, Outcome, Stream, Words, call, equal, refused},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("copy.three_dimensions", three_dimensions),
    ("copy.three_dimensions_host", three_dimensions_host),
    ("copy.three_dimensions_wrong", three_dimensions_wrong),
    ("copy.peer", peer),
];

/// A copy of nothing from nowhere, to be filled in.
pub(crate) fn nothing() -> Copy3D {
    let device = MemoryType::CU_MEMORYTYPE_DEVICE;
    Copy3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: device,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        reserved0: ptr::null_mut(),
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: device,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        reserved1: ptr::null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: 0,
        Height: 0,
        Depth: 0,
    }
}

/// From an array of 8 x 4 x 3 words, whose words are their numbers, 3 x 2 x 2 words from (1, 1, 1)
/// on, to (2, 0, 1) of an array of 6 x 3 x 4.
fn described(from: &Words, to: &Words) -> Copy3D {
    Copy3D {
        srcDevice: from.address,
        srcXInBytes: 4,
        srcY: 1,
        srcZ: 1,
        srcPitch: 32,
        srcHeight: 4,
        dstDevice: to.address,
        dstXInBytes: 8,
        dstZ: 1,
        dstPitch: 24,
        dstHeight: 3,
        WidthInBytes: 12,
        Height: 2,
        Depth: 2,
        ..nothing()
    }
}

fn expected() -> Vec<u32> {
    let mut words = vec![1000; 72];
    for (z, y, x) in (0..2).flat_map(|z| (0..2).flat_map(move |y| (0..3).map(move |x| (z, y, x)))) {
        words[(z + 1) * 18 + y * 6 + x + 2] = ((z + 1) * 32 + (y + 1) * 8 + x + 1) as u32;
    }
    words
}

fn numbered() -> Outcome<Words> {
    let words = Words::filled(96, 0)?;
    let numbers: Vec<u32> = (0..96).collect();
    call!(cuMemcpyHtoD_v2(words.address, numbers.as_ptr().cast(), 384))?;
    Ok(words)
}

fn three_dimensions(_: &Env) -> Outcome {
    let (from, to) = (numbered()?, Words::filled(72, 1000)?);
    call!(cuMemcpy3D_v2(&described(&from, &to)))?;
    equal("words", to.read()?, expected())?;
    let (stream, to) = (Stream::non_blocking()?, Words::filled(72, 1000)?);
    call!(cuMemcpy3DAsync_v2(&described(&from, &to), stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", to.read()?, expected())
}

fn three_dimensions_host(_: &Env) -> Outcome {
    let numbers: Vec<u32> = (0..96).collect();
    let (unused, to) = (Words::filled(1, 0)?, Words::filled(72, 1000)?);
    let mut copy = described(&unused, &to);
    copy.srcMemoryType = MemoryType::CU_MEMORYTYPE_HOST;
    copy.srcHost = numbers.as_ptr().cast();
    call!(cuMemcpy3D_v2(&copy))?;
    equal("words", to.read()?, expected())?;
    // And out again, to an array that is just as large.
    let mut back = [0u32; 12];
    let copy = Copy3D {
        srcDevice: to.address,
        srcXInBytes: 8,
        srcZ: 1,
        srcPitch: 24,
        srcHeight: 3,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        dstHost: back.as_mut_ptr().cast(),
        dstPitch: 12,
        dstHeight: 2,
        WidthInBytes: 12,
        Height: 2,
        Depth: 2,
        ..nothing()
    };
    call!(cuMemcpy3D_v2(&copy))?;
    equal("words", back, [41, 42, 43, 49, 50, 51, 73, 74, 75, 81, 82, 83])
}

fn three_dimensions_wrong(_: &Env) -> Outcome {
    let (from, to) = (numbered()?, Words::filled(72, 1000)?);
    let mut copy = described(&from, &to);
    copy.srcPitch = 8;
    refused!(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE)?;
    let mut copy = described(&from, &to);
    copy.Depth = 1000;
    refused!(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE)?;
    equal("words", to.read()?, vec![1000; 72])
}

fn peer(env: &Env) -> Outcome {
    let (from, to) = (numbered()?, Words::filled(96, 0)?);
    let context = env.context;
    call!(cuMemcpyPeer(to.address, context, from.address, context, 192))?;
    let stream = Stream::non_blocking()?;
    call!(cuMemcpyPeerAsync(to.at(48), context, from.at(48), context, 192, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", to.read()?, (0..96).collect())?;
    let mut can = 1;
    call!(cuDeviceCanAccessPeer(&mut can, env.device, env.device))?;
    equal("a device as its own peer", can, 0)?;
    refused!(
        cuCtxEnablePeerAccess(context, 0),
        CUDA_ERROR_INVALID_CONTEXT | CUDA_ERROR_PEER_ACCESS_UNSUPPORTED | CUDA_ERROR_INVALID_DEVICE
    )?;
    let null: sys::CUcontext = ptr::null_mut();
    refused!(cuCtxDisablePeerAccess(null), CUDA_ERROR_INVALID_CONTEXT | CUDA_ERROR_INVALID_VALUE)
}
