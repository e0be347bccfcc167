//! Training on two devices as its programs do it: collectives whose kernels wait for each other on both
//! devices, or a pipeline of two stages with copies, events and threads; new code is loaded all the while.

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::ExitCode;
use std::ptr::{from_mut, null_mut};
use std::slice;
use std::sync::mpsc::channel;
use std::thread::{scope, spawn};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use cudarc::driver::{result, sys};
use samples::{
    cu,
    gpu::{failed, launch_config, require_driver},
    report::say,
    start,
};

const THREADS: u32 = 64;
/// Pieces of a batch in the pipeline.
const PIECES: usize = 4;
/// Kernels of a stage for each piece, and of a rank between two collectives.
const KERNELS: u32 = 6;
/// Steps in which code is loaded.
const LOADING_STEPS: u32 = 6;

/// Trains, so to speak, on the first two devices.
#[derive(Parser)]
#[command(name = "training")]
struct CommandLine {
    /// How the devices work together
    #[arg(long, value_enum)]
    pattern: Pattern,
    /// Values on each device
    #[arg(long, default_value_t = 1024)]
    size: u32,
    /// Steps of the training
    #[arg(long, default_value_t = 12)]
    iterations: u32,
    /// Makes the code that it loads other code than that of another number
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Make FILE.ready.PID when ready, and wait for FILE
    #[arg(long, value_name = "FILE")]
    barrier: Option<PathBuf>,
}

impl CommandLine {
    fn wait(&self) -> Result<()> {
        self.barrier.as_deref().map_or(Ok(()), start::wait_for_file)
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Pattern {
    /// A thread a device; kernels wait for the other device's
    Collectives,
    /// A stage a device, in one process, with a thread a device for the backward pass
    Pipeline,
}

/// Handles, which every thread of a process may use.
#[derive(Clone, Copy)]
struct Shared<T>(T);

// SAFETY: see there.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: see there.
unsafe impl<T> Sync for Shared<T> {}

/// Code of that number: `step` is a step of a linear congruential generator on every value; `meet` says in
/// a word how far its device is, and waits until the other one's word says the same.
fn text(number: u32) -> CString {
    let text = format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .visible .entry step(.param .u64 values, .param .u32 count)\n{{\n\
         .reg .pred %p; .reg .b32 %i, %n, %b, %v; .reg .b64 %a, %o;\n\
         ld.param.u64 %a, [values];\nld.param.u32 %n, [count];\n\
         mov.u32 %i, %ctaid.x;\nmov.u32 %b, %ntid.x;\nmul.lo.u32 %i, %i, %b;\nmov.u32 %b, %tid.x;\n\
         add.u32 %i, %i, %b;\nsetp.ge.u32 %p, %i, %n;\n@%p bra DONE;\n\
         mul.wide.u32 %o, %i, 4;\nadd.u64 %a, %a, %o;\nld.global.u32 %v, [%a];\n\
         mad.lo.u32 %v, %v, 1664525, 1013904223;\nst.global.u32 [%a], %v;\nDONE:\nret;\n}}\n\
         .visible .entry meet(.param .u64 own, .param .u64 other, .param .u32 round)\n{{\n\
         .reg .pred %p; .reg .b32 %r, %v; .reg .b64 %a, %b;\n\
         ld.param.u64 %a, [own];\nld.param.u64 %b, [other];\nld.param.u32 %r, [round];\n\
         st.release.sys.global.u32 [%a], %r;\nAGAIN:\nld.acquire.sys.global.u32 %v, [%b];\n\
         setp.lt.u32 %p, %v, %r;\n@%p bra AGAIN;\nret;\n}}\n\
         .visible .entry of_{number}()\n{{\nret;\n}}\n"
    );
    CString::new(text).expect("a text without a NUL")
}

struct Code {
    step: Shared<sys::CUfunction>,
    meet: Shared<sys::CUfunction>,
}

/// Loads code of that number on the device whose context is current.
fn load(number: u32) -> Result<Code> {
    let (text, mut module) = (text(number), null_mut());
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast()))?;
    let function = |name: &str| {
        let (name, mut found) = (CString::new(name)?, null_mut());
        cu!(cuModuleGetFunction(&mut found, module, name.as_ptr()))?;
        Ok::<_, anyhow::Error>(Shared(found))
    };
    Ok(Code { step: function("step")?, meet: function("meet")? })
}

fn launch_in(
    stream: sys::CUstream,
    kernel: sys::CUfunction,
    (blocks, threads): (u32, u32),
    parameters: &mut [*mut c_void],
) -> Result<()> {
    let (list, none) = (parameters.as_mut_ptr(), null_mut());
    cu!(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, list, none))
}

fn steps(stream: sys::CUstream, code: &Code, values: u64, size: u32) -> Result<()> {
    let (mut values, mut size) = (values, size);
    for _ in 0..KERNELS {
        let mut parameters = [from_mut(&mut values).cast(), from_mut(&mut size).cast()];
        launch_in(stream, code.step.0, (size.div_ceil(THREADS), THREADS), &mut parameters)?;
    }
    Ok(())
}

/// What a value is after so many steps.
fn expected(start: u32, steps: u32) -> u32 {
    (0..steps).fold(start, |value, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

fn contexts() -> Result<[Shared<sys::CUcontext>; 2]> {
    require_driver();
    result::init().map_err(failed).context("cuInit")?;
    let mut made = [Shared(null_mut()); 2];
    for (device, context) in made.iter_mut().enumerate() {
        cu!(cuDevicePrimaryCtxRetain(&mut context.0, device as i32))?;
    }
    Ok(made)
}

fn use_context(context: Shared<sys::CUcontext>) -> Result<()> {
    cu!(cuCtxSetCurrent(context.0))
}

/// Device memory with values that count from 0.
fn values(size: u32) -> Result<u64> {
    let mut address = 0;
    cu!(cuMemAlloc_v2(&mut address, size as usize * 4))?;
    let first: Vec<u32> = (0..size).collect();
    cu!(cuMemcpyHtoD_v2(address, first.as_ptr().cast(), size as usize * 4))?;
    Ok(address)
}

fn are_right(address: u64, size: u32, steps: u32) -> Result<bool> {
    let mut read = vec![0_u32; size as usize];
    cu!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), address, size as usize * 4))?;
    Ok(read.iter().enumerate().all(|(i, value)| *value == expected(i as u32, steps)))
}

/// Two ranks, a thread and a device each. Between collectives they compute; in the first steps each of
/// them loads code, at a time of its own.
fn collectives(arguments: &CommandLine) -> Result<bool> {
    let contexts = contexts()?;
    use_context(contexts[0])?;
    let mut words = null_mut();
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    cu!(cuMemHostAlloc(&mut words, 256, flags))?;
    let words = words as u64;
    // SAFETY: as long as the memory.
    unsafe { std::ptr::write_bytes(words as *mut u8, 0, 256) };
    arguments.wait()?;
    let rank = |device: usize| {
        use_context(contexts[device])?;
        let mut stream = null_mut();
        cu!(cuStreamCreate(&mut stream, sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32))?;
        let own_values = values(arguments.size)?;
        let base = arguments.seed * 10_000 + device as u32 * 1000;
        let mut code = load(base)?;
        for step in 1..=arguments.iterations {
            steps(stream, &code, own_values, arguments.size)?;
            // One rank loads before the collective, the other one behind it.
            if device == 0 && step <= LOADING_STEPS {
                code = load(base + step)?;
            }
            let (mut own, mut other) =
                (words + device as u64 * 64, words + (1 - device as u64) * 64);
            let mut round = step;
            let mut parameters = [
                from_mut(&mut own).cast(),
                from_mut(&mut other).cast(),
                from_mut(&mut round).cast(),
            ];
            launch_in(stream, code.meet.0, (1, 1), &mut parameters)?;
            if device == 1 && step <= LOADING_STEPS {
                code = load(base + step)?;
            }
        }
        cu!(cuStreamSynchronize(stream))?;
        are_right(own_values, arguments.size, arguments.iterations * KERNELS)
    };
    scope(|scope| {
        let other = scope.spawn(|| rank(1));
        let first = rank(0)?;
        let second = other.join().map_err(|_| anyhow::anyhow!("a rank ended"))??;
        Ok(first && second)
    })
}

/// Asks on the second device about a kernel of a library that was loaded on the first one, as libraries of
/// matrix products do before their first launch there.
fn ask_of_library([first, second]: [Shared<sys::CUcontext>; 2]) -> Result<()> {
    use_context(first)?;
    let (text, mut library, mut kernel) = (text(0), null_mut(), null_mut());
    let (image, none) = (text.as_ptr().cast(), null_mut());
    cu!(cuLibraryLoadData(&mut library, image, none, null_mut(), 0, null_mut(), null_mut(), 0))?;
    cu!(cuLibraryGetKernel(&mut kernel, library, c"step".as_ptr()))?;
    use_context(second)?;
    let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: 1, y: 1, z: 1 };
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: cluster },
    };
    let configuration = launch_config([1, THREADS], null_mut(), slice::from_mut(&mut attribute));
    let mut clusters = 0;
    // A kernel of a library stands for a function of it. Not every device has clusters: there is an answer.
    let _ = cu!(cuOccupancyMaxActiveClusters(&mut clusters, kernel.cast(), &configuration));
    Ok(())
}

/// A copy between the devices in the first one's default stream, between events of both.
fn copy(
    (from, to): (Shared<sys::CUcontext>, Shared<sys::CUcontext>),
    (source, destination): (u64, u64),
    bytes: usize,
) -> Result<()> {
    let event = |context| {
        use_context(context)?;
        let mut event = null_mut();
        cu!(cuEventCreate(&mut event, sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32))?;
        cu!(cuEventRecord(event, null_mut()))?;
        Ok::<_, anyhow::Error>(event)
    };
    let ready = event(to)?;
    use_context(from)?;
    cu!(cuStreamWaitEvent(null_mut(), ready, 0))?;
    cu!(cuMemcpyAsync(destination, source, bytes, null_mut()))?;
    let copied = event(from)?;
    use_context(to)?;
    cu!(cuStreamWaitEvent(null_mut(), copied, 0))?;
    cu!(cuEventDestroy_v2(ready))?;
    cu!(cuEventDestroy_v2(copied))
}

/// A pipeline as PyTorch runs it: the forward pass in one thread, the backward pass in one a device, all in the
/// default streams, which nothing waits for until the end.
fn pipeline(arguments: &CommandLine) -> Result<bool> {
    let contexts = contexts()?;
    let [first, second] = contexts;
    let size = arguments.size;
    let bytes = size as usize * 4;
    for (own, other) in [(first, second), (second, first)] {
        use_context(own)?;
        cu!(cuCtxEnablePeerAccess(other.0, 0))?;
    }
    ask_of_library(contexts)?;
    let pieces = |context| {
        use_context(context)?;
        (0..PIECES).map(|_| values(size)).collect::<Result<Vec<u64>>>()
    };
    let (here, there) = (pieces(first)?, pieces(second)?);
    let seed = arguments.seed * 10_000;
    let number = move |stage: u32, step: u32, piece: usize| {
        // Later steps have no code of their own.
        seed + stage * 1000 + step.min(LOADING_STEPS) * 10 + piece as u32
    };
    // Each stage's code of a thread: loaded in the first steps.
    struct Stage {
        context: Shared<sys::CUcontext>,
        code: Option<Code>,
    }
    impl Stage {
        fn run(&mut self, number: u32, fresh: bool, values: u64, size: u32) -> Result<()> {
            use_context(self.context)?;
            if fresh || self.code.is_none() {
                self.code = Some(load(number)?);
                // Memory comes and goes too.
                let mut scratch = 0;
                cu!(cuMemAlloc_v2(&mut scratch, 3 << 20))?;
                cu!(cuMemFree_v2(scratch))?;
            }
            let Some(code) = &self.code else { bail!("no code") };
            steps(null_mut(), code, values, size)
        }
    }
    let stage = |context| Stage { context, code: None };
    let (mut forward, mut onward) = (stage(first), stage(second));
    let (to_back, from_forward) = channel::<(u32, usize)>();
    let (to_first, from_second) = channel::<(u32, usize)>();
    let (to_main, ends) = channel::<Result<()>>();
    let (source, target) = (there.clone(), here.clone());
    let failed = to_main.clone();
    let mut back = stage(second);
    spawn(move || {
        for (step, piece) in from_forward {
            let fresh = step < LOADING_STEPS;
            let done = back
                .run(number(2, step, piece), fresh, source[piece], size)
                .and_then(|()| copy((second, first), (source[piece], target[piece]), bytes));
            if let Err(error) = done {
                let _ = failed.send(Err(error));
                return;
            }
            let _ = to_first.send((step, piece));
        }
    });
    let mut last = stage(first);
    let target = here.clone();
    spawn(move || {
        for (step, piece) in from_second {
            let fresh = step < LOADING_STEPS;
            let done = last.run(number(3, step, piece), fresh, target[piece], size);
            if to_main.send(done).is_err() {
                return;
            }
        }
    });
    arguments.wait()?;
    for step in 0..arguments.iterations {
        let fresh = step < LOADING_STEPS;
        for piece in 0..PIECES {
            forward.run(number(0, step, piece), fresh, here[piece], size)?;
            copy((first, second), (here[piece], there[piece]), bytes)?;
            onward.run(number(1, step, piece), fresh, there[piece], size)?;
        }
        for piece in (0..PIECES).rev() {
            to_back.send((step, piece))?;
        }
        for _ in 0..PIECES {
            ends.recv()??;
        }
    }
    for context in contexts {
        use_context(context)?;
        cu!(cuCtxSynchronize())?;
    }
    use_context(first)?;
    let steps = arguments.iterations * 4 * KERNELS;
    here.iter().try_fold(true, |right, piece| Ok(right && are_right(*piece, size, steps)?))
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let done = match arguments.pattern {
        Pattern::Collectives => collectives(&arguments),
        Pattern::Pipeline => pipeline(&arguments),
    };
    match done {
        Ok(right) => {
            say(format_args!(
                "{} steps: {}",
                arguments.iterations,
                if right { "right" } else { "WRONG" }
            ));
            if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("training: {error:#}");
            ExitCode::from(2)
        }
    }
}
