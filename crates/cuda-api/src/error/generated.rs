//! Errors of the driver API. Made by `cargo xtask generate`; do not edit.
#![cfg_attr(rustfmt, rustfmt_skip)]

use super::{CudaError, ErrorRow};

impl CudaError {
    /// CUDA_ERROR_INVALID_VALUE: invalid argument
    pub const INVALID_VALUE: Self = Self::known(1);
    /// CUDA_ERROR_OUT_OF_MEMORY: out of memory
    pub const OUT_OF_MEMORY: Self = Self::known(2);
    /// CUDA_ERROR_NOT_INITIALIZED: initialization error
    pub const NOT_INITIALIZED: Self = Self::known(3);
    /// CUDA_ERROR_DEINITIALIZED: driver shutting down
    pub const DEINITIALIZED: Self = Self::known(4);
    /// CUDA_ERROR_PROFILER_DISABLED: profiler disabled while using external profiling tool
    pub const PROFILER_DISABLED: Self = Self::known(5);
    /// CUDA_ERROR_PROFILER_NOT_INITIALIZED: profiler not initialized: call cudaProfilerInitialize()
    pub const PROFILER_NOT_INITIALIZED: Self = Self::known(6);
    /// CUDA_ERROR_PROFILER_ALREADY_STARTED: profiler already started
    pub const PROFILER_ALREADY_STARTED: Self = Self::known(7);
    /// CUDA_ERROR_PROFILER_ALREADY_STOPPED: profiler already stopped
    pub const PROFILER_ALREADY_STOPPED: Self = Self::known(8);
    /// CUDA_ERROR_STUB_LIBRARY: CUDA driver is a stub library
    pub const STUB_LIBRARY: Self = Self::known(34);
    /// CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER: API call is not supported in the installed CUDA driver
    pub const CALL_REQUIRES_NEWER_DRIVER: Self = Self::known(36);
    /// CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable
    pub const DEVICE_UNAVAILABLE: Self = Self::known(46);
    /// CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected
    pub const NO_DEVICE: Self = Self::known(100);
    /// CUDA_ERROR_INVALID_DEVICE: invalid device ordinal
    pub const INVALID_DEVICE: Self = Self::known(101);
    /// CUDA_ERROR_DEVICE_NOT_LICENSED: device doesn't have valid Grid license
    pub const DEVICE_NOT_LICENSED: Self = Self::known(102);
    /// CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid
    pub const INVALID_IMAGE: Self = Self::known(200);
    /// CUDA_ERROR_INVALID_CONTEXT: invalid device context
    pub const INVALID_CONTEXT: Self = Self::known(201);
    /// CUDA_ERROR_CONTEXT_ALREADY_CURRENT: context already current
    pub const CONTEXT_ALREADY_CURRENT: Self = Self::known(202);
    /// CUDA_ERROR_MAP_FAILED: mapping of buffer object failed
    pub const MAP_FAILED: Self = Self::known(205);
    /// CUDA_ERROR_UNMAP_FAILED: unmapping of buffer object failed
    pub const UNMAP_FAILED: Self = Self::known(206);
    /// CUDA_ERROR_ARRAY_IS_MAPPED: array is mapped
    pub const ARRAY_IS_MAPPED: Self = Self::known(207);
    /// CUDA_ERROR_ALREADY_MAPPED: resource already mapped
    pub const ALREADY_MAPPED: Self = Self::known(208);
    /// CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device
    pub const NO_BINARY_FOR_GPU: Self = Self::known(209);
    /// CUDA_ERROR_ALREADY_ACQUIRED: resource already acquired
    pub const ALREADY_ACQUIRED: Self = Self::known(210);
    /// CUDA_ERROR_NOT_MAPPED: resource not mapped
    pub const NOT_MAPPED: Self = Self::known(211);
    /// CUDA_ERROR_NOT_MAPPED_AS_ARRAY: resource not mapped as array
    pub const NOT_MAPPED_AS_ARRAY: Self = Self::known(212);
    /// CUDA_ERROR_NOT_MAPPED_AS_POINTER: resource not mapped as pointer
    pub const NOT_MAPPED_AS_POINTER: Self = Self::known(213);
    /// CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered
    pub const ECC_UNCORRECTABLE: Self = Self::known(214);
    /// CUDA_ERROR_UNSUPPORTED_LIMIT: limit is not supported on this architecture
    pub const UNSUPPORTED_LIMIT: Self = Self::known(215);
    /// CUDA_ERROR_CONTEXT_ALREADY_IN_USE: exclusive-thread device already in use by a different thread
    pub const CONTEXT_ALREADY_IN_USE: Self = Self::known(216);
    /// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: peer access is not supported between these two devices
    pub const PEER_ACCESS_UNSUPPORTED: Self = Self::known(217);
    /// CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed
    pub const INVALID_PTX: Self = Self::known(218);
    /// CUDA_ERROR_INVALID_GRAPHICS_CONTEXT: invalid OpenGL or DirectX context
    pub const INVALID_GRAPHICS_CONTEXT: Self = Self::known(219);
    /// CUDA_ERROR_NVLINK_UNCORRECTABLE: uncorrectable NVLink error detected during the execution
    pub const NVLINK_UNCORRECTABLE: Self = Self::known(220);
    /// CUDA_ERROR_JIT_COMPILER_NOT_FOUND: PTX JIT compiler library not found
    pub const JIT_COMPILER_NOT_FOUND: Self = Self::known(221);
    /// CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with an unsupported toolchain.
    pub const UNSUPPORTED_PTX_VERSION: Self = Self::known(222);
    /// CUDA_ERROR_JIT_COMPILATION_DISABLED: PTX JIT compilation was disabled
    pub const JIT_COMPILATION_DISABLED: Self = Self::known(223);
    /// CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY: the provided execution affinity is not supported
    pub const UNSUPPORTED_EXEC_AFFINITY: Self = Self::known(224);
    /// CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC: the provided PTX contains unsupported call to cudaDeviceSynchronize
    pub const UNSUPPORTED_DEVSIDE_SYNC: Self = Self::known(225);
    /// CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a hardware error
    pub const CONTAINED: Self = Self::known(226);
    /// CUDA_ERROR_INVALID_SOURCE: device kernel image is invalid
    pub const INVALID_SOURCE: Self = Self::known(300);
    /// CUDA_ERROR_FILE_NOT_FOUND: file not found
    pub const FILE_NOT_FOUND: Self = Self::known(301);
    /// CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND: shared object symbol not found
    pub const SHARED_OBJECT_SYMBOL_NOT_FOUND: Self = Self::known(302);
    /// CUDA_ERROR_SHARED_OBJECT_INIT_FAILED: shared object initialization failed
    pub const SHARED_OBJECT_INIT_FAILED: Self = Self::known(303);
    /// CUDA_ERROR_OPERATING_SYSTEM: OS call failed or operation not supported on this OS
    pub const OPERATING_SYSTEM: Self = Self::known(304);
    /// CUDA_ERROR_INVALID_HANDLE: invalid resource handle
    pub const INVALID_HANDLE: Self = Self::known(400);
    /// CUDA_ERROR_ILLEGAL_STATE: the operation cannot be performed in the present state
    pub const ILLEGAL_STATE: Self = Self::known(401);
    /// CUDA_ERROR_LOSSY_QUERY: attempted introspection would be semantically lossy
    pub const LOSSY_QUERY: Self = Self::known(402);
    /// CUDA_ERROR_NOT_FOUND: named symbol not found
    pub const NOT_FOUND: Self = Self::known(500);
    /// CUDA_ERROR_NOT_READY: device not ready
    pub const NOT_READY: Self = Self::known(600);
    /// CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered
    pub const ILLEGAL_ADDRESS: Self = Self::known(700);
    /// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch
    pub const LAUNCH_OUT_OF_RESOURCES: Self = Self::known(701);
    /// CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated
    pub const LAUNCH_TIMEOUT: Self = Self::known(702);
    /// CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING: launch uses incompatible texturing mode
    pub const LAUNCH_INCOMPATIBLE_TEXTURING: Self = Self::known(703);
    /// CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: peer access is already enabled
    pub const PEER_ACCESS_ALREADY_ENABLED: Self = Self::known(704);
    /// CUDA_ERROR_PEER_ACCESS_NOT_ENABLED: peer access has not been enabled
    pub const PEER_ACCESS_NOT_ENABLED: Self = Self::known(705);
    /// CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE: cannot set while device is active in this process
    pub const PRIMARY_CONTEXT_ACTIVE: Self = Self::known(708);
    /// CUDA_ERROR_CONTEXT_IS_DESTROYED: context is destroyed
    pub const CONTEXT_IS_DESTROYED: Self = Self::known(709);
    /// CUDA_ERROR_ASSERT: device-side assert triggered
    pub const ASSERT: Self = Self::known(710);
    /// CUDA_ERROR_TOO_MANY_PEERS: peer mapping resources exhausted
    pub const TOO_MANY_PEERS: Self = Self::known(711);
    /// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: part or all of the requested memory range is already mapped
    pub const HOST_MEMORY_ALREADY_REGISTERED: Self = Self::known(712);
    /// CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: pointer does not correspond to a registered memory region
    pub const HOST_MEMORY_NOT_REGISTERED: Self = Self::known(713);
    /// CUDA_ERROR_HARDWARE_STACK_ERROR: hardware stack error
    pub const HARDWARE_STACK_ERROR: Self = Self::known(714);
    /// CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal instruction was encountered
    pub const ILLEGAL_INSTRUCTION: Self = Self::known(715);
    /// CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address
    pub const MISALIGNED_ADDRESS: Self = Self::known(716);
    /// CUDA_ERROR_INVALID_ADDRESS_SPACE: operation not supported on global/shared address space
    pub const INVALID_ADDRESS_SPACE: Self = Self::known(717);
    /// CUDA_ERROR_INVALID_PC: invalid program counter
    pub const INVALID_PC: Self = Self::known(718);
    /// CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure
    pub const LAUNCH_FAILED: Self = Self::known(719);
    /// CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: too many blocks in cooperative launch
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Self = Self::known(720);
    /// CUDA_ERROR_TENSOR_MEMORY_LEAK: tensor memory not completely freed
    pub const TENSOR_MEMORY_LEAK: Self = Self::known(721);
    /// CUDA_ERROR_NOT_PERMITTED: operation not permitted
    pub const NOT_PERMITTED: Self = Self::known(800);
    /// CUDA_ERROR_NOT_SUPPORTED: operation not supported
    pub const NOT_SUPPORTED: Self = Self::known(801);
    /// CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized
    pub const SYSTEM_NOT_READY: Self = Self::known(802);
    /// CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination
    pub const SYSTEM_DRIVER_MISMATCH: Self = Self::known(803);
    /// CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was attempted on non supported HW
    pub const COMPAT_NOT_SUPPORTED_ON_DEVICE: Self = Self::known(804);
    /// CUDA_ERROR_MPS_CONNECTION_FAILED: MPS client failed to connect to the MPS control daemon or the MPS server
    pub const MPS_CONNECTION_FAILED: Self = Self::known(805);
    /// CUDA_ERROR_MPS_RPC_FAILURE: the remote procedural call between the MPS server and the MPS client failed
    pub const MPS_RPC_FAILURE: Self = Self::known(806);
    /// CUDA_ERROR_MPS_SERVER_NOT_READY: MPS server is not ready to accept new MPS client requests
    pub const MPS_SERVER_NOT_READY: Self = Self::known(807);
    /// CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: the hardware resources required to create MPS client have been exhausted
    pub const MPS_MAX_CLIENTS_REACHED: Self = Self::known(808);
    /// CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED: the hardware resources required to support device connections have been exhausted
    pub const MPS_MAX_CONNECTIONS_REACHED: Self = Self::known(809);
    /// CUDA_ERROR_MPS_CLIENT_TERMINATED: the MPS client has been terminated by the server
    pub const MPS_CLIENT_TERMINATED: Self = Self::known(810);
    /// CUDA_ERROR_CDP_NOT_SUPPORTED: is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it
    pub const CDP_NOT_SUPPORTED: Self = Self::known(811);
    /// CUDA_ERROR_CDP_VERSION_MISMATCH: unsupported interaction between different versions of CUDA Dynamic Parallelism
    pub const CDP_VERSION_MISMATCH: Self = Self::known(812);
    /// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: operation not permitted when stream is capturing
    pub const STREAM_CAPTURE_UNSUPPORTED: Self = Self::known(900);
    /// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous error during capture
    pub const STREAM_CAPTURE_INVALIDATED: Self = Self::known(901);
    /// CUDA_ERROR_STREAM_CAPTURE_MERGE: operation would result in a merge of separate capture sequences
    pub const STREAM_CAPTURE_MERGE: Self = Self::known(902);
    /// CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: capture was not ended in the same stream as it began
    pub const STREAM_CAPTURE_UNMATCHED: Self = Self::known(903);
    /// CUDA_ERROR_STREAM_CAPTURE_UNJOINED: capturing stream has unjoined work
    pub const STREAM_CAPTURE_UNJOINED: Self = Self::known(904);
    /// CUDA_ERROR_STREAM_CAPTURE_ISOLATION: dependency created on uncaptured work in another stream
    pub const STREAM_CAPTURE_ISOLATION: Self = Self::known(905);
    /// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: operation would make the legacy stream depend on a capturing blocking stream
    pub const STREAM_CAPTURE_IMPLICIT: Self = Self::known(906);
    /// CUDA_ERROR_CAPTURED_EVENT: operation not permitted on an event last recorded in a capturing stream
    pub const CAPTURED_EVENT: Self = Self::known(907);
    /// CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: attempt to terminate a thread-local capture sequence from another thread
    pub const STREAM_CAPTURE_WRONG_THREAD: Self = Self::known(908);
    /// CUDA_ERROR_TIMEOUT: wait operation timed out
    pub const TIMEOUT: Self = Self::known(909);
    /// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: the graph update was not performed because it included changes which violated constraints specific to instantiated graph update
    pub const GRAPH_EXEC_UPDATE_FAILURE: Self = Self::known(910);
    /// CUDA_ERROR_EXTERNAL_DEVICE: an async error has occured in external entity outside of CUDA
    pub const EXTERNAL_DEVICE: Self = Self::known(911);
    /// CUDA_ERROR_INVALID_CLUSTER_SIZE: a kernel launch error has occurred due to cluster misconfiguration
    pub const INVALID_CLUSTER_SIZE: Self = Self::known(912);
    /// CUDA_ERROR_FUNCTION_NOT_LOADED: the function handle is not loaded when calling an API that requires a loaded function
    pub const FUNCTION_NOT_LOADED: Self = Self::known(913);
    /// CUDA_ERROR_INVALID_RESOURCE_TYPE: one or more resources passed in are not valid resource types for the operation
    pub const INVALID_RESOURCE_TYPE: Self = Self::known(914);
    /// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: one or more resources are insufficient or non-applicable for the operation
    pub const INVALID_RESOURCE_CONFIGURATION: Self = Self::known(915);
    /// CUDA_ERROR_KEY_ROTATION: an error happened during the key rotation sequence
    pub const KEY_ROTATION: Self = Self::known(916);
    /// CUDA_ERROR_UNKNOWN: unknown error
    pub const UNKNOWN: Self = Self::known(999);
}

pub(super) const ERROR_ROWS: &[ErrorRow] = &[
    ErrorRow { code: 0, name: c"CUDA_SUCCESS", text: c"no error" },
    ErrorRow { code: 1, name: c"CUDA_ERROR_INVALID_VALUE", text: c"invalid argument" },
    ErrorRow { code: 2, name: c"CUDA_ERROR_OUT_OF_MEMORY", text: c"out of memory" },
    ErrorRow { code: 3, name: c"CUDA_ERROR_NOT_INITIALIZED", text: c"initialization error" },
    ErrorRow { code: 4, name: c"CUDA_ERROR_DEINITIALIZED", text: c"driver shutting down" },
    ErrorRow { code: 5, name: c"CUDA_ERROR_PROFILER_DISABLED", text: c"profiler disabled while using external profiling tool" },
    ErrorRow { code: 6, name: c"CUDA_ERROR_PROFILER_NOT_INITIALIZED", text: c"profiler not initialized: call cudaProfilerInitialize()" },
    ErrorRow { code: 7, name: c"CUDA_ERROR_PROFILER_ALREADY_STARTED", text: c"profiler already started" },
    ErrorRow { code: 8, name: c"CUDA_ERROR_PROFILER_ALREADY_STOPPED", text: c"profiler already stopped" },
    ErrorRow { code: 34, name: c"CUDA_ERROR_STUB_LIBRARY", text: c"CUDA driver is a stub library" },
    ErrorRow { code: 36, name: c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", text: c"API call is not supported in the installed CUDA driver" },
    ErrorRow { code: 46, name: c"CUDA_ERROR_DEVICE_UNAVAILABLE", text: c"CUDA-capable device(s) is/are busy or unavailable" },
    ErrorRow { code: 100, name: c"CUDA_ERROR_NO_DEVICE", text: c"no CUDA-capable device is detected" },
    ErrorRow { code: 101, name: c"CUDA_ERROR_INVALID_DEVICE", text: c"invalid device ordinal" },
    ErrorRow { code: 102, name: c"CUDA_ERROR_DEVICE_NOT_LICENSED", text: c"device doesn't have valid Grid license" },
    ErrorRow { code: 200, name: c"CUDA_ERROR_INVALID_IMAGE", text: c"device kernel image is invalid" },
    ErrorRow { code: 201, name: c"CUDA_ERROR_INVALID_CONTEXT", text: c"invalid device context" },
    ErrorRow { code: 202, name: c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT", text: c"context already current" },
    ErrorRow { code: 205, name: c"CUDA_ERROR_MAP_FAILED", text: c"mapping of buffer object failed" },
    ErrorRow { code: 206, name: c"CUDA_ERROR_UNMAP_FAILED", text: c"unmapping of buffer object failed" },
    ErrorRow { code: 207, name: c"CUDA_ERROR_ARRAY_IS_MAPPED", text: c"array is mapped" },
    ErrorRow { code: 208, name: c"CUDA_ERROR_ALREADY_MAPPED", text: c"resource already mapped" },
    ErrorRow { code: 209, name: c"CUDA_ERROR_NO_BINARY_FOR_GPU", text: c"no kernel image is available for execution on the device" },
    ErrorRow { code: 210, name: c"CUDA_ERROR_ALREADY_ACQUIRED", text: c"resource already acquired" },
    ErrorRow { code: 211, name: c"CUDA_ERROR_NOT_MAPPED", text: c"resource not mapped" },
    ErrorRow { code: 212, name: c"CUDA_ERROR_NOT_MAPPED_AS_ARRAY", text: c"resource not mapped as array" },
    ErrorRow { code: 213, name: c"CUDA_ERROR_NOT_MAPPED_AS_POINTER", text: c"resource not mapped as pointer" },
    ErrorRow { code: 214, name: c"CUDA_ERROR_ECC_UNCORRECTABLE", text: c"uncorrectable ECC error encountered" },
    ErrorRow { code: 215, name: c"CUDA_ERROR_UNSUPPORTED_LIMIT", text: c"limit is not supported on this architecture" },
    ErrorRow { code: 216, name: c"CUDA_ERROR_CONTEXT_ALREADY_IN_USE", text: c"exclusive-thread device already in use by a different thread" },
    ErrorRow { code: 217, name: c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", text: c"peer access is not supported between these two devices" },
    ErrorRow { code: 218, name: c"CUDA_ERROR_INVALID_PTX", text: c"a PTX JIT compilation failed" },
    ErrorRow { code: 219, name: c"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", text: c"invalid OpenGL or DirectX context" },
    ErrorRow { code: 220, name: c"CUDA_ERROR_NVLINK_UNCORRECTABLE", text: c"uncorrectable NVLink error detected during the execution" },
    ErrorRow { code: 221, name: c"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", text: c"PTX JIT compiler library not found" },
    ErrorRow { code: 222, name: c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", text: c"the provided PTX was compiled with an unsupported toolchain." },
    ErrorRow { code: 223, name: c"CUDA_ERROR_JIT_COMPILATION_DISABLED", text: c"PTX JIT compilation was disabled" },
    ErrorRow { code: 224, name: c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", text: c"the provided execution affinity is not supported" },
    ErrorRow { code: 225, name: c"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", text: c"the provided PTX contains unsupported call to cudaDeviceSynchronize" },
    ErrorRow { code: 226, name: c"CUDA_ERROR_CONTAINED", text: c"Invalid access of peer GPU memory over nvlink or a hardware error" },
    ErrorRow { code: 300, name: c"CUDA_ERROR_INVALID_SOURCE", text: c"device kernel image is invalid" },
    ErrorRow { code: 301, name: c"CUDA_ERROR_FILE_NOT_FOUND", text: c"file not found" },
    ErrorRow { code: 302, name: c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", text: c"shared object symbol not found" },
    ErrorRow { code: 303, name: c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", text: c"shared object initialization failed" },
    ErrorRow { code: 304, name: c"CUDA_ERROR_OPERATING_SYSTEM", text: c"OS call failed or operation not supported on this OS" },
    ErrorRow { code: 400, name: c"CUDA_ERROR_INVALID_HANDLE", text: c"invalid resource handle" },
    ErrorRow { code: 401, name: c"CUDA_ERROR_ILLEGAL_STATE", text: c"the operation cannot be performed in the present state" },
    ErrorRow { code: 402, name: c"CUDA_ERROR_LOSSY_QUERY", text: c"attempted introspection would be semantically lossy" },
    ErrorRow { code: 500, name: c"CUDA_ERROR_NOT_FOUND", text: c"named symbol not found" },
    ErrorRow { code: 600, name: c"CUDA_ERROR_NOT_READY", text: c"device not ready" },
    ErrorRow { code: 700, name: c"CUDA_ERROR_ILLEGAL_ADDRESS", text: c"an illegal memory access was encountered" },
    ErrorRow { code: 701, name: c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", text: c"too many resources requested for launch" },
    ErrorRow { code: 702, name: c"CUDA_ERROR_LAUNCH_TIMEOUT", text: c"the launch timed out and was terminated" },
    ErrorRow { code: 703, name: c"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", text: c"launch uses incompatible texturing mode" },
    ErrorRow { code: 704, name: c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", text: c"peer access is already enabled" },
    ErrorRow { code: 705, name: c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", text: c"peer access has not been enabled" },
    ErrorRow { code: 708, name: c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", text: c"cannot set while device is active in this process" },
    ErrorRow { code: 709, name: c"CUDA_ERROR_CONTEXT_IS_DESTROYED", text: c"context is destroyed" },
    ErrorRow { code: 710, name: c"CUDA_ERROR_ASSERT", text: c"device-side assert triggered" },
    ErrorRow { code: 711, name: c"CUDA_ERROR_TOO_MANY_PEERS", text: c"peer mapping resources exhausted" },
    ErrorRow { code: 712, name: c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", text: c"part or all of the requested memory range is already mapped" },
    ErrorRow { code: 713, name: c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", text: c"pointer does not correspond to a registered memory region" },
    ErrorRow { code: 714, name: c"CUDA_ERROR_HARDWARE_STACK_ERROR", text: c"hardware stack error" },
    ErrorRow { code: 715, name: c"CUDA_ERROR_ILLEGAL_INSTRUCTION", text: c"an illegal instruction was encountered" },
    ErrorRow { code: 716, name: c"CUDA_ERROR_MISALIGNED_ADDRESS", text: c"misaligned address" },
    ErrorRow { code: 717, name: c"CUDA_ERROR_INVALID_ADDRESS_SPACE", text: c"operation not supported on global/shared address space" },
    ErrorRow { code: 718, name: c"CUDA_ERROR_INVALID_PC", text: c"invalid program counter" },
    ErrorRow { code: 719, name: c"CUDA_ERROR_LAUNCH_FAILED", text: c"unspecified launch failure" },
    ErrorRow { code: 720, name: c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", text: c"too many blocks in cooperative launch" },
    ErrorRow { code: 721, name: c"CUDA_ERROR_TENSOR_MEMORY_LEAK", text: c"tensor memory not completely freed" },
    ErrorRow { code: 800, name: c"CUDA_ERROR_NOT_PERMITTED", text: c"operation not permitted" },
    ErrorRow { code: 801, name: c"CUDA_ERROR_NOT_SUPPORTED", text: c"operation not supported" },
    ErrorRow { code: 802, name: c"CUDA_ERROR_SYSTEM_NOT_READY", text: c"system not yet initialized" },
    ErrorRow { code: 803, name: c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", text: c"system has unsupported display driver / cuda driver combination" },
    ErrorRow { code: 804, name: c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", text: c"forward compatibility was attempted on non supported HW" },
    ErrorRow { code: 805, name: c"CUDA_ERROR_MPS_CONNECTION_FAILED", text: c"MPS client failed to connect to the MPS control daemon or the MPS server" },
    ErrorRow { code: 806, name: c"CUDA_ERROR_MPS_RPC_FAILURE", text: c"the remote procedural call between the MPS server and the MPS client failed" },
    ErrorRow { code: 807, name: c"CUDA_ERROR_MPS_SERVER_NOT_READY", text: c"MPS server is not ready to accept new MPS client requests" },
    ErrorRow { code: 808, name: c"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", text: c"the hardware resources required to create MPS client have been exhausted" },
    ErrorRow { code: 809, name: c"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", text: c"the hardware resources required to support device connections have been exhausted" },
    ErrorRow { code: 810, name: c"CUDA_ERROR_MPS_CLIENT_TERMINATED", text: c"the MPS client has been terminated by the server" },
    ErrorRow { code: 811, name: c"CUDA_ERROR_CDP_NOT_SUPPORTED", text: c"is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it" },
    ErrorRow { code: 812, name: c"CUDA_ERROR_CDP_VERSION_MISMATCH", text: c"unsupported interaction between different versions of CUDA Dynamic Parallelism" },
    ErrorRow { code: 900, name: c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", text: c"operation not permitted when stream is capturing" },
    ErrorRow { code: 901, name: c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", text: c"operation failed due to a previous error during capture" },
    ErrorRow { code: 902, name: c"CUDA_ERROR_STREAM_CAPTURE_MERGE", text: c"operation would result in a merge of separate capture sequences" },
    ErrorRow { code: 903, name: c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", text: c"capture was not ended in the same stream as it began" },
    ErrorRow { code: 904, name: c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", text: c"capturing stream has unjoined work" },
    ErrorRow { code: 905, name: c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", text: c"dependency created on uncaptured work in another stream" },
    ErrorRow { code: 906, name: c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", text: c"operation would make the legacy stream depend on a capturing blocking stream" },
    ErrorRow { code: 907, name: c"CUDA_ERROR_CAPTURED_EVENT", text: c"operation not permitted on an event last recorded in a capturing stream" },
    ErrorRow { code: 908, name: c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", text: c"attempt to terminate a thread-local capture sequence from another thread" },
    ErrorRow { code: 909, name: c"CUDA_ERROR_TIMEOUT", text: c"wait operation timed out" },
    ErrorRow { code: 910, name: c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", text: c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update" },
    ErrorRow { code: 911, name: c"CUDA_ERROR_EXTERNAL_DEVICE", text: c"an async error has occured in external entity outside of CUDA" },
    ErrorRow { code: 912, name: c"CUDA_ERROR_INVALID_CLUSTER_SIZE", text: c"a kernel launch error has occurred due to cluster misconfiguration" },
    ErrorRow { code: 913, name: c"CUDA_ERROR_FUNCTION_NOT_LOADED", text: c"the function handle is not loaded when calling an API that requires a loaded function" },
    ErrorRow { code: 914, name: c"CUDA_ERROR_INVALID_RESOURCE_TYPE", text: c"one or more resources passed in are not valid resource types for the operation" },
    ErrorRow { code: 915, name: c"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", text: c"one or more resources are insufficient or non-applicable for the operation" },
    ErrorRow { code: 916, name: c"CUDA_ERROR_KEY_ROTATION", text: c"an error happened during the key rotation sequence" },
    ErrorRow { code: 999, name: c"CUDA_ERROR_UNKNOWN", text: c"unknown error" },
];
