//! The device and the stream that a sample works with.

use std::{process, ptr, sync::Arc};

use anyhow::{Context, Result};
use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, LaunchConfig,
        PinnedHostSlice, ValidAsZeroBits, sys,
    },
    nvrtc::Ptx,
};

use crate::options::{Options, StreamKind};

/// A context of the chosen device and a stream in it.
#[derive(Debug)]
pub struct Gpu {
    /// The device's primary context, current in this thread.
    pub context: Arc<CudaContext>,
    /// Where the sample's work goes.
    pub stream: Arc<CudaStream>,
}

impl Gpu {
    /// Opens the device that the options name. Without a `libcuda.so` the process ends here, with
    /// status 2: cudarc could only panic at the first call.
    pub fn open(options: &Options) -> Result<Self> {
        require_driver();
        let context = CudaContext::new(options.device)
            .map_err(failed)
            .with_context(|| format!("cannot open device {}", options.device))?;
        let stream = match options.stream {
            StreamKind::Legacy => context.default_stream(),
            StreamKind::PerThread => context.per_thread_stream(),
            StreamKind::Own => context.new_stream().map_err(failed)?,
        };
        Ok(Self { context, stream })
    }

    /// Loads a PTX text.
    pub fn load(&self, ptx: &str) -> Result<Arc<CudaModule>> {
        self.context.load_module(Ptx::from_src(ptx)).map_err(failed).context("cannot load the PTX")
    }
}

/// A kernel of a module.
pub fn function(module: &Arc<CudaModule>, name: &str) -> Result<CudaFunction> {
    module.load_function(name).map_err(failed).with_context(|| format!("no kernel `{name}`"))
}

/// Page-locked host memory, all zeros.
pub fn pinned<T: ValidAsZeroBits + DeviceRepr>(
    context: &Arc<CudaContext>,
    length: usize,
    flags: u32,
) -> Result<PinnedHostSlice<T>> {
    // SAFETY: it is filled with zeros before it is read, which are a value of the type.
    unsafe {
        let mut memory = context.alloc_pinned_with_flags::<T>(length, flags).map_err(failed)?;
        memory.as_mut_ptr().map_err(failed)?.write_bytes(0, length);
        Ok(memory)
    }
}

/// A launch of one-dimensional blocks with `shared_bytes` of dynamic shared memory.
pub fn shape(blocks: u32, threads: u32, shared_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared_bytes,
    }
}

/// An extended launch of so many blocks and threads in each; the attributes must live until it is made.
pub fn launch_config(
    [blocks, threads]: [u32; 2],
    stream: sys::CUstream,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    let attrs = if attributes.is_empty() { ptr::null_mut() } else { attributes.as_mut_ptr() };
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream,
        attrs,
        numAttrs: attributes.len() as u32,
    }
}

/// A structure of the driver's for which zeros are a value, of nothing: numbers, enumerations with a 0, pointers.
///
/// # Safety
/// Only for such structures.
pub unsafe trait Blank {}

macro_rules! blanks {
    ($($ty:ident)*) => {$(
        // SAFETY: see the trait.
        unsafe impl Blank for sys::$ty {}
    )*};
}

blanks! {
    CUDA_KERNEL_NODE_PARAMS_v3 CUDA_MEM_ALLOC_NODE_PARAMS CUDA_RESOURCE_DESC CUDA_RESOURCE_VIEW_DESC
    CUDA_TEXTURE_DESC CUgraphNodeParams CUmemAllocationProp CUmemLocation CUmemPoolProps
}

/// A description of nothing, to be filled in.
pub fn blank<T: Blank>() -> T {
    // SAFETY: zeros are a value of it.
    unsafe { std::mem::zeroed() }
}

/// A driver's error as CUDA names it.
pub fn failed(error: DriverError) -> anyhow::Error {
    anyhow::Error::msg(error_name(error.0))
}

/// CUDA's name of a result, from the driver if it knows the number.
pub fn error_name(result: sys::CUresult) -> String {
    match DriverError(result).error_name() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => format!("CUDA error {}", result as u32),
    }
}

/// Ends the process with a message if there is no CUDA driver to load.
pub fn require_driver() {
    // SAFETY: loading a library runs its initialisers; that is what using CUDA means, and it is
    // what the next call would do.
    if !unsafe { sys::is_culib_present() } {
        eprintln!("there is no libcuda.so on the library path: no CUDA driver is installed");
        process::exit(2);
    }
}
