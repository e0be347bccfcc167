//! Modules (the manual's "Module Management").

use crate::boundary::{In, Out};
use crate::program::mode;
use crate::program::modules::module_handle;
use core::ffi::{c_char, c_uint, c_void};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdeviceptr, CUfunction, CUmodule, CUresult, CudaError};
use driver_common::jit_options::JitOptions;

fn give(module: Out<CUmodule>, handle: Handle) -> CUresult {
    module.set(CUmodule(handle.to_word() as usize))
}

pub(crate) fn cuModuleLoad(module: Out<CUmodule>, path: In<c_char>) -> CUresult {
    let (client, context) = mode::enter()?;
    module.required()?;
    give(module, client.with_room(|| client.load_image_from(path, context, &JitOptions::none()))?)
}

pub(crate) fn cuModuleLoadData(module: Out<CUmodule>, image: In<c_void>) -> CUresult {
    let (client, context) = mode::enter()?;
    module.required()?;
    give(
        module,
        client.with_room(|| client.load_image_at(image.cast(), context, &JitOptions::none()))?,
    )
}

pub(crate) fn cuModuleLoadDataEx(
    module: Out<CUmodule>,
    image: In<c_void>,
    count: c_uint,
    options: Out<c_uint>,
    values: Out<*mut c_void>,
) -> CUresult {
    let (client, context) = mode::enter()?;
    module.required()?;
    let options = JitOptions::read(count, options, values)?;
    give(module, client.with_room(|| client.load_image_at(image.cast(), context, &options))?)
}

pub(crate) fn cuModuleLoadFatBinary(module: Out<CUmodule>, image: In<c_void>) -> CUresult {
    cuModuleLoadData(module, image)
}

pub(crate) fn cuModuleUnload(module: CUmodule) -> CUresult {
    let client = mode::client_of(module.0)?;
    let handle = {
        let state = client.state();
        let (handle, found) = state.module(module.0, HandleKind::Module)?;
        // A library's module goes with the library.
        if found.is_library() {
            return Err(CudaError::NOT_PERMITTED);
        }
        handle
    };
    client.unload(handle)
}

pub(crate) fn cuModuleGetFunction(
    function: Out<CUfunction>,
    module: CUmodule,
    name: In<c_char>,
) -> CUresult {
    let client = mode::client_of(module.0)?;
    function.required()?;
    let module = module_handle(client, module.0, HandleKind::Module)?;
    // As drivers do: what is not found leaves no handle behind.
    function.set(CUfunction::NULL)?;
    let name = name.text()?;
    if name.is_empty() {
        return Err(CudaError::INVALID_VALUE);
    }
    let handle = client.find_function(module, &name)?;
    function.set(CUfunction(handle.to_word() as usize))
}

pub(crate) fn cuModuleGetFunctionCount(count: Out<c_uint>, module: CUmodule) -> CUresult {
    let client = mode::client_of(module.0)?;
    count.required()?;
    let module = module_handle(client, module.0, HandleKind::Module)?;
    count.set(client.all_functions(module)?.len() as c_uint)
}

pub(crate) fn cuModuleEnumerateFunctions(
    functions: Out<CUfunction>,
    places: c_uint,
    module: CUmodule,
) -> CUresult {
    let client = mode::client_of(module.0)?;
    functions.required()?;
    let module = module_handle(client, module.0, HandleKind::Module)?;
    let found = client.all_functions(module)?;
    for (index, handle) in found.into_iter().enumerate().take(places as usize) {
        functions.array(places as usize).set(index, CUfunction(handle.to_word() as usize))?;
    }
    Ok(())
}

pub(crate) fn cuModuleGetGlobal_v2(
    pointer: Out<CUdeviceptr>,
    bytes: Out<usize>,
    module: CUmodule,
    name: In<c_char>,
) -> CUresult {
    let client = mode::client_of(module.0)?;
    let module = module_handle(client, module.0, HandleKind::Module)?;
    if pointer.is_null() && bytes.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    client.find_global(module, false, &name.text()?, pointer, bytes)
}
