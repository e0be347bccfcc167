//! The table of driver functions: a row a function.
//!
//! A row is `number policy symbol [| per-thread variant](parameter: type, ...);`
//!
//! * the *number* stands for the function on the wire: explicit, append-only, never reused;
//! * the *policy* says where a client's call is answered (see [`Policy`](crate::Policy));
//! * the *variant* is the symbol of the same function with the per-thread default stream;
//! * a parameter's *type* says what it means: handles, device pointers and plain values are types
//!   of their own, and in a `post` or `call` row every `*mut T` is a result.
//!
//! From the rows come [`DriverTable`](crate::DriverTable) (a provider's functions), the client's
//! exports, the server's dispatch, the names in traces and `openmps coverage`. A symbol of
//! [`symbols`](crate::symbols) without a row is exported too and answers
//! CUDA_ERROR_NOT_SUPPORTED. The rows of graphs stand in `table_graph.rs`. Signatures are those of cuda.h, CUDA 13.0.

/// Expands `$callback! { rows }` with every row of the table; see the module for a row's shape.
#[macro_export]
macro_rules! driver_functions {
    ($callback:ident) => {
        $crate::graph_functions! {
            @after $callback

            // Initialisation, version, errors, entry points.
            1 local cuInit(flags: c_uint);
            2 local cuDriverGetVersion(driver_version: *mut c_int);
            3 local cuGetProcAddress(
                symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64);
            4 local cuGetProcAddress_v2(
                symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64,
                symbol_status: *mut c_uint);
            5 local cuGetExportTable(
                pp_export_table: *mut *const c_void, p_export_table_id: *const CUuuid);
            6 local cuGetErrorName(error: c_uint, p_str: *mut *const c_char);
            7 local cuGetErrorString(error: c_uint, p_str: *mut *const c_char);

            // Devices.
            51 local cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
            52 local cuDeviceGetCount(count: *mut c_int);
            53 local cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
            54 local cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
            55 local cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
            56 local cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
            57 local cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
            58 local cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, device: CUdevice);
            59 local cuDeviceGetByPCIBusId(device: *mut CUdevice, pci_bus_id: *const c_char);
            60 local cuDeviceCanAccessPeer(
                can_access_peer: *mut c_int, device: CUdevice, peer_dev: CUdevice);
            61 local cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, device: CUdevice);
            62 local cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice);
            63 local cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
            64 local cuDeviceComputeCapability(
                major: *mut c_int, minor: *mut c_int, device: CUdevice);
            65 unsupported cuDeviceGetLuid(
                luid: *mut c_char, device_node_mask: *mut c_uint, device: CUdevice);
            66 local cuDeviceGetP2PAttribute(
                value: *mut c_int, attribute: c_uint, src_device: CUdevice, dst_device: CUdevice);
            67 local cuDeviceGetDevResource(
                device: CUdevice, resource: *mut CUdevResource, kind: c_uint);
            68 local cuDeviceGetExecAffinitySupport(
                supported: *mut c_int, kind: c_uint, device: CUdevice);
            69 local cuDevSmResourceSplitByCount(
                result: *mut CUdevResource, groups: *mut c_uint, input: *const CUdevResource,
                remainder: *mut CUdevResource, flags: c_uint, sms_min: c_uint);
            70 local cuDevSmResourceSplit(
                result: *mut CUdevResource, groups: c_uint, input: *const CUdevResource,
                remainder: *mut CUdevResource, flags: c_uint, params: *mut CUdevSmGroupParams);
            71 local cuDevResourceGenerateDesc(
                description: *mut CUdevResourceDesc, resources: *mut CUdevResource,
                count: c_uint);
            72 local cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice);

            // Primary contexts.
            101 local cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
            102 special cuDevicePrimaryCtxRelease(device: CUdevice);
            103 special cuDevicePrimaryCtxRelease_v2(device: CUdevice);
            104 special cuDevicePrimaryCtxReset(device: CUdevice);
            105 special cuDevicePrimaryCtxReset_v2(device: CUdevice);
            106 local cuDevicePrimaryCtxGetState(
                device: CUdevice, flags: *mut c_uint, active: *mut c_int);
            107 local cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint);
            108 local cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);

            // Contexts.
            151 special cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice);
            152 special cuCtxCreate_v3(
                context: *mut CUcontext, params_array: *mut CUexecAffinityParam, num_params: c_int,
                flags: c_uint, device: CUdevice);
            153 special cuCtxCreate_v4(
                context: *mut CUcontext, ctx_create_params: *mut CUctxCreateParams, flags: c_uint,
                device: CUdevice);
            154 special cuCtxDestroy_v2(context: CUcontext);
            155 local cuCtxPushCurrent_v2(context: CUcontext);
            156 local cuCtxPopCurrent_v2(context: *mut CUcontext);
            157 local cuCtxSetCurrent(context: CUcontext);
            158 local cuCtxGetCurrent(context: *mut CUcontext);
            159 local cuCtxGetDevice(device: *mut CUdevice);
            160 local cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext);
            161 local cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint);
            162 local cuCtxGetId(context: CUcontext, ctx_id: *mut u64);
            163 local cuCtxGetFlags(flags: *mut c_uint);
            164 local cuCtxSetFlags(flags: c_uint);
            165 special cuCtxSynchronize();
            166 special cuCtxSynchronize_v2(context: CUcontext);
            167 local cuCtxGetLimit(pvalue: *mut usize, limit: c_uint);
            168 call cuCtxSetLimit(limit: c_uint, value: usize);
            169 local cuCtxGetCacheConfig(pconfig: *mut c_uint);
            170 local cuCtxSetCacheConfig(config: c_uint);
            171 local cuCtxGetSharedMemConfig(p_config: *mut c_uint);
            172 local cuCtxSetSharedMemConfig(config: c_uint);
            173 local cuCtxGetStreamPriorityRange(
                least_priority: *mut c_int, greatest_priority: *mut c_int);
            174 local cuCtxResetPersistingL2Cache();
            175 local cuCtxEnablePeerAccess(peer_context: CUcontext, flags: c_uint);
            176 local cuCtxDisablePeerAccess(peer_context: CUcontext);
            177 local cuCtxGetDevResource(
                context: CUcontext, resource: *mut CUdevResource, kind: c_uint);
            178 local cuCtxGetExecAffinity(param: *mut CUexecAffinityParam, kind: c_uint);
            179 special cuCtxAttach(context: *mut CUcontext, flags: c_uint);
            180 special cuCtxDetach(context: CUcontext);

            // Green contexts.
            181 local cuGreenCtxCreate(
                green: *mut CUgreenCtx, description: CUdevResourceDesc, device: CUdevice,
                flags: c_uint);
            182 special cuGreenCtxDestroy(green: CUgreenCtx);
            183 local cuCtxFromGreenCtx(context: *mut CUcontext, green: CUgreenCtx);
            184 local cuGreenCtxGetDevResource(
                green: CUgreenCtx, resource: *mut CUdevResource, kind: c_uint);
            185 special cuGreenCtxStreamCreate(
                stream: *mut CUstream, green: CUgreenCtx, flags: c_uint, priority: c_int);
            186 local cuGreenCtxGetId(green: CUgreenCtx, id: *mut u64);

            // Modules.
            201 local cuModuleGetLoadingMode(mode: *mut c_uint);
            202 special cuModuleLoad(module: *mut CUmodule, fname: *const c_char);
            203 special cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
            204 special cuModuleLoadDataEx(
                module: *mut CUmodule, image: *const c_void, num_options: c_uint,
                options: *mut c_uint, option_values: *mut *mut c_void);
            205 special cuModuleLoadFatBinary(module: *mut CUmodule, fat_cubin: *const c_void);
            206 special cuModuleUnload(module: CUmodule);
            207 special cuModuleGetFunction(
                function: *mut CUfunction, module: CUmodule, name: *const c_char);
            208 special cuModuleGetGlobal_v2(
                pointer: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule,
                name: *const c_char);
            209 special cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
            210 special cuModuleEnumerateFunctions(
                functions: *mut CUfunction, num_functions: c_uint, module: CUmodule);
            211 local cuLinkCreate_v2(
                num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void,
                state_out: *mut CUlinkState);
            212 local cuLinkAddData_v2(
                state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize,
                name: *const c_char, num_options: c_uint, options: *mut c_uint,
                option_values: *mut *mut c_void);
            213 local cuLinkAddFile_v2(
                state: CUlinkState, kind: c_uint, path: *const c_char, num_options: c_uint,
                options: *mut c_uint, option_values: *mut *mut c_void);
            214 local cuLinkComplete(
                state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize);
            215 local cuLinkDestroy(state: CUlinkState);

            // Libraries and kernels.
            251 special cuLibraryLoadData(
                library: *mut CUlibrary, code: *const c_void, jit_options: *mut c_uint,
                jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                library_options: *mut c_uint, library_option_values: *mut *mut c_void,
                num_library_options: c_uint);
            252 special cuLibraryLoadFromFile(
                library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut c_uint,
                jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                library_options: *mut c_uint, library_option_values: *mut *mut c_void,
                num_library_options: c_uint);
            253 special cuLibraryUnload(library: CUlibrary);
            254 special cuLibraryGetKernel(
                p_kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
            255 local cuLibraryGetModule(p_mod: *mut CUmodule, library: CUlibrary);
            256 special cuLibraryGetGlobal(
                pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
                name: *const c_char);
            257 special cuLibraryGetManaged(
                pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
                name: *const c_char);
            258 special cuLibraryGetKernelCount(count: *mut c_uint, lib: CUlibrary);
            259 special cuLibraryEnumerateKernels(
                kernels: *mut CUkernel, num_kernels: c_uint, lib: CUlibrary);
            260 local cuKernelGetFunction(p_func: *mut CUfunction, kernel: CUkernel);
            261 local cuKernelGetAttribute(
                value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice);
            262 call cuKernelSetAttribute(
                attribute: c_uint, val: c_int, kernel: CUkernel, device: CUdevice);
            263 local cuKernelSetCacheConfig(
                kernel: CUkernel, config: c_uint, device: CUdevice);
            264 local cuKernelGetName(name: *mut *const c_char, function: CUkernel);
            265 local cuKernelGetParamInfo(
                kernel: CUkernel, param_index: usize, param_offset: *mut usize,
                param_size: *mut usize);
            266 local cuKernelGetLibrary(p_lib: *mut CUlibrary, kernel: CUkernel);
            267 local cuKernelGetParamCount(kernel: CUkernel, count: *mut usize);

            // Functions.
            301 local cuFuncGetAttribute(
                value: *mut c_int, attribute: c_uint, function: CUfunction);
            302 call cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
            303 post cuFuncSetCacheConfig(function: CUfunction, config: c_uint);
            304 local cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint);
            305 local cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
            306 local cuFuncGetName(name: *mut *const c_char, function: CUfunction);
            307 local cuFuncGetParamInfo(
                function: CUfunction, param_index: usize, param_offset: *mut usize,
                param_size: *mut usize);
            308 local cuFuncIsLoaded(state: *mut c_uint, function: CUfunction);
            309 local cuFuncLoad(function: CUfunction);
            310 local cuFuncGetParamCount(function: CUfunction, count: *mut usize);
            311 local cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int);
            312 local cuFuncSetSharedSize(function: CUfunction, bytes: c_uint);
            313 local cuParamSetSize(function: CUfunction, bytes: c_uint);
            314 local cuParamSeti(function: CUfunction, offset: c_int, value: c_uint);
            315 local cuParamSetf(function: CUfunction, offset: c_int, value: f32);
            316 local cuParamSetv(
                function: CUfunction, offset: c_int, pointer: *mut c_void, bytes: c_uint);

            // Execution.
            351 special cuLaunchKernel | cuLaunchKernel_ptsz(
                function: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
                block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint,
                shared_mem_bytes: c_uint, stream: CUstream, kernel_params: *mut *mut c_void,
                extra: *mut *mut c_void);
            352 special cuLaunchKernelEx | cuLaunchKernelEx_ptsz(
                config: *const CUlaunchConfig, function: CUfunction,
                kernel_params: *mut *mut c_void, extra: *mut *mut c_void);
            353 special cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
                function: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
                block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint,
                shared_mem_bytes: c_uint, stream: CUstream, kernel_params: *mut *mut c_void);
            354 special cuLaunchHostFunc | cuLaunchHostFunc_ptsz(
                stream: CUstream, function: CUhostFn, user_data: *mut c_void);
            355 special cuLaunch(function: CUfunction);
            356 special cuLaunchGrid(function: CUfunction, width: c_int, height: c_int);
            357 special cuLaunchGridAsync(
                function: CUfunction, width: c_int, height: c_int, stream: CUstream);

            // Memory.
            401 special cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
            402 special cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytesize: usize);
            403 special cuMemAllocPitch_v2(
                pointer: *mut CUdeviceptr, p_pitch: *mut usize, width_in_bytes: usize,
                height: usize, element_size_bytes: c_uint);
            404 special cuMemFree_v2(pointer: CUdeviceptr);
            405 local cuMemGetAddressRange_v2(
                pbase: *mut CUdeviceptr, psize: *mut usize, pointer: CUdeviceptr);
            406 special cuMemAllocHost_v2(pointer: *mut *mut c_void, bytesize: usize);
            407 special cuMemFreeHost(pointer: *mut c_void);
            408 special cuMemHostAlloc(pointer: *mut *mut c_void, bytesize: usize, flags: c_uint);
            409 local cuMemHostGetDevicePointer_v2(
                pdptr: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
            410 local cuMemHostGetFlags(p_flags: *mut c_uint, pointer: *mut c_void);
            411 special cuMemHostRegister_v2(
                pointer: *mut c_void, bytesize: usize, flags: c_uint);
            412 special cuMemHostUnregister(pointer: *mut c_void);
            413 special cuMemAllocManaged(
                pointer: *mut CUdeviceptr, bytesize: usize, flags: c_uint);
            414 local cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(
                dev_ptr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint,
                stream: CUstream);
            415 local cuMemAdvise_v2(
                dev_ptr: CUdeviceptr, count: usize, advice: c_uint, location: CUmemLocation);
            416 local cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(
                dev_ptr: CUdeviceptr, count: usize, device: CUdevice, stream: CUstream);
            417 local cuMemAdvise(
                dev_ptr: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice);
            418 local cuMemRangeGetAttribute(
                data: *mut c_void, data_size: usize, attribute: c_uint, dev_ptr: CUdeviceptr,
                count: usize);
            419 local cuMemRangeGetAttributes(
                data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut c_uint,
                num_attributes: usize, dev_ptr: CUdeviceptr, count: usize);
            420 local cuMemGetHandleForAddressRange(
                handle: *mut c_void, dev_ptr: CUdeviceptr, size: usize, handle_type: c_uint,
                flags: u64);

            // Copies.
            451 special cuMemcpy | cuMemcpy_ptds(
                dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize);
            452 special cuMemcpyAsync | cuMemcpyAsync_ptsz(
                dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, stream: CUstream);
            453 special cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds(
                dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize);
            454 special cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds(
                dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize);
            455 special cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds(
                dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize);
            456 special cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz(
                dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize,
                stream: CUstream);
            457 special cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz(
                dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize,
                stream: CUstream);
            458 post cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz(
                dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize,
                stream: CUstream);
            459 special cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds(p_copy: *const CUDA_MEMCPY2D);
            460 special cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(
                p_copy: *const CUDA_MEMCPY2D);
            461 special cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(
                p_copy: *const CUDA_MEMCPY2D, stream: CUstream);
            462 special cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(p_copy: *const CUDA_MEMCPY3D);
            463 special cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(
                p_copy: *const CUDA_MEMCPY3D, stream: CUstream);
            464 special cuMemcpyPeer | cuMemcpyPeer_ptds(
                dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
                src_context: CUcontext, byte_count: usize);
            465 special cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(
                dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
                src_context: CUcontext, byte_count: usize, stream: CUstream);
            466 special cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(p_copy: *const CUDA_MEMCPY3D_PEER);
            467 special cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(
                p_copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream);
            468 special cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz(
                dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
                fail_idx: *mut usize, stream: CUstream);
            469 special cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
                dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
                stream: CUstream);

            // Memset.
            501 special cuMemsetD8_v2 | cuMemsetD8_v2_ptds(
                dst_device: CUdeviceptr, value: u8, count: usize);
            502 special cuMemsetD16_v2 | cuMemsetD16_v2_ptds(
                dst_device: CUdeviceptr, value: u16, count: usize);
            503 special cuMemsetD32_v2 | cuMemsetD32_v2_ptds(
                dst_device: CUdeviceptr, value: c_uint, count: usize);
            504 special cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds(
                dst_device: CUdeviceptr, dst_pitch: usize, value: u8, width: usize, height: usize);
            505 special cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds(
                dst_device: CUdeviceptr, dst_pitch: usize, value: u16, width: usize, height: usize);
            506 special cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds(
                dst_device: CUdeviceptr, dst_pitch: usize, value: c_uint, width: usize,
                height: usize);
            507 post cuMemsetD8Async | cuMemsetD8Async_ptsz(
                dst_device: CUdeviceptr, value: u8, count: usize, stream: CUstream);
            508 post cuMemsetD16Async | cuMemsetD16Async_ptsz(
                dst_device: CUdeviceptr, value: u16, count: usize, stream: CUstream);
            509 post cuMemsetD32Async | cuMemsetD32Async_ptsz(
                dst_device: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
            510 post cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz(
                dst_device: CUdeviceptr, dst_pitch: usize, value: u8, width: usize, height: usize,
                stream: CUstream);
            511 post cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz(
                dst_device: CUdeviceptr, dst_pitch: usize, value: u16, width: usize, height: usize,
                stream: CUstream);
            512 post cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz(
                dst_device: CUdeviceptr, dst_pitch: usize, value: c_uint, width: usize,
                height: usize, stream: CUstream);

            // Stream-ordered allocation.
            551 special cuMemAllocAsync | cuMemAllocAsync_ptsz(
                pointer: *mut CUdeviceptr, bytesize: usize, stream: CUstream);
            552 special cuMemFreeAsync | cuMemFreeAsync_ptsz(
                pointer: CUdeviceptr, stream: CUstream);
            553 special cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(
                pointer: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, stream: CUstream);
            554 local cuMemPoolCreate(
                pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps);
            555 local cuMemPoolDestroy(pool: CUmemoryPool);
            556 local cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize);
            557 local cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void);
            558 local cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void);
            559 local cuMemPoolSetAccess(
                pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize);
            560 local cuMemPoolGetAccess(
                flags: *mut c_uint, mem_pool: CUmemoryPool, location: *mut CUmemLocation);
            561 special cuMemPoolExportToShareableHandle(
                handle_out: *mut c_void, pool: CUmemoryPool, handle_type: c_uint, flags: u64);
            562 special cuMemPoolImportFromShareableHandle(
                pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: c_uint, flags: u64);
            563 special cuMemPoolExportPointer(
                share_data: *mut CUmemPoolPtrExportData, pointer: CUdeviceptr);
            564 special cuMemPoolImportPointer(
                pointer: *mut CUdeviceptr, pool: CUmemoryPool,
                share_data: *mut CUmemPoolPtrExportData);
            565 local cuMemGetDefaultMemPool(
                pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint);
            566 local cuMemGetMemPool(
                pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint);
            567 local cuMemSetMemPool(
                location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool);

            // Pointers.
            601 local cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, ptr: CUdeviceptr);
            602 local cuPointerGetAttributes(
                num_attributes: c_uint, attributes: *mut c_uint, data: *mut *mut c_void,
                ptr: CUdeviceptr);
            603 local cuPointerSetAttribute(
                value: *const c_void, attribute: c_uint, ptr: CUdeviceptr);

            // Streams.
            651 special cuStreamCreate(stream: *mut CUstream, flags: c_uint);
            652 special cuStreamCreateWithPriority(
                stream: *mut CUstream, flags: c_uint, priority: c_int);
            653 special cuStreamDestroy_v2(stream: CUstream);
            654 special cuStreamSynchronize | cuStreamSynchronize_ptsz(stream: CUstream);
            655 special cuStreamQuery | cuStreamQuery_ptsz(stream: CUstream);
            656 special cuStreamWaitEvent | cuStreamWaitEvent_ptsz(
                stream: CUstream, event: CUevent, flags: c_uint);
            657 local cuStreamGetPriority | cuStreamGetPriority_ptsz(
                stream: CUstream, priority: *mut c_int);
            658 local cuStreamGetFlags | cuStreamGetFlags_ptsz(
                stream: CUstream, flags: *mut c_uint);
            659 local cuStreamGetCtx | cuStreamGetCtx_ptsz(
                stream: CUstream, context: *mut CUcontext);
            660 local cuStreamGetId | cuStreamGetId_ptsz(stream: CUstream, stream_id: *mut u64);
            661 local cuStreamGetDevice | cuStreamGetDevice_ptsz(
                stream: CUstream, device: *mut CUdevice);
            662 special cuStreamAddCallback | cuStreamAddCallback_ptsz(
                stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void,
                flags: c_uint);
            663 local cuStreamIsCapturing | cuStreamIsCapturing_ptsz(
                stream: CUstream, capture_status: *mut c_uint);
            664 local cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
                stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut u64,
                graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
                num_dependencies_out: *mut usize);
            665 local cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
                stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut u64,
                graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
                edge_data_out: *mut *const CUgraphEdgeData, num_dependencies_out: *mut usize);
            666 post cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz(
                stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint);
            667 post cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz(
                stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint);
            668 post cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz(
                stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint);
            669 post cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz(
                stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint);
            670 special cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz(
                stream: CUstream, count: c_uint, param_array: *mut CUstreamBatchMemOpParams,
                flags: c_uint);
            671 local cuStreamGetGreenCtx(stream: CUstream, ph_ctx: *mut CUgreenCtx);
            672 local cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
            673 local cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz(
                stream: CUstream, pointer: CUdeviceptr, length: usize, flags: c_uint);
            674 local cuStreamGetAttribute | cuStreamGetAttribute_ptsz(
                stream: CUstream, attribute: c_uint, value: *mut CUlaunchAttributeValue);
            675 local cuStreamSetAttribute | cuStreamSetAttribute_ptsz(
                stream: CUstream, attribute: c_uint, value: *const CUlaunchAttributeValue);
            676 local cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz(
                dst: CUstream, src: CUstream);
            677 local cuStreamGetDevResource | cuStreamGetDevResource_ptsz(
                stream: CUstream, resource: *mut CUdevResource, kind: c_uint);
            678 local cuStreamGetCtx_v2 | cuStreamGetCtx_v2_ptsz(
                stream: CUstream, context: *mut CUcontext, green: *mut CUgreenCtx);

            // Events.
            701 special cuEventCreate(event: *mut CUevent, flags: c_uint);
            702 special cuEventDestroy_v2(event: CUevent);
            703 special cuEventRecord | cuEventRecord_ptsz(event: CUevent, stream: CUstream);
            704 special cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(
                event: CUevent, stream: CUstream, flags: c_uint);
            705 special cuEventQuery(event: CUevent);
            706 special cuEventSynchronize(event: CUevent);
            707 special cuEventElapsedTime(
                p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
            708 special cuEventElapsedTime_v2(
                p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);

            // Occupancy.
            751 call cuOccupancyMaxActiveBlocksPerMultiprocessor(
                num_blocks: *mut c_int, function: CUfunction, block_size: c_int,
                dynamic_smem_size: usize);
            752 call cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                num_blocks: *mut c_int, function: CUfunction, block_size: c_int,
                dynamic_smem_size: usize, flags: c_uint);
            753 special cuOccupancyMaxPotentialBlockSize(
                min_grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction,
                block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize,
                block_size_limit: c_int);
            754 special cuOccupancyMaxPotentialBlockSizeWithFlags(
                min_grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction,
                block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize,
                block_size_limit: c_int, flags: c_uint);
            755 call cuOccupancyAvailableDynamicSMemPerBlock(
                dynamic_smem_size: *mut usize, function: CUfunction, num_blocks: c_int,
                block_size: c_int);
            756 special cuOccupancyMaxActiveClusters(
                num_clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);
            757 special cuOccupancyMaxPotentialClusterSize(
                cluster_size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);

            // Virtual memory.
            801 special cuMemAddressReserve(
                ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr,
                flags: u64);
            802 special cuMemAddressFree(ptr: CUdeviceptr, size: usize);
            803 special cuMemCreate(
                handle: *mut CUmemGenericAllocationHandle, size: usize,
                prop: *const CUmemAllocationProp, flags: u64);
            804 special cuMemRelease(handle: CUmemGenericAllocationHandle);
            805 special cuMemMap(
                ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
                flags: u64);
            806 special cuMemUnmap(ptr: CUdeviceptr, size: usize);
            807 special cuMemSetAccess(
                ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize);
            808 local cuMemGetAccess(
                flags: *mut u64, location: *const CUmemLocation, ptr: CUdeviceptr);
            809 local cuMemGetAllocationGranularity(
                granularity: *mut usize, prop: *const CUmemAllocationProp, option: c_uint);
            810 local cuMemExportToShareableHandle(
                shareable_handle: *mut c_void, handle: CUmemGenericAllocationHandle,
                handle_type: c_uint, flags: u64);
            811 special cuMemImportFromShareableHandle(
                handle: *mut CUmemGenericAllocationHandle, os_handle: *mut c_void,
                sh_handle_type: c_uint);
            812 local cuMemGetAllocationPropertiesFromHandle(
                prop: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle);
            813 local cuMemRetainAllocationHandle(
                handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void);

            // Between processes.
            831 special cuIpcGetMemHandle(handle: *mut CUipcMemHandle, pointer: CUdeviceptr);
            832 special cuIpcOpenMemHandle_v2(
                pointer: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
            833 special cuIpcCloseMemHandle(pointer: CUdeviceptr);
            834 special cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent);
            835 special cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle);

            // Profiler.
            851 local cuProfilerStart();
            852 local cuProfilerStop();

            // Arrays.
            871 special cuArrayCreate_v2(
                array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR);
            872 local cuArrayGetDescriptor_v2(
                descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray);
            873 special cuArrayDestroy(array: CUarray);
            874 special cuArray3DCreate_v2(
                array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR);
            875 local cuArray3DGetDescriptor_v2(
                descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray);
            876 special cuArrayGetMemoryRequirements(
                requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: CUarray,
                device: CUdevice);
            877 special cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds(
                dst: CUarray, dst_offset: usize, src: CUdeviceptr, byte_count: usize);
            878 special cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds(
                dst: CUdeviceptr, src: CUarray, src_offset: usize, byte_count: usize);
            879 special cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds(
                dst: CUarray, dst_offset: usize, src: *const c_void, byte_count: usize);
            880 special cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds(
                dst: *mut c_void, src: CUarray, src_offset: usize, byte_count: usize);
            881 special cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds(
                dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize,
                byte_count: usize);
            882 special cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz(
                dst: CUarray, dst_offset: usize, src: *const c_void, byte_count: usize,
                stream: CUstream);
            883 special cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz(
                dst: *mut c_void, src: CUarray, src_offset: usize, byte_count: usize,
                stream: CUstream);
            884 special cuMipmappedArrayCreate(
                mipmapped: *mut CUmipmappedArray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR,
                levels: c_uint);
            885 special cuMipmappedArrayGetLevel(
                array: *mut CUarray, mipmapped: CUmipmappedArray, level: c_uint);
            886 special cuMipmappedArrayDestroy(mipmapped: CUmipmappedArray);
            887 special cuMipmappedArrayGetMemoryRequirements(
                requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, mipmapped: CUmipmappedArray,
                device: CUdevice);

            // Tensor maps.
            901 special cuTensorMapEncodeTiled(
                tensor_map: *mut CUtensorMap, data_type: c_uint, rank: c_uint,
                global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
                box_dim: *const c_uint, element_strides: *const c_uint, interleave: c_uint,
                swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint);
            902 special cuTensorMapEncodeIm2col(
                tensor_map: *mut CUtensorMap, data_type: c_uint, rank: c_uint,
                global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
                pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int,
                channels_per_pixel: c_uint, pixels_per_column: c_uint,
                element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint,
                l2_promotion: c_uint, oob_fill: c_uint);
            903 special cuTensorMapReplaceAddress(
                tensor_map: *mut CUtensorMap, global_address: *mut c_void);

            // Textures and surfaces.
            951 special cuTexObjectCreate(
                tex_object: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC,
                texture: *const CUDA_TEXTURE_DESC, view: *const CUDA_RESOURCE_VIEW_DESC);
            952 special cuTexObjectDestroy(tex_object: CUtexObject);
            953 special cuSurfObjectCreate(
                surf_object: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC);
            954 special cuSurfObjectDestroy(surf_object: CUsurfObject);
            955 local cuTexObjectGetResourceDesc(
                resource: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject);
            956 local cuTexObjectGetTextureDesc(
                texture: *mut CUDA_TEXTURE_DESC, tex_object: CUtexObject);
            957 local cuTexObjectGetResourceViewDesc(
                view: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject);
            958 local cuSurfObjectGetResourceDesc(
                resource: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject);
        }
    };
}
