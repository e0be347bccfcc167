//! Cooperative launches: all blocks are resident at once and may wait for each other.

use std::{ptr, slice};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use samples::gpu::launch_config;

use crate::{
    Check,
    support::{Env, Outcome, Stop, Stream, Words, call, equal, load, place, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("cooperative.meet", meet),
    ("cooperative.extended", extended),
    ("cooperative.too_large", too_large),
];

/// Each block of one thread sets its flag, all meet as `grid.sync()` has them meet (a barrier in
/// the driver's workspace), twice, and each counts the flags in between.
const MEET: &str = "
.version 7.0
.target sm_70
.address_size 64

.visible .entry meet(.param .u64 flags, .param .u64 counts)
{
    .reg .pred %p<4>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<12>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    ld.param.u64 %rd1, [flags];
    ld.param.u64 %rd2, [counts];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    st.volatile.global.u32 [%rd4], 1;

    mov.u32 %r3, %envreg2;
    mov.u32 %r4, %envreg1;
    mov.b64 %rd5, {%r3, %r4};
    add.s64 %rd6, %rd5, 4;
    setp.eq.u32 %p1, %r1, 0;
    sub.u32 %r5, 0x80000001, %r2;
    selp.b32 %r6, %r5, 1, %p1;
    mov.u32 %r14, 0;
MEET:
    membar.gl;
    atom.add.u32 %r7, [%rd6], %r6;
WAIT:
    ld.volatile.u32 %r8, [%rd6];
    xor.b32 %r9, %r7, %r8;
    and.b32 %r10, %r9, 0x80000000;
    setp.eq.u32 %p2, %r10, 0;
    @%p2 bra WAIT;
    membar.gl;
    setp.ne.u32 %p3, %r14, 0;
    @%p3 bra DONE;

    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    mov.u64 %rd7, %rd1;
SUM:
    ld.volatile.global.u32 %r13, [%rd7];
    add.u32 %r12, %r12, %r13;
    add.s64 %rd7, %rd7, 4;
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p2, %r11, %r2;
    @%p2 bra SUM;
    add.s64 %rd8, %rd2, %rd3;
    st.global.u32 [%rd8], %r12;
    mov.u32 %r14, 1;
    bra MEET;
DONE:
    st.volatile.global.u32 [%rd4], 0;
    ret;
}
";

/// The kernel and how many of its blocks the device takes at once.
fn kernel(env: &Env) -> Outcome<(sys::CUmodule, sys::CUfunction, u32)> {
    if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? == 0 {
        return Err(Stop::Absent("the device has no cooperative launches".to_owned()));
    }
    let module = load(MEET)?;
    let mut function = ptr::null_mut();
    call!(cuModuleGetFunction(&mut function, module, c"meet".as_ptr()))?;
    let mut blocks = 0;
    call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 1, 0))?;
    let sms = env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok((module, function, (blocks * sms) as u32))
}

fn check(blocks: u32, launch: impl FnOnce(&mut [*mut std::ffi::c_void]) -> Outcome) -> Outcome {
    let (flags, counts) = (Words::filled(blocks as usize, 0)?, Words::filled(blocks as usize, 0)?);
    let (mut first, mut second) = (flags.address, counts.address);
    launch(&mut [place(&mut first), place(&mut second)])?;
    synchronize()?;
    equal("flags seen by each block", counts.read()?, vec![blocks; blocks as usize])?;
    equal("flags after the second meeting", flags.read()?, vec![0; blocks as usize])
}

fn meet(env: &Env) -> Outcome {
    let (module, function, room) = kernel(env)?;
    for blocks in [1, 2, 7, room.min(40)] {
        check(blocks, |arguments| {
            let (stream, arguments) = (ptr::null_mut(), arguments.as_mut_ptr());
            call!(cuLaunchCooperativeKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, arguments))
        })?;
    }
    call!(cuModuleUnload(module))
}

fn extended(env: &Env) -> Outcome {
    let (module, function, room) = kernel(env)?;
    let stream = Stream::non_blocking()?;
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { cooperative: 1 },
    };
    let blocks = room.min(20);
    let config = launch_config([blocks, 1], stream.0, slice::from_mut(&mut attribute));
    check(blocks, |arguments| {
        let extra = ptr::null_mut();
        call!(cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), extra))
    })?;
    call!(cuModuleUnload(module))
}

fn too_large(env: &Env) -> Outcome {
    let (module, function, room) = kernel(env)?;
    let (mut first, mut second) = (0u64, 0u64);
    let mut arguments = [place(&mut first), place(&mut second)];
    let (stream, arguments) = (ptr::null_mut(), arguments.as_mut_ptr());
    refused!(
        cuLaunchCooperativeKernel(function, room + 1, 1, 1, 1, 1, 1, 0, stream, arguments),
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    )?;
    call!(cuModuleUnload(module))
}
