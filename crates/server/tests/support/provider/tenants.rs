//! The test provider's tenants: the functions that NVIDIA's driver does not have.

use super::*;
use cuda_api::extension::{
    CodeStore, DeviceActivity, DeviceDescription, KernelUsage, PlaceManaged, TenantUsage,
    TraceRecord,
};

/// The provider's tenants.
pub fn extension() -> &'static Extension {
    raw_functions! {
        create(tenant: *mut u64) {
            let mut world = world();
            *tenant = world.number() as u64;
            world.tenants.insert(*tenant, None);
            Ok(())
        }
        bind(tenant: u64) {
            TENANT.set(tenant);
            Ok(())
        }
        error(tenant: u64) {
            world().tenants.get(&tenant).copied().flatten().map_or(Ok(()), Err)
        }
        fault(_: u64, text: *mut c_char, bytes: usize) {
            let said = c"kernel fault: illegal address 0x10".to_bytes_with_nul();
            assert!(bytes >= said.len());
            put_bytes(text as u64, said);
            Ok(())
        }
        end(tenant: u64) {
            let mut world = world();
            world.ended.insert(tenant);
            for queue in world.streams.values_mut().filter(|q| q.tenant == tenant) {
                queue.ops.clear();
            }
            Ok(())
        }
        printf(_: u64, _: u32, text: *mut c_char, bytes: usize, written: *mut usize) {
            assert!(bytes >= 6);
            put_bytes(text as u64, b"hello");
            *written = 5;
            Ok(())
        }
        name(_: u64, _: *const c_char) { Ok(()) }
        // Its streams make progress by themselves.
        work(_: u64, worked: *mut c_int) {
            *worked = 0;
            Ok(())
        }
        // Images have no managed variables here, nor any others.
        place_managed(_: u64, _: Option<PlaceManaged>, _: *mut c_void) { Ok(()) }
        place_variables(_: u64, _: u64, _: u64, _: c_uint, needed: *mut u64) {
            *needed = 0;
            Ok(())
        }
        memory(_: u64, _: u64, _: u64, _: u32) { Err(CudaError::NOT_SUPPORTED) }
        limit(_: u64, _: *const c_uint, _: usize, _: c_int) { Ok(()) }
        usage(_: u64, _: *mut TenantUsage) { Err(CudaError::NOT_SUPPORTED) }
        kernels(_: u64, _: *mut KernelUsage, _: usize, _: *mut usize) {
            Err(CudaError::NOT_SUPPORTED)
        }
        trace(_: u64, _: c_uint) { Err(CudaError::NOT_SUPPORTED) }
        trace_take(_: u64, _: *mut TraceRecord, _: usize, _: *mut usize, _: *mut u64) {
            Err(CudaError::NOT_SUPPORTED)
        }
        activity(_: c_int, _: *mut DeviceActivity) { Err(CudaError::NOT_SUPPORTED) }
        describe(_: c_int, _: *mut DeviceDescription) { Err(CudaError::NOT_SUPPORTED) }
        code_store(_: c_int, _: *mut CodeStore) { Err(CudaError::NOT_SUPPORTED) }
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
