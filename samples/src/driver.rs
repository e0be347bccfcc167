//! Driver: functions that `cudarc` has no safe form of, or one that does more, and graphs.
//!
//! A row names a function and gives its parameters types that can be had in safe code only while what the function asks
//! of them holds. So why a call is safe is said here once, for all calls: a handle is a reference to what owns it, device
//! memory a reference to its owner with as many bytes as it has, a result a place of its type. What is freed or destroyed
//! while work uses it is so for the driver to keep, which waits or has counted it.

use std::{
    ffi::{c_int, c_void},
    fmt,
    mem::{self, ManuallyDrop},
    ptr,
};

use cudarc::driver::{
    CudaContext, CudaEvent, CudaStream, result,
    sys::{self, CUstreamCaptureMode},
};

use crate::{gpu::error_name, memory::DeviceMemory};

/// What a function answered that did not succeed.
#[derive(Debug)]
pub struct Failure {
    function: &'static str,
    /// Its answer.
    pub code: sys::CUresult,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.function, error_name(self.code))
    }
}

impl std::error::Error for Failure {}

/// Success or what was answered instead.
pub type Answer = Result<(), Failure>;

/// A graph that is put together.
#[derive(Debug)]
pub struct Graph(sys::CUgraph);

impl Graph {
    /// An empty one.
    pub fn new() -> Result<Self, Failure> {
        let mut graph = Self(ptr::null_mut());
        cuGraphCreate(&mut graph)?;
        Ok(graph)
    }

    /// What a stream captured since it began to.
    pub fn captured(stream: &CudaStream) -> Result<Self, Failure> {
        let mut graph = Self(ptr::null_mut());
        cuStreamEndCapture(stream, &mut graph)?;
        Ok(graph)
    }

    /// A graph that another one owns.
    ///
    /// # Safety
    /// It must be alive as long as this is used.
    pub unsafe fn borrowed(graph: sys::CUgraph) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(graph))
    }

    /// Ready to be launched.
    pub fn instantiate(&self) -> Result<Exec, Failure> {
        let mut exec = Exec(ptr::null_mut());
        cuGraphInstantiateWithFlags(&mut exec, self)?;
        Ok(exec)
    }

    /// The driver's handle.
    pub fn raw(&self) -> sys::CUgraph {
        self.0
    }

    fn place(&mut self) -> *mut sys::CUgraph {
        &mut self.0
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: its own. An error cannot be reported from here.
            let _ = unsafe { result::graph::destroy(self.0) };
        }
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Exec(sys::CUgraphExec);

impl Exec {
    /// Launches it.
    pub fn launch(&self, stream: &CudaStream) -> Result<(), Failure> {
        cuGraphLaunch(self, stream)
    }

    fn raw(&self) -> sys::CUgraphExec {
        self.0
    }

    fn place(&mut self) -> *mut sys::CUgraphExec {
        &mut self.0
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: as above.
            let _ = unsafe { result::graph::exec_destroy(self.0) };
        }
    }
}

/// An argument as a function takes it.
trait Argument<T> {
    fn give(self) -> T;
}

macro_rules! arguments {
    ($($ty:ty => $given:ty: $argument:ident $give:expr;)*) => {$(
        impl Argument<$given> for $ty {
            fn give(self) -> $given {
                let $argument = self;
                $give
            }
        }
    )*};
}

arguments! {
    c_int => c_int: number number;
    u32 => u32: number number;
    CUstreamCaptureMode => CUstreamCaptureMode: mode mode;
    &mut c_int => *mut c_int: place place;
    &mut u64 => *mut u64: place place;
    &mut Graph => *mut sys::CUgraph: graph graph.place();
    &mut Exec => *mut sys::CUgraphExec: exec exec.place();
    &Graph => sys::CUgraph: graph graph.raw();
    &Exec => sys::CUgraphExec: exec exec.raw();
    &CudaContext => sys::CUcontext: context context.cu_ctx();
    &CudaStream => sys::CUstream: stream stream.cu_stream();
    &CudaEvent => sys::CUevent: event event.cu_event();
    &DeviceMemory => sys::CUdeviceptr: memory memory.address();
}

/// Calls a function whose address it is given.
extern "C" fn call(function: *mut c_void) {
    // SAFETY: only a function's address comes here: see the rows.
    unsafe { mem::transmute::<*mut c_void, fn()>(function)() }
}

/// A function's answer.
pub fn checked(function: &'static str, code: sys::CUresult) -> Answer {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Failure { function, code }),
    }
}

macro_rules! calls {
    ($($name:ident($($parameter:ident: $ty:ty),*) $(=> ($($argument:expr),*))?;)*) => {$(
        calls! { @row $name ($($parameter: $ty),*) [$($($argument),*)?] [$($parameter),*] }
    )*};
    // Each parameter is an argument.
    (@row $name:ident $parameters:tt [] [$($each:ident),*]) => {
        calls! { @call $name $parameters $(Argument::give($each)),* }
    };
    // The row says the arguments.
    (@row $name:ident $parameters:tt [$($argument:expr),+] $each:tt) => {
        calls! { @call $name $parameters $($argument),+ }
    };
    (@call $name:ident ($($parameter:ident: $ty:ty),*) $($argument:expr),*) => {
        #[allow(non_snake_case, missing_docs, reason = "cuda.h's functions")]
        pub fn $name($($parameter: $ty),*) -> Answer {
            // SAFETY: the arguments' types say what the function asks for: see the module.
            checked(stringify!($name), unsafe { sys::$name($($argument),*) })
        }
    };
}

const EQUAL: u32 = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;

calls! {
    cuDriverGetVersion(version: &mut c_int);
    cuDeviceCanAccessPeer(can: &mut c_int, from: c_int, to: c_int);
    // Of the current context to a peer's memory.
    cuCtxEnablePeerAccess(peer: &CudaContext) => (peer.cu_ctx(), 0);
    cuCtxSynchronize();

    cuStreamQuery(stream: &CudaStream);
    cuStreamSynchronize(stream: &CudaStream);
    cuStreamWaitEvent(stream: &CudaStream, event: &CudaEvent) => (stream.give(), event.give(), 0);
    cuStreamWaitValue32_v2(stream: &CudaStream, word: &DeviceMemory, value: u32)
        => (stream.give(), word.give(), value, EQUAL);
    cuStreamWriteValue32_v2(stream: &CudaStream, word: &DeviceMemory, value: u32)
        => (stream.give(), word.give(), value, 0);
    cuLaunchHostFunc(stream: &CudaStream, function: fn())
        => (stream.give(), Some(call), function as *mut c_void);
    cuEventRecord(event: &CudaEvent, stream: &CudaStream);

    // All of the memory.
    cuMemsetD8_v2(memory: &DeviceMemory, value: u8) => (memory.give(), value, memory.bytes());
    cuMemsetD32_v2(memory: &DeviceMemory, value: u32) => (memory.give(), value, memory.bytes() / 4);
    cuMemsetD8Async(memory: &DeviceMemory, value: u8, stream: &CudaStream)
        => (memory.give(), value, memory.bytes(), stream.give());
    cuMemsetD32Async(memory: &DeviceMemory, value: u32, stream: &CudaStream)
        => (memory.give(), value, memory.bytes() / 4, stream.give());
    // As much as fits.
    cuMemcpyAsync(to: &DeviceMemory, from: &DeviceMemory, stream: &CudaStream)
        => (to.give(), from.give(), to.bytes().min(from.bytes()), stream.give());
    cuMemcpyDtoDAsync_v2(to: &DeviceMemory, from: &DeviceMemory, stream: &CudaStream)
        => (to.give(), from.give(), to.bytes().min(from.bytes()), stream.give());
    // Of what stays, so that the copy may be made at any time.
    cuMemcpyHtoDAsync_v2(to: &DeviceMemory, from: &'static [u8], stream: &CudaStream)
        => (to.give(), from.as_ptr().cast(), to.bytes().min(from.len()), stream.give());
    // To an offset.
    cuMemcpyPeerAsync(
        to: &DeviceMemory, offset: usize, to_context: &CudaContext, from: &DeviceMemory,
        from_context: &CudaContext, stream: &CudaStream
    ) => (
        to.address() + offset as u64, to_context.give(), from.give(), from_context.give(),
        to.bytes().saturating_sub(offset).min(from.bytes()), stream.give()
    );

    cuGraphCreate(graph: &mut Graph) => (graph.give(), 0);
    // A node that waits for no other.
    cuGraphAddHostNode(graph: &Graph, function: fn()) => (
        &mut ptr::null_mut(), graph.give(), ptr::null(), 0,
        &sys::CUDA_HOST_NODE_PARAMS { fn_: Some(call), userData: function as *mut c_void }
    );
    cuGraphConditionalHandleCreate(
        handle: &mut u64, graph: &Graph, context: &CudaContext, default: u32, flags: u32);
    cuGraphInstantiateWithFlags(exec: &mut Exec, graph: &Graph) => (exec.give(), graph.give(), 0);
    cuGraphLaunch(exec: &Exec, stream: &CudaStream);
    cuStreamBeginCapture_v2(stream: &CudaStream, mode: CUstreamCaptureMode);
    cuStreamEndCapture(stream: &CudaStream, graph: &mut Graph);
}

/// Lets the current context reach a peer's memory, if it does not yet.
pub fn enable_peer_access(peer: &CudaContext) -> Answer {
    match cuCtxEnablePeerAccess(peer) {
        Err(Failure { code: sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, .. }) => Ok(()),
        answer => answer,
    }
}
