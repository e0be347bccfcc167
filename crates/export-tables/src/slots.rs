//! The functions that stand in slots. System V calling convention; results as CUresult unless
//! said. Arguments beyond those named are ignored, as C allows.

use crate::host;
use crate::storage::{self, Destructor};
use cuda_api::pointer::{In, Out};
use cuda_api::{CUcontext, CUdevice, CUfunction, CUmodule, CUresult, CUstream, CudaError};
use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No panic crosses the C boundary.
pub(crate) fn guarded(body: impl FnOnce() -> CUresult) -> CUresult {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CudaError::UNKNOWN))
}

// The runtime's interface.

/// Loads a module from a fatbin's wrapper or header.
pub(crate) extern "C" fn load_module(module: Out<CUmodule>, image: In<c_void>) -> CUresult {
    guarded(|| {
        if image.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        module.set(host()?.load_module(image)?)
    })
}

/// The same with the arguments in reverse order.
pub(crate) extern "C" fn load_module_from_header(
    image: In<c_void>,
    module: Out<CUmodule>,
) -> CUresult {
    load_module(module, image)
}

/// The primary context's handle, not retained.
pub(crate) extern "C" fn primary_context(context: Out<CUcontext>, device: CUdevice) -> CUresult {
    guarded(|| context.set(host()?.primary_context(device)?))
}

/// Says that nothing needs doing.
pub(crate) extern "C" fn nothing() -> CUresult {
    Ok(())
}

// Hooks of tools around runtime calls: none is there.

/// Bytes of which any that is not zero would make the runtime call a hook.
static NO_HOOKS: [u8; 4096] = [0; 4096];

fn no_hooks(buffer: Out<*const u8>, count: Out<usize>, counted: usize) -> CUresult {
    buffer.set(NO_HOOKS.as_ptr())?;
    count.set(counted)
}

pub(crate) extern "C" fn runtime_call_flags(buffer: Out<*const u8>, count: Out<usize>) -> CUresult {
    guarded(|| no_hooks(buffer, count, 1024))
}

pub(crate) extern "C" fn runtime_domain_flags(
    buffer: Out<*const u8>,
    count: Out<usize>,
) -> CUresult {
    guarded(|| no_hooks(buffer, count, 14))
}

// Context-local storage.

fn or_current(context: CUcontext) -> Result<CUcontext, CudaError> {
    if context.is_null() {
        host()?.current_context().ok_or(CudaError::INVALID_CONTEXT)
    } else {
        Ok(context)
    }
}

pub(crate) unsafe extern "C" fn storage_put(
    context: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Destructor,
) -> CUresult {
    guarded(|| {
        storage::put(or_current(context)?, key as usize, value as usize, destructor);
        Ok(())
    })
}

pub(crate) extern "C" fn storage_delete(context: CUcontext, key: *mut c_void) -> CUresult {
    guarded(|| storage::delete(or_current(context)?, key as usize))
}

pub(crate) extern "C" fn storage_get(
    value: Out<*mut c_void>,
    context: CUcontext,
    key: *mut c_void,
) -> CUresult {
    guarded(|| value.set(storage::get(or_current(context)?, key as usize)? as *mut c_void))
}

// Checks of contexts.

pub(crate) extern "C" fn context_check(
    _context: CUcontext,
    result: Out<c_uint>,
    _detail: *mut *mut c_void,
) -> CUresult {
    guarded(|| result.set(0))
}

// What tools and libraries ask of contexts and streams.

pub(crate) extern "C" fn current_context(context: Out<CUcontext>) -> CUresult {
    guarded(|| {
        let current = host()?.current_context();
        context.set(current.unwrap_or(CUcontext::NULL))?;
        current.map(|_| ()).ok_or(CudaError::INVALID_CONTEXT)
    })
}

pub(crate) extern "C" fn context_id(context: CUcontext, id: Out<u64>) -> CUresult {
    guarded(|| id.set(host()?.context_id(or_current(context)?)?))
}

pub(crate) extern "C" fn stream_id(
    _context: CUcontext,
    stream: *mut c_void,
    id: Out<u64>,
) -> CUresult {
    guarded(|| id.set(stream as u64))
}

/// A stream's private handle: the public one serves.
pub(crate) extern "C" fn private_stream(
    _context: CUcontext,
    stream: CUstream,
    private: Out<*mut c_void>,
    per_thread: c_int,
) -> CUresult {
    let stream = match stream {
        CUstream::NULL if per_thread != 0 => cuda_api::CU_STREAM_PER_THREAD,
        CUstream::NULL => cuda_api::CU_STREAM_LEGACY,
        other => other,
    };
    guarded(|| private.set(stream.0 as *mut c_void))
}

/// Called with each function of a module.
pub(crate) type Visitor =
    Option<unsafe extern "C" fn(user: *mut c_void, function: CUfunction, module: u64)>;

/// Calls a visitor with each function of a module. Not 0 if it did: this slot's result is no
/// CUresult.
pub(crate) unsafe extern "C" fn visit_functions(
    _context: CUcontext,
    module: CUmodule,
    visitor: Visitor,
    user: *mut c_void,
) -> c_int {
    let visited = guarded(|| {
        let visitor = visitor.ok_or(CudaError::INVALID_VALUE)?;
        for function in host()?.module_functions(module)? {
            // SAFETY: the caller passes a visitor to be called with functions and its own datum.
            unsafe { visitor(user, function, module.0 as u64) };
        }
        Ok(())
    });
    c_int::from(visited.is_ok())
}

pub(crate) extern "C" fn not_supported() -> CUresult {
    Err(CudaError::NOT_SUPPORTED)
}
