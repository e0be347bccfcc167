//! Copies between host and device, plain and in two dimensions.

use std::{ffi::c_void, ptr};

use cudarc::driver::sys::{CUDA_MEMCPY2D_st as Copy2D, CUmemorytype as MemoryType};

use crate::{
    Check,
    support::{Env, HostWords, Outcome, Stream, Words, call, equal, holds, refused},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("copy.host_device", host_device),
    ("copy.odd_sizes", odd_sizes),
    ("copy.large", large),
    ("copy.device_device", device_device),
    ("copy.unified", unified),
    ("copy.async_pageable", async_pageable),
    ("copy.async_pinned", async_pinned),
    ("copy.two_dimensions", two_dimensions),
    ("copy.two_dimensions_device", two_dimensions_device),
    ("copy.two_dimensions_host", two_dimensions_host),
    ("copy.two_dimensions_wrong", two_dimensions_wrong),
    ("copy.wrong", wrong),
];

/// Unremarkable words.
fn pattern(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

fn host_device(_: &Env) -> Outcome {
    let words = Words::filled(100, 0)?;
    let input = pattern(100);
    call!(cuMemcpyHtoD_v2(words.address, input.as_ptr().cast(), 400))?;
    equal("words", words.read()?, input.clone())?;
    // Into the middle, and nothing.
    call!(cuMemcpyHtoD_v2(words.at(50), input.as_ptr().cast(), 40))?;
    call!(cuMemcpyHtoD_v2(words.at(70), input.as_ptr().cast(), 0))?;
    let mut expected = input.clone();
    expected[50..60].copy_from_slice(&input[..10]);
    equal("words", words.read()?, expected)
}

fn odd_sizes(_: &Env) -> Outcome {
    let words = Words::filled(64, 0)?;
    let input: Vec<u8> = (1..=255).collect();
    for (offset, length) in [(0, 1), (1, 1), (3, 7), (13, 101), (1, 255)] {
        call!(cuMemcpyHtoD_v2(words.address + offset, input.as_ptr().cast(), length))?;
        let mut back = vec![0u8; length + 1];
        call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), words.address + offset, length))?;
        equal("bytes", &back[..length], &input[..length])?;
        equal("the byte behind", back[length], 0)?;
    }
    Ok(())
}

/// Larger than any staging area that a driver may have.
fn large(_: &Env) -> Outcome {
    let length = 10_000_019;
    let words = Words::filled(length, 0)?;
    let input = pattern(length);
    call!(cuMemcpyHtoD_v2(words.address, input.as_ptr().cast(), length * 4))?;
    holds("what comes back is what went in", words.read()? == input)
}

fn device_device(_: &Env) -> Outcome {
    let (from, to) = (Words::filled(100, 0)?, Words::filled(100, 5)?);
    let input = pattern(100);
    call!(cuMemcpyHtoD_v2(from.address, input.as_ptr().cast(), 400))?;
    call!(cuMemcpyDtoD_v2(to.at(1), from.at(3), 40))?;
    let mut expected = vec![5; 100];
    expected[1..11].copy_from_slice(&input[3..13]);
    equal("words", to.read()?, expected)?;
    let stream = Stream::non_blocking()?;
    call!(cuMemcpyDtoDAsync_v2(to.address, from.address, 400, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", to.read()?, input)
}

/// One function for all directions: the addresses say which.
fn unified(_: &Env) -> Outcome {
    let (a, b) = (Words::filled(16, 0)?, Words::filled(16, 0)?);
    let input = pattern(16);
    let mut output = vec![0u32; 16];
    call!(cuMemcpy(a.address, input.as_ptr() as u64, 64))?;
    call!(cuMemcpy(b.address, a.address, 64))?;
    call!(cuMemcpy(output.as_mut_ptr() as u64, b.address, 64))?;
    equal("words", output.clone(), input.clone())?;
    output.fill(0);
    call!(cuMemcpy(output.as_mut_ptr() as u64, input.as_ptr() as u64, 64))?;
    equal("words from host to host", output, input)?;
    let stream = Stream::non_blocking()?;
    call!(cuMemcpyAsync(a.address, b.address, 64, stream.0))?;
    call!(cuStreamSynchronize(stream.0))
}

fn async_pageable(_: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let words = Words::filled(5000, 0)?;
    let expected = pattern(5000);
    let mut input = expected.clone();
    call!(cuMemcpyHtoDAsync_v2(words.address, input.as_ptr().cast(), 20_000, stream.0))?;
    // Pageable memory has been read when the call returns.
    input.fill(0);
    let mut output = vec![0u32; 5000];
    call!(cuMemcpyDtoHAsync_v2(output.as_mut_ptr().cast(), words.address, 20_000, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    holds("what comes back is what went in", output == expected)
}

fn async_pinned(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let words = Words::filled(2, 0)?;
    let host = HostWords::zeroed(2)?;
    host.set(0, 11);
    call!(cuMemcpyHtoDAsync_v2(words.address, host.host.cast(), 4, stream.0))?;
    env.slow_write(words.at(1), 12, 5, stream.0)?;
    let second = host.host.wrapping_add(1).cast();
    call!(cuMemcpyDtoHAsync_v2(second, words.at(1), 4, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("what the kernel wrote", host.get(1), 12)?;
    equal("words", words.read()?, vec![11, 12])
}

/// A description that copies nothing yet.
fn empty() -> Copy2D {
    Copy2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: 0,
        Height: 0,
    }
}

/// A rectangle of 3 x 2 words from (1, 1) of host rows of 8 words to (2, 3) of device rows of 16,
/// and back.
fn two_dimensions(_: &Env) -> Outcome {
    let input = pattern(8 * 4);
    let device = Words::filled(16 * 6, 0)?;
    let mut expected = vec![0; 16 * 6];
    for row in 0..2 {
        for column in 0..3 {
            expected[(row + 3) * 16 + column + 2] = input[(row + 1) * 8 + column + 1];
        }
    }
    let mut there = empty();
    (there.srcXInBytes, there.srcY, there.srcPitch) = (4, 1, 32);
    there.srcHost = input.as_ptr().cast();
    there.dstMemoryType = MemoryType::CU_MEMORYTYPE_DEVICE;
    (there.dstXInBytes, there.dstY, there.dstPitch) = (8, 3, 64);
    there.dstDevice = device.address;
    (there.WidthInBytes, there.Height) = (12, 2);
    call!(cuMemcpy2D_v2(&there))?;
    equal("words there", device.read()?, expected.clone())?;
    call!(cuMemsetD32_v2(device.address, 0, 16 * 6))?;
    call!(cuMemcpy2DUnaligned_v2(&there))?;
    equal("words there, unaligned form", device.read()?, expected)?;

    let mut output = vec![0u32; 8 * 4];
    let mut back = empty();
    back.srcMemoryType = MemoryType::CU_MEMORYTYPE_DEVICE;
    (back.srcXInBytes, back.srcY, back.srcPitch) = (8, 3, 64);
    back.srcDevice = device.address;
    (back.dstXInBytes, back.dstY, back.dstPitch) = (4, 1, 32);
    back.dstHost = output.as_mut_ptr().cast::<c_void>();
    (back.WidthInBytes, back.Height) = (12, 2);
    let stream = Stream::non_blocking()?;
    call!(cuMemcpy2DAsync_v2(&back, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    for (index, &word) in output.iter().enumerate() {
        let (row, column) = (index / 8, index % 8);
        let inside = (1..3).contains(&row) && (1..4).contains(&column);
        equal("word back", word, if inside { input[index] } else { 0 })?;
    }
    Ok(())
}

fn two_dimensions_device(_: &Env) -> Outcome {
    let (from, to) = (Words::filled(64, 0)?, Words::filled(64, 0)?);
    let input = pattern(64);
    call!(cuMemcpyHtoD_v2(from.address, input.as_ptr().cast(), 256))?;
    let mut copy = empty();
    copy.srcMemoryType = MemoryType::CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = MemoryType::CU_MEMORYTYPE_UNIFIED;
    (copy.srcDevice, copy.srcPitch) = (from.address, 32);
    (copy.dstDevice, copy.dstPitch) = (to.address, 16);
    (copy.WidthInBytes, copy.Height) = (16, 8);
    call!(cuMemcpy2D_v2(&copy))?;
    let got = to.read()?;
    for row in 0..8 {
        equal("row", &got[row * 4..row * 4 + 4], &input[row * 8..row * 8 + 4])?;
    }
    equal("the rest", &got[32..], &[0; 32][..])
}

fn two_dimensions_host(_: &Env) -> Outcome {
    let input = pattern(64);
    let mut output = vec![0u32; 64];
    let mut copy = empty();
    (copy.srcHost, copy.srcPitch) = (input.as_ptr().cast(), 32);
    (copy.dstHost, copy.dstPitch) = (output.as_mut_ptr().cast::<c_void>(), 64);
    (copy.WidthInBytes, copy.Height) = (32, 4);
    call!(cuMemcpy2DUnaligned_v2(&copy))?;
    for row in 0..4 {
        equal("row", &output[row * 16..row * 16 + 8], &input[row * 8..row * 8 + 8])?;
        equal("gap", &output[row * 16 + 8..row * 16 + 16], &[0; 8][..])?;
    }
    Ok(())
}

fn two_dimensions_wrong(_: &Env) -> Outcome {
    let words = Words::filled(64, 0)?;
    let input = pattern(64);
    let mut copy = empty();
    (copy.srcHost, copy.srcPitch) = (input.as_ptr().cast(), 32);
    copy.dstMemoryType = MemoryType::CU_MEMORYTYPE_DEVICE;
    (copy.dstDevice, copy.dstPitch) = (words.address, 16);
    (copy.WidthInBytes, copy.Height) = (32, 2);
    // A row is wider than the destination's pitch.
    refused!(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemcpy2D_v2(ptr::null()), CUDA_ERROR_INVALID_VALUE)?;
    equal("words", words.read()?, vec![0; 64])
}

fn wrong(_: &Env) -> Outcome {
    let words = Words::filled(4, 3)?;
    let mut host = [0u32; 4];
    refused!(cuMemcpyHtoD_v2(64, host.as_ptr().cast(), 16), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), 64, 16), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemcpyDtoD_v2(words.address, 64, 16), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemcpyHtoD_v2(words.address, ptr::null(), 16), CUDA_ERROR_INVALID_VALUE)?;
    equal("words", words.read()?, vec![3; 4])
}
