//! Launches: where threads find themselves, how parameters arrive, and what is refused.

use std::{ffi::c_void, ptr};

use cudarc::driver::sys;
use samples::gpu::launch_config;

use crate::{
    Check,
    support::{Env, Outcome, Words, call, equal, place, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("launch.nothing", nothing),
    ("launch.coordinates", coordinates),
    ("launch.parameters", parameters),
    ("launch.parameter_buffer", parameter_buffer),
    ("launch.dynamic_shared", dynamic_shared),
    ("launch.static_shared", static_shared),
    ("launch.local_memory", local_memory),
    ("launch.in_order", in_order),
    ("launch.many_blocks", many_blocks),
    ("launch.extended", extended),
    ("launch.wrong_shape", wrong_shape),
    ("launch.wrong_handle", wrong_handle),
];

const LEGACY: sys::CUstream = ptr::null_mut();

fn nothing(env: &Env) -> Outcome {
    env.launch(c"nothing", 1, 1, LEGACY, &mut [])?;
    env.launch(c"nothing", 100, 1024, LEGACY, &mut [])?;
    synchronize()
}

fn coordinates(env: &Env) -> Outcome {
    let function = env.function(c"coordinates")?;
    for (grid, block) in [([1, 1, 1], [33, 1, 1]), ([3, 2, 4], [5, 4, 3]), ([2, 3, 1], [1, 64, 2])]
    {
        let threads: u32 = grid.iter().chain(&block).product();
        let words = Words::filled(threads as usize, 0)?;
        let mut address = words.address;
        let mut arguments = [place(&mut address)];
        let arguments = arguments.as_mut_ptr();
        let ([gx, gy, gz], [bx, by, bz], extra) = (grid, block, ptr::null_mut());
        call!(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, 0, LEGACY, arguments, extra))?;
        equal("words", words.read()?, (1..=threads).collect())?;
    }
    Ok(())
}

/// The kernel's struct, with the padding that C gives it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mixed {
    byte: u8,
    wide: u64,
    half: u16,
    real: f32,
}

const MIXED: Mixed = Mixed { byte: 5, wide: 6 << 40, half: 7, real: 8.25 };

/// What `parameters` writes for the arguments that the two checks below pass.
const EXPECTED: [u64; 9] = [250, 1 << 50, 60_000, 14, 5, 6 << 40, 7, 33, 9];

fn read_longs(words: &Words) -> Outcome<Vec<u64>> {
    let words = words.read()?;
    Ok(words.chunks(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])).collect())
}

fn parameters(env: &Env) -> Outcome {
    let out = Words::filled(18, 0)?;
    let (mut a, mut b, mut c, mut d) = (250u8, 1u64 << 50, 60_000u16, 3.5f64);
    let (mut e, mut f, mut address) = (MIXED, 9u8, out.address);
    let mut arguments = [
        place(&mut a),
        place(&mut b),
        place(&mut c),
        place(&mut d),
        place(&mut e),
        place(&mut f),
        place(&mut address),
    ];
    env.launch(c"parameters", 1, 1, LEGACY, &mut arguments)?;
    // The values have been taken when the call returns.
    (a, b, c, d, f, address) = (0, 0, 0, 0.0, 0, 0);
    equal("what is left here", (a, b, c, d, f, address), (0, 0, 0, 0.0, 0, 0))?;
    equal("parameters", read_longs(&out)?, EXPECTED.to_vec())
}

/// All parameters in one buffer, laid out as C lays out a struct.
#[repr(C)]
struct Buffer {
    a: u8,
    b: u64,
    c: u16,
    d: f64,
    e: Mixed,
    f: u8,
    out: u64,
}

fn parameter_buffer(env: &Env) -> Outcome {
    let out = Words::filled(18, 0)?;
    let mut buffer =
        Buffer { a: 250, b: 1 << 50, c: 60_000, d: 3.5, e: MIXED, f: 9, out: out.address };
    let mut size = size_of::<Buffer>();
    // CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END of the manual.
    let mut extra: [*mut c_void; 5] = [
        ptr::without_provenance_mut(1),
        place(&mut buffer),
        ptr::without_provenance_mut(2),
        place(&mut size),
        ptr::null_mut(),
    ];
    let function = env.function(c"parameters")?;
    let none = ptr::null_mut();
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, LEGACY, none, extra.as_mut_ptr()))?;
    equal("parameters", read_longs(&out)?, EXPECTED.to_vec())
}

fn dynamic_shared(env: &Env) -> Outcome {
    let words = Words::filled(64, 0)?;
    let input: Vec<u32> = (0..64).collect();
    call!(cuMemcpyHtoD_v2(words.address, input.as_ptr().cast(), 256))?;
    let function = env.function(c"reverse")?;
    let mut address = words.address;
    let mut arguments = [place(&mut address)];
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    call!(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, LEGACY, arguments, extra))?;
    equal("words", words.read()?, (0..64).rev().collect())
}

fn static_shared(env: &Env) -> Outcome {
    let words = Words::filled(128, 0)?;
    let mut address = words.address;
    env.launch(c"bounded", 1, 128, LEGACY, &mut [place(&mut address)])?;
    equal("words", words.read()?, (0..128).map(|i| 1023 - i).collect())
}

fn local_memory(env: &Env) -> Outcome {
    let words = Words::filled(64, 0)?;
    let (mut address, mut shift) = (words.address, 11u32);
    let mut arguments = [place(&mut address), place(&mut shift)];
    env.launch(c"local_array", 1, 64, LEGACY, &mut arguments)?;
    let mut own = [0u32; 32];
    for i in 0..32 {
        own[(i + 11) % 32] = i as u32 * 3;
    }
    let sum = |thread: usize| (0..32).map(|i| own[(i * 7 + thread) % 32] * (i as u32 + 1)).sum();
    equal("words", words.read()?, (0..64).map(sum).collect())
}

fn in_order(env: &Env) -> Outcome {
    let words = Words::filled(100, 0)?;
    let (mut address, mut length) = (words.address, 100i32);
    for _ in 0..1000 {
        let mut arguments = [place(&mut address), place(&mut length)];
        env.launch(c"add_one", 4, 32, LEGACY, &mut arguments)?;
    }
    equal("words", words.read()?, vec![1000; 100])
}

fn many_blocks(env: &Env) -> Outcome {
    let length = 100_000usize;
    let words = Words::filled(length, 0)?;
    let (mut address, mut count, mut value) = (words.address, length as i32, 3u32);
    let mut arguments = [place(&mut address), place(&mut count), place(&mut value)];
    env.launch(c"fill", (length as u32).div_ceil(64), 64, LEGACY, &mut arguments)?;
    equal("words that are set", words.read()?.iter().filter(|&&w| w == 3).count(), length)
}

fn extended(env: &Env) -> Outcome {
    let words = Words::filled(64, 0)?;
    let (mut address, mut length, mut value) = (words.address, 64i32, 4u32);
    let mut arguments = [place(&mut address), place(&mut length), place(&mut value)];
    let config = launch_config([2, 32], LEGACY, &mut []);
    let function = env.function(c"fill")?;
    call!(cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), ptr::null_mut()))?;
    equal("words", words.read()?, vec![4; 64])
}

fn wrong_shape(env: &Env) -> Outcome {
    let nothing = env.function(c"nothing")?;
    let bounded = env.function(c"bounded")?;
    let (none, extra) = (ptr::null_mut(), ptr::null_mut());
    for (grid, block) in [
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [32, 33, 1]),
        ([1, 1, 1], [1, 1, 65]),
        ([1, 1, 1], [0, 1, 1]),
        ([0, 1, 1], [1, 1, 1]),
        ([1, 65_536, 1], [1, 1, 1]),
        ([1, 1, 65_536], [1, 1, 1]),
        ([1 << 31, 1, 1], [1, 1, 1]),
    ] {
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        refused!(
            cuLaunchKernel(nothing, gx, gy, gz, bx, by, bz, 0, LEGACY, none, extra),
            CUDA_ERROR_INVALID_VALUE
        )?;
    }
    // More than its launch bounds allow.
    let mut address = 0u64;
    let mut arguments = [place(&mut address)];
    let arguments = arguments.as_mut_ptr();
    refused!(
        cuLaunchKernel(bounded, 1, 1, 1, 256, 1, 1, 0, LEGACY, arguments, extra),
        CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    )?;
    // More shared memory than any block can have.
    refused!(
        cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 1 << 20, LEGACY, none, extra),
        CUDA_ERROR_INVALID_VALUE
    )?;
    // A refused launch does no harm.
    nothing_is_wrong()
}

fn nothing_is_wrong() -> Outcome {
    synchronize()?;
    equal("words", Words::filled(4, 2)?.read()?, vec![2; 4])
}

fn wrong_handle(_: &Env) -> Outcome {
    let (none, extra, function) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    refused!(
        cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, LEGACY, none, extra),
        CUDA_ERROR_INVALID_HANDLE | CUDA_ERROR_INVALID_VALUE
    )?;
    let mut function = ptr::null_mut();
    refused!(
        cuModuleGetFunction(&mut function, ptr::null_mut(), c"nothing".as_ptr()),
        CUDA_ERROR_INVALID_HANDLE | CUDA_ERROR_INVALID_VALUE
    )?;
    nothing_is_wrong()
}
