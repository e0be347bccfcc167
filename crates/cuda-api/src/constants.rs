//! Numbers that programs pass and read, by the module of cuda.h's enumeration they belong to.
//! Names are cuda.h's without the enumeration's prefix.
#![allow(missing_docs, reason = "each name is documented in cuda.h's manual")]

/// Bytes of a kernel's parameters (CUDA 12.1 and later): the constant bank that holds them.
pub const PARAMETER_BYTES_MAX: usize = 32_764;

/// `CUctx_flags`.
pub mod ctx_flags {
    pub const SCHED_AUTO: u32 = 0;
    pub const SCHED_MASK: u32 = 7;
    pub const MAP_HOST: u32 = 8;
    pub const LMEM_RESIZE_TO_MAX: u32 = 0x10;
    pub const COREDUMP_ENABLE: u32 = 0x20;
    pub const USER_COREDUMP_ENABLE: u32 = 0x40;
    pub const SYNC_MEMOPS: u32 = 0x80;
    pub const MASK: u32 = 0xff;
}

/// `CUstream_flags`.
pub mod stream_flags {
    pub const DEFAULT: u32 = 0;
    pub const NON_BLOCKING: u32 = 1;
}

/// `CUevent_flags`.
pub mod event_flags {
    pub const DEFAULT: u32 = 0;
    pub const BLOCKING_SYNC: u32 = 1;
    pub const DISABLE_TIMING: u32 = 2;
    pub const INTERPROCESS: u32 = 4;
}

/// `CUmemorytype`.
pub mod memory_type {
    pub const HOST: u32 = 1;
    pub const DEVICE: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const UNIFIED: u32 = 4;
}

/// `CUfunction_attribute`.
pub mod function_attribute {
    pub const MAX_THREADS_PER_BLOCK: u32 = 0;
    pub const SHARED_SIZE_BYTES: u32 = 1;
    pub const CONST_SIZE_BYTES: u32 = 2;
    pub const LOCAL_SIZE_BYTES: u32 = 3;
    pub const NUM_REGS: u32 = 4;
    pub const PTX_VERSION: u32 = 5;
    pub const BINARY_VERSION: u32 = 6;
    pub const CACHE_MODE_CA: u32 = 7;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
    pub const CLUSTER_SIZE_MUST_BE_SET: u32 = 10;
    pub const REQUIRED_CLUSTER_WIDTH: u32 = 11;
    pub const REQUIRED_CLUSTER_HEIGHT: u32 = 12;
    pub const REQUIRED_CLUSTER_DEPTH: u32 = 13;
    pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = 14;
    pub const CLUSTER_SCHEDULING_POLICY_PREFERENCE: u32 = 15;
}

/// `CUpointer_attribute`.
pub mod pointer_attribute {
    pub const CONTEXT: u32 = 1;
    pub const MEMORY_TYPE: u32 = 2;
    pub const DEVICE_POINTER: u32 = 3;
    pub const HOST_POINTER: u32 = 4;
    pub const P2P_TOKENS: u32 = 5;
    pub const SYNC_MEMOPS: u32 = 6;
    pub const BUFFER_ID: u32 = 7;
    pub const IS_MANAGED: u32 = 8;
    pub const DEVICE_ORDINAL: u32 = 9;
    pub const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = 10;
    pub const RANGE_START_ADDR: u32 = 11;
    pub const RANGE_SIZE: u32 = 12;
    pub const MAPPED: u32 = 13;
    pub const ALLOWED_HANDLE_TYPES: u32 = 14;
    pub const IS_GPU_DIRECT_RDMA_CAPABLE: u32 = 15;
    pub const ACCESS_FLAGS: u32 = 16;
    pub const MEMPOOL_HANDLE: u32 = 17;
    pub const MAPPING_SIZE: u32 = 18;
    pub const MAPPING_BASE_ADDR: u32 = 19;
    pub const MEMORY_BLOCK_ID: u32 = 20;
}

/// `CUjit_option`.
pub mod jit_option {
    pub const MAX_REGISTERS: u32 = 0;
    pub const THREADS_PER_BLOCK: u32 = 1;
    pub const WALL_TIME: u32 = 2;
    pub const INFO_LOG_BUFFER: u32 = 3;
    pub const INFO_LOG_BUFFER_SIZE_BYTES: u32 = 4;
    pub const ERROR_LOG_BUFFER: u32 = 5;
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
    pub const OPTIMIZATION_LEVEL: u32 = 7;
    pub const TARGET_FROM_CUCONTEXT: u32 = 8;
    pub const TARGET: u32 = 9;
    pub const FALLBACK_STRATEGY: u32 = 10;
    pub const GENERATE_DEBUG_INFO: u32 = 11;
    pub const LOG_VERBOSE: u32 = 12;
    pub const GENERATE_LINE_INFO: u32 = 13;
    pub const CACHE_MODE: u32 = 14;
}

/// `CUlimit`.
pub mod limit {
    pub const STACK_SIZE: u32 = 0;
    pub const PRINTF_FIFO_SIZE: u32 = 1;
    pub const MALLOC_HEAP_SIZE: u32 = 2;
    pub const DEV_RUNTIME_SYNC_DEPTH: u32 = 3;
    pub const DEV_RUNTIME_PENDING_LAUNCH_COUNT: u32 = 4;
    pub const MAX_L2_FETCH_GRANULARITY: u32 = 5;
    pub const PERSISTING_L2_CACHE_SIZE: u32 = 6;
    pub const SHMEM_SIZE: u32 = 7;
    pub const CIG_ENABLED: u32 = 8;
}

/// `CUlaunchAttributeID`.
pub mod launch_attribute {
    pub const IGNORE: u32 = 0;
    pub const ACCESS_POLICY_WINDOW: u32 = 1;
    pub const COOPERATIVE: u32 = 2;
    pub const SYNCHRONIZATION_POLICY: u32 = 3;
    pub const CLUSTER_DIMENSION: u32 = 4;
    pub const CLUSTER_SCHEDULING_POLICY_PREFERENCE: u32 = 5;
    pub const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
    pub const PROGRAMMATIC_EVENT: u32 = 7;
    pub const PRIORITY: u32 = 8;
    pub const MEM_SYNC_DOMAIN_MAP: u32 = 9;
    pub const MEM_SYNC_DOMAIN: u32 = 10;
    pub const PREFERRED_CLUSTER_DIMENSION: u32 = 11;
    pub const LAUNCH_COMPLETION_EVENT: u32 = 12;
    pub const DEVICE_UPDATABLE_KERNEL_NODE: u32 = 13;
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 14;
    pub const NVLINK_UTIL_CENTRIC_SCHEDULING: u32 = 16;
}

/// Ends of cuLaunchKernel's `extra` list.
pub mod launch_param {
    pub const END: usize = 0;
    pub const BUFFER_POINTER: usize = 1;
    pub const BUFFER_SIZE: usize = 2;
}

/// `CUmemHostAlloc` and `CUmemHostRegister` flags.
pub mod host_flags {
    pub const PORTABLE: u32 = 1;
    pub const DEVICE_MAP: u32 = 2;
    pub const WRITE_COMBINED: u32 = 4;
    pub const IO_MEMORY: u32 = 4;
    pub const READ_ONLY: u32 = 8;
}

/// `CUarray_format`.
pub mod array_format {
    pub const UNSIGNED_INT8: u32 = 0x01;
    pub const UNSIGNED_INT16: u32 = 0x02;
    pub const UNSIGNED_INT32: u32 = 0x03;
    pub const SIGNED_INT8: u32 = 0x08;
    pub const SIGNED_INT16: u32 = 0x09;
    pub const SIGNED_INT32: u32 = 0x0a;
    pub const HALF: u32 = 0x10;
    pub const FLOAT: u32 = 0x20;
}

/// Flags of three-dimensional arrays.
pub mod array_flags {
    pub const LAYERED: u32 = 1;
    pub const SURFACE_LDST: u32 = 2;
    pub const CUBEMAP: u32 = 4;
    pub const TEXTURE_GATHER: u32 = 8;
    /// All flags that cuda.h has.
    pub const ALL: u32 = 0x1ff;
}

/// `CUresourcetype`.
pub mod resource_type {
    pub const ARRAY: u32 = 0;
    pub const MIPMAPPED_ARRAY: u32 = 1;
    pub const LINEAR: u32 = 2;
    pub const PITCH2D: u32 = 3;
}

/// `CUmemLocationType`.
pub mod memory_location {
    pub const INVALID: u32 = 0;
    pub const DEVICE: u32 = 1;
    pub const HOST: u32 = 2;
    pub const HOST_NUMA: u32 = 3;
    pub const HOST_NUMA_CURRENT: u32 = 4;
}

/// `CUmemAttach_flags`.
pub mod attach_flags {
    pub const GLOBAL: u32 = 1;
    pub const HOST: u32 = 2;
    pub const SINGLE: u32 = 4;
}

/// `CUmemAllocationType`, handle types, location types and access flags of virtual memory.
pub mod vmm {
    pub const ALLOCATION_PINNED: u32 = 1;
    pub const HANDLE_NONE: u32 = 0;
    pub const HANDLE_POSIX_FD: u32 = 1;
    pub const LOCATION_DEVICE: u32 = 1;
    pub const ACCESS_NONE: u32 = 0;
    pub const ACCESS_READ: u32 = 1;
    pub const ACCESS_READ_WRITE: u32 = 3;
    pub const GRANULARITY_MINIMUM: u32 = 0;
    pub const GRANULARITY_RECOMMENDED: u32 = 1;
}

/// `CUstreamWaitValue_flags` and `CUstreamWriteValue_flags`.
pub mod stream_value {
    pub const WAIT_GEQ: u32 = 0;
    pub const WAIT_EQ: u32 = 1;
    pub const WAIT_AND: u32 = 2;
    pub const WAIT_NOR: u32 = 3;
    pub const WAIT_FLUSH: u32 = 1 << 30;
    pub const WRITE_DEFAULT: u32 = 0;
    pub const WRITE_NO_MEMORY_BARRIER: u32 = 1;
}

/// `CUstreamBatchMemOpType`.
pub mod mem_op {
    pub const WAIT_VALUE_32: u32 = 1;
    pub const WRITE_VALUE_32: u32 = 2;
    pub const FLUSH_REMOTE_WRITES: u32 = 3;
    pub const WAIT_VALUE_64: u32 = 4;
    pub const WRITE_VALUE_64: u32 = 5;
    pub const BARRIER: u32 = 6;
}

/// `CUmemPool_attribute`.
pub mod pool_attribute {
    pub const REUSE_FOLLOW_EVENT_DEPENDENCIES: u32 = 1;
    pub const REUSE_ALLOW_OPPORTUNISTIC: u32 = 2;
    pub const REUSE_ALLOW_INTERNAL_DEPENDENCIES: u32 = 3;
    pub const RELEASE_THRESHOLD: u32 = 4;
    pub const RESERVED_MEM_CURRENT: u32 = 5;
    pub const RESERVED_MEM_HIGH: u32 = 6;
    pub const USED_MEM_CURRENT: u32 = 7;
    pub const USED_MEM_HIGH: u32 = 8;
    pub const ALLOCATION_TYPE: u32 = 9;
    pub const EXPORT_HANDLE_TYPES: u32 = 10;
    pub const LOCATION_ID: u32 = 11;
    pub const LOCATION_TYPE: u32 = 12;
    pub const MAX_POOL_SIZE: u32 = 13;
    pub const HW_DECOMPRESS_ENABLED: u32 = 14;
}

/// `CUdevResourceType`.
pub mod device_resource {
    pub const INVALID: u32 = 0;
    pub const SM: u32 = 1;
    /// CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING: each SM by itself.
    pub const SPLIT_IGNORE_COSCHEDULING: u32 = 1;
    /// CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE: groups for clusters as large as can be.
    pub const SPLIT_MAX_POTENTIAL_CLUSTER_SIZE: u32 = 2;
    /// CU_DEV_SM_RESOURCE_GROUP_BACKFILL: a group may have SMs that are not scheduled together.
    pub const GROUP_BACKFILL: u32 = 1;
    /// CU_GREEN_CTX_DEFAULT_STREAM: without it no green context is made.
    pub const GREEN_DEFAULT_STREAM: u32 = 1;
}

/// `CUmemRangeHandleType`.
pub mod range_handle {
    pub const DMA_BUF_FD: u32 = 1;
}

/// `CUmoduleLoadingMode`.
pub mod loading_mode {
    pub const EAGER: u32 = 1;
    pub const LAZY: u32 = 2;
}

/// `CUdriverProcAddressQueryResult`, and the flags of cuGetProcAddress.
pub mod proc_address {
    pub const SUCCESS: u32 = 0;
    pub const SYMBOL_NOT_FOUND: u32 = 1;
    pub const VERSION_NOT_SUFFICIENT: u32 = 2;
    pub const FLAG_LEGACY_STREAM: u64 = 1;
    pub const FLAG_PER_THREAD_DEFAULT_STREAM: u64 = 2;
}

/// `CUstreamCaptureStatus`, `CUstreamCaptureMode`, flags of cuStreamUpdateCaptureDependencies.
pub mod capture {
    pub const STATUS_NONE: u32 = 0;
    pub const STATUS_ACTIVE: u32 = 1;
    pub const STATUS_INVALIDATED: u32 = 2;
    pub const MODE_GLOBAL: u32 = 0;
    pub const MODE_THREAD_LOCAL: u32 = 1;
    pub const MODE_RELAXED: u32 = 2;
    pub const ADD_DEPENDENCIES: u32 = 0;
    pub const SET_DEPENDENCIES: u32 = 1;
    /// Of cuEventRecordWithFlags and cuStreamWaitEvent: a node of the graph, not an edge.
    pub const EVENT_EXTERNAL: u32 = 1;
}

/// `CUgraphNodeType`.
pub mod graph_node {
    pub const KERNEL: u32 = 0;
    pub const MEMCPY: u32 = 1;
    pub const MEMSET: u32 = 2;
    pub const HOST: u32 = 3;
    pub const GRAPH: u32 = 4;
    pub const EMPTY: u32 = 5;
    pub const WAIT_EVENT: u32 = 6;
    pub const EVENT_RECORD: u32 = 7;
    pub const MEM_ALLOC: u32 = 10;
    pub const MEM_FREE: u32 = 11;
    pub const BATCH_MEM_OP: u32 = 12;
    pub const CONDITIONAL: u32 = 13;
}

/// `CUgraphDependencyType`, and the ports of kernel nodes that edges may begin at.
pub mod graph_edge {
    pub const DEFAULT: u8 = 0;
    pub const PROGRAMMATIC: u8 = 1;
    pub const PORT_DEFAULT: u8 = 0;
    pub const PORT_PROGRAMMATIC: u8 = 1;
    pub const PORT_LAUNCH_ORDER: u8 = 2;
}

/// `CUgraphConditionalNodeType`, and the flag of cuGraphConditionalHandleCreate.
pub mod graph_conditional {
    pub const IF: u32 = 0;
    pub const WHILE: u32 = 1;
    pub const SWITCH: u32 = 2;
    pub const ASSIGN_DEFAULT: u32 = 1;
}

/// `CUgraphInstantiate_flags` and `CUgraphInstantiateResult`.
pub mod graph_instantiate {
    pub const AUTO_FREE_ON_LAUNCH: u64 = 1;
    pub const UPLOAD: u64 = 2;
    pub const DEVICE_LAUNCH: u64 = 4;
    pub const USE_NODE_PRIORITY: u64 = 8;
    pub const RESULT_SUCCESS: u32 = 0;
    pub const RESULT_ERROR: u32 = 1;
    pub const RESULT_INVALID_STRUCTURE: u32 = 2;
    pub const RESULT_NODE_OPERATION_NOT_SUPPORTED: u32 = 3;
}

/// `CUgraphExecUpdateResult`.
pub mod graph_update {
    pub const SUCCESS: u32 = 0;
    pub const ERROR: u32 = 1;
    pub const TOPOLOGY_CHANGED: u32 = 2;
    pub const NODE_TYPE_CHANGED: u32 = 3;
    pub const PARAMETERS_CHANGED: u32 = 5;
    pub const NOT_SUPPORTED: u32 = 6;
    pub const ATTRIBUTES_CHANGED: u32 = 8;
}

/// `CUgraphMem_attribute`.
pub mod graph_memory {
    pub const USED_CURRENT: u32 = 0;
    pub const USED_HIGH: u32 = 1;
    pub const RESERVED_CURRENT: u32 = 2;
    pub const RESERVED_HIGH: u32 = 3;
}

/// CUdevice_P2PAttribute.
pub mod p2p_attribute {
    /// A relative value of how fast the link between the devices is; 0 is the fastest.
    pub const PERFORMANCE_RANK: u32 = 1;
    /// One reaches the other's memory.
    pub const ACCESS_SUPPORTED: u32 = 2;
    /// Atomic operations over the link are atomic.
    pub const NATIVE_ATOMIC_SUPPORTED: u32 = 3;
    /// CUDA arrays are reached over the link.
    pub const CUDA_ARRAY_ACCESS_SUPPORTED: u32 = 4;
    /// Some atomic operations over the link are atomic, and not all.
    pub const ONLY_PARTIAL_NATIVE_ATOMIC: u32 = 5;
}
