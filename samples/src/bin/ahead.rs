//! A program that runs far ahead of its device: more is asked for than can be in flight, while a stream waits
//! for what comes later, from another stream, another thread or the host. A driver that makes one stream, or a
//! question, wait for room for another one does not come to the end.

use std::ffi::c_void;
use std::process::ExitCode;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, sys};
use samples::{
    Gpu, Options, cu,
    gpu::{checked, failed, function},
    ptx,
    report::say,
};

/// Runs far ahead of the device in one of several modes.
#[derive(Parser)]
#[command(name = "ahead")]
struct CommandLine {
    /// In which mode
    #[arg(long, value_enum)]
    case: Case,
    /// Streams that wait
    #[arg(long, default_value_t = 6)]
    streams: usize,
    /// Launches in each
    #[arg(long, default_value_t = 250)]
    launches: u32,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Launches behind a host function that waits for another thread's questions (cuStreamQuery)
    HostFunction,
    /// Streams that wait for a value (cuStreamWaitValue32), which a later operation of another stream writes
    Values,
    /// A thread that launches behind a kernel that spins until another thread's copy sets its flag
    Threads,
    /// Streams that wait for a value with other work than launches: copies, fills and events
    Mixed,
    /// Graphs of very many kernels behind a value
    Graphs,
    /// Host functions, one of them slow
    HostFunctions,
    /// A graph of host functions
    GraphHostFunctions,
    /// A graph that copies to pageable memory and is destroyed before it has run
    GraphGone,
    /// Copies of pageable memory in one stream, beside a stream that stands still with such copies
    Staging,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments) {
        Ok(()) => {
            say(format_args!("ahead: {:?} came to its end", arguments.case));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ahead: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The device, with one word that streams wait for and one that kernels write.
struct Scene {
    gpu: Gpu,
    kernel: CudaFunction,
    until: CudaFunction,
    flag: sys::CUdeviceptr,
    result: sys::CUdeviceptr,
}

// What host functions and threads tell each other.
static LAUNCHED: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);
static CALLED: AtomicU32 = AtomicU32::new(0);
static MAY_GO_ON: AtomicBool = AtomicBool::new(false);

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn wait_for_questions(_: *mut c_void) {
    until(|| LAUNCHED.load(Ordering::Acquire) > 500);
    let before = ASKED.load(Ordering::Acquire);
    until(|| ASKED.load(Ordering::Acquire) > before + 1000);
}

extern "C" fn wait_to_go_on(_: *mut c_void) {
    until(|| MAY_GO_ON.load(Ordering::Acquire));
}

extern "C" fn be_slow(_: *mut c_void) {
    std::thread::sleep(Duration::from_millis(200));
    count(ptr::null_mut());
}

extern "C" fn count(_: *mut c_void) {
    CALLED.fetch_add(1, Ordering::AcqRel);
}

impl Scene {
    fn open(options: &Options) -> Result<Self> {
        let gpu = Gpu::open(options)?;
        let module = gpu.load(ptx::SPIN)?;
        let (kernel, until) = (function(&module, "spin_steps")?, function(&module, "spin_until")?);
        let (mut flag, mut result) = (0, 0);
        cu!(cuMemAlloc_v2(&mut flag, 4))?;
        cu!(cuMemAlloc_v2(&mut result, 4))?;
        cu!(cuMemsetD32_v2(flag, 0, 1))?;
        Ok(Self { gpu, kernel, until, flag, result })
    }

    fn stream(&self) -> Result<Arc<CudaStream>> {
        self.gpu.context.new_stream().map_err(failed)
    }

    fn parameters<'a>(&'a self, steps: &'a [u32; 2]) -> [*mut c_void; 3] {
        [
            (&raw const self.result).cast_mut().cast(),
            (&raw const steps[0]).cast_mut().cast(),
            (&raw const steps[1]).cast_mut().cast(),
        ]
    }

    /// A kernel of one step.
    fn launch(&self, stream: &CudaStream) -> Result<()> {
        let steps = [1, 1];
        let mut parameters = self.parameters(&steps);
        let (kernel, stream) = (self.kernel.cu_function(), stream.cu_stream());
        let parameters = parameters.as_mut_ptr();
        cu!(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, ptr::null_mut()))
    }

    /// A kernel that spins until the flag is set.
    fn launch_until(&self, stream: &CudaStream) -> Result<()> {
        let mut parameters: [*mut c_void; 2] =
            [(&raw const self.flag).cast_mut().cast(), (&raw const self.result).cast_mut().cast()];
        let (kernel, stream) = (self.until.cu_function(), stream.cu_stream());
        let parameters = parameters.as_mut_ptr();
        cu!(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, ptr::null_mut()))
    }

    fn wait_for_flag(&self, stream: &CudaStream) -> Result<()> {
        let equal = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        cu!(cuStreamWaitValue32_v2(stream.cu_stream(), self.flag, 1, equal))
    }

    fn set_flag(&self, stream: &CudaStream) -> Result<()> {
        cu!(cuStreamWriteValue32_v2(stream.cu_stream(), self.flag, 1, 0))
    }
}

fn run(arguments: &CommandLine) -> Result<()> {
    let scene = &Scene::open(&arguments.options)?;
    match arguments.case {
        Case::HostFunction => behind_a_host_function(scene, arguments)?,
        Case::Values => behind_values(scene, arguments)?,
        Case::Mixed => mixed_behind_a_value(scene, arguments)?,
        Case::Threads => behind_a_thread(scene, arguments)?,
        Case::Graphs => graphs_behind_a_value(scene, arguments)?,
        Case::HostFunctions => host_functions(scene, arguments)?,
        Case::GraphHostFunctions => graph_of_host_functions(scene, arguments)?,
        Case::GraphGone => graph_that_is_gone(scene)?,
        Case::Staging => copies_beside_a_stream_that_stands(scene)?,
    }
    cu!(cuCtxSynchronize())
}

fn here(context: &CudaContext) -> Result<()> {
    context.bind_to_thread().map_err(failed)
}

fn behind_a_host_function(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (stream, other) = (scene.stream()?, scene.stream()?);
    let is_over = &AtomicBool::new(false);
    cu!(cuLaunchHostFunc(stream.cu_stream(), Some(wait_for_questions), ptr::null_mut()))?;
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            here(&scene.gpu.context)?;
            while !is_over.load(Ordering::Acquire) {
                // SAFETY: the stream lives.
                let result = unsafe { sys::cuStreamQuery(other.cu_stream()) };
                if result != sys::CUresult::CUDA_ERROR_NOT_READY {
                    checked(result, "cuStreamQuery")?;
                }
                ASKED.fetch_add(1, Ordering::AcqRel);
            }
            anyhow::Ok(())
        });
        let launched = (0..arguments.launches).try_for_each(|_| {
            LAUNCHED.fetch_add(1, Ordering::AcqRel);
            scene.launch(&stream)
        });
        let ended = launched.and_then(|()| cu!(cuStreamSynchronize(stream.cu_stream())));
        is_over.store(true, Ordering::Release);
        asks.join().expect("it does not panic")?;
        ended
    })
}

fn behind_values(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let streams = (0..arguments.streams).map(|_| scene.stream()).collect::<Result<Vec<_>>>()?;
    for stream in &streams {
        scene.wait_for_flag(stream)?;
        (0..arguments.launches).try_for_each(|_| scene.launch(stream))?;
    }
    scene.set_flag(&*scene.stream()?)?;
    cu!(cuCtxSynchronize())
}

fn mixed_behind_a_value(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let streams = (0..arguments.streams).map(|_| scene.stream()).collect::<Result<Vec<_>>>()?;
    let (mut event, mut bytes) = (ptr::null_mut(), 0);
    cu!(cuMemAlloc_v2(&mut bytes, 4096))?;
    for stream in &streams {
        scene.wait_for_flag(stream)?;
        let to = stream.cu_stream();
        for _ in 0..arguments.launches {
            // Each event goes while its record and what waits for it are far from being done.
            cu!(cuEventCreate(&mut event, 0))?;
            cu!(cuEventRecord(event, to))?;
            cu!(cuStreamWaitEvent(streams[0].cu_stream(), event, 0))?;
            cu!(cuMemsetD8Async(bytes, 1, 4096, to))?;
            cu!(cuMemcpyDtoDAsync_v2(bytes + 2048, bytes, 1024, to))?;
            cu!(cuEventDestroy_v2(event))?;
            scene.launch(stream)?;
        }
    }
    // Work of another stream comes to its end meanwhile.
    let other = scene.stream()?;
    scene.launch(&other)?;
    cu!(cuStreamSynchronize(other.cu_stream()))?;
    scene.set_flag(&other)?;
    cu!(cuCtxSynchronize())
}

fn behind_a_thread(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (stream, other) = (scene.stream()?, scene.stream()?);
    let one = 1u32;
    std::thread::scope(|scope| {
        let launches = scope.spawn(|| {
            here(&scene.gpu.context)?;
            scene.launch_until(&stream)?;
            (0..arguments.launches).try_for_each(|_| {
                LAUNCHED.fetch_add(1, Ordering::AcqRel);
                scene.launch(&stream)
            })
        });
        // It waits for room by then, if it has to.
        until(|| LAUNCHED.load(Ordering::Acquire) > 700);
        std::thread::sleep(Duration::from_millis(50));
        let (from, to) = ((&raw const one).cast(), other.cu_stream());
        cu!(cuMemcpyHtoDAsync_v2(scene.flag, from, 4, to))?;
        launches.join().expect("it does not panic")
    })
}

fn graphs_behind_a_value(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (mut graph, mut exec, stream) = (ptr::null_mut(), ptr::null_mut(), scene.stream()?);
    let steps = [1, 1];
    let mut parameters = scene.parameters(&steps);
    let node = sys::CUDA_KERNEL_NODE_PARAMS {
        func: scene.kernel.cu_function(),
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: parameters.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    };
    cu!(cuGraphCreate(&mut graph, 0))?;
    let mut before = ptr::null_mut();
    for index in 0..arguments.launches {
        let from = if index == 0 { ptr::null() } else { &raw const before };
        let (mut made, count) = (ptr::null_mut(), usize::from(index > 0));
        cu!(cuGraphAddKernelNode_v2(&mut made, graph, from, count, &node))?;
        before = made;
    }
    cu!(cuGraphInstantiateWithFlags(&mut exec, graph, 0))?;
    scene.wait_for_flag(&stream)?;
    for _ in 0..arguments.streams {
        cu!(cuGraphLaunch(exec, stream.cu_stream()))?;
    }
    scene.set_flag(&*scene.stream()?)?;
    cu!(cuCtxSynchronize())?;
    cu!(cuGraphExecDestroy(exec))?;
    cu!(cuGraphDestroy(graph))
}

fn host_functions(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let stream = scene.stream()?;
    cu!(cuLaunchHostFunc(stream.cu_stream(), Some(be_slow), ptr::null_mut()))?;
    for _ in 0..arguments.launches {
        cu!(cuLaunchHostFunc(stream.cu_stream(), Some(count), ptr::null_mut()))?;
    }
    cu!(cuStreamSynchronize(stream.cu_stream()))?;
    let called = CALLED.load(Ordering::Acquire);
    ensure!(called == arguments.launches + 1, "{called} were called");
    Ok(())
}

fn graph_of_host_functions(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (mut graph, mut exec, stream) = (ptr::null_mut(), ptr::null_mut(), scene.stream()?);
    cu!(cuGraphCreate(&mut graph, 0))?;
    let node = sys::CUDA_HOST_NODE_PARAMS { fn_: Some(count), userData: ptr::null_mut() };
    for _ in 0..arguments.launches {
        let mut made = ptr::null_mut();
        cu!(cuGraphAddHostNode(&mut made, graph, ptr::null(), 0, &node))?;
    }
    cu!(cuGraphInstantiateWithFlags(&mut exec, graph, 0))?;
    cu!(cuGraphLaunch(exec, stream.cu_stream()))?;
    cu!(cuStreamSynchronize(stream.cu_stream()))?;
    let called = CALLED.load(Ordering::Acquire);
    ensure!(called == arguments.launches, "{called} were called");
    cu!(cuGraphExecDestroy(exec))?;
    cu!(cuGraphDestroy(graph))
}

fn graph_that_is_gone(scene: &Scene) -> Result<()> {
    const BYTES: usize = 40_000;
    let (mut graph, mut exec, stream) = (ptr::null_mut(), ptr::null_mut(), scene.stream()?);
    let (mut device, mut host) = (0, vec![0u8; BYTES]);
    cu!(cuMemAlloc_v2(&mut device, BYTES))?;
    cu!(cuMemsetD8_v2(device, 7, BYTES))?;
    let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    cu!(cuStreamBeginCapture_v2(stream.cu_stream(), mode))?;
    let to = host.as_mut_ptr().cast();
    cu!(cuMemcpyDtoHAsync_v2(to, device, BYTES, stream.cu_stream()))?;
    cu!(cuStreamEndCapture(stream.cu_stream(), &mut graph))?;
    cu!(cuGraphInstantiateWithFlags(&mut exec, graph, 0))?;
    scene.wait_for_flag(&stream)?;
    cu!(cuGraphLaunch(exec, stream.cu_stream()))?;
    cu!(cuGraphExecDestroy(exec))?;
    cu!(cuGraphDestroy(graph))?;
    scene.set_flag(&*scene.stream()?)?;
    cu!(cuStreamSynchronize(stream.cu_stream()))?;
    ensure!(host.iter().all(|byte| *byte == 7), "the copy was not made");
    Ok(())
}

fn copies_beside_a_stream_that_stands(scene: &Scene) -> Result<()> {
    const STANDS_BYTES: usize = 3 << 20;
    const GOES_BYTES: usize = 64 << 20;
    let (stands, goes) = (scene.stream()?, scene.stream()?);
    let (mut first, mut second) = (0, 0);
    cu!(cuMemAlloc_v2(&mut first, STANDS_BYTES))?;
    cu!(cuMemAlloc_v2(&mut second, GOES_BYTES))?;
    let (behind, beside) = (vec![1u8; STANDS_BYTES], vec![2u8; GOES_BYTES]);
    cu!(cuLaunchHostFunc(stands.cu_stream(), Some(wait_to_go_on), ptr::null_mut()))?;
    std::thread::scope(|scope| {
        // A driver may have the caller wait here.
        let copies = scope.spawn(|| {
            here(&scene.gpu.context)?;
            let (from, to) = (behind.as_ptr().cast(), stands.cu_stream());
            LAUNCHED.store(1, Ordering::Release);
            cu!(cuMemcpyHtoDAsync_v2(first, from, STANDS_BYTES, to))
        });
        until(|| LAUNCHED.load(Ordering::Acquire) > 0);
        std::thread::sleep(Duration::from_millis(50));
        let (from, to) = (beside.as_ptr().cast(), goes.cu_stream());
        let copied = cu!(cuMemcpyHtoDAsync_v2(second, from, GOES_BYTES, to))
            .and_then(|()| cu!(cuStreamSynchronize(goes.cu_stream())));
        MAY_GO_ON.store(true, Ordering::Release);
        copies.join().expect("it does not panic").and(copied)
    })
}
