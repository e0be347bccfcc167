//! Runs a case's OpenCL source on a platform that uses the CPU, such as PoCL.
//!
//! The library is loaded when it is there (`libOpenCL.so.1`, the loader of all platforms); nothing
//! is linked. Only the few functions of OpenCL 1.2 that a case needs are declared.

use crate::case::{Argument, Case, Run};
use crate::clock::Clock;
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

type Handle = *mut c_void;

const DEVICE_TYPE_CPU: u64 = 1 << 1;
const MEM_READ_WRITE: u64 = 1;
const MEM_COPY_HOST_PTR: u64 = 1 << 5;
const PROGRAM_BUILD_LOG: u32 = 0x1183;
const TRUE: u32 = 1;

macro_rules! functions {
    ($($name:ident: fn($($type:ty),*) -> $result:ty;)*) => {
        /// The functions of OpenCL that are used.
        #[allow(non_snake_case, reason = "cl.h's names")]
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Functions {
            fn load() -> Option<Self> {
                let name = c"libOpenCL.so.1".as_ptr();
                // SAFETY: names end with a NUL, the library stays loaded for good, and its functions
                // have the signatures of cl.h.
                unsafe {
                    let library = libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_LOCAL);
                    if library.is_null() {
                        return None;
                    }
                    Some(Self {$(
                        $name: {
                            let name = concat!(stringify!($name), "\0");
                            let symbol = libc::dlsym(library, name.as_ptr().cast());
                            if symbol.is_null() {
                                return None;
                            }
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) -> $result,
                            >(symbol)
                        },
                    )*})
                }
            }
        }
    };
}

functions! {
    clGetPlatformIDs: fn(u32, *mut Handle, *mut u32) -> i32;
    clGetDeviceIDs: fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    clCreateContext: fn(*const isize, u32, *const Handle, *const c_void, *mut c_void, *mut i32) -> Handle;
    clCreateCommandQueue: fn(Handle, Handle, u64, *mut i32) -> Handle;
    clCreateProgramWithSource: fn(Handle, u32, *const *const u8, *const usize, *mut i32) -> Handle;
    clBuildProgram: fn(Handle, u32, *const Handle, *const u8, *const c_void, *mut c_void) -> i32;
    clGetProgramBuildInfo: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateKernel: fn(Handle, *const i8, *mut i32) -> Handle;
    clCreateBuffer: fn(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    clSetKernelArg: fn(Handle, u32, usize, *const c_void) -> i32;
    clEnqueueNDRangeKernel: fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> i32;
    clEnqueueReadBuffer: fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> i32;
    clFinish: fn(Handle) -> i32;
    clReleaseMemObject: fn(Handle) -> i32;
    clReleaseKernel: fn(Handle) -> i32;
    clReleaseProgram: fn(Handle) -> i32;
}

/// Most platforms and build-log bytes that are looked at.
const PLATFORMS_MAX: usize = 16;
const LOG_BYTES_MAX: usize = 4096;

/// A CPU device of an OpenCL platform, with a context and a queue.
pub(crate) struct Platform {
    functions: Functions,
    device: Handle,
    context: Handle,
    queue: Handle,
}

fn check(what: &str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(anyhow!("{what}: OpenCL error {code}")) }
}

impl Platform {
    /// The first CPU device; `None` if there is no OpenCL or no such device.
    pub(crate) fn open() -> Option<Self> {
        let functions = Functions::load()?;
        let mut platforms = [null_mut(); PLATFORMS_MAX];
        let mut count = 0;
        // SAFETY: pointers are to live values of the sizes given, here and below.
        unsafe {
            let max = PLATFORMS_MAX as u32;
            if (functions.clGetPlatformIDs)(max, platforms.as_mut_ptr(), &mut count) != 0 {
                return None;
            }
            for platform in platforms.into_iter().take(count as usize) {
                let (mut device, mut devices, mut error) = (null_mut(), 0, 0);
                let found = (functions.clGetDeviceIDs)(
                    platform,
                    DEVICE_TYPE_CPU,
                    1,
                    &mut device,
                    &mut devices,
                );
                if found != 0 || devices == 0 {
                    continue;
                }
                let context =
                    (functions.clCreateContext)(null(), 1, &device, null(), null_mut(), &mut error);
                if error != 0 {
                    continue;
                }
                let queue = (functions.clCreateCommandQueue)(context, device, 0, &mut error);
                if error == 0 {
                    return Some(Self { functions, device, context, queue });
                }
            }
        }
        None
    }

    /// Compiles and runs; `None` if the case has no OpenCL form.
    pub(crate) fn run(&self, case: &Case, clock: Clock) -> Result<Option<Run>> {
        if case.opencl.is_empty() {
            return Ok(None);
        }
        clock
            .measure(
                || {
                    let built = Built::new(self, case)?;
                    built.runs(1)?;
                    Ok(built)
                },
                |built, count| built.runs(count),
                |built| built.outputs(),
            )
            .map(Some)
    }
}

/// A case's kernel and buffers, given back when dropped.
struct Built<'a> {
    platform: &'a Platform,
    case: &'a Case,
    program: Handle,
    kernel: Handle,
    /// Buffers with their bytes and whether they are outputs.
    buffers: Vec<(Handle, usize, bool)>,
}

impl<'a> Built<'a> {
    fn new(platform: &'a Platform, case: &'a Case) -> Result<Self> {
        let cl = &platform.functions;
        let name = CString::new(case.kernel)?;
        let (source, length, mut error) = (case.opencl.as_ptr(), case.opencl.len(), 0);
        let mut built =
            Self { platform, case, program: null_mut(), kernel: null_mut(), buffers: Vec::new() };
        // SAFETY: pointers are to live values of the sizes given; handles are the platform's.
        unsafe {
            built.program =
                (cl.clCreateProgramWithSource)(platform.context, 1, &source, &length, &mut error);
            check("clCreateProgramWithSource", error)?;
            let code =
                (cl.clBuildProgram)(built.program, 1, &platform.device, null(), null(), null_mut());
            if code != 0 {
                bail!("{}.cl does not compile: {}", case.name, built.log());
            }
            built.kernel = (cl.clCreateKernel)(built.program, name.as_ptr().cast(), &mut error);
            check("clCreateKernel", error)?;
        }
        for (index, argument) in (0u32..).zip(&case.arguments) {
            let (bytes, output) = match argument {
                Argument::Input(bytes) => (bytes.clone(), false),
                Argument::Output(element, count) => (vec![0; count * element.bytes()], true),
                Argument::Image(_) => bail!("no case with an image has OpenCL source"),
                Argument::Value(bytes) => {
                    // SAFETY: as above; the value is copied.
                    let code = unsafe {
                        (cl.clSetKernelArg)(built.kernel, index, 4, bytes.as_ptr().cast())
                    };
                    check("clSetKernelArg", code)?;
                    continue;
                }
            };
            // SAFETY: as above; the contents are copied, the kernel keeps the buffer's handle.
            unsafe {
                let buffer = (cl.clCreateBuffer)(
                    platform.context,
                    MEM_READ_WRITE | MEM_COPY_HOST_PTR,
                    bytes.len(),
                    bytes.as_ptr().cast_mut().cast(),
                    &mut error,
                );
                check("clCreateBuffer", error)?;
                built.buffers.push((buffer, bytes.len(), output));
                let size = size_of::<Handle>();
                let code = (cl.clSetKernelArg)(
                    built.kernel,
                    index,
                    size,
                    std::ptr::from_ref(&buffer).cast(),
                );
                check("clSetKernelArg", code)?;
            }
        }
        Ok(built)
    }

    fn log(&self) -> String {
        let mut log = vec![0u8; LOG_BYTES_MAX];
        let mut length = 0;
        // SAFETY: `log` has the size given.
        unsafe {
            (self.platform.functions.clGetProgramBuildInfo)(
                self.program,
                self.platform.device,
                PROGRAM_BUILD_LOG,
                log.len(),
                log.as_mut_ptr().cast(),
                &mut length,
            );
        }
        log.truncate(length);
        String::from_utf8_lossy(&log).into_owned()
    }

    fn runs(&self, count: u32) -> Result<()> {
        let cl = &self.platform.functions;
        let local = self.case.block.map(|n| n as usize);
        let global: Vec<usize> =
            self.case.grid.iter().zip(local).map(|(&n, l)| n as usize * l).collect();
        // SAFETY: the queue is alive, sizes have three dimensions, the kernel has all its arguments.
        unsafe {
            for _ in 0..count {
                let code = (cl.clEnqueueNDRangeKernel)(
                    self.platform.queue,
                    self.kernel,
                    3,
                    null(),
                    global.as_ptr(),
                    local.as_ptr(),
                    0,
                    null(),
                    null_mut(),
                );
                check("clEnqueueNDRangeKernel", code)?;
            }
            check("clFinish", (cl.clFinish)(self.platform.queue))
        }
    }

    fn outputs(&self) -> Result<Vec<Vec<u8>>> {
        let cl = &self.platform.functions;
        let outputs = self.buffers.iter().filter(|(_, _, output)| *output);
        outputs
            .map(|&(buffer, bytes, _)| {
                let mut contents = vec![0u8; bytes];
                // SAFETY: `contents` has `bytes` bytes, and the call waits.
                let code = unsafe {
                    (cl.clEnqueueReadBuffer)(
                        self.platform.queue,
                        buffer,
                        TRUE,
                        0,
                        bytes,
                        contents.as_mut_ptr().cast(),
                        0,
                        null(),
                        null_mut(),
                    )
                };
                check("clEnqueueReadBuffer", code).context("reading results")?;
                Ok(contents)
            })
            .collect()
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        let cl = &self.platform.functions;
        // SAFETY: handles are this value's own; NULL ones were never made.
        unsafe {
            for &(buffer, ..) in &self.buffers {
                (cl.clReleaseMemObject)(buffer);
            }
            if !self.kernel.is_null() {
                (cl.clReleaseKernel)(self.kernel);
            }
            if !self.program.is_null() {
                (cl.clReleaseProgram)(self.program);
            }
        }
    }
}
