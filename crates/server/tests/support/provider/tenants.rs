//! The test provider's tenants: the functions that NVIDIA's driver does not have.

use super::*;

/// The provider's tenants.
pub fn extension() -> &'static Extension {
    unsafe extern "C" fn create(tenant: *mut u64) -> CUresult {
        let mut world = world();
        let id = world.number() as u64;
        world.tenants.insert(id, None);
        // SAFETY: the server gives a local.
        unsafe { *tenant = id };
        Ok(())
    }
    unsafe extern "C" fn bind(tenant: u64) -> CUresult {
        TENANT.set(tenant);
        Ok(())
    }
    unsafe extern "C" fn error(tenant: u64) -> CUresult {
        world().tenants.get(&tenant).copied().flatten().map_or(Ok(()), Err)
    }
    unsafe extern "C" fn fault(_: u64, text: *mut c_char, _: usize) -> CUresult {
        // SAFETY: the server's buffer is longer.
        unsafe { std::ptr::copy(c"kernel fault: illegal address 0x10".as_ptr(), text, 35) };
        Ok(())
    }
    unsafe extern "C" fn end(tenant: u64) -> CUresult {
        let mut world = world();
        world.ended.insert(tenant);
        for queue in world.streams.values_mut().filter(|q| q.tenant == tenant) {
            queue.ops.clear();
        }
        Ok(())
    }
    unsafe extern "C" fn printf(
        _: u64,
        _: u32,
        text: *mut c_char,
        bytes: usize,
        written: *mut usize,
    ) -> CUresult {
        assert!(bytes >= 6);
        // SAFETY: the buffer has room, as just asserted.
        unsafe {
            std::ptr::copy(c"hello".as_ptr(), text, 5);
            *written = 5;
        }
        Ok(())
    }
    unsafe extern "C" fn name(_: u64, _: *const c_char) -> CUresult {
        Ok(())
    }
    // Its streams make progress by themselves.
    unsafe extern "C" fn work(_: u64, worked: *mut c_int) -> CUresult {
        // SAFETY: the server gives a local.
        unsafe { *worked = 0 };
        Ok(())
    }
    unsafe extern "C" fn place_managed(
        _: u64,
        _: Option<cuda_api::extension::PlaceManaged>,
        _: *mut c_void,
    ) -> CUresult {
        // Images have no managed variables here.
        Ok(())
    }
    unsafe extern "C" fn place_variables(
        _: u64,
        _: u64,
        _: u64,
        _: c_uint,
        needed: *mut u64,
    ) -> CUresult {
        // Nor any others.
        // SAFETY: the server gives a local.
        unsafe { *needed = 0 };
        Ok(())
    }
    unsafe extern "C" fn memory(_: u64, _: u64, _: u64, _: u32) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn limit(_: u64, _: *const c_uint, _: usize, _: c_int) -> CUresult {
        Ok(())
    }
    unsafe extern "C" fn usage(_: u64, _: *mut cuda_api::extension::TenantUsage) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn kernels(
        _: u64,
        _: *mut cuda_api::extension::KernelUsage,
        _: usize,
        _: *mut usize,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn trace(_: u64, _: c_uint) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn trace_take(
        _: u64,
        _: *mut cuda_api::extension::TraceRecord,
        _: usize,
        _: *mut usize,
        _: *mut u64,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn activity(
        _: c_int,
        _: *mut cuda_api::extension::DeviceActivity,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn describe(
        _: c_int,
        _: *mut cuda_api::extension::DeviceDescription,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn code_store(_: c_int, _: *mut cuda_api::extension::CodeStore) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    static EXTENSION: Extension = Extension {
        tenant_create: create,
        tenant_bind: bind,
        tenant_name: name,
        tenant_error: error,
        tenant_fault: fault,
        tenant_end: end,
        tenant_printf: printf,
        tenant_work: work,
        tenant_place_managed: place_managed,
        tenant_place_variables: place_variables,
        tenant_memory: memory,
        tenant_limit: limit,
        tenant_usage: usage,
        tenant_kernels: kernels,
        tenant_trace: trace,
        tenant_trace_take: trace_take,
        device_activity: activity,
        device_describe: describe,
        device_code_store: code_store,
    };
    &EXTENSION
}
