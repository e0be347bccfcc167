//! What the checks share: calling the driver, stating what must be, and a few things that free
//! themselves.

use std::{
    ffi::{CStr, CString, c_void},
    fmt::{self, Debug, Display},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use cudarc::driver::sys::{self, CUresult};
use samples::{gpu::error_name, ptx};

/// Why a check did not pass.
pub(crate) enum Stop {
    /// Something is not as it must be.
    Wrong(String),
    /// What the check is about does not exist on this device or driver, which is allowed.
    Absent(String),
}

impl Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(why) => f.write_str(why),
            Self::Absent(why) => write!(f, "not available: {why}"),
        }
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// How a check ends.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// The status of a call that may well fail, for the check to look at.
macro_rules! status {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: pointers that are passed are to places of the caller that live as long as the
        // call (or as the work it enqueues, which every check waits for), or null; handles are live
        // unless the driver is to refuse them. What else is wrong the driver must check.
        unsafe { cudarc::driver::sys::$function($($argument),*) }
    }};
}
pub(crate) use status;

/// Calls a driver function that must succeed.
macro_rules! call {
    ($function:ident $arguments:tt) => {
        $crate::support::succeeded(
            stringify!($function),
            $crate::support::status!($function $arguments),
        )
    };
}
pub(crate) use call;

/// Calls a driver function that must answer with one of the given errors.
macro_rules! refused {
    ($function:ident $arguments:tt, $($error:ident)|+) => {
        $crate::support::one_of(
            stringify!($function),
            $crate::support::status!($function $arguments),
            &[$(cudarc::driver::sys::CUresult::$error),+],
        )
    };
}
pub(crate) use refused;

/// Success or a message.
pub(crate) fn succeeded(function: &str, status: CUresult) -> Outcome {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(Stop::Wrong(format!("{function}: {}", error_name(error)))),
    }
}

/// That a status is among those expected.
pub(crate) fn one_of(what: &str, status: CUresult, expected: &[CUresult]) -> Outcome {
    if expected.contains(&status) {
        return Ok(());
    }
    let names: Vec<String> = expected.iter().map(|&status| error_name(status)).collect();
    let got = error_name(status);
    Err(Stop::Wrong(format!("{what}: {got} instead of {}", names.join(" or "))))
}

/// That two values are equal.
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Outcome {
    if got == expected {
        return Ok(());
    }
    Err(Stop::Wrong(format!("{what}: {got:?} instead of {expected:?}")))
}

/// That a condition holds.
pub(crate) fn holds(what: &str, condition: bool) -> Outcome {
    if condition { Ok(()) } else { Err(Stop::Wrong(format!("not so: {what}"))) }
}

/// That a check of undocumented care is wanted.
pub(crate) fn only_strict(env: &Env) -> Outcome {
    if env.strict { Ok(()) } else { Err(Stop::Absent("needs --strict".to_owned())) }
}

/// The first device, its primary context (current in the main thread) and the tour's kernels.
pub(crate) struct Env {
    pub(crate) device: sys::CUdevice,
    pub(crate) context: sys::CUcontext,
    pub(crate) module: sys::CUmodule,
    pub(crate) strict: bool,
    /// Why the tour's kernels cannot be used, if so.
    pub(crate) kernels: Option<String>,
}

impl Env {
    pub(crate) fn new(strict: bool) -> Outcome<Self> {
        let mut device = 0;
        call!(cuDeviceGet(&mut device, 0))?;
        let mut context = ptr::null_mut();
        call!(cuDevicePrimaryCtxRetain(&mut context, device))?;
        call!(cuCtxSetCurrent(context))?;
        // Without its kernels much of the tour still makes sense; that they are missing is the
        // first thing in the report.
        let loaded = load(ptx::TOUR);
        let module = *loaded.as_ref().unwrap_or(&ptr::null_mut());
        let mut env = Self { device, context, module, strict, kernels: None };
        env.kernels = loaded.and_then(|_| env.warm_up()).err().map(|stop| stop.to_string());
        Ok(env)
    }

    /// Launches the kernels that checks use while another kernel waits. A driver may load kernels
    /// at their first launch and may have to wait for the device to do it.
    fn warm_up(&self) -> Outcome {
        let words = Words::filled(2, 1)?;
        let stream = Stream::non_blocking()?;
        for stream in [ptr::null_mut(), stream.0] {
            self.slow_write(words.address, 1, 0, stream)?;
            self.copy_word(words.address, words.at(1), stream)?;
            self.wait_flag(words.address, words.at(1), stream)?;
            self.launch(c"nothing", 1, 1, stream, &mut [])?;
            call!(cuMemsetD32Async(words.at(1), 0, 1, stream))?;
        }
        synchronize()
    }

    /// A kernel of the tour's module.
    pub(crate) fn function(&self, name: &CStr) -> Outcome<sys::CUfunction> {
        let mut function = ptr::null_mut();
        call!(cuModuleGetFunction(&mut function, self.module, name.as_ptr()))?;
        Ok(function)
    }

    /// Launches a one-dimensional kernel of the tour's module. `arguments` point to the parameters'
    /// values.
    pub(crate) fn launch(
        &self,
        name: &CStr,
        grid: u32,
        block: u32,
        stream: sys::CUstream,
        arguments: &mut [*mut c_void],
    ) -> Outcome {
        let function = self.function(name)?;
        let arguments = arguments.as_mut_ptr();
        let extra = ptr::null_mut();
        call!(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, arguments, extra))
    }

    /// Enqueues a write of `value` to `address` that takes `milliseconds`.
    pub(crate) fn slow_write(
        &self,
        mut address: sys::CUdeviceptr,
        mut value: u32,
        milliseconds: u64,
        stream: sys::CUstream,
    ) -> Outcome {
        let mut nanoseconds = milliseconds * 1_000_000;
        let mut arguments = [place(&mut address), place(&mut value), place(&mut nanoseconds)];
        self.launch(c"slow_write", 1, 1, stream, &mut arguments)
    }

    /// Enqueues a copy of one word by a kernel.
    pub(crate) fn copy_word(
        &self,
        mut from: sys::CUdeviceptr,
        mut to: sys::CUdeviceptr,
        stream: sys::CUstream,
    ) -> Outcome {
        let mut arguments = [place(&mut from), place(&mut to)];
        self.launch(c"copy_word", 1, 1, stream, &mut arguments)
    }

    /// Enqueues a wait for a flag, for at most ten seconds; `result` becomes 1 if it was seen, else
    /// 2.
    pub(crate) fn wait_flag(
        &self,
        mut flag: sys::CUdeviceptr,
        mut result: sys::CUdeviceptr,
        stream: sys::CUstream,
    ) -> Outcome {
        let mut limit_ns = 10_000_000_000u64;
        let mut arguments = [place(&mut flag), place(&mut result), place(&mut limit_ns)];
        self.launch(c"wait_flag", 1, 1, stream, &mut arguments)
    }

    /// An attribute of the device.
    pub(crate) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Outcome<i32> {
        let mut value = 0;
        call!(cuDeviceGetAttribute(&mut value, attribute, self.device))?;
        Ok(value)
    }
}

/// The address of a kernel's argument.
pub(crate) fn place<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

/// Loads a PTX text.
pub(crate) fn load(text: &str) -> Outcome<sys::CUmodule> {
    let text = CString::new(text).map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut module = ptr::null_mut();
    call!(cuModuleLoadData(&mut module, text.as_ptr().cast()))?;
    Ok(module)
}

/// Waits for all work of the context.
pub(crate) fn synchronize() -> Outcome {
    call!(cuCtxSynchronize())
}

/// 32-bit words in device memory.
pub(crate) struct Words {
    pub(crate) address: sys::CUdeviceptr,
    pub(crate) length: usize,
}

impl Words {
    /// Words that are all `value`.
    pub(crate) fn filled(length: usize, value: u32) -> Outcome<Self> {
        let mut address = 0;
        call!(cuMemAlloc_v2(&mut address, length * 4))?;
        let words = Self { address, length };
        call!(cuMemsetD32_v2(address, value, length))?;
        synchronize()?;
        Ok(words)
    }

    /// The address of a word.
    pub(crate) fn at(&self, index: usize) -> sys::CUdeviceptr {
        self.address + index as u64 * 4
    }

    /// All words, after all work of the context.
    pub(crate) fn read(&self) -> Outcome<Vec<u32>> {
        synchronize()?;
        let mut host = vec![0u32; self.length];
        call!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), self.address, self.length * 4))?;
        Ok(host)
    }

    /// The first word, after all work of the context.
    pub(crate) fn first(&self) -> Outcome<u32> {
        Ok(self.read()?[0])
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // Work that may still use it comes first. Errors show up in the next check.
        let _ = synchronize();
        let _ = call!(cuMemFree_v2(self.address));
    }
}

/// Page-locked words that host and device share.
pub(crate) struct HostWords {
    pub(crate) host: *mut u32,
    pub(crate) device: sys::CUdeviceptr,
    length: usize,
}

impl HostWords {
    /// Words that are all zero.
    pub(crate) fn zeroed(length: usize) -> Outcome<Self> {
        let mut memory = ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        call!(cuMemHostAlloc(&mut memory, length * 4, flags))?;
        let mut words = Self { host: memory.cast(), device: 0, length };
        for index in 0..length {
            words.set(index, 0);
        }
        call!(cuMemHostGetDevicePointer_v2(&mut words.device, memory, 0))?;
        Ok(words)
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.length);
        // SAFETY: within the allocation, which is page-aligned and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.host.add(index)) }
    }

    /// Writes a word as another processor sees it.
    pub(crate) fn set(&self, index: usize, value: u32) {
        self.word(index).store(value, Ordering::SeqCst);
    }

    /// Reads a word as another processor may have written it.
    pub(crate) fn get(&self, index: usize) -> u32 {
        self.word(index).load(Ordering::SeqCst)
    }
}

impl Drop for HostWords {
    fn drop(&mut self) {
        let _ = synchronize();
        let _ = call!(cuMemFreeHost(self.host.cast()));
    }
}

/// A stream that is destroyed with the value.
pub(crate) struct Stream(pub(crate) sys::CUstream);

impl Stream {
    /// A stream that synchronises with the legacy default stream.
    pub(crate) fn blocking() -> Outcome<Self> {
        Self::new(sys::CUstream_flags::CU_STREAM_DEFAULT)
    }

    /// A stream that does not.
    pub(crate) fn non_blocking() -> Outcome<Self> {
        Self::new(sys::CUstream_flags::CU_STREAM_NON_BLOCKING)
    }

    fn new(flags: sys::CUstream_flags) -> Outcome<Self> {
        let mut stream = ptr::null_mut();
        call!(cuStreamCreate(&mut stream, flags as u32))?;
        Ok(Self(stream))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = call!(cuStreamDestroy_v2(self.0));
    }
}

/// An event that is destroyed with the value.
pub(crate) struct Event(pub(crate) sys::CUevent);

impl Event {
    /// An event that can be timed.
    pub(crate) fn timed() -> Outcome<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// An event that cannot.
    pub(crate) fn untimed() -> Outcome<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn new(flags: sys::CUevent_flags) -> Outcome<Self> {
        let mut event = ptr::null_mut();
        call!(cuEventCreate(&mut event, flags as u32))?;
        Ok(Self(event))
    }

    /// Records it in a stream.
    pub(crate) fn record(&self, stream: sys::CUstream) -> Outcome {
        call!(cuEventRecord(self.0, stream))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = call!(cuEventDestroy_v2(self.0));
    }
}
