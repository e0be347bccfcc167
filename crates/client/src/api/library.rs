//! Libraries and kernels (the manual's "Library Management"): modules and functions that belong
//! to no context. They share their numbers with modules and functions, so that the one can stand
//! for the other.

use crate::boundary::{In, Out};
use crate::program::launch::submission::{function_handle, wire_function};
use crate::program::mode;
use crate::program::modules::module_handle;
use core::ffi::{c_char, c_int, c_uint, c_void};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUresult, CudaError,
};
use driver_common::jit_options::JitOptions;

/// The context of a library's module: none.
const NO_CONTEXT: u64 = 0;

fn give(library: Out<CUlibrary>, handle: Handle) -> CUresult {
    let word = Handle { kind: HandleKind::Library, ..handle }.to_word();
    library.set(CUlibrary(word as usize))
}

/// Library options say how the image is kept, which is the server's business.
#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuLibraryLoadData(
    library: Out<CUlibrary>,
    code: In<c_void>,
    jit_options: Out<c_uint>,
    jit_values: Out<*mut c_void>,
    jit_count: c_uint,
    _options: Out<c_uint>,
    _values: Out<*mut c_void>,
    _count: c_uint,
) -> CUresult {
    let client = mode::client()?;
    library.required()?;
    let options = JitOptions::read(jit_count, jit_options, jit_values)?;
    give(library, client.with_room(|| client.load_image_at(code.cast(), NO_CONTEXT, &options))?)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuLibraryLoadFromFile(
    library: Out<CUlibrary>,
    path: In<c_char>,
    jit_options: Out<c_uint>,
    jit_values: Out<*mut c_void>,
    jit_count: c_uint,
    _options: Out<c_uint>,
    _values: Out<*mut c_void>,
    _count: c_uint,
) -> CUresult {
    let client = mode::client()?;
    library.required()?;
    let options = JitOptions::read(jit_count, jit_options, jit_values)?;
    give(library, client.with_room(|| client.load_image_from(path, NO_CONTEXT, &options))?)
}

pub(crate) fn cuLibraryUnload(library: CUlibrary) -> CUresult {
    let client = mode::client_of(library.0)?;
    let handle = module_handle(client, library.0, HandleKind::Library)?;
    client.unload_library(handle)
}

pub(crate) fn cuLibraryGetKernel(
    kernel: Out<CUkernel>,
    library: CUlibrary,
    name: In<c_char>,
) -> CUresult {
    let client = mode::client_of(library.0)?;
    kernel.required()?;
    let module = module_handle(client, library.0, HandleKind::Library)?;
    let handle = client.find_function(module, &name.text()?)?;
    kernel.set(CUkernel(Handle { kind: HandleKind::Kernel, ..handle }.to_word() as usize))
}

pub(crate) fn cuLibraryGetKernelCount(count: Out<c_uint>, library: CUlibrary) -> CUresult {
    let client = mode::client_of(library.0)?;
    count.required()?;
    let module = module_handle(client, library.0, HandleKind::Library)?;
    count.set(client.all_functions(module)?.len() as c_uint)
}

pub(crate) fn cuLibraryEnumerateKernels(
    kernels: Out<CUkernel>,
    places: c_uint,
    library: CUlibrary,
) -> CUresult {
    let client = mode::client_of(library.0)?;
    kernels.required()?;
    let module = module_handle(client, library.0, HandleKind::Library)?;
    let found = client.all_functions(module)?;
    for (index, handle) in found.into_iter().enumerate().take(places as usize) {
        let word = Handle { kind: HandleKind::Kernel, ..handle }.to_word();
        kernels.array(places as usize).set(index, CUkernel(word as usize))?;
    }
    Ok(())
}

pub(crate) fn cuLibraryGetModule(module: Out<CUmodule>, library: CUlibrary) -> CUresult {
    let (client, _) = mode::enter()?;
    let home = mode::client_of(library.0)?;
    let handle = client.library_here(module_handle(home, library.0, HandleKind::Library)?)?;
    module.set(CUmodule(Handle { kind: HandleKind::Module, ..handle }.to_word() as usize))
}

pub(crate) fn cuLibraryGetGlobal(
    pointer: Out<CUdeviceptr>,
    bytes: Out<usize>,
    library: CUlibrary,
    name: In<c_char>,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let home = mode::client_of(library.0)?;
    let handle = client.library_here(module_handle(home, library.0, HandleKind::Library)?)?;
    client.find_global(handle, false, &name.text()?, pointer, bytes)
}

pub(crate) fn cuLibraryGetManaged(
    pointer: Out<CUdeviceptr>,
    bytes: Out<usize>,
    library: CUlibrary,
    name: In<c_char>,
) -> CUresult {
    let client = mode::client_of(library.0)?;
    let handle = module_handle(client, library.0, HandleKind::Library)?;
    client.find_global(handle, true, &name.text()?, pointer, bytes)
}

/// The handle of a kernel, checked to be alive.
fn kernel_handle(kernel: CUkernel) -> Result<Handle, CudaError> {
    let handle = function_handle(kernel.0)?;
    mode::client_of(kernel.0)?.state().functions.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
    Ok(handle)
}

pub(crate) fn cuKernelGetFunction(function: Out<CUfunction>, kernel: CUkernel) -> CUresult {
    let (client, _) = mode::enter()?;
    kernel_handle(kernel)?;
    let here = client.function_here(CUfunction(kernel.0))?;
    function.set(wire_function(function_handle(here.0)?))
}

pub(crate) fn cuKernelGetLibrary(library: Out<CUlibrary>, kernel: CUkernel) -> CUresult {
    let handle = kernel_handle(kernel)?;
    let state = mode::client_of(kernel.0)?.state();
    let function = state.functions.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
    give(library, function.module)
}

pub(crate) fn cuKernelGetName(name: Out<*const c_char>, kernel: CUkernel) -> CUresult {
    super::function::cuFuncGetName(name, CUfunction(kernel.0))
}

pub(crate) fn cuKernelGetParamInfo(
    kernel: CUkernel,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> CUresult {
    super::function::cuFuncGetParamInfo(CUfunction(kernel.0), index, offset, size)
}

pub(crate) fn cuKernelGetParamCount(kernel: CUkernel, count: Out<usize>) -> CUresult {
    super::function::cuFuncGetParamCount(CUfunction(kernel.0), count)
}

pub(crate) fn cuKernelGetAttribute(
    value: Out<c_int>,
    attribute: c_uint,
    kernel: CUkernel,
    device: CUdevice,
) -> CUresult {
    let here = mode::client_on(device)?.function_here(CUfunction(kernel.0))?;
    super::function::cuFuncGetAttribute(value, attribute, here)
}
