//! A handler of `atexit` that was registered behind the first call of CUDA runs before CUDA ends:
//! everything works in it. By then the thread's variables with destructors are gone.
//!
//! Without a test harness, since the thread that calls `exit` must be the one that used CUDA.

#[macro_use]
#[path = "../benches/support/call.rs"]
mod call;

use anyhow::{Context, Result, ensure};
use cuda_api::*;
use openmps_soft as _;
use std::ptr::null_mut;
use std::sync::OnceLock;

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxGetCurrent cuCtxSynchronize
    cuModuleLoadData cuModuleGetFunction cuMemAlloc_v2 cuMemcpyDtoH_v2 cuLaunchKernel
}

/// Writes 7.
const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_80
.address_size 64
.visible .entry seven(.param .u64 p)
{
    .reg .b64 %o;
    ld.param.u64 %o, [p];
    st.global.u32 [%o], 7;
    ret;
}
";

struct Program {
    table: DriverTable,
    context: CUcontext,
    function: CUfunction,
    data: CUdeviceptr,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

fn prepare() -> Result<Program> {
    let table = linked_table();
    let (mut context, mut module) = (CUcontext::NULL, CUmodule::NULL);
    let (mut function, mut data) = (CUfunction::NULL, CUdeviceptr::default());
    cu!(table, cuInit(0))?;
    cu!(table, cuDevicePrimaryCtxRetain(&mut context, 0))?;
    cu!(table, cuCtxSetCurrent(context))?;
    cu!(table, cuModuleLoadData(&mut module, TEXT.as_ptr().cast()))?;
    cu!(table, cuModuleGetFunction(&mut function, module, c"seven".as_ptr()))?;
    cu!(table, cuMemAlloc_v2(&mut data, 4))?;
    Ok(Program { table, context, function, data })
}

fn work(program: &Program) -> Result<()> {
    let Program { table: t, context, function, data } = program;
    let (mut current, mut parameter, mut word) = (CUcontext::NULL, *data, 0u32);
    cu!(t, cuCtxGetCurrent(&mut current))?;
    ensure!(current == *context, "the context is no longer current");
    let mut parameters = [std::ptr::from_mut(&mut parameter).cast()];
    let (list, stream) = (parameters.as_mut_ptr(), CUstream::NULL);
    cu!(t, cuLaunchKernel(*function, 1, 1, 1, 1, 1, 1, 0, stream, list, null_mut()))?;
    cu!(t, cuCtxSynchronize())?;
    cu!(t, cuMemcpyDtoH_v2(std::ptr::from_mut(&mut word).cast(), *data, 4))?;
    ensure!(word == 7, "{word}, not 7");
    Ok(())
}

extern "C" fn at_exit() {
    let program = PROGRAM.get().context("no program");
    let status = match program.and_then(work) {
        Ok(()) => {
            println!("CUDA works in a handler of atexit");
            0
        }
        Err(error) => {
            eprintln!("in a handler of atexit: {error:#}");
            1
        }
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

fn main() {
    let program = prepare().expect("CUDA works");
    work(&program).expect("the kernel runs");
    PROGRAM.set(program).ok();
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(at_exit) };
    // A handler that does not run is an error too.
    std::process::exit(2);
}
