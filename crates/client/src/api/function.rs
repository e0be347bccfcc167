//! Functions (the manual's "Execution Control" but for launches): attributes and names, from what
//! the server said when the function was looked up.

use crate::boundary::Out;
use crate::program::launch::submission::Function;
use crate::program::mode;
use core::ffi::{c_char, c_int, c_uint};
use cuda_api::constants::function_attribute;
use cuda_api::{CUfunction, CUmodule, CUresult, CudaError};

/// Calls `f` with a function or kernel.
fn with<R>(function: CUfunction, f: impl FnOnce(&Function) -> R) -> Result<R, CudaError> {
    Ok(f(mode::client_of(function.0)?.state().function(function.0)?.1))
}

pub(crate) fn cuFuncGetAttribute(
    value: Out<c_int>,
    attribute: c_uint,
    function: CUfunction,
) -> CUresult {
    value.required()?;
    let found = with(function, |f| f.attributes.get(attribute as usize).copied())?;
    value.set(found.ok_or(CudaError::INVALID_VALUE)?)
}

/// Sets an attribute; `call` has the server do so. What the server accepted is remembered: launches
/// are checked against it here, and what is so already is not asked for again (libraries set the
/// same before each launch).
pub(crate) fn set_attribute(
    function: CUfunction,
    attribute: c_uint,
    value: c_int,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    check_settable(attribute)?;
    let known = with(function, |f| f.attributes.get(attribute as usize).copied())?;
    if known == Some(value) {
        return Ok(());
    }
    call()?;
    let client = mode::client_of(function.0)?;
    let mut state = client.state();
    let handle = state.function(function.0)?.0;
    if let Some(function) = state.functions.get_mut(handle)
        && let Some(place) = function.attributes.get_mut(attribute as usize)
    {
        *place = value;
        // How many blocks an SM takes may depend on it.
        function.occupancy.forget();
    }
    Ok(())
}

/// CUDA_ERROR_INVALID_VALUE for attributes that are properties of the code.
fn check_settable(attribute: c_uint) -> CUresult {
    use function_attribute::*;
    let settable = matches!(
        attribute,
        MAX_DYNAMIC_SHARED_SIZE_BYTES
            | PREFERRED_SHARED_MEMORY_CARVEOUT
            | REQUIRED_CLUSTER_WIDTH
            | REQUIRED_CLUSTER_HEIGHT
            | REQUIRED_CLUSTER_DEPTH
            | NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            | CLUSTER_SCHEDULING_POLICY_PREFERENCE
    );
    if settable { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

pub(crate) fn cuFuncGetModule(module: Out<CUmodule>, function: CUfunction) -> CUresult {
    // Of no function at all it is a wrong value, not a wrong handle.
    if function.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    module.set(CUmodule(with(function, |f| f.module.to_word())? as usize))
}

/// The name lives as long as the function is loaded.
pub(crate) fn cuFuncGetName(name: Out<*const c_char>, function: CUfunction) -> CUresult {
    name.required()?;
    // Of no function at all it is a wrong value, not a wrong handle.
    if function.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    name.set(with(function, |f| f.name.as_ptr())?)
}

pub(crate) fn cuFuncGetParamInfo(
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> CUresult {
    let param = with(function, |f| f.layout.params().get(index).copied())?;
    let param = param.ok_or(CudaError::INVALID_VALUE)?;
    offset.set(param.offset as usize)?;
    size.set_if_wanted(param.bytes as usize);
    Ok(())
}

pub(crate) fn cuFuncGetParamCount(function: CUfunction, count: Out<usize>) -> CUresult {
    count.set(with(function, |f| f.layout.params().len())?)
}

/// A function is loaded when it was looked up.
pub(crate) fn cuFuncIsLoaded(state: Out<c_uint>, function: CUfunction) -> CUresult {
    const LOADED: c_uint = 1;
    with(function, |_| ())?;
    state.set(LOADED)
}

pub(crate) fn cuFuncLoad(function: CUfunction) -> CUresult {
    with(function, |_| ())
}

/// Banks of shared memory have had one width for ten years: what is asked for is checked and
/// forgotten, as with NVIDIA's driver.
pub(crate) fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) -> CUresult {
    const LAST: c_uint = 2;
    with(function, |_| ())?;
    if config > LAST { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}
