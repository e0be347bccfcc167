//! Device attributes as programs see them: the server's, but for what this library itself offers.

use channel::message::Device;
use core::ffi::{c_int, c_uint};
use cuda_api::attributes as attribute;

/// Attributes whose answer is about what this library offers, not what the device could do:
/// programs ask them to find out what they may call.
const ANSWERED_BY_CLIENT: &[(u32, c_int)] = &[
    (attribute::MANAGED_MEMORY, 1),
    (attribute::PAGEABLE_MEMORY_ACCESS, 0),
    (attribute::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0),
    (attribute::DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0),
    (attribute::CAN_USE_STREAM_MEM_OPS_V1, 0),
    (attribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 0),
    (attribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 0),
    (attribute::CAN_FLUSH_REMOTE_WRITES, 0),
    (attribute::COOPERATIVE_MULTI_DEVICE_LAUNCH, 0),
    (attribute::HOST_REGISTER_SUPPORTED, 1),
    (attribute::READ_ONLY_HOST_REGISTER_SUPPORTED, 0),
    (attribute::HANDLE_TYPE_FABRIC_SUPPORTED, 0),
    (attribute::HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
    (attribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
    (attribute::HOST_MEMORY_POOLS_SUPPORTED, 0),
    (attribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0),
    (attribute::GENERIC_COMPRESSION_SUPPORTED, 0),
    (attribute::GPU_DIRECT_RDMA_SUPPORTED, 0),
    (attribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
    (attribute::DMA_BUF_SUPPORTED, 0),
    (attribute::HOST_ALLOC_DMA_BUF_SUPPORTED, 0),
    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    (attribute::MEMPOOL_SUPPORTED_HANDLE_TYPES, 1),
    (attribute::IPC_EVENT_SUPPORTED, 1),
    (attribute::MULTICAST_SUPPORTED, 0),
    (attribute::SPARSE_CUDA_ARRAY_SUPPORTED, 0),
    (attribute::DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0),
    (attribute::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0),
    (attribute::MEM_DECOMPRESS_ALGORITHM_MASK, 0),
    (attribute::UNIFIED_ADDRESSING, 1),
    (attribute::CAN_MAP_HOST_MEMORY, 1),
    (attribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0),
    (attribute::MPS_ENABLED, 1),
];

/// A device's attribute as programs are to see it; 0 for one that the server does not know.
pub(crate) fn attribute_of(device: &Device, number: c_uint) -> c_int {
    // Managed memory is the host's: both sides may use it at once, as CUDA promises it, where the
    // device's atomic operations on such memory are atomic to the processor too.
    let number = match number {
        attribute::CONCURRENT_MANAGED_ACCESS => attribute::HOST_NATIVE_ATOMIC_SUPPORTED,
        other => other,
    };
    ANSWERED_BY_CLIENT
        .iter()
        .find(|(n, _)| *n == number)
        .map(|(_, value)| *value)
        .or_else(|| device.attributes.get(number as usize).copied())
        .unwrap_or(0)
}
