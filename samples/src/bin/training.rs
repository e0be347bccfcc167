//! Training on two devices as its programs do it: collectives whose kernels wait for each other on both
//! devices, or a pipeline of two stages with copies, events and threads; new code is loaded all the while.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::slice;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{scope, spawn};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use samples::{
    driver::{self, checked},
    gpu::{failed, function, launch_config, require_driver, shape},
    memory::{DeviceMemory, HostMemory},
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

/// Code of that number: `step` is a step of a linear congruential generator on every value; `meet` says in
/// a word how far its device is, and waits until the other one's word says the same.
fn text(number: u32) -> String {
    format!(
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
    )
}

struct Code {
    step: CudaFunction,
    meet: CudaFunction,
}

/// Loads code of that number on a device, for good.
fn load(context: &Arc<CudaContext>, number: u32) -> Result<Code> {
    let module = context.load_module(Ptx::from_src(text(number))).map_err(failed)?;
    std::mem::forget(module.clone());
    Ok(Code { step: function(&module, "step")?, meet: function(&module, "meet")? })
}

fn steps(stream: &CudaStream, code: &Code, values: &DeviceMemory) -> Result<()> {
    let (address, size) = (values.address(), values.bytes() as u32 / 4);
    for _ in 0..KERNELS {
        let mut launch = stream.launch_builder(&code.step);
        launch.arg(&address).arg(&size);
        // SAFETY: the kernel's parameters; it writes so many values.
        unsafe { launch.launch(shape(size.div_ceil(THREADS), THREADS, 0)) }.map_err(failed)?;
    }
    Ok(())
}

/// What a value is after so many steps.
fn expected(start: u32, steps: u32) -> u32 {
    (0..steps).fold(start, |value, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

fn contexts() -> Result<[Arc<CudaContext>; 2]> {
    require_driver();
    let context = |device| CudaContext::new(device).map_err(failed);
    Ok([context(0)?, context(1)?])
}

fn enter(context: &CudaContext) -> Result<()> {
    context.bind_to_thread().map_err(failed)
}

/// Device memory with values that count from 0.
fn values(size: u32) -> Result<DeviceMemory> {
    let memory = DeviceMemory::new(size as usize * 4).map_err(failed)?;
    memory.write(&(0..size).collect::<Vec<u32>>()).map_err(failed)?;
    Ok(memory)
}

fn are_right(values: &DeviceMemory, steps: u32) -> Result<bool> {
    let mut read = vec![0_u32; values.bytes() / 4];
    values.read(&mut read).map_err(failed)?;
    Ok(read.iter().enumerate().all(|(i, value)| *value == expected(i as u32, steps)))
}

/// Two ranks, a thread and a device each. Between collectives they compute; in the first steps each of
/// them loads code, at a time of its own.
fn collectives(arguments: &CommandLine) -> Result<bool> {
    let contexts = contexts()?;
    enter(&contexts[0])?;
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    let memory = HostMemory::new(256, flags).map_err(failed)?;
    let words = memory.as_ptr() as u64;
    arguments.wait()?;
    let rank = |device: usize| {
        let context = &contexts[device];
        enter(context)?;
        let stream = context.new_stream().map_err(failed)?;
        let own_values = values(arguments.size)?;
        let base = arguments.seed * 10_000 + device as u32 * 1000;
        let mut code = load(context, base)?;
        for step in 1..=arguments.iterations {
            steps(&stream, &code, &own_values)?;
            // One rank loads before the collective, the other one behind it.
            if device == 0 && step <= LOADING_STEPS {
                code = load(context, base + step)?;
            }
            let [own, other] = [device, 1 - device].map(|device| words + device as u64 * 64);
            let mut launch = stream.launch_builder(&code.meet);
            launch.arg(&own).arg(&other).arg(&step);
            // SAFETY: the kernel's parameters; the words are there until both ranks have ended.
            unsafe { launch.launch(shape(1, 1, 0)) }.map_err(failed)?;
            if device == 1 && step <= LOADING_STEPS {
                code = load(context, base + step)?;
            }
        }
        driver::cuStreamSynchronize(&stream)?;
        are_right(&own_values, arguments.iterations * KERNELS)
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
fn ask_of_library([first, second]: &[Arc<CudaContext>; 2]) -> Result<()> {
    enter(first)?;
    let (text, mut library, mut kernel) = (CString::new(text(0))?, null_mut(), null_mut());
    let (image, [values, others]) = (text.as_ptr().cast(), [null_mut(); 2]);
    // SAFETY: text and name are C strings, places are locals', and there are no options.
    unsafe {
        let (none, nothing) = (null_mut(), null_mut());
        let loaded =
            sys::cuLibraryLoadData(&mut library, image, none, values, 0, nothing, others, 0);
        checked("cuLibraryLoadData", loaded)?;
        let found = sys::cuLibraryGetKernel(&mut kernel, library, c"step".as_ptr());
        checked("cuLibraryGetKernel", found)?;
    }
    enter(second)?;
    let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: 1, y: 1, z: 1 };
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: cluster },
    };
    let configuration = launch_config([1, THREADS], null_mut(), slice::from_mut(&mut attribute));
    let mut clusters = 0;
    // Not every device has clusters: there is an answer.
    // SAFETY: a kernel of a library stands for a function of it; the attribute is there.
    unsafe {
        let _ = sys::cuOccupancyMaxActiveClusters(&mut clusters, kernel.cast(), &configuration);
    }
    Ok(())
}

/// A copy between the devices in the first one's default stream, between events of both.
fn copy(
    (from, to): (&Arc<CudaContext>, &Arc<CudaContext>),
    (source, destination): (&DeviceMemory, &DeviceMemory),
) -> Result<()> {
    let event = |context: &Arc<CudaContext>| {
        enter(context)?;
        let untimed = Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let event = context.new_event(untimed).map_err(failed)?;
        driver::cuEventRecord(&event, &context.default_stream())?;
        anyhow::Ok(event)
    };
    let ready = event(to)?;
    enter(from)?;
    let stream = from.default_stream();
    driver::cuStreamWaitEvent(&stream, &ready)?;
    driver::cuMemcpyAsync(destination, source, &stream)?;
    let copied = event(from)?;
    enter(to)?;
    Ok(driver::cuStreamWaitEvent(&to.default_stream(), &copied)?)
}

/// A pipeline as PyTorch runs it: the forward pass in one thread, the backward pass in one a device, all in the
/// default streams, which nothing waits for until the end.
fn pipeline(arguments: &CommandLine) -> Result<bool> {
    let contexts = contexts()?;
    let [first, second] = &contexts;
    for (own, other) in [(first, second), (second, first)] {
        enter(own)?;
        driver::cuCtxEnablePeerAccess(other)?;
    }
    ask_of_library(&contexts)?;
    let pieces = |context: &CudaContext| {
        enter(context)?;
        (0..PIECES).map(|_| values(arguments.size)).collect::<Result<Arc<[DeviceMemory]>>>()
    };
    let (here, there) = (pieces(first)?, pieces(second)?);
    let seed = arguments.seed * 10_000;
    let number = move |stage: u32, step: u32, piece: usize| {
        // Later steps have no code of their own.
        seed + stage * 1000 + step.min(LOADING_STEPS) * 10 + piece as u32
    };
    // Each stage's code of a thread: loaded in the first steps.
    struct Stage {
        context: Arc<CudaContext>,
        code: Option<Code>,
    }
    impl Stage {
        fn run(&mut self, number: u32, fresh: bool, values: &DeviceMemory) -> Result<()> {
            enter(&self.context)?;
            if fresh || self.code.is_none() {
                self.code = Some(load(&self.context, number)?);
                // Memory comes and goes too.
                drop(DeviceMemory::new(3 << 20).map_err(failed)?);
            }
            let Some(code) = &self.code else { bail!("no code") };
            steps(&self.context.default_stream(), code, values)
        }
    }
    let stage = |context: &Arc<CudaContext>| Stage { context: context.clone(), code: None };
    let (mut forward, mut onward) = (stage(first), stage(second));
    let (to_back, from_forward) = channel::<(u32, usize)>();
    let (to_first, from_second) = channel::<(u32, usize)>();
    let (to_main, ends) = channel::<Result<()>>();
    let (source, target) = (there.clone(), here.clone());
    let failed = to_main.clone();
    let mut back = stage(second);
    let to = first.clone();
    spawn(move || {
        for (step, piece) in from_forward {
            let fresh = step < LOADING_STEPS;
            let done = back
                .run(number(2, step, piece), fresh, &source[piece])
                .and_then(|()| copy((&back.context, &to), (&source[piece], &target[piece])));
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
            let done = last.run(number(3, step, piece), fresh, &target[piece]);
            if to_main.send(done).is_err() {
                return;
            }
        }
    });
    arguments.wait()?;
    for step in 0..arguments.iterations {
        let fresh = step < LOADING_STEPS;
        for piece in 0..PIECES {
            forward.run(number(0, step, piece), fresh, &here[piece])?;
            copy((first, second), (&here[piece], &there[piece]))?;
            onward.run(number(1, step, piece), fresh, &there[piece])?;
        }
        for piece in (0..PIECES).rev() {
            to_back.send((step, piece))?;
        }
        for _ in 0..PIECES {
            ends.recv()??;
        }
    }
    for context in &contexts {
        enter(context)?;
        driver::cuCtxSynchronize()?;
    }
    enter(first)?;
    let steps = arguments.iterations * 4 * KERNELS;
    here.iter().try_fold(true, |right, piece| Ok(right && are_right(piece, steps)?))
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
