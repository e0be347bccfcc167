//! `cargo bench -p soft-gpu --bench locks`: how long threads take that all want one spin lock.
//!
//! Each thread takes the lock once, adds to a sum and gives the lock back. The tier is the one that
//! the environment chooses (`OPENMPS_SOFT_TIER`, `OPENMPS_SOFT_SIMD`).

use anyhow::{Context, Result, ensure};
use cuda_api::*;
use openmps_soft as _;
use std::ptr::null_mut;
use std::time::Instant;

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxSynchronize cuModuleLoadData
    cuModuleGetFunction cuMemAlloc_v2 cuMemsetD8_v2 cuMemcpyDtoH_v2 cuLaunchKernel
}

/// Blocks, and threads of each.
const SHAPES: [(u32, u32); 5] = [(1, 32), (1, 256), (16, 32), (2, 256), (16, 256)];
/// Launches of each shape; the first one has the kernel compiled.
const LAUNCHES: usize = 6;

const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_80
.address_size 64
.visible .entry locked(.param .u64 p)
{
    .reg .b64 %o; .reg .b32 %r; .reg .pred %taken;
    ld.param.u64 %o, [p];
TAKE:
    atom.global.cas.b32 %r, [%o], 0, 1;
    setp.ne.u32 %taken, %r, 0;
    @%taken bra TAKE;
    ld.volatile.global.u32 %r, [%o+4];
    add.u32 %r, %r, 1;
    st.volatile.global.u32 [%o+4], %r;
    membar.gl;
    atom.global.exch.b32 %r, [%o], 0;
    ret;
}
";

/// Calls a function of the table.
macro_rules! cu {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: arguments are values, handles made by the same table, and places on the stack
        // that live across the call.
        unsafe { ($table.$name)($($argument),*) }
            .with_context(|| concat!(stringify!($name), " failed"))
    };
}

fn main() -> Result<()> {
    // SAFETY: the symbols are the software GPU's, linked into this program.
    let t = unsafe { DriverTable::resolve(symbol) };
    let (mut context, mut module) = (CUcontext::NULL, CUmodule::NULL);
    let (mut function, mut data) = (CUfunction::NULL, CUdeviceptr::default());
    cu!(t, cuInit(0))?;
    cu!(t, cuDevicePrimaryCtxRetain(&mut context, 0))?;
    cu!(t, cuCtxSetCurrent(context))?;
    cu!(t, cuModuleLoadData(&mut module, TEXT.as_ptr().cast()))?;
    cu!(t, cuModuleGetFunction(&mut function, module, c"locked".as_ptr()))?;
    cu!(t, cuMemAlloc_v2(&mut data, 8))?;
    println!("{:>8} {:>8} {:>12} {:>12}", "blocks", "threads", "first, ms", "best, ms");
    for (blocks, threads) in SHAPES {
        let mut times = Vec::new();
        for _ in 0..LAUNCHES {
            cu!(t, cuMemsetD8_v2(data, 0, 8))?;
            let mut parameter = data;
            let mut parameters = [std::ptr::from_mut(&mut parameter).cast()];
            let (list, stream) = (parameters.as_mut_ptr(), CUstream::NULL);
            let begin = Instant::now();
            cu!(
                t,
                cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, list, null_mut())
            )?;
            cu!(t, cuCtxSynchronize())?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            let mut words = [0u32; 2];
            cu!(t, cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), data, 8))?;
            ensure!(words == [0, blocks * threads], "{words:?} of {blocks} x {threads}");
        }
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{blocks:>8} {threads:>8} {:>12.2} {best:>12.2}", times[0]);
    }
    Ok(())
}
