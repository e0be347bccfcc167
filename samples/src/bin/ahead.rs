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
use cudarc::driver::{CudaContext, CudaStream, result, sys};
use samples::{
    Gpu, Options,
    driver::{self, Failure, Graph},
    gpu::failed,
    kernels,
    memory::DeviceMemory,
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
    kernels: kernels::Spin,
    flag: DeviceMemory,
    result: DeviceMemory,
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

fn wait_for_questions() {
    until(|| LAUNCHED.load(Ordering::Acquire) > 500);
    let before = ASKED.load(Ordering::Acquire);
    until(|| ASKED.load(Ordering::Acquire) > before + 1000);
}

fn wait_to_go_on() {
    until(|| MAY_GO_ON.load(Ordering::Acquire));
}

fn be_slow() {
    std::thread::sleep(Duration::from_millis(200));
    count();
}

fn count() {
    CALLED.fetch_add(1, Ordering::AcqRel);
}

fn memory(bytes: usize) -> Result<DeviceMemory> {
    DeviceMemory::new(bytes).map_err(failed)
}

fn pointer<T>(parameter: &T) -> *mut c_void {
    ptr::from_ref(parameter).cast_mut().cast()
}

impl Scene {
    fn open(options: &Options) -> Result<Self> {
        let gpu = Gpu::open(options)?;
        let kernels = kernels::Spin::load(&gpu)?;
        let (flag, result) = (memory(4)?, memory(4)?);
        driver::cuMemsetD32_v2(&flag, 0)?;
        Ok(Self { gpu, kernels, flag, result })
    }

    fn stream(&self) -> Result<Arc<CudaStream>> {
        self.gpu.context.new_stream().map_err(failed)
    }

    /// A kernel of one step.
    fn launch(&self, stream: &CudaStream) -> Result<()> {
        let (address, one) = (self.result.address(), 1u32);
        let parameters = &mut [pointer(&address), pointer(&one), pointer(&one)];
        let (kernel, stream) = (self.kernels.spin_steps.cu_function(), stream.cu_stream());
        // SAFETY: the parameters are the kernel's, which writes one word.
        unsafe { result::launch_kernel(kernel, (1, 1, 1), (1, 1, 1), 0, stream, parameters) }
            .map_err(failed)
    }

    /// A kernel that spins until the flag is set.
    fn launch_until(&self, stream: &CudaStream) -> Result<()> {
        let (flag, result) = (self.flag.address(), self.result.address());
        let parameters = &mut [pointer(&flag), pointer(&result)];
        let (kernel, stream) = (self.kernels.spin_until.cu_function(), stream.cu_stream());
        // SAFETY: the parameters are the kernel's, which reads one word and writes one.
        unsafe { result::launch_kernel(kernel, (1, 1, 1), (1, 1, 1), 0, stream, parameters) }
            .map_err(failed)
    }

    fn wait_for_flag(&self, stream: &CudaStream) -> Result<()> {
        Ok(driver::cuStreamWaitValue32_v2(stream, &self.flag, 1)?)
    }

    fn set_flag(&self, stream: &CudaStream) -> Result<()> {
        Ok(driver::cuStreamWriteValue32_v2(stream, &self.flag, 1)?)
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
    Ok(driver::cuCtxSynchronize()?)
}

fn here(context: &CudaContext) -> Result<()> {
    context.bind_to_thread().map_err(failed)
}

fn behind_a_host_function(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (stream, other) = (scene.stream()?, scene.stream()?);
    let is_over = &AtomicBool::new(false);
    driver::cuLaunchHostFunc(&stream, wait_for_questions)?;
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            here(&scene.gpu.context)?;
            while !is_over.load(Ordering::Acquire) {
                match driver::cuStreamQuery(&other) {
                    Err(Failure { code: sys::CUresult::CUDA_ERROR_NOT_READY, .. }) => {}
                    answer => answer?,
                }
                ASKED.fetch_add(1, Ordering::AcqRel);
            }
            anyhow::Ok(())
        });
        let launched = (0..arguments.launches).try_for_each(|_| {
            LAUNCHED.fetch_add(1, Ordering::AcqRel);
            scene.launch(&stream)
        });
        let ended = launched.and_then(|()| Ok(driver::cuStreamSynchronize(&stream)?));
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
    Ok(driver::cuCtxSynchronize()?)
}

fn mixed_behind_a_value(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let streams = (0..arguments.streams).map(|_| scene.stream()).collect::<Result<Vec<_>>>()?;
    let (filled, copied) = (memory(4096)?, memory(1024)?);
    for stream in &streams {
        scene.wait_for_flag(stream)?;
        for _ in 0..arguments.launches {
            // Each event goes while its record and what waits for it are far from being done.
            let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
            let event = scene.gpu.context.new_event(timed).map_err(failed)?;
            driver::cuEventRecord(&event, stream)?;
            driver::cuStreamWaitEvent(&streams[0], &event)?;
            driver::cuMemsetD8Async(&filled, 1, stream)?;
            driver::cuMemcpyDtoDAsync_v2(&copied, &filled, stream)?;
            drop(event);
            scene.launch(stream)?;
        }
    }
    // Work of another stream comes to its end meanwhile.
    let other = scene.stream()?;
    scene.launch(&other)?;
    driver::cuStreamSynchronize(&other)?;
    scene.set_flag(&other)?;
    Ok(driver::cuCtxSynchronize()?)
}

fn behind_a_thread(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let (stream, other) = (scene.stream()?, scene.stream()?);
    static ONE: [u8; 4] = 1u32.to_ne_bytes();
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
        driver::cuMemcpyHtoDAsync_v2(&scene.flag, &ONE, &other)?;
        launches.join().expect("it does not panic")
    })
}

fn graphs_behind_a_value(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let stream = scene.stream()?;
    let (address, one) = (scene.result.address(), 1u32);
    let mut parameters = [pointer(&address), pointer(&one), pointer(&one)];
    let node = sys::CUDA_KERNEL_NODE_PARAMS {
        func: scene.kernels.spin_steps.cu_function(),
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
    let graph = Graph::new()?;
    let mut before = ptr::null_mut();
    for index in 0..arguments.launches {
        let from = if index == 0 { ptr::null() } else { &raw const before };
        let (mut made, count) = (ptr::null_mut(), usize::from(index > 0));
        // SAFETY: the parameters are the kernel's; from the node before, if there is one.
        unsafe { sys::cuGraphAddKernelNode_v2(&mut made, graph.raw(), from, count, &node) }
            .result()
            .map_err(failed)?;
        before = made;
    }
    let exec = graph.instantiate()?;
    scene.wait_for_flag(&stream)?;
    for _ in 0..arguments.streams {
        exec.launch(&stream)?;
    }
    scene.set_flag(&*scene.stream()?)?;
    driver::cuCtxSynchronize()?;
    Ok(())
}

fn host_functions(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let stream = scene.stream()?;
    driver::cuLaunchHostFunc(&stream, be_slow)?;
    for _ in 0..arguments.launches {
        driver::cuLaunchHostFunc(&stream, count)?;
    }
    driver::cuStreamSynchronize(&stream)?;
    let called = CALLED.load(Ordering::Acquire);
    ensure!(called == arguments.launches + 1, "{called} were called");
    Ok(())
}

fn graph_of_host_functions(scene: &Scene, arguments: &CommandLine) -> Result<()> {
    let stream = scene.stream()?;
    let graph = Graph::new()?;
    for _ in 0..arguments.launches {
        driver::cuGraphAddHostNode(&graph, count)?;
    }
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    driver::cuStreamSynchronize(&stream)?;
    let called = CALLED.load(Ordering::Acquire);
    ensure!(called == arguments.launches, "{called} were called");
    Ok(())
}

fn graph_that_is_gone(scene: &Scene) -> Result<()> {
    const BYTES: usize = 40_000;
    let stream = scene.stream()?;
    let (device, mut host) = (memory(BYTES)?, vec![0u8; BYTES]);
    driver::cuMemsetD8_v2(&device, 7)?;
    let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    driver::cuStreamBeginCapture_v2(&stream, mode)?;
    // SAFETY: as many bytes on both sides, which are there until the stream has been waited for.
    unsafe { result::memcpy_dtoh_async(&mut host, device.address(), stream.cu_stream()) }
        .map_err(failed)?;
    let graph = Graph::captured(&stream)?;
    let exec = graph.instantiate()?;
    scene.wait_for_flag(&stream)?;
    exec.launch(&stream)?;
    drop((exec, graph));
    scene.set_flag(&*scene.stream()?)?;
    driver::cuStreamSynchronize(&stream)?;
    ensure!(host.iter().all(|byte| *byte == 7), "the copy was not made");
    Ok(())
}

fn copies_beside_a_stream_that_stands(scene: &Scene) -> Result<()> {
    const STANDS_BYTES: usize = 3 << 20;
    const GOES_BYTES: usize = 64 << 20;
    let (stands, goes) = (scene.stream()?, scene.stream()?);
    let (first, second) = (memory(STANDS_BYTES)?, memory(GOES_BYTES)?);
    // Copies may use them for as long as they like.
    let (behind, beside) = (vec![1; STANDS_BYTES].leak(), vec![2; GOES_BYTES].leak());
    driver::cuLaunchHostFunc(&stands, wait_to_go_on)?;
    std::thread::scope(|scope| {
        // A driver may have the caller wait here.
        let copies = scope.spawn(|| {
            here(&scene.gpu.context)?;
            LAUNCHED.store(1, Ordering::Release);
            anyhow::Ok(driver::cuMemcpyHtoDAsync_v2(&first, behind, &stands)?)
        });
        until(|| LAUNCHED.load(Ordering::Acquire) > 0);
        std::thread::sleep(Duration::from_millis(50));
        let copied = driver::cuMemcpyHtoDAsync_v2(&second, beside, &goes)
            .and_then(|()| driver::cuStreamSynchronize(&goes));
        MAY_GO_ON.store(true, Ordering::Release);
        copies.join().expect("it does not panic")?;
        anyhow::Ok(copied?)
    })?;
    Ok(driver::cuCtxSynchronize()?)
}
