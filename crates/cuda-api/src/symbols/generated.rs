//! Exported symbols and what cuGetProcAddress knows. Made by `cargo xtask generate`; do not edit.
#![cfg_attr(rustfmt, rustfmt_skip)]

use super::ProcEntry;

/// Every exported symbol, sorted.
pub const SYMBOLS: &[&str] = &[
    "cuArray3DCreate",
    "cuArray3DCreate_v2",
    "cuArray3DGetDescriptor",
    "cuArray3DGetDescriptor_v2",
    "cuArrayCreate",
    "cuArrayCreate_v2",
    "cuArrayDestroy",
    "cuArrayGetDescriptor",
    "cuArrayGetDescriptor_v2",
    "cuArrayGetMemoryRequirements",
    "cuArrayGetPlane",
    "cuArrayGetSparseProperties",
    "cuCheckpointOperationComplete",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessGetRestoreThreadId",
    "cuCheckpointProcessGetState",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
    "cuCoredumpDeregisterCompleteCallback",
    "cuCoredumpDeregisterStartCallback",
    "cuCoredumpGetAttribute",
    "cuCoredumpGetAttributeGlobal",
    "cuCoredumpRegisterCompleteCallback",
    "cuCoredumpRegisterStartCallback",
    "cuCoredumpSetAttribute",
    "cuCoredumpSetAttributeGlobal",
    "cuCtxAttach",
    "cuCtxCreate",
    "cuCtxCreate_v2",
    "cuCtxCreate_v3",
    "cuCtxCreate_v4",
    "cuCtxDestroy",
    "cuCtxDestroy_v2",
    "cuCtxDetach",
    "cuCtxDisablePeerAccess",
    "cuCtxEnablePeerAccess",
    "cuCtxFromGreenCtx",
    "cuCtxGetApiVersion",
    "cuCtxGetCacheConfig",
    "cuCtxGetCurrent",
    "cuCtxGetDevResource",
    "cuCtxGetDevice",
    "cuCtxGetDevice_v2",
    "cuCtxGetExecAffinity",
    "cuCtxGetFlags",
    "cuCtxGetId",
    "cuCtxGetLimit",
    "cuCtxGetSharedMemConfig",
    "cuCtxGetStreamPriorityRange",
    "cuCtxPopCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxRecordEvent",
    "cuCtxResetPersistingL2Cache",
    "cuCtxSetCacheConfig",
    "cuCtxSetCurrent",
    "cuCtxSetFlags",
    "cuCtxSetLimit",
    "cuCtxSetSharedMemConfig",
    "cuCtxSynchronize",
    "cuCtxSynchronize_v2",
    "cuCtxWaitEvent",
    "cuDestroyExternalMemory",
    "cuDestroyExternalSemaphore",
    "cuDevResourceGenerateDesc",
    "cuDevSmResourceSplit",
    "cuDevSmResourceSplitByCount",
    "cuDeviceCanAccessPeer",
    "cuDeviceComputeCapability",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetByPCIBusId",
    "cuDeviceGetCliqueCount",
    "cuDeviceGetCliqueInfo",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetDevResource",
    "cuDeviceGetExecAffinitySupport",
    "cuDeviceGetFabricClusterUuid",
    "cuDeviceGetGraphMemAttribute",
    "cuDeviceGetHostAtomicCapabilities",
    "cuDeviceGetLuid",
    "cuDeviceGetMemPool",
    "cuDeviceGetName",
    "cuDeviceGetNvSciSyncAttributes",
    "cuDeviceGetP2PAtomicCapabilities",
    "cuDeviceGetP2PAttribute",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetProperties",
    "cuDeviceGetTexture1DLinearMaxWidth",
    "cuDeviceGetUuid",
    "cuDeviceGetUuid_v2",
    "cuDeviceGraphMemTrim",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxSetFlags",
    "cuDevicePrimaryCtxSetFlags_v2",
    "cuDeviceRegisterAsyncNotification",
    "cuDeviceSetGraphMemAttribute",
    "cuDeviceSetMemPool",
    "cuDeviceTotalMem",
    "cuDeviceTotalMem_v2",
    "cuDeviceUnregisterAsyncNotification",
    "cuDriverGetVersion",
    "cuEGLStreamConsumerAcquireFrame",
    "cuEGLStreamConsumerConnect",
    "cuEGLStreamConsumerConnectWithFlags",
    "cuEGLStreamConsumerDisconnect",
    "cuEGLStreamConsumerReleaseFrame",
    "cuEGLStreamProducerConnect",
    "cuEGLStreamProducerDisconnect",
    "cuEGLStreamProducerPresentFrame",
    "cuEGLStreamProducerReturnFrame",
    "cuEventCreate",
    "cuEventCreateFromEGLSync",
    "cuEventDestroy",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventRecordWithFlags_ptsz",
    "cuEventRecord_ptsz",
    "cuEventSynchronize",
    "cuExternalMemoryGetMappedBuffer",
    "cuExternalMemoryGetMappedMipmappedArray",
    "cuFabricCpyBatchAsync",
    "cuFabricCpyBatchAsync_ptsz",
    "cuFlushGPUDirectRDMAWrites",
    "cuFuncGetAttribute",
    "cuFuncGetModule",
    "cuFuncGetName",
    "cuFuncGetParamCount",
    "cuFuncGetParamInfo",
    "cuFuncIsLoaded",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuFuncSetBlockShape",
    "cuFuncSetCacheConfig",
    "cuFuncSetSharedMemConfig",
    "cuFuncSetSharedSize",
    "cuGLCtxCreate",
    "cuGLCtxCreate_v2",
    "cuGLGetDevices",
    "cuGLGetDevices_v2",
    "cuGLInit",
    "cuGLMapBufferObject",
    "cuGLMapBufferObjectAsync",
    "cuGLMapBufferObjectAsync_v2",
    "cuGLMapBufferObjectAsync_v2_ptsz",
    "cuGLMapBufferObject_v2",
    "cuGLMapBufferObject_v2_ptds",
    "cuGLRegisterBufferObject",
    "cuGLSetBufferObjectMapFlags",
    "cuGLUnmapBufferObject",
    "cuGLUnmapBufferObjectAsync",
    "cuGLUnregisterBufferObject",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddChildGraphNode",
    "cuGraphAddDependencies",
    "cuGraphAddDependencies_v2",
    "cuGraphAddEmptyNode",
    "cuGraphAddEventRecordNode",
    "cuGraphAddEventWaitNode",
    "cuGraphAddExternalSemaphoresSignalNode",
    "cuGraphAddExternalSemaphoresWaitNode",
    "cuGraphAddHostNode",
    "cuGraphAddKernelNode",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemAllocNode",
    "cuGraphAddMemFreeNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphAddNode",
    "cuGraphAddNode_v2",
    "cuGraphAddNode_v3",
    "cuGraphBatchMemOpNodeGetParams",
    "cuGraphBatchMemOpNodeSetParams",
    "cuGraphChildGraphNodeGetGraph",
    "cuGraphClone",
    "cuGraphConditionalHandleCreate",
    "cuGraphCreate",
    "cuGraphDebugDotPrint",
    "cuGraphDestroy",
    "cuGraphDestroyNode",
    "cuGraphEventRecordNodeGetEvent",
    "cuGraphEventRecordNodeSetEvent",
    "cuGraphEventWaitNodeGetEvent",
    "cuGraphEventWaitNodeSetEvent",
    "cuGraphExecBatchMemOpNodeSetParams",
    "cuGraphExecChildGraphNodeSetParams",
    "cuGraphExecDestroy",
    "cuGraphExecEventRecordNodeSetEvent",
    "cuGraphExecEventWaitNodeSetEvent",
    "cuGraphExecExternalSemaphoresSignalNodeSetParams",
    "cuGraphExecExternalSemaphoresWaitNodeSetParams",
    "cuGraphExecGetFlags",
    "cuGraphExecGetId",
    "cuGraphExecHostNodeSetParams",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphExecMemcpyNodeSetParams",
    "cuGraphExecMemsetNodeSetParams",
    "cuGraphExecNodeSetParams",
    "cuGraphExecUpdate",
    "cuGraphExecUpdate_v2",
    "cuGraphExternalSemaphoresSignalNodeGetParams",
    "cuGraphExternalSemaphoresSignalNodeSetParams",
    "cuGraphExternalSemaphoresWaitNodeGetParams",
    "cuGraphExternalSemaphoresWaitNodeSetParams",
    "cuGraphGetEdges",
    "cuGraphGetEdges_v2",
    "cuGraphGetId",
    "cuGraphGetNodes",
    "cuGraphGetRootNodes",
    "cuGraphHostNodeGetParams",
    "cuGraphHostNodeSetParams",
    "cuGraphInstantiate",
    "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
    "cuGraphInstantiate_v2",
    "cuGraphKernelNodeCopyAttributes",
    "cuGraphKernelNodeGetAttribute",
    "cuGraphKernelNodeGetParams",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeSetAttribute",
    "cuGraphKernelNodeSetParams",
    "cuGraphKernelNodeSetParams_v2",
    "cuGraphLaunch",
    "cuGraphLaunch_ptsz",
    "cuGraphMemAllocNodeGetParams",
    "cuGraphMemFreeNodeGetParams",
    "cuGraphMemcpyNodeGetParams",
    "cuGraphMemcpyNodeSetParams",
    "cuGraphMemsetNodeGetParams",
    "cuGraphMemsetNodeSetParams",
    "cuGraphNodeFindInClone",
    "cuGraphNodeGetContainingGraph",
    "cuGraphNodeGetDependencies",
    "cuGraphNodeGetDependencies_v2",
    "cuGraphNodeGetDependentNodes",
    "cuGraphNodeGetDependentNodes_v2",
    "cuGraphNodeGetEnabled",
    "cuGraphNodeGetLocalId",
    "cuGraphNodeGetParams",
    "cuGraphNodeGetToolsId",
    "cuGraphNodeGetType",
    "cuGraphNodeSetEnabled",
    "cuGraphNodeSetParams",
    "cuGraphNodeSetParams_v2",
    "cuGraphReleaseUserObject",
    "cuGraphRemoveDependencies",
    "cuGraphRemoveDependencies_v2",
    "cuGraphRetainUserObject",
    "cuGraphUpload",
    "cuGraphUpload_ptsz",
    "cuGraphicsEGLRegisterImage",
    "cuGraphicsGLRegisterBuffer",
    "cuGraphicsGLRegisterImage",
    "cuGraphicsMapResources",
    "cuGraphicsMapResources_ptsz",
    "cuGraphicsResourceGetMappedEglFrame",
    "cuGraphicsResourceGetMappedMipmappedArray",
    "cuGraphicsResourceGetMappedPointer",
    "cuGraphicsResourceGetMappedPointer_v2",
    "cuGraphicsResourceSetMapFlags",
    "cuGraphicsResourceSetMapFlags_v2",
    "cuGraphicsSubResourceGetMappedArray",
    "cuGraphicsUnmapResources",
    "cuGraphicsUnmapResources_ptsz",
    "cuGraphicsUnregisterResource",
    "cuGraphicsVDPAURegisterOutputSurface",
    "cuGraphicsVDPAURegisterVideoSurface",
    "cuGreenCtxCreate",
    "cuGreenCtxDestroy",
    "cuGreenCtxGetDevResource",
    "cuGreenCtxGetId",
    "cuGreenCtxRecordEvent",
    "cuGreenCtxStreamCreate",
    "cuGreenCtxWaitEvent",
    "cuImportExternalMemory",
    "cuImportExternalSemaphore",
    "cuInit",
    "cuIpcCloseMemHandle",
    "cuIpcGetEventHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenEventHandle",
    "cuIpcOpenMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuKernelGetAttribute",
    "cuKernelGetFunction",
    "cuKernelGetLibrary",
    "cuKernelGetName",
    "cuKernelGetParamCount",
    "cuKernelGetParamInfo",
    "cuKernelSetAttribute",
    "cuKernelSetCacheConfig",
    "cuLaunch",
    "cuLaunchCooperativeKernel",
    "cuLaunchCooperativeKernelMultiDevice",
    "cuLaunchCooperativeKernel_ptsz",
    "cuLaunchGrid",
    "cuLaunchGridAsync",
    "cuLaunchHostFunc",
    "cuLaunchHostFunc_ptsz",
    "cuLaunchHostFunc_v2",
    "cuLaunchHostFunc_v2_ptsz",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLaunchKernel_ptsz",
    "cuLibraryEnumerateKernels",
    "cuLibraryGetGlobal",
    "cuLibraryGetKernel",
    "cuLibraryGetKernelCount",
    "cuLibraryGetManaged",
    "cuLibraryGetModule",
    "cuLibraryGetUnifiedFunction",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
    "cuLibraryUnload",
    "cuLinkAddData",
    "cuLinkAddData_v2",
    "cuLinkAddFile",
    "cuLinkAddFile_v2",
    "cuLinkComplete",
    "cuLinkCreate",
    "cuLinkCreate_v2",
    "cuLinkDestroy",
    "cuLogicalEndpointAddDevice",
    "cuLogicalEndpointBindAddr",
    "cuLogicalEndpointBindMem",
    "cuLogicalEndpointCreate",
    "cuLogicalEndpointDestroy",
    "cuLogicalEndpointExport",
    "cuLogicalEndpointGetLimits",
    "cuLogicalEndpointIdRelease",
    "cuLogicalEndpointIdReserve",
    "cuLogicalEndpointImport",
    "cuLogicalEndpointQuery",
    "cuLogicalEndpointUnbind",
    "cuLogsCurrent",
    "cuLogsDumpToFile",
    "cuLogsDumpToMemory",
    "cuLogsRegisterCallback",
    "cuLogsUnregisterCallback",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAdvise",
    "cuMemAdvise_v2",
    "cuMemAlloc",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuMemAllocHost",
    "cuMemAllocHost_v2",
    "cuMemAllocManaged",
    "cuMemAllocPitch",
    "cuMemAllocPitch_v2",
    "cuMemAlloc_v2",
    "cuMemBatchDecompressAsync",
    "cuMemBatchDecompressAsync_ptsz",
    "cuMemCreate",
    "cuMemDiscardAndPrefetchBatchAsync",
    "cuMemDiscardAndPrefetchBatchAsync_ptsz",
    "cuMemDiscardBatchAsync",
    "cuMemDiscardBatchAsync_ptsz",
    "cuMemExportToShareableHandle",
    "cuMemFree",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAccess",
    "cuMemGetAddressRange",
    "cuMemGetAddressRange_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemGetDefaultMemPool",
    "cuMemGetHandleForAddressRange",
    "cuMemGetInfo",
    "cuMemGetInfo_v2",
    "cuMemGetLocationInfo",
    "cuMemGetMemPool",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer",
    "cuMemHostGetDevicePointer_v2",
    "cuMemHostGetFlags",
    "cuMemHostRegister",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemMapArrayAsync",
    "cuMemMapArrayAsync_ptsz",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolExportPointer",
    "cuMemPoolExportToShareableHandle",
    "cuMemPoolGetAccess",
    "cuMemPoolGetAttribute",
    "cuMemPoolImportFromShareableHandle",
    "cuMemPoolImportPointer",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemPrefetchAsync",
    "cuMemPrefetchAsync_ptsz",
    "cuMemPrefetchAsync_v2",
    "cuMemPrefetchAsync_v2_ptsz",
    "cuMemPrefetchBatchAsync",
    "cuMemPrefetchBatchAsync_ptsz",
    "cuMemRangeGetAttribute",
    "cuMemRangeGetAttributes",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemSetMemPool",
    "cuMemUnmap",
    "cuMemcpy",
    "cuMemcpy2D",
    "cuMemcpy2DAsync",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy2DAsync_v2_ptsz",
    "cuMemcpy2DUnaligned",
    "cuMemcpy2DUnaligned_v2",
    "cuMemcpy2DUnaligned_v2_ptds",
    "cuMemcpy2D_v2",
    "cuMemcpy2D_v2_ptds",
    "cuMemcpy3D",
    "cuMemcpy3DAsync",
    "cuMemcpy3DAsync_v2",
    "cuMemcpy3DAsync_v2_ptsz",
    "cuMemcpy3DBatchAsync",
    "cuMemcpy3DBatchAsync_ptsz",
    "cuMemcpy3DBatchAsync_v2",
    "cuMemcpy3DBatchAsync_v2_ptsz",
    "cuMemcpy3DPeer",
    "cuMemcpy3DPeerAsync",
    "cuMemcpy3DPeerAsync_ptsz",
    "cuMemcpy3DPeer_ptds",
    "cuMemcpy3DWithAttributesAsync",
    "cuMemcpy3DWithAttributesAsync_ptsz",
    "cuMemcpy3D_v2",
    "cuMemcpy3D_v2_ptds",
    "cuMemcpyAsync",
    "cuMemcpyAsync_ptsz",
    "cuMemcpyAtoA",
    "cuMemcpyAtoA_v2",
    "cuMemcpyAtoA_v2_ptds",
    "cuMemcpyAtoD",
    "cuMemcpyAtoD_v2",
    "cuMemcpyAtoD_v2_ptds",
    "cuMemcpyAtoH",
    "cuMemcpyAtoHAsync",
    "cuMemcpyAtoHAsync_v2",
    "cuMemcpyAtoHAsync_v2_ptsz",
    "cuMemcpyAtoH_v2",
    "cuMemcpyAtoH_v2_ptds",
    "cuMemcpyBatchAsync",
    "cuMemcpyBatchAsync_ptsz",
    "cuMemcpyBatchAsync_v2",
    "cuMemcpyBatchAsync_v2_ptsz",
    "cuMemcpyDtoA",
    "cuMemcpyDtoA_v2",
    "cuMemcpyDtoA_v2_ptds",
    "cuMemcpyDtoD",
    "cuMemcpyDtoDAsync",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoDAsync_v2_ptsz",
    "cuMemcpyDtoD_v2",
    "cuMemcpyDtoD_v2_ptds",
    "cuMemcpyDtoH",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoHAsync_v2_ptsz",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoH_v2_ptds",
    "cuMemcpyHtoA",
    "cuMemcpyHtoAAsync",
    "cuMemcpyHtoAAsync_v2",
    "cuMemcpyHtoAAsync_v2_ptsz",
    "cuMemcpyHtoA_v2",
    "cuMemcpyHtoA_v2_ptds",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoDAsync_v2_ptsz",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoD_v2_ptds",
    "cuMemcpyPeer",
    "cuMemcpyPeerAsync",
    "cuMemcpyPeerAsync_ptsz",
    "cuMemcpyPeer_ptds",
    "cuMemcpyWithAttributesAsync",
    "cuMemcpyWithAttributesAsync_ptsz",
    "cuMemcpy_ptds",
    "cuMemsetD16",
    "cuMemsetD16Async",
    "cuMemsetD16Async_ptsz",
    "cuMemsetD16_v2",
    "cuMemsetD16_v2_ptds",
    "cuMemsetD2D16",
    "cuMemsetD2D16Async",
    "cuMemsetD2D16Async_ptsz",
    "cuMemsetD2D16_v2",
    "cuMemsetD2D16_v2_ptds",
    "cuMemsetD2D32",
    "cuMemsetD2D32Async",
    "cuMemsetD2D32Async_ptsz",
    "cuMemsetD2D32_v2",
    "cuMemsetD2D32_v2_ptds",
    "cuMemsetD2D8",
    "cuMemsetD2D8Async",
    "cuMemsetD2D8Async_ptsz",
    "cuMemsetD2D8_v2",
    "cuMemsetD2D8_v2_ptds",
    "cuMemsetD32",
    "cuMemsetD32Async",
    "cuMemsetD32Async_ptsz",
    "cuMemsetD32_v2",
    "cuMemsetD32_v2_ptds",
    "cuMemsetD8",
    "cuMemsetD8Async",
    "cuMemsetD8Async_ptsz",
    "cuMemsetD8_v2",
    "cuMemsetD8_v2_ptds",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cuMipmappedArrayGetLevel",
    "cuMipmappedArrayGetMemoryRequirements",
    "cuMipmappedArrayGetSparseProperties",
    "cuModuleEnumerateFunctions",
    "cuModuleGetFunction",
    "cuModuleGetFunctionCount",
    "cuModuleGetGlobal",
    "cuModuleGetGlobal_v2",
    "cuModuleGetLoadingMode",
    "cuModuleGetSurfRef",
    "cuModuleGetTexRef",
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuModuleUnload",
    "cuMulticastAddDevice",
    "cuMulticastBindAddr",
    "cuMulticastBindAddr_v2",
    "cuMulticastBindMem",
    "cuMulticastBindMem_v2",
    "cuMulticastCreate",
    "cuMulticastGetGranularity",
    "cuMulticastUnbind",
    "cuOccupancyAvailableDynamicSMemPerBlock",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSize",
    "cuOccupancyMaxPotentialBlockSizeWithFlags",
    "cuOccupancyMaxPotentialClusterSize",
    "cuParamSetSize",
    "cuParamSetTexRef",
    "cuParamSetf",
    "cuParamSeti",
    "cuParamSetv",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuPointerSetAttribute",
    "cuProfilerInitialize",
    "cuProfilerStart",
    "cuProfilerStop",
    "cuSignalExternalSemaphoresAsync",
    "cuSignalExternalSemaphoresAsync_ptsz",
    "cuStreamAddCallback",
    "cuStreamAddCallback_ptsz",
    "cuStreamAttachMemAsync",
    "cuStreamAttachMemAsync_ptsz",
    "cuStreamBatchMemOp",
    "cuStreamBatchMemOp_ptsz",
    "cuStreamBatchMemOp_v2",
    "cuStreamBatchMemOp_v2_ptsz",
    "cuStreamBeginCapture",
    "cuStreamBeginCaptureToCig",
    "cuStreamBeginCaptureToCig_ptsz",
    "cuStreamBeginCaptureToGraph",
    "cuStreamBeginCaptureToGraph_ptsz",
    "cuStreamBeginCapture_ptsz",
    "cuStreamBeginCapture_v2",
    "cuStreamBeginCapture_v2_ptsz",
    "cuStreamBeginRecaptureToGraph",
    "cuStreamBeginRecaptureToGraph_ptsz",
    "cuStreamCopyAttributes",
    "cuStreamCopyAttributes_ptsz",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamEndCaptureToCig",
    "cuStreamEndCaptureToCig_ptsz",
    "cuStreamEndCapture_ptsz",
    "cuStreamGetAttribute",
    "cuStreamGetAttribute_ptsz",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCaptureInfo_ptsz",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v2_ptsz",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCaptureInfo_v3_ptsz",
    "cuStreamGetCtx",
    "cuStreamGetCtx_ptsz",
    "cuStreamGetCtx_v2",
    "cuStreamGetCtx_v2_ptsz",
    "cuStreamGetDevResource",
    "cuStreamGetDevResource_ptsz",
    "cuStreamGetDevice",
    "cuStreamGetDevice_ptsz",
    "cuStreamGetFlags",
    "cuStreamGetFlags_ptsz",
    "cuStreamGetGreenCtx",
    "cuStreamGetId",
    "cuStreamGetId_ptsz",
    "cuStreamGetPriority",
    "cuStreamGetPriority_ptsz",
    "cuStreamIsCapturing",
    "cuStreamIsCapturing_ptsz",
    "cuStreamQuery",
    "cuStreamQuery_ptsz",
    "cuStreamSetAttribute",
    "cuStreamSetAttribute_ptsz",
    "cuStreamSynchronize",
    "cuStreamSynchronize_ptsz",
    "cuStreamUpdateCaptureDependencies",
    "cuStreamUpdateCaptureDependencies_ptsz",
    "cuStreamUpdateCaptureDependencies_v2",
    "cuStreamUpdateCaptureDependencies_v2_ptsz",
    "cuStreamWaitEvent",
    "cuStreamWaitEvent_ptsz",
    "cuStreamWaitValue32",
    "cuStreamWaitValue32_ptsz",
    "cuStreamWaitValue32_v2",
    "cuStreamWaitValue32_v2_ptsz",
    "cuStreamWaitValue64",
    "cuStreamWaitValue64_ptsz",
    "cuStreamWaitValue64_v2",
    "cuStreamWaitValue64_v2_ptsz",
    "cuStreamWriteValue32",
    "cuStreamWriteValue32_ptsz",
    "cuStreamWriteValue32_v2",
    "cuStreamWriteValue32_v2_ptsz",
    "cuStreamWriteValue64",
    "cuStreamWriteValue64_ptsz",
    "cuStreamWriteValue64_v2",
    "cuStreamWriteValue64_v2_ptsz",
    "cuSurfObjectCreate",
    "cuSurfObjectDestroy",
    "cuSurfObjectGetResourceDesc",
    "cuSurfRefGetArray",
    "cuSurfRefSetArray",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeIm2colWide",
    "cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress",
    "cuTensorMapSetAllocationClass",
    "cuTexObjectCreate",
    "cuTexObjectDestroy",
    "cuTexObjectGetResourceDesc",
    "cuTexObjectGetResourceViewDesc",
    "cuTexObjectGetTextureDesc",
    "cuTexRefCreate",
    "cuTexRefDestroy",
    "cuTexRefGetAddress",
    "cuTexRefGetAddressMode",
    "cuTexRefGetAddress_v2",
    "cuTexRefGetArray",
    "cuTexRefGetBorderColor",
    "cuTexRefGetFilterMode",
    "cuTexRefGetFlags",
    "cuTexRefGetFormat",
    "cuTexRefGetMaxAnisotropy",
    "cuTexRefGetMipmapFilterMode",
    "cuTexRefGetMipmapLevelBias",
    "cuTexRefGetMipmapLevelClamp",
    "cuTexRefGetMipmappedArray",
    "cuTexRefSetAddress",
    "cuTexRefSetAddress2D",
    "cuTexRefSetAddress2D_v2",
    "cuTexRefSetAddress2D_v3",
    "cuTexRefSetAddressMode",
    "cuTexRefSetAddress_v2",
    "cuTexRefSetArray",
    "cuTexRefSetBorderColor",
    "cuTexRefSetFilterMode",
    "cuTexRefSetFlags",
    "cuTexRefSetFormat",
    "cuTexRefSetMaxAnisotropy",
    "cuTexRefSetMipmapFilterMode",
    "cuTexRefSetMipmapLevelBias",
    "cuTexRefSetMipmapLevelClamp",
    "cuTexRefSetMipmappedArray",
    "cuThreadExchangeStreamCaptureMode",
    "cuUserObjectCreate",
    "cuUserObjectRelease",
    "cuUserObjectRetain",
    "cuVDPAUCtxCreate",
    "cuVDPAUCtxCreate_v2",
    "cuVDPAUGetDevice",
    "cuWGLGetDevice",
    "cuWaitExternalSemaphoresAsync",
    "cuWaitExternalSemaphoresAsync_ptsz",
];

/// Every name and version of cuGetProcAddress, sorted by name.
pub const PROC_TABLE: &[ProcEntry] = &[
    ProcEntry { base: "cuArray3DCreate", version: 2000, per_thread: false, symbol: 0 },
    ProcEntry { base: "cuArray3DCreate", version: 3020, per_thread: false, symbol: 1 },
    ProcEntry { base: "cuArray3DGetDescriptor", version: 2000, per_thread: false, symbol: 2 },
    ProcEntry { base: "cuArray3DGetDescriptor", version: 3020, per_thread: false, symbol: 3 },
    ProcEntry { base: "cuArrayCreate", version: 2000, per_thread: false, symbol: 4 },
    ProcEntry { base: "cuArrayCreate", version: 3020, per_thread: false, symbol: 5 },
    ProcEntry { base: "cuArrayDestroy", version: 2000, per_thread: false, symbol: 6 },
    ProcEntry { base: "cuArrayGetDescriptor", version: 2000, per_thread: false, symbol: 7 },
    ProcEntry { base: "cuArrayGetDescriptor", version: 3020, per_thread: false, symbol: 8 },
    ProcEntry { base: "cuArrayGetMemoryRequirements", version: 11060, per_thread: false, symbol: 9 },
    ProcEntry { base: "cuArrayGetPlane", version: 11020, per_thread: false, symbol: 10 },
    ProcEntry { base: "cuArrayGetSparseProperties", version: 11010, per_thread: false, symbol: 11 },
    ProcEntry { base: "cuCheckpointOperationComplete", version: 13040, per_thread: false, symbol: 12 },
    ProcEntry { base: "cuCheckpointProcessCheckpoint", version: 12080, per_thread: false, symbol: 13 },
    ProcEntry { base: "cuCheckpointProcessGetRestoreThreadId", version: 12080, per_thread: false, symbol: 14 },
    ProcEntry { base: "cuCheckpointProcessGetState", version: 12080, per_thread: false, symbol: 15 },
    ProcEntry { base: "cuCheckpointProcessLock", version: 12080, per_thread: false, symbol: 16 },
    ProcEntry { base: "cuCheckpointProcessRestore", version: 12080, per_thread: false, symbol: 17 },
    ProcEntry { base: "cuCheckpointProcessUnlock", version: 12080, per_thread: false, symbol: 18 },
    ProcEntry { base: "cuCoredumpDeregisterCompleteCallback", version: 13020, per_thread: false, symbol: 19 },
    ProcEntry { base: "cuCoredumpDeregisterStartCallback", version: 13020, per_thread: false, symbol: 20 },
    ProcEntry { base: "cuCoredumpGetAttribute", version: 12010, per_thread: false, symbol: 21 },
    ProcEntry { base: "cuCoredumpGetAttributeGlobal", version: 12010, per_thread: false, symbol: 22 },
    ProcEntry { base: "cuCoredumpRegisterCompleteCallback", version: 13020, per_thread: false, symbol: 23 },
    ProcEntry { base: "cuCoredumpRegisterStartCallback", version: 13020, per_thread: false, symbol: 24 },
    ProcEntry { base: "cuCoredumpSetAttribute", version: 12010, per_thread: false, symbol: 25 },
    ProcEntry { base: "cuCoredumpSetAttributeGlobal", version: 12010, per_thread: false, symbol: 26 },
    ProcEntry { base: "cuCtxAttach", version: 2000, per_thread: false, symbol: 27 },
    ProcEntry { base: "cuCtxCreate", version: 2000, per_thread: false, symbol: 28 },
    ProcEntry { base: "cuCtxCreate", version: 3020, per_thread: false, symbol: 29 },
    ProcEntry { base: "cuCtxCreate", version: 11040, per_thread: false, symbol: 30 },
    ProcEntry { base: "cuCtxCreate", version: 12050, per_thread: false, symbol: 31 },
    ProcEntry { base: "cuCtxDestroy", version: 2000, per_thread: false, symbol: 32 },
    ProcEntry { base: "cuCtxDestroy", version: 4000, per_thread: false, symbol: 33 },
    ProcEntry { base: "cuCtxDetach", version: 2000, per_thread: false, symbol: 34 },
    ProcEntry { base: "cuCtxDisablePeerAccess", version: 4000, per_thread: false, symbol: 35 },
    ProcEntry { base: "cuCtxEnablePeerAccess", version: 4000, per_thread: false, symbol: 36 },
    ProcEntry { base: "cuCtxFromGreenCtx", version: 12040, per_thread: false, symbol: 37 },
    ProcEntry { base: "cuCtxGetApiVersion", version: 3020, per_thread: false, symbol: 38 },
    ProcEntry { base: "cuCtxGetCacheConfig", version: 3020, per_thread: false, symbol: 39 },
    ProcEntry { base: "cuCtxGetCurrent", version: 4000, per_thread: false, symbol: 40 },
    ProcEntry { base: "cuCtxGetDevResource", version: 12040, per_thread: false, symbol: 41 },
    ProcEntry { base: "cuCtxGetDevice", version: 2000, per_thread: false, symbol: 42 },
    ProcEntry { base: "cuCtxGetDevice", version: 13000, per_thread: false, symbol: 43 },
    ProcEntry { base: "cuCtxGetExecAffinity", version: 11040, per_thread: false, symbol: 44 },
    ProcEntry { base: "cuCtxGetFlags", version: 7000, per_thread: false, symbol: 45 },
    ProcEntry { base: "cuCtxGetId", version: 12000, per_thread: false, symbol: 46 },
    ProcEntry { base: "cuCtxGetLimit", version: 3010, per_thread: false, symbol: 47 },
    ProcEntry { base: "cuCtxGetSharedMemConfig", version: 4020, per_thread: false, symbol: 48 },
    ProcEntry { base: "cuCtxGetStreamPriorityRange", version: 5050, per_thread: false, symbol: 49 },
    ProcEntry { base: "cuCtxPopCurrent", version: 2000, per_thread: false, symbol: 50 },
    ProcEntry { base: "cuCtxPopCurrent", version: 4000, per_thread: false, symbol: 51 },
    ProcEntry { base: "cuCtxPushCurrent", version: 2000, per_thread: false, symbol: 52 },
    ProcEntry { base: "cuCtxPushCurrent", version: 4000, per_thread: false, symbol: 53 },
    ProcEntry { base: "cuCtxRecordEvent", version: 12050, per_thread: false, symbol: 54 },
    ProcEntry { base: "cuCtxResetPersistingL2Cache", version: 11000, per_thread: false, symbol: 55 },
    ProcEntry { base: "cuCtxSetCacheConfig", version: 3020, per_thread: false, symbol: 56 },
    ProcEntry { base: "cuCtxSetCurrent", version: 4000, per_thread: false, symbol: 57 },
    ProcEntry { base: "cuCtxSetFlags", version: 12010, per_thread: false, symbol: 58 },
    ProcEntry { base: "cuCtxSetLimit", version: 3010, per_thread: false, symbol: 59 },
    ProcEntry { base: "cuCtxSetSharedMemConfig", version: 4020, per_thread: false, symbol: 60 },
    ProcEntry { base: "cuCtxSynchronize", version: 2000, per_thread: false, symbol: 61 },
    ProcEntry { base: "cuCtxSynchronize", version: 13000, per_thread: false, symbol: 62 },
    ProcEntry { base: "cuCtxWaitEvent", version: 12050, per_thread: false, symbol: 63 },
    ProcEntry { base: "cuDestroyExternalMemory", version: 10000, per_thread: false, symbol: 64 },
    ProcEntry { base: "cuDestroyExternalSemaphore", version: 10000, per_thread: false, symbol: 65 },
    ProcEntry { base: "cuDevResourceGenerateDesc", version: 12040, per_thread: false, symbol: 66 },
    ProcEntry { base: "cuDevSmResourceSplit", version: 13010, per_thread: false, symbol: 67 },
    ProcEntry { base: "cuDevSmResourceSplitByCount", version: 12040, per_thread: false, symbol: 68 },
    ProcEntry { base: "cuDeviceCanAccessPeer", version: 4000, per_thread: false, symbol: 69 },
    ProcEntry { base: "cuDeviceComputeCapability", version: 2000, per_thread: false, symbol: 70 },
    ProcEntry { base: "cuDeviceGet", version: 2000, per_thread: false, symbol: 71 },
    ProcEntry { base: "cuDeviceGetAttribute", version: 2000, per_thread: false, symbol: 72 },
    ProcEntry { base: "cuDeviceGetByPCIBusId", version: 4010, per_thread: false, symbol: 73 },
    ProcEntry { base: "cuDeviceGetCliqueCount", version: 13040, per_thread: false, symbol: 74 },
    ProcEntry { base: "cuDeviceGetCliqueInfo", version: 13040, per_thread: false, symbol: 75 },
    ProcEntry { base: "cuDeviceGetCount", version: 2000, per_thread: false, symbol: 76 },
    ProcEntry { base: "cuDeviceGetDefaultMemPool", version: 11020, per_thread: false, symbol: 77 },
    ProcEntry { base: "cuDeviceGetDevResource", version: 12040, per_thread: false, symbol: 78 },
    ProcEntry { base: "cuDeviceGetExecAffinitySupport", version: 11040, per_thread: false, symbol: 79 },
    ProcEntry { base: "cuDeviceGetFabricClusterUuid", version: 13040, per_thread: false, symbol: 80 },
    ProcEntry { base: "cuDeviceGetGraphMemAttribute", version: 11040, per_thread: false, symbol: 81 },
    ProcEntry { base: "cuDeviceGetHostAtomicCapabilities", version: 13000, per_thread: false, symbol: 82 },
    ProcEntry { base: "cuDeviceGetLuid", version: 10000, per_thread: false, symbol: 83 },
    ProcEntry { base: "cuDeviceGetMemPool", version: 11020, per_thread: false, symbol: 84 },
    ProcEntry { base: "cuDeviceGetName", version: 2000, per_thread: false, symbol: 85 },
    ProcEntry { base: "cuDeviceGetNvSciSyncAttributes", version: 10020, per_thread: false, symbol: 86 },
    ProcEntry { base: "cuDeviceGetP2PAtomicCapabilities", version: 13000, per_thread: false, symbol: 87 },
    ProcEntry { base: "cuDeviceGetP2PAttribute", version: 8000, per_thread: false, symbol: 88 },
    ProcEntry { base: "cuDeviceGetPCIBusId", version: 4010, per_thread: false, symbol: 89 },
    ProcEntry { base: "cuDeviceGetProperties", version: 2000, per_thread: false, symbol: 90 },
    ProcEntry { base: "cuDeviceGetTexture1DLinearMaxWidth", version: 11010, per_thread: false, symbol: 91 },
    ProcEntry { base: "cuDeviceGetUuid", version: 9020, per_thread: false, symbol: 92 },
    ProcEntry { base: "cuDeviceGetUuid", version: 11040, per_thread: false, symbol: 93 },
    ProcEntry { base: "cuDeviceGraphMemTrim", version: 11040, per_thread: false, symbol: 94 },
    ProcEntry { base: "cuDevicePrimaryCtxGetState", version: 7000, per_thread: false, symbol: 95 },
    ProcEntry { base: "cuDevicePrimaryCtxRelease", version: 7000, per_thread: false, symbol: 96 },
    ProcEntry { base: "cuDevicePrimaryCtxRelease", version: 11000, per_thread: false, symbol: 97 },
    ProcEntry { base: "cuDevicePrimaryCtxReset", version: 7000, per_thread: false, symbol: 98 },
    ProcEntry { base: "cuDevicePrimaryCtxReset", version: 11000, per_thread: false, symbol: 99 },
    ProcEntry { base: "cuDevicePrimaryCtxRetain", version: 7000, per_thread: false, symbol: 100 },
    ProcEntry { base: "cuDevicePrimaryCtxSetFlags", version: 7000, per_thread: false, symbol: 101 },
    ProcEntry { base: "cuDevicePrimaryCtxSetFlags", version: 11000, per_thread: false, symbol: 102 },
    ProcEntry { base: "cuDeviceRegisterAsyncNotification", version: 12040, per_thread: false, symbol: 103 },
    ProcEntry { base: "cuDeviceSetGraphMemAttribute", version: 11040, per_thread: false, symbol: 104 },
    ProcEntry { base: "cuDeviceSetMemPool", version: 11020, per_thread: false, symbol: 105 },
    ProcEntry { base: "cuDeviceTotalMem", version: 2000, per_thread: false, symbol: 106 },
    ProcEntry { base: "cuDeviceTotalMem", version: 3020, per_thread: false, symbol: 107 },
    ProcEntry { base: "cuDeviceUnregisterAsyncNotification", version: 12040, per_thread: false, symbol: 108 },
    ProcEntry { base: "cuDriverGetVersion", version: 2020, per_thread: false, symbol: 109 },
    ProcEntry { base: "cuEGLStreamConsumerAcquireFrame", version: 7000, per_thread: false, symbol: 110 },
    ProcEntry { base: "cuEGLStreamConsumerConnect", version: 7000, per_thread: false, symbol: 111 },
    ProcEntry { base: "cuEGLStreamConsumerConnectWithFlags", version: 8000, per_thread: false, symbol: 112 },
    ProcEntry { base: "cuEGLStreamConsumerDisconnect", version: 7000, per_thread: false, symbol: 113 },
    ProcEntry { base: "cuEGLStreamConsumerReleaseFrame", version: 7000, per_thread: false, symbol: 114 },
    ProcEntry { base: "cuEGLStreamProducerConnect", version: 7000, per_thread: false, symbol: 115 },
    ProcEntry { base: "cuEGLStreamProducerDisconnect", version: 7000, per_thread: false, symbol: 116 },
    ProcEntry { base: "cuEGLStreamProducerPresentFrame", version: 7000, per_thread: false, symbol: 117 },
    ProcEntry { base: "cuEGLStreamProducerReturnFrame", version: 7000, per_thread: false, symbol: 118 },
    ProcEntry { base: "cuEventCreate", version: 2000, per_thread: false, symbol: 119 },
    ProcEntry { base: "cuEventCreateFromEGLSync", version: 9000, per_thread: false, symbol: 120 },
    ProcEntry { base: "cuEventDestroy", version: 2000, per_thread: false, symbol: 121 },
    ProcEntry { base: "cuEventDestroy", version: 4000, per_thread: false, symbol: 122 },
    ProcEntry { base: "cuEventElapsedTime", version: 2000, per_thread: false, symbol: 123 },
    ProcEntry { base: "cuEventElapsedTime", version: 12080, per_thread: false, symbol: 124 },
    ProcEntry { base: "cuEventQuery", version: 2000, per_thread: false, symbol: 125 },
    ProcEntry { base: "cuEventRecord", version: 2000, per_thread: false, symbol: 126 },
    ProcEntry { base: "cuEventRecord", version: 7000, per_thread: true, symbol: 129 },
    ProcEntry { base: "cuEventRecordWithFlags", version: 11010, per_thread: false, symbol: 127 },
    ProcEntry { base: "cuEventRecordWithFlags", version: 11010, per_thread: true, symbol: 128 },
    ProcEntry { base: "cuEventSynchronize", version: 2000, per_thread: false, symbol: 130 },
    ProcEntry { base: "cuExternalMemoryGetMappedBuffer", version: 10000, per_thread: false, symbol: 131 },
    ProcEntry { base: "cuExternalMemoryGetMappedMipmappedArray", version: 10000, per_thread: false, symbol: 132 },
    ProcEntry { base: "cuFabricCpyBatchAsync", version: 13050, per_thread: false, symbol: 133 },
    ProcEntry { base: "cuFabricCpyBatchAsync", version: 13050, per_thread: true, symbol: 134 },
    ProcEntry { base: "cuFlushGPUDirectRDMAWrites", version: 11030, per_thread: false, symbol: 135 },
    ProcEntry { base: "cuFuncGetAttribute", version: 2020, per_thread: false, symbol: 136 },
    ProcEntry { base: "cuFuncGetModule", version: 11000, per_thread: false, symbol: 137 },
    ProcEntry { base: "cuFuncGetName", version: 12030, per_thread: false, symbol: 138 },
    ProcEntry { base: "cuFuncGetParamCount", version: 13020, per_thread: false, symbol: 139 },
    ProcEntry { base: "cuFuncGetParamInfo", version: 12040, per_thread: false, symbol: 140 },
    ProcEntry { base: "cuFuncIsLoaded", version: 12040, per_thread: false, symbol: 141 },
    ProcEntry { base: "cuFuncLoad", version: 12040, per_thread: false, symbol: 142 },
    ProcEntry { base: "cuFuncSetAttribute", version: 9000, per_thread: false, symbol: 143 },
    ProcEntry { base: "cuFuncSetBlockShape", version: 2000, per_thread: false, symbol: 144 },
    ProcEntry { base: "cuFuncSetCacheConfig", version: 3000, per_thread: false, symbol: 145 },
    ProcEntry { base: "cuFuncSetSharedMemConfig", version: 4020, per_thread: false, symbol: 146 },
    ProcEntry { base: "cuFuncSetSharedSize", version: 2000, per_thread: false, symbol: 147 },
    ProcEntry { base: "cuGLCtxCreate", version: 2000, per_thread: false, symbol: 148 },
    ProcEntry { base: "cuGLCtxCreate", version: 3020, per_thread: false, symbol: 149 },
    ProcEntry { base: "cuGLGetDevices", version: 4010, per_thread: false, symbol: 150 },
    ProcEntry { base: "cuGLGetDevices", version: 6050, per_thread: false, symbol: 151 },
    ProcEntry { base: "cuGLInit", version: 2000, per_thread: false, symbol: 152 },
    ProcEntry { base: "cuGLMapBufferObject", version: 2000, per_thread: false, symbol: 153 },
    ProcEntry { base: "cuGLMapBufferObject", version: 3020, per_thread: false, symbol: 157 },
    ProcEntry { base: "cuGLMapBufferObject", version: 7000, per_thread: true, symbol: 158 },
    ProcEntry { base: "cuGLMapBufferObjectAsync", version: 2030, per_thread: false, symbol: 154 },
    ProcEntry { base: "cuGLMapBufferObjectAsync", version: 3020, per_thread: false, symbol: 155 },
    ProcEntry { base: "cuGLMapBufferObjectAsync", version: 7000, per_thread: true, symbol: 156 },
    ProcEntry { base: "cuGLRegisterBufferObject", version: 2000, per_thread: false, symbol: 159 },
    ProcEntry { base: "cuGLSetBufferObjectMapFlags", version: 2030, per_thread: false, symbol: 160 },
    ProcEntry { base: "cuGLUnmapBufferObject", version: 2000, per_thread: false, symbol: 161 },
    ProcEntry { base: "cuGLUnmapBufferObjectAsync", version: 2030, per_thread: false, symbol: 162 },
    ProcEntry { base: "cuGLUnregisterBufferObject", version: 2000, per_thread: false, symbol: 163 },
    ProcEntry { base: "cuGetErrorName", version: 6000, per_thread: false, symbol: 164 },
    ProcEntry { base: "cuGetErrorString", version: 6000, per_thread: false, symbol: 165 },
    ProcEntry { base: "cuGetExportTable", version: 3000, per_thread: false, symbol: 166 },
    ProcEntry { base: "cuGetProcAddress", version: 11030, per_thread: false, symbol: 167 },
    ProcEntry { base: "cuGetProcAddress", version: 12000, per_thread: false, symbol: 168 },
    ProcEntry { base: "cuGraphAddBatchMemOpNode", version: 11070, per_thread: false, symbol: 169 },
    ProcEntry { base: "cuGraphAddChildGraphNode", version: 10000, per_thread: false, symbol: 170 },
    ProcEntry { base: "cuGraphAddDependencies", version: 10000, per_thread: false, symbol: 171 },
    ProcEntry { base: "cuGraphAddDependencies", version: 12030, per_thread: false, symbol: 172 },
    ProcEntry { base: "cuGraphAddEmptyNode", version: 10000, per_thread: false, symbol: 173 },
    ProcEntry { base: "cuGraphAddEventRecordNode", version: 11010, per_thread: false, symbol: 174 },
    ProcEntry { base: "cuGraphAddEventWaitNode", version: 11010, per_thread: false, symbol: 175 },
    ProcEntry { base: "cuGraphAddExternalSemaphoresSignalNode", version: 11020, per_thread: false, symbol: 176 },
    ProcEntry { base: "cuGraphAddExternalSemaphoresWaitNode", version: 11020, per_thread: false, symbol: 177 },
    ProcEntry { base: "cuGraphAddHostNode", version: 10000, per_thread: false, symbol: 178 },
    ProcEntry { base: "cuGraphAddKernelNode", version: 10000, per_thread: false, symbol: 179 },
    ProcEntry { base: "cuGraphAddKernelNode", version: 12000, per_thread: false, symbol: 180 },
    ProcEntry { base: "cuGraphAddMemAllocNode", version: 11040, per_thread: false, symbol: 181 },
    ProcEntry { base: "cuGraphAddMemFreeNode", version: 11040, per_thread: false, symbol: 182 },
    ProcEntry { base: "cuGraphAddMemcpyNode", version: 10000, per_thread: false, symbol: 183 },
    ProcEntry { base: "cuGraphAddMemsetNode", version: 10000, per_thread: false, symbol: 184 },
    ProcEntry { base: "cuGraphAddNode", version: 12020, per_thread: false, symbol: 185 },
    ProcEntry { base: "cuGraphAddNode", version: 12030, per_thread: false, symbol: 186 },
    ProcEntry { base: "cuGraphAddNode", version: 13040, per_thread: false, symbol: 187 },
    ProcEntry { base: "cuGraphBatchMemOpNodeGetParams", version: 11070, per_thread: false, symbol: 188 },
    ProcEntry { base: "cuGraphBatchMemOpNodeSetParams", version: 11070, per_thread: false, symbol: 189 },
    ProcEntry { base: "cuGraphChildGraphNodeGetGraph", version: 10000, per_thread: false, symbol: 190 },
    ProcEntry { base: "cuGraphClone", version: 10000, per_thread: false, symbol: 191 },
    ProcEntry { base: "cuGraphConditionalHandleCreate", version: 12030, per_thread: false, symbol: 192 },
    ProcEntry { base: "cuGraphCreate", version: 10000, per_thread: false, symbol: 193 },
    ProcEntry { base: "cuGraphDebugDotPrint", version: 11030, per_thread: false, symbol: 194 },
    ProcEntry { base: "cuGraphDestroy", version: 10000, per_thread: false, symbol: 195 },
    ProcEntry { base: "cuGraphDestroyNode", version: 10000, per_thread: false, symbol: 196 },
    ProcEntry { base: "cuGraphEventRecordNodeGetEvent", version: 11010, per_thread: false, symbol: 197 },
    ProcEntry { base: "cuGraphEventRecordNodeSetEvent", version: 11010, per_thread: false, symbol: 198 },
    ProcEntry { base: "cuGraphEventWaitNodeGetEvent", version: 11010, per_thread: false, symbol: 199 },
    ProcEntry { base: "cuGraphEventWaitNodeSetEvent", version: 11010, per_thread: false, symbol: 200 },
    ProcEntry { base: "cuGraphExecBatchMemOpNodeSetParams", version: 11070, per_thread: false, symbol: 201 },
    ProcEntry { base: "cuGraphExecChildGraphNodeSetParams", version: 11010, per_thread: false, symbol: 202 },
    ProcEntry { base: "cuGraphExecDestroy", version: 10000, per_thread: false, symbol: 203 },
    ProcEntry { base: "cuGraphExecEventRecordNodeSetEvent", version: 11010, per_thread: false, symbol: 204 },
    ProcEntry { base: "cuGraphExecEventWaitNodeSetEvent", version: 11010, per_thread: false, symbol: 205 },
    ProcEntry { base: "cuGraphExecExternalSemaphoresSignalNodeSetParams", version: 11020, per_thread: false, symbol: 206 },
    ProcEntry { base: "cuGraphExecExternalSemaphoresWaitNodeSetParams", version: 11020, per_thread: false, symbol: 207 },
    ProcEntry { base: "cuGraphExecGetFlags", version: 12000, per_thread: false, symbol: 208 },
    ProcEntry { base: "cuGraphExecGetId", version: 13010, per_thread: false, symbol: 209 },
    ProcEntry { base: "cuGraphExecHostNodeSetParams", version: 10020, per_thread: false, symbol: 210 },
    ProcEntry { base: "cuGraphExecKernelNodeSetParams", version: 10010, per_thread: false, symbol: 211 },
    ProcEntry { base: "cuGraphExecKernelNodeSetParams", version: 12000, per_thread: false, symbol: 212 },
    ProcEntry { base: "cuGraphExecMemcpyNodeSetParams", version: 10020, per_thread: false, symbol: 213 },
    ProcEntry { base: "cuGraphExecMemsetNodeSetParams", version: 10020, per_thread: false, symbol: 214 },
    ProcEntry { base: "cuGraphExecNodeSetParams", version: 12020, per_thread: false, symbol: 215 },
    ProcEntry { base: "cuGraphExecUpdate", version: 10020, per_thread: false, symbol: 216 },
    ProcEntry { base: "cuGraphExecUpdate", version: 12000, per_thread: false, symbol: 217 },
    ProcEntry { base: "cuGraphExternalSemaphoresSignalNodeGetParams", version: 11020, per_thread: false, symbol: 218 },
    ProcEntry { base: "cuGraphExternalSemaphoresSignalNodeSetParams", version: 11020, per_thread: false, symbol: 219 },
    ProcEntry { base: "cuGraphExternalSemaphoresWaitNodeGetParams", version: 11020, per_thread: false, symbol: 220 },
    ProcEntry { base: "cuGraphExternalSemaphoresWaitNodeSetParams", version: 11020, per_thread: false, symbol: 221 },
    ProcEntry { base: "cuGraphGetEdges", version: 10000, per_thread: false, symbol: 222 },
    ProcEntry { base: "cuGraphGetEdges", version: 12030, per_thread: false, symbol: 223 },
    ProcEntry { base: "cuGraphGetId", version: 13010, per_thread: false, symbol: 224 },
    ProcEntry { base: "cuGraphGetNodes", version: 10000, per_thread: false, symbol: 225 },
    ProcEntry { base: "cuGraphGetRootNodes", version: 10000, per_thread: false, symbol: 226 },
    ProcEntry { base: "cuGraphHostNodeGetParams", version: 10000, per_thread: false, symbol: 227 },
    ProcEntry { base: "cuGraphHostNodeSetParams", version: 10000, per_thread: false, symbol: 228 },
    ProcEntry { base: "cuGraphInstantiate", version: 10000, per_thread: false, symbol: 229 },
    ProcEntry { base: "cuGraphInstantiate", version: 11000, per_thread: false, symbol: 233 },
    ProcEntry { base: "cuGraphInstantiateWithFlags", version: 11040, per_thread: false, symbol: 230 },
    ProcEntry { base: "cuGraphInstantiateWithParams", version: 12000, per_thread: false, symbol: 231 },
    ProcEntry { base: "cuGraphInstantiateWithParams", version: 12000, per_thread: true, symbol: 232 },
    ProcEntry { base: "cuGraphKernelNodeCopyAttributes", version: 11000, per_thread: false, symbol: 234 },
    ProcEntry { base: "cuGraphKernelNodeGetAttribute", version: 11000, per_thread: false, symbol: 235 },
    ProcEntry { base: "cuGraphKernelNodeGetParams", version: 10000, per_thread: false, symbol: 236 },
    ProcEntry { base: "cuGraphKernelNodeGetParams", version: 12000, per_thread: false, symbol: 237 },
    ProcEntry { base: "cuGraphKernelNodeSetAttribute", version: 11000, per_thread: false, symbol: 238 },
    ProcEntry { base: "cuGraphKernelNodeSetParams", version: 10000, per_thread: false, symbol: 239 },
    ProcEntry { base: "cuGraphKernelNodeSetParams", version: 12000, per_thread: false, symbol: 240 },
    ProcEntry { base: "cuGraphLaunch", version: 10000, per_thread: false, symbol: 241 },
    ProcEntry { base: "cuGraphLaunch", version: 10000, per_thread: true, symbol: 242 },
    ProcEntry { base: "cuGraphMemAllocNodeGetParams", version: 11040, per_thread: false, symbol: 243 },
    ProcEntry { base: "cuGraphMemFreeNodeGetParams", version: 11040, per_thread: false, symbol: 244 },
    ProcEntry { base: "cuGraphMemcpyNodeGetParams", version: 10000, per_thread: false, symbol: 245 },
    ProcEntry { base: "cuGraphMemcpyNodeSetParams", version: 10000, per_thread: false, symbol: 246 },
    ProcEntry { base: "cuGraphMemsetNodeGetParams", version: 10000, per_thread: false, symbol: 247 },
    ProcEntry { base: "cuGraphMemsetNodeSetParams", version: 10000, per_thread: false, symbol: 248 },
    ProcEntry { base: "cuGraphNodeFindInClone", version: 10000, per_thread: false, symbol: 249 },
    ProcEntry { base: "cuGraphNodeGetContainingGraph", version: 13010, per_thread: false, symbol: 250 },
    ProcEntry { base: "cuGraphNodeGetDependencies", version: 10000, per_thread: false, symbol: 251 },
    ProcEntry { base: "cuGraphNodeGetDependencies", version: 12030, per_thread: false, symbol: 252 },
    ProcEntry { base: "cuGraphNodeGetDependentNodes", version: 10000, per_thread: false, symbol: 253 },
    ProcEntry { base: "cuGraphNodeGetDependentNodes", version: 12030, per_thread: false, symbol: 254 },
    ProcEntry { base: "cuGraphNodeGetEnabled", version: 11060, per_thread: false, symbol: 255 },
    ProcEntry { base: "cuGraphNodeGetLocalId", version: 13010, per_thread: false, symbol: 256 },
    ProcEntry { base: "cuGraphNodeGetParams", version: 13020, per_thread: false, symbol: 257 },
    ProcEntry { base: "cuGraphNodeGetToolsId", version: 13010, per_thread: false, symbol: 258 },
    ProcEntry { base: "cuGraphNodeGetType", version: 10000, per_thread: false, symbol: 259 },
    ProcEntry { base: "cuGraphNodeSetEnabled", version: 11060, per_thread: false, symbol: 260 },
    ProcEntry { base: "cuGraphNodeSetParams", version: 12020, per_thread: false, symbol: 261 },
    ProcEntry { base: "cuGraphNodeSetParams", version: 13040, per_thread: false, symbol: 262 },
    ProcEntry { base: "cuGraphReleaseUserObject", version: 11030, per_thread: false, symbol: 263 },
    ProcEntry { base: "cuGraphRemoveDependencies", version: 10000, per_thread: false, symbol: 264 },
    ProcEntry { base: "cuGraphRemoveDependencies", version: 12030, per_thread: false, symbol: 265 },
    ProcEntry { base: "cuGraphRetainUserObject", version: 11030, per_thread: false, symbol: 266 },
    ProcEntry { base: "cuGraphUpload", version: 11010, per_thread: false, symbol: 267 },
    ProcEntry { base: "cuGraphUpload", version: 11010, per_thread: true, symbol: 268 },
    ProcEntry { base: "cuGraphicsEGLRegisterImage", version: 7000, per_thread: false, symbol: 269 },
    ProcEntry { base: "cuGraphicsGLRegisterBuffer", version: 3000, per_thread: false, symbol: 270 },
    ProcEntry { base: "cuGraphicsGLRegisterImage", version: 3000, per_thread: false, symbol: 271 },
    ProcEntry { base: "cuGraphicsMapResources", version: 3000, per_thread: false, symbol: 272 },
    ProcEntry { base: "cuGraphicsMapResources", version: 7000, per_thread: true, symbol: 273 },
    ProcEntry { base: "cuGraphicsResourceGetMappedEglFrame", version: 7000, per_thread: false, symbol: 274 },
    ProcEntry { base: "cuGraphicsResourceGetMappedMipmappedArray", version: 5000, per_thread: false, symbol: 275 },
    ProcEntry { base: "cuGraphicsResourceGetMappedPointer", version: 3000, per_thread: false, symbol: 276 },
    ProcEntry { base: "cuGraphicsResourceGetMappedPointer", version: 3020, per_thread: false, symbol: 277 },
    ProcEntry { base: "cuGraphicsResourceSetMapFlags", version: 3000, per_thread: false, symbol: 278 },
    ProcEntry { base: "cuGraphicsResourceSetMapFlags", version: 6050, per_thread: false, symbol: 279 },
    ProcEntry { base: "cuGraphicsSubResourceGetMappedArray", version: 3000, per_thread: false, symbol: 280 },
    ProcEntry { base: "cuGraphicsUnmapResources", version: 3000, per_thread: false, symbol: 281 },
    ProcEntry { base: "cuGraphicsUnmapResources", version: 7000, per_thread: true, symbol: 282 },
    ProcEntry { base: "cuGraphicsUnregisterResource", version: 3000, per_thread: false, symbol: 283 },
    ProcEntry { base: "cuGraphicsVDPAURegisterOutputSurface", version: 3010, per_thread: false, symbol: 284 },
    ProcEntry { base: "cuGraphicsVDPAURegisterVideoSurface", version: 3010, per_thread: false, symbol: 285 },
    ProcEntry { base: "cuGreenCtxCreate", version: 12040, per_thread: false, symbol: 286 },
    ProcEntry { base: "cuGreenCtxDestroy", version: 12040, per_thread: false, symbol: 287 },
    ProcEntry { base: "cuGreenCtxGetDevResource", version: 12040, per_thread: false, symbol: 288 },
    ProcEntry { base: "cuGreenCtxGetId", version: 12090, per_thread: false, symbol: 289 },
    ProcEntry { base: "cuGreenCtxRecordEvent", version: 12040, per_thread: false, symbol: 290 },
    ProcEntry { base: "cuGreenCtxStreamCreate", version: 12050, per_thread: false, symbol: 291 },
    ProcEntry { base: "cuGreenCtxWaitEvent", version: 12040, per_thread: false, symbol: 292 },
    ProcEntry { base: "cuImportExternalMemory", version: 10000, per_thread: false, symbol: 293 },
    ProcEntry { base: "cuImportExternalSemaphore", version: 10000, per_thread: false, symbol: 294 },
    ProcEntry { base: "cuInit", version: 2000, per_thread: false, symbol: 295 },
    ProcEntry { base: "cuIpcCloseMemHandle", version: 4010, per_thread: false, symbol: 296 },
    ProcEntry { base: "cuIpcGetEventHandle", version: 4010, per_thread: false, symbol: 297 },
    ProcEntry { base: "cuIpcGetMemHandle", version: 4010, per_thread: false, symbol: 298 },
    ProcEntry { base: "cuIpcOpenEventHandle", version: 4010, per_thread: false, symbol: 299 },
    ProcEntry { base: "cuIpcOpenMemHandle", version: 4010, per_thread: false, symbol: 300 },
    ProcEntry { base: "cuIpcOpenMemHandle", version: 11000, per_thread: false, symbol: 301 },
    ProcEntry { base: "cuKernelGetAttribute", version: 12000, per_thread: false, symbol: 302 },
    ProcEntry { base: "cuKernelGetFunction", version: 12000, per_thread: false, symbol: 303 },
    ProcEntry { base: "cuKernelGetLibrary", version: 12050, per_thread: false, symbol: 304 },
    ProcEntry { base: "cuKernelGetName", version: 12030, per_thread: false, symbol: 305 },
    ProcEntry { base: "cuKernelGetParamCount", version: 13020, per_thread: false, symbol: 306 },
    ProcEntry { base: "cuKernelGetParamInfo", version: 12040, per_thread: false, symbol: 307 },
    ProcEntry { base: "cuKernelSetAttribute", version: 12000, per_thread: false, symbol: 308 },
    ProcEntry { base: "cuKernelSetCacheConfig", version: 12000, per_thread: false, symbol: 309 },
    ProcEntry { base: "cuLaunch", version: 2000, per_thread: false, symbol: 310 },
    ProcEntry { base: "cuLaunchCooperativeKernel", version: 9000, per_thread: false, symbol: 311 },
    ProcEntry { base: "cuLaunchCooperativeKernel", version: 9000, per_thread: true, symbol: 313 },
    ProcEntry { base: "cuLaunchCooperativeKernelMultiDevice", version: 9000, per_thread: false, symbol: 312 },
    ProcEntry { base: "cuLaunchGrid", version: 2000, per_thread: false, symbol: 314 },
    ProcEntry { base: "cuLaunchGridAsync", version: 2000, per_thread: false, symbol: 315 },
    ProcEntry { base: "cuLaunchHostFunc", version: 10000, per_thread: false, symbol: 316 },
    ProcEntry { base: "cuLaunchHostFunc", version: 10000, per_thread: true, symbol: 317 },
    ProcEntry { base: "cuLaunchHostFunc", version: 13010, per_thread: false, symbol: 318 },
    ProcEntry { base: "cuLaunchHostFunc", version: 13010, per_thread: true, symbol: 319 },
    ProcEntry { base: "cuLaunchKernel", version: 4000, per_thread: false, symbol: 320 },
    ProcEntry { base: "cuLaunchKernel", version: 7000, per_thread: true, symbol: 323 },
    ProcEntry { base: "cuLaunchKernelEx", version: 11060, per_thread: false, symbol: 321 },
    ProcEntry { base: "cuLaunchKernelEx", version: 11060, per_thread: true, symbol: 322 },
    ProcEntry { base: "cuLibraryEnumerateKernels", version: 12040, per_thread: false, symbol: 324 },
    ProcEntry { base: "cuLibraryGetGlobal", version: 12000, per_thread: false, symbol: 325 },
    ProcEntry { base: "cuLibraryGetKernel", version: 12000, per_thread: false, symbol: 326 },
    ProcEntry { base: "cuLibraryGetKernelCount", version: 12040, per_thread: false, symbol: 327 },
    ProcEntry { base: "cuLibraryGetManaged", version: 12000, per_thread: false, symbol: 328 },
    ProcEntry { base: "cuLibraryGetModule", version: 12000, per_thread: false, symbol: 329 },
    ProcEntry { base: "cuLibraryGetUnifiedFunction", version: 12000, per_thread: false, symbol: 330 },
    ProcEntry { base: "cuLibraryLoadData", version: 12000, per_thread: false, symbol: 331 },
    ProcEntry { base: "cuLibraryLoadFromFile", version: 12000, per_thread: false, symbol: 332 },
    ProcEntry { base: "cuLibraryUnload", version: 12000, per_thread: false, symbol: 333 },
    ProcEntry { base: "cuLinkAddData", version: 5050, per_thread: false, symbol: 334 },
    ProcEntry { base: "cuLinkAddData", version: 6050, per_thread: false, symbol: 335 },
    ProcEntry { base: "cuLinkAddFile", version: 5050, per_thread: false, symbol: 336 },
    ProcEntry { base: "cuLinkAddFile", version: 6050, per_thread: false, symbol: 337 },
    ProcEntry { base: "cuLinkComplete", version: 5050, per_thread: false, symbol: 338 },
    ProcEntry { base: "cuLinkCreate", version: 5050, per_thread: false, symbol: 339 },
    ProcEntry { base: "cuLinkCreate", version: 6050, per_thread: false, symbol: 340 },
    ProcEntry { base: "cuLinkDestroy", version: 5050, per_thread: false, symbol: 341 },
    ProcEntry { base: "cuLogicalEndpointAddDevice", version: 13030, per_thread: false, symbol: 342 },
    ProcEntry { base: "cuLogicalEndpointBindAddr", version: 13030, per_thread: false, symbol: 343 },
    ProcEntry { base: "cuLogicalEndpointBindMem", version: 13030, per_thread: false, symbol: 344 },
    ProcEntry { base: "cuLogicalEndpointCreate", version: 13030, per_thread: false, symbol: 345 },
    ProcEntry { base: "cuLogicalEndpointDestroy", version: 13030, per_thread: false, symbol: 346 },
    ProcEntry { base: "cuLogicalEndpointExport", version: 13030, per_thread: false, symbol: 347 },
    ProcEntry { base: "cuLogicalEndpointGetLimits", version: 13030, per_thread: false, symbol: 348 },
    ProcEntry { base: "cuLogicalEndpointIdRelease", version: 13030, per_thread: false, symbol: 349 },
    ProcEntry { base: "cuLogicalEndpointIdReserve", version: 13030, per_thread: false, symbol: 350 },
    ProcEntry { base: "cuLogicalEndpointImport", version: 13030, per_thread: false, symbol: 351 },
    ProcEntry { base: "cuLogicalEndpointQuery", version: 13030, per_thread: false, symbol: 352 },
    ProcEntry { base: "cuLogicalEndpointUnbind", version: 13030, per_thread: false, symbol: 353 },
    ProcEntry { base: "cuLogsCurrent", version: 12090, per_thread: false, symbol: 354 },
    ProcEntry { base: "cuLogsDumpToFile", version: 12090, per_thread: false, symbol: 355 },
    ProcEntry { base: "cuLogsDumpToMemory", version: 12090, per_thread: false, symbol: 356 },
    ProcEntry { base: "cuLogsRegisterCallback", version: 12090, per_thread: false, symbol: 357 },
    ProcEntry { base: "cuLogsUnregisterCallback", version: 12090, per_thread: false, symbol: 358 },
    ProcEntry { base: "cuMemAddressFree", version: 10020, per_thread: false, symbol: 359 },
    ProcEntry { base: "cuMemAddressReserve", version: 10020, per_thread: false, symbol: 360 },
    ProcEntry { base: "cuMemAdvise", version: 8000, per_thread: false, symbol: 361 },
    ProcEntry { base: "cuMemAdvise", version: 12020, per_thread: false, symbol: 362 },
    ProcEntry { base: "cuMemAlloc", version: 2000, per_thread: false, symbol: 363 },
    ProcEntry { base: "cuMemAlloc", version: 3020, per_thread: false, symbol: 373 },
    ProcEntry { base: "cuMemAllocAsync", version: 11020, per_thread: false, symbol: 364 },
    ProcEntry { base: "cuMemAllocAsync", version: 11020, per_thread: true, symbol: 365 },
    ProcEntry { base: "cuMemAllocFromPoolAsync", version: 11020, per_thread: false, symbol: 366 },
    ProcEntry { base: "cuMemAllocFromPoolAsync", version: 11020, per_thread: true, symbol: 367 },
    ProcEntry { base: "cuMemAllocHost", version: 2000, per_thread: false, symbol: 368 },
    ProcEntry { base: "cuMemAllocHost", version: 3020, per_thread: false, symbol: 369 },
    ProcEntry { base: "cuMemAllocManaged", version: 6000, per_thread: false, symbol: 370 },
    ProcEntry { base: "cuMemAllocPitch", version: 2000, per_thread: false, symbol: 371 },
    ProcEntry { base: "cuMemAllocPitch", version: 3020, per_thread: false, symbol: 372 },
    ProcEntry { base: "cuMemBatchDecompressAsync", version: 12060, per_thread: false, symbol: 374 },
    ProcEntry { base: "cuMemBatchDecompressAsync", version: 12060, per_thread: true, symbol: 375 },
    ProcEntry { base: "cuMemCreate", version: 10020, per_thread: false, symbol: 376 },
    ProcEntry { base: "cuMemDiscardAndPrefetchBatchAsync", version: 13000, per_thread: false, symbol: 377 },
    ProcEntry { base: "cuMemDiscardAndPrefetchBatchAsync", version: 13000, per_thread: true, symbol: 378 },
    ProcEntry { base: "cuMemDiscardBatchAsync", version: 13000, per_thread: false, symbol: 379 },
    ProcEntry { base: "cuMemDiscardBatchAsync", version: 13000, per_thread: true, symbol: 380 },
    ProcEntry { base: "cuMemExportToShareableHandle", version: 10020, per_thread: false, symbol: 381 },
    ProcEntry { base: "cuMemFree", version: 2000, per_thread: false, symbol: 382 },
    ProcEntry { base: "cuMemFree", version: 3020, per_thread: false, symbol: 386 },
    ProcEntry { base: "cuMemFreeAsync", version: 11020, per_thread: false, symbol: 383 },
    ProcEntry { base: "cuMemFreeAsync", version: 11020, per_thread: true, symbol: 384 },
    ProcEntry { base: "cuMemFreeHost", version: 2000, per_thread: false, symbol: 385 },
    ProcEntry { base: "cuMemGetAccess", version: 10020, per_thread: false, symbol: 387 },
    ProcEntry { base: "cuMemGetAddressRange", version: 2000, per_thread: false, symbol: 388 },
    ProcEntry { base: "cuMemGetAddressRange", version: 3020, per_thread: false, symbol: 389 },
    ProcEntry { base: "cuMemGetAllocationGranularity", version: 10020, per_thread: false, symbol: 390 },
    ProcEntry { base: "cuMemGetAllocationPropertiesFromHandle", version: 10020, per_thread: false, symbol: 391 },
    ProcEntry { base: "cuMemGetDefaultMemPool", version: 13000, per_thread: false, symbol: 392 },
    ProcEntry { base: "cuMemGetHandleForAddressRange", version: 11070, per_thread: false, symbol: 393 },
    ProcEntry { base: "cuMemGetInfo", version: 2000, per_thread: false, symbol: 394 },
    ProcEntry { base: "cuMemGetInfo", version: 3020, per_thread: false, symbol: 395 },
    ProcEntry { base: "cuMemGetLocationInfo", version: 13040, per_thread: false, symbol: 396 },
    ProcEntry { base: "cuMemGetMemPool", version: 13000, per_thread: false, symbol: 397 },
    ProcEntry { base: "cuMemHostAlloc", version: 2020, per_thread: false, symbol: 398 },
    ProcEntry { base: "cuMemHostGetDevicePointer", version: 2020, per_thread: false, symbol: 399 },
    ProcEntry { base: "cuMemHostGetDevicePointer", version: 3020, per_thread: false, symbol: 400 },
    ProcEntry { base: "cuMemHostGetFlags", version: 2030, per_thread: false, symbol: 401 },
    ProcEntry { base: "cuMemHostRegister", version: 4000, per_thread: false, symbol: 402 },
    ProcEntry { base: "cuMemHostRegister", version: 6050, per_thread: false, symbol: 403 },
    ProcEntry { base: "cuMemHostUnregister", version: 4000, per_thread: false, symbol: 404 },
    ProcEntry { base: "cuMemImportFromShareableHandle", version: 10020, per_thread: false, symbol: 405 },
    ProcEntry { base: "cuMemMap", version: 10020, per_thread: false, symbol: 406 },
    ProcEntry { base: "cuMemMapArrayAsync", version: 11010, per_thread: false, symbol: 407 },
    ProcEntry { base: "cuMemMapArrayAsync", version: 11010, per_thread: true, symbol: 408 },
    ProcEntry { base: "cuMemPoolCreate", version: 11020, per_thread: false, symbol: 409 },
    ProcEntry { base: "cuMemPoolDestroy", version: 11020, per_thread: false, symbol: 410 },
    ProcEntry { base: "cuMemPoolExportPointer", version: 11020, per_thread: false, symbol: 411 },
    ProcEntry { base: "cuMemPoolExportToShareableHandle", version: 11020, per_thread: false, symbol: 412 },
    ProcEntry { base: "cuMemPoolGetAccess", version: 11020, per_thread: false, symbol: 413 },
    ProcEntry { base: "cuMemPoolGetAttribute", version: 11020, per_thread: false, symbol: 414 },
    ProcEntry { base: "cuMemPoolImportFromShareableHandle", version: 11020, per_thread: false, symbol: 415 },
    ProcEntry { base: "cuMemPoolImportPointer", version: 11020, per_thread: false, symbol: 416 },
    ProcEntry { base: "cuMemPoolSetAccess", version: 11020, per_thread: false, symbol: 417 },
    ProcEntry { base: "cuMemPoolSetAttribute", version: 11020, per_thread: false, symbol: 418 },
    ProcEntry { base: "cuMemPoolTrimTo", version: 11020, per_thread: false, symbol: 419 },
    ProcEntry { base: "cuMemPrefetchAsync", version: 8000, per_thread: false, symbol: 420 },
    ProcEntry { base: "cuMemPrefetchAsync", version: 8000, per_thread: true, symbol: 421 },
    ProcEntry { base: "cuMemPrefetchAsync", version: 12020, per_thread: false, symbol: 422 },
    ProcEntry { base: "cuMemPrefetchAsync", version: 12020, per_thread: true, symbol: 423 },
    ProcEntry { base: "cuMemPrefetchBatchAsync", version: 13000, per_thread: false, symbol: 424 },
    ProcEntry { base: "cuMemPrefetchBatchAsync", version: 13000, per_thread: true, symbol: 425 },
    ProcEntry { base: "cuMemRangeGetAttribute", version: 8000, per_thread: false, symbol: 426 },
    ProcEntry { base: "cuMemRangeGetAttributes", version: 8000, per_thread: false, symbol: 427 },
    ProcEntry { base: "cuMemRelease", version: 10020, per_thread: false, symbol: 428 },
    ProcEntry { base: "cuMemRetainAllocationHandle", version: 11000, per_thread: false, symbol: 429 },
    ProcEntry { base: "cuMemSetAccess", version: 10020, per_thread: false, symbol: 430 },
    ProcEntry { base: "cuMemSetMemPool", version: 13000, per_thread: false, symbol: 431 },
    ProcEntry { base: "cuMemUnmap", version: 10020, per_thread: false, symbol: 432 },
    ProcEntry { base: "cuMemcpy", version: 4000, per_thread: false, symbol: 433 },
    ProcEntry { base: "cuMemcpy", version: 7000, per_thread: true, symbol: 510 },
    ProcEntry { base: "cuMemcpy2D", version: 2000, per_thread: false, symbol: 434 },
    ProcEntry { base: "cuMemcpy2D", version: 3020, per_thread: false, symbol: 441 },
    ProcEntry { base: "cuMemcpy2D", version: 7000, per_thread: true, symbol: 442 },
    ProcEntry { base: "cuMemcpy2DAsync", version: 2000, per_thread: false, symbol: 435 },
    ProcEntry { base: "cuMemcpy2DAsync", version: 3020, per_thread: false, symbol: 436 },
    ProcEntry { base: "cuMemcpy2DAsync", version: 7000, per_thread: true, symbol: 437 },
    ProcEntry { base: "cuMemcpy2DUnaligned", version: 2000, per_thread: false, symbol: 438 },
    ProcEntry { base: "cuMemcpy2DUnaligned", version: 3020, per_thread: false, symbol: 439 },
    ProcEntry { base: "cuMemcpy2DUnaligned", version: 7000, per_thread: true, symbol: 440 },
    ProcEntry { base: "cuMemcpy3D", version: 2000, per_thread: false, symbol: 443 },
    ProcEntry { base: "cuMemcpy3D", version: 3020, per_thread: false, symbol: 457 },
    ProcEntry { base: "cuMemcpy3D", version: 7000, per_thread: true, symbol: 458 },
    ProcEntry { base: "cuMemcpy3DAsync", version: 2000, per_thread: false, symbol: 444 },
    ProcEntry { base: "cuMemcpy3DAsync", version: 3020, per_thread: false, symbol: 445 },
    ProcEntry { base: "cuMemcpy3DAsync", version: 7000, per_thread: true, symbol: 446 },
    ProcEntry { base: "cuMemcpy3DBatchAsync", version: 12080, per_thread: false, symbol: 447 },
    ProcEntry { base: "cuMemcpy3DBatchAsync", version: 12080, per_thread: true, symbol: 448 },
    ProcEntry { base: "cuMemcpy3DBatchAsync", version: 13000, per_thread: false, symbol: 449 },
    ProcEntry { base: "cuMemcpy3DBatchAsync", version: 13000, per_thread: true, symbol: 450 },
    ProcEntry { base: "cuMemcpy3DPeer", version: 4000, per_thread: false, symbol: 451 },
    ProcEntry { base: "cuMemcpy3DPeer", version: 7000, per_thread: true, symbol: 454 },
    ProcEntry { base: "cuMemcpy3DPeerAsync", version: 4000, per_thread: false, symbol: 452 },
    ProcEntry { base: "cuMemcpy3DPeerAsync", version: 7000, per_thread: true, symbol: 453 },
    ProcEntry { base: "cuMemcpy3DWithAttributesAsync", version: 13020, per_thread: false, symbol: 455 },
    ProcEntry { base: "cuMemcpy3DWithAttributesAsync", version: 13020, per_thread: true, symbol: 456 },
    ProcEntry { base: "cuMemcpyAsync", version: 4000, per_thread: false, symbol: 459 },
    ProcEntry { base: "cuMemcpyAsync", version: 7000, per_thread: true, symbol: 460 },
    ProcEntry { base: "cuMemcpyAtoA", version: 2000, per_thread: false, symbol: 461 },
    ProcEntry { base: "cuMemcpyAtoA", version: 3020, per_thread: false, symbol: 462 },
    ProcEntry { base: "cuMemcpyAtoA", version: 7000, per_thread: true, symbol: 463 },
    ProcEntry { base: "cuMemcpyAtoD", version: 2000, per_thread: false, symbol: 464 },
    ProcEntry { base: "cuMemcpyAtoD", version: 3020, per_thread: false, symbol: 465 },
    ProcEntry { base: "cuMemcpyAtoD", version: 7000, per_thread: true, symbol: 466 },
    ProcEntry { base: "cuMemcpyAtoH", version: 2000, per_thread: false, symbol: 467 },
    ProcEntry { base: "cuMemcpyAtoH", version: 3020, per_thread: false, symbol: 471 },
    ProcEntry { base: "cuMemcpyAtoH", version: 7000, per_thread: true, symbol: 472 },
    ProcEntry { base: "cuMemcpyAtoHAsync", version: 2000, per_thread: false, symbol: 468 },
    ProcEntry { base: "cuMemcpyAtoHAsync", version: 3020, per_thread: false, symbol: 469 },
    ProcEntry { base: "cuMemcpyAtoHAsync", version: 7000, per_thread: true, symbol: 470 },
    ProcEntry { base: "cuMemcpyBatchAsync", version: 12080, per_thread: false, symbol: 473 },
    ProcEntry { base: "cuMemcpyBatchAsync", version: 12080, per_thread: true, symbol: 474 },
    ProcEntry { base: "cuMemcpyBatchAsync", version: 13000, per_thread: false, symbol: 475 },
    ProcEntry { base: "cuMemcpyBatchAsync", version: 13000, per_thread: true, symbol: 476 },
    ProcEntry { base: "cuMemcpyDtoA", version: 2000, per_thread: false, symbol: 477 },
    ProcEntry { base: "cuMemcpyDtoA", version: 3020, per_thread: false, symbol: 478 },
    ProcEntry { base: "cuMemcpyDtoA", version: 7000, per_thread: true, symbol: 479 },
    ProcEntry { base: "cuMemcpyDtoD", version: 2000, per_thread: false, symbol: 480 },
    ProcEntry { base: "cuMemcpyDtoD", version: 3020, per_thread: false, symbol: 484 },
    ProcEntry { base: "cuMemcpyDtoD", version: 7000, per_thread: true, symbol: 485 },
    ProcEntry { base: "cuMemcpyDtoDAsync", version: 3000, per_thread: false, symbol: 481 },
    ProcEntry { base: "cuMemcpyDtoDAsync", version: 3020, per_thread: false, symbol: 482 },
    ProcEntry { base: "cuMemcpyDtoDAsync", version: 7000, per_thread: true, symbol: 483 },
    ProcEntry { base: "cuMemcpyDtoH", version: 2000, per_thread: false, symbol: 486 },
    ProcEntry { base: "cuMemcpyDtoH", version: 3020, per_thread: false, symbol: 490 },
    ProcEntry { base: "cuMemcpyDtoH", version: 7000, per_thread: true, symbol: 491 },
    ProcEntry { base: "cuMemcpyDtoHAsync", version: 2000, per_thread: false, symbol: 487 },
    ProcEntry { base: "cuMemcpyDtoHAsync", version: 3020, per_thread: false, symbol: 488 },
    ProcEntry { base: "cuMemcpyDtoHAsync", version: 7000, per_thread: true, symbol: 489 },
    ProcEntry { base: "cuMemcpyHtoA", version: 2000, per_thread: false, symbol: 492 },
    ProcEntry { base: "cuMemcpyHtoA", version: 3020, per_thread: false, symbol: 496 },
    ProcEntry { base: "cuMemcpyHtoA", version: 7000, per_thread: true, symbol: 497 },
    ProcEntry { base: "cuMemcpyHtoAAsync", version: 2000, per_thread: false, symbol: 493 },
    ProcEntry { base: "cuMemcpyHtoAAsync", version: 3020, per_thread: false, symbol: 494 },
    ProcEntry { base: "cuMemcpyHtoAAsync", version: 7000, per_thread: true, symbol: 495 },
    ProcEntry { base: "cuMemcpyHtoD", version: 2000, per_thread: false, symbol: 498 },
    ProcEntry { base: "cuMemcpyHtoD", version: 3020, per_thread: false, symbol: 502 },
    ProcEntry { base: "cuMemcpyHtoD", version: 7000, per_thread: true, symbol: 503 },
    ProcEntry { base: "cuMemcpyHtoDAsync", version: 2000, per_thread: false, symbol: 499 },
    ProcEntry { base: "cuMemcpyHtoDAsync", version: 3020, per_thread: false, symbol: 500 },
    ProcEntry { base: "cuMemcpyHtoDAsync", version: 7000, per_thread: true, symbol: 501 },
    ProcEntry { base: "cuMemcpyPeer", version: 4000, per_thread: false, symbol: 504 },
    ProcEntry { base: "cuMemcpyPeer", version: 7000, per_thread: true, symbol: 507 },
    ProcEntry { base: "cuMemcpyPeerAsync", version: 4000, per_thread: false, symbol: 505 },
    ProcEntry { base: "cuMemcpyPeerAsync", version: 7000, per_thread: true, symbol: 506 },
    ProcEntry { base: "cuMemcpyWithAttributesAsync", version: 13020, per_thread: false, symbol: 508 },
    ProcEntry { base: "cuMemcpyWithAttributesAsync", version: 13020, per_thread: true, symbol: 509 },
    ProcEntry { base: "cuMemsetD16", version: 2000, per_thread: false, symbol: 511 },
    ProcEntry { base: "cuMemsetD16", version: 3020, per_thread: false, symbol: 514 },
    ProcEntry { base: "cuMemsetD16", version: 7000, per_thread: true, symbol: 515 },
    ProcEntry { base: "cuMemsetD16Async", version: 3020, per_thread: false, symbol: 512 },
    ProcEntry { base: "cuMemsetD16Async", version: 7000, per_thread: true, symbol: 513 },
    ProcEntry { base: "cuMemsetD2D16", version: 2000, per_thread: false, symbol: 516 },
    ProcEntry { base: "cuMemsetD2D16", version: 3020, per_thread: false, symbol: 519 },
    ProcEntry { base: "cuMemsetD2D16", version: 7000, per_thread: true, symbol: 520 },
    ProcEntry { base: "cuMemsetD2D16Async", version: 3020, per_thread: false, symbol: 517 },
    ProcEntry { base: "cuMemsetD2D16Async", version: 7000, per_thread: true, symbol: 518 },
    ProcEntry { base: "cuMemsetD2D32", version: 2000, per_thread: false, symbol: 521 },
    ProcEntry { base: "cuMemsetD2D32", version: 3020, per_thread: false, symbol: 524 },
    ProcEntry { base: "cuMemsetD2D32", version: 7000, per_thread: true, symbol: 525 },
    ProcEntry { base: "cuMemsetD2D32Async", version: 3020, per_thread: false, symbol: 522 },
    ProcEntry { base: "cuMemsetD2D32Async", version: 7000, per_thread: true, symbol: 523 },
    ProcEntry { base: "cuMemsetD2D8", version: 2000, per_thread: false, symbol: 526 },
    ProcEntry { base: "cuMemsetD2D8", version: 3020, per_thread: false, symbol: 529 },
    ProcEntry { base: "cuMemsetD2D8", version: 7000, per_thread: true, symbol: 530 },
    ProcEntry { base: "cuMemsetD2D8Async", version: 3020, per_thread: false, symbol: 527 },
    ProcEntry { base: "cuMemsetD2D8Async", version: 7000, per_thread: true, symbol: 528 },
    ProcEntry { base: "cuMemsetD32", version: 2000, per_thread: false, symbol: 531 },
    ProcEntry { base: "cuMemsetD32", version: 3020, per_thread: false, symbol: 534 },
    ProcEntry { base: "cuMemsetD32", version: 7000, per_thread: true, symbol: 535 },
    ProcEntry { base: "cuMemsetD32Async", version: 3020, per_thread: false, symbol: 532 },
    ProcEntry { base: "cuMemsetD32Async", version: 7000, per_thread: true, symbol: 533 },
    ProcEntry { base: "cuMemsetD8", version: 2000, per_thread: false, symbol: 536 },
    ProcEntry { base: "cuMemsetD8", version: 3020, per_thread: false, symbol: 539 },
    ProcEntry { base: "cuMemsetD8", version: 7000, per_thread: true, symbol: 540 },
    ProcEntry { base: "cuMemsetD8Async", version: 3020, per_thread: false, symbol: 537 },
    ProcEntry { base: "cuMemsetD8Async", version: 7000, per_thread: true, symbol: 538 },
    ProcEntry { base: "cuMipmappedArrayCreate", version: 5000, per_thread: false, symbol: 541 },
    ProcEntry { base: "cuMipmappedArrayDestroy", version: 5000, per_thread: false, symbol: 542 },
    ProcEntry { base: "cuMipmappedArrayGetLevel", version: 5000, per_thread: false, symbol: 543 },
    ProcEntry { base: "cuMipmappedArrayGetMemoryRequirements", version: 11060, per_thread: false, symbol: 544 },
    ProcEntry { base: "cuMipmappedArrayGetSparseProperties", version: 11010, per_thread: false, symbol: 545 },
    ProcEntry { base: "cuModuleEnumerateFunctions", version: 12040, per_thread: false, symbol: 546 },
    ProcEntry { base: "cuModuleGetFunction", version: 2000, per_thread: false, symbol: 547 },
    ProcEntry { base: "cuModuleGetFunctionCount", version: 12040, per_thread: false, symbol: 548 },
    ProcEntry { base: "cuModuleGetGlobal", version: 2000, per_thread: false, symbol: 549 },
    ProcEntry { base: "cuModuleGetGlobal", version: 3020, per_thread: false, symbol: 550 },
    ProcEntry { base: "cuModuleGetLoadingMode", version: 11070, per_thread: false, symbol: 551 },
    ProcEntry { base: "cuModuleGetSurfRef", version: 3000, per_thread: false, symbol: 552 },
    ProcEntry { base: "cuModuleGetTexRef", version: 2000, per_thread: false, symbol: 553 },
    ProcEntry { base: "cuModuleLoad", version: 2000, per_thread: false, symbol: 554 },
    ProcEntry { base: "cuModuleLoadData", version: 2000, per_thread: false, symbol: 555 },
    ProcEntry { base: "cuModuleLoadDataEx", version: 2010, per_thread: false, symbol: 556 },
    ProcEntry { base: "cuModuleLoadFatBinary", version: 2000, per_thread: false, symbol: 557 },
    ProcEntry { base: "cuModuleUnload", version: 2000, per_thread: false, symbol: 558 },
    ProcEntry { base: "cuMulticastAddDevice", version: 12010, per_thread: false, symbol: 559 },
    ProcEntry { base: "cuMulticastBindAddr", version: 12010, per_thread: false, symbol: 560 },
    ProcEntry { base: "cuMulticastBindAddr", version: 13010, per_thread: false, symbol: 561 },
    ProcEntry { base: "cuMulticastBindMem", version: 12010, per_thread: false, symbol: 562 },
    ProcEntry { base: "cuMulticastBindMem", version: 13010, per_thread: false, symbol: 563 },
    ProcEntry { base: "cuMulticastCreate", version: 12010, per_thread: false, symbol: 564 },
    ProcEntry { base: "cuMulticastGetGranularity", version: 12010, per_thread: false, symbol: 565 },
    ProcEntry { base: "cuMulticastUnbind", version: 12010, per_thread: false, symbol: 566 },
    ProcEntry { base: "cuOccupancyAvailableDynamicSMemPerBlock", version: 10020, per_thread: false, symbol: 567 },
    ProcEntry { base: "cuOccupancyMaxActiveBlocksPerMultiprocessor", version: 6050, per_thread: false, symbol: 568 },
    ProcEntry { base: "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", version: 7000, per_thread: false, symbol: 569 },
    ProcEntry { base: "cuOccupancyMaxActiveClusters", version: 11070, per_thread: false, symbol: 570 },
    ProcEntry { base: "cuOccupancyMaxPotentialBlockSize", version: 6050, per_thread: false, symbol: 571 },
    ProcEntry { base: "cuOccupancyMaxPotentialBlockSizeWithFlags", version: 7000, per_thread: false, symbol: 572 },
    ProcEntry { base: "cuOccupancyMaxPotentialClusterSize", version: 11070, per_thread: false, symbol: 573 },
    ProcEntry { base: "cuParamSetSize", version: 2000, per_thread: false, symbol: 574 },
    ProcEntry { base: "cuParamSetTexRef", version: 2000, per_thread: false, symbol: 575 },
    ProcEntry { base: "cuParamSetf", version: 2000, per_thread: false, symbol: 576 },
    ProcEntry { base: "cuParamSeti", version: 2000, per_thread: false, symbol: 577 },
    ProcEntry { base: "cuParamSetv", version: 2000, per_thread: false, symbol: 578 },
    ProcEntry { base: "cuPointerGetAttribute", version: 4000, per_thread: false, symbol: 579 },
    ProcEntry { base: "cuPointerGetAttributes", version: 7000, per_thread: false, symbol: 580 },
    ProcEntry { base: "cuPointerSetAttribute", version: 6000, per_thread: false, symbol: 581 },
    ProcEntry { base: "cuProfilerInitialize", version: 4000, per_thread: false, symbol: 582 },
    ProcEntry { base: "cuProfilerStart", version: 4000, per_thread: false, symbol: 583 },
    ProcEntry { base: "cuProfilerStop", version: 4000, per_thread: false, symbol: 584 },
    ProcEntry { base: "cuSignalExternalSemaphoresAsync", version: 10000, per_thread: false, symbol: 585 },
    ProcEntry { base: "cuSignalExternalSemaphoresAsync", version: 10000, per_thread: true, symbol: 586 },
    ProcEntry { base: "cuStreamAddCallback", version: 5000, per_thread: false, symbol: 587 },
    ProcEntry { base: "cuStreamAddCallback", version: 7000, per_thread: true, symbol: 588 },
    ProcEntry { base: "cuStreamAttachMemAsync", version: 6000, per_thread: false, symbol: 589 },
    ProcEntry { base: "cuStreamAttachMemAsync", version: 7000, per_thread: true, symbol: 590 },
    ProcEntry { base: "cuStreamBatchMemOp", version: 8000, per_thread: false, symbol: 591 },
    ProcEntry { base: "cuStreamBatchMemOp", version: 8000, per_thread: true, symbol: 592 },
    ProcEntry { base: "cuStreamBatchMemOp", version: 11070, per_thread: false, symbol: 593 },
    ProcEntry { base: "cuStreamBatchMemOp", version: 11070, per_thread: true, symbol: 594 },
    ProcEntry { base: "cuStreamBeginCapture", version: 10000, per_thread: false, symbol: 595 },
    ProcEntry { base: "cuStreamBeginCapture", version: 10000, per_thread: true, symbol: 600 },
    ProcEntry { base: "cuStreamBeginCapture", version: 10010, per_thread: false, symbol: 601 },
    ProcEntry { base: "cuStreamBeginCapture", version: 10010, per_thread: true, symbol: 602 },
    ProcEntry { base: "cuStreamBeginCaptureToCig", version: 13010, per_thread: false, symbol: 596 },
    ProcEntry { base: "cuStreamBeginCaptureToCig", version: 13010, per_thread: true, symbol: 597 },
    ProcEntry { base: "cuStreamBeginCaptureToGraph", version: 12030, per_thread: false, symbol: 598 },
    ProcEntry { base: "cuStreamBeginCaptureToGraph", version: 12030, per_thread: true, symbol: 599 },
    ProcEntry { base: "cuStreamBeginRecaptureToGraph", version: 13030, per_thread: false, symbol: 603 },
    ProcEntry { base: "cuStreamBeginRecaptureToGraph", version: 13030, per_thread: true, symbol: 604 },
    ProcEntry { base: "cuStreamCopyAttributes", version: 11000, per_thread: false, symbol: 605 },
    ProcEntry { base: "cuStreamCopyAttributes", version: 11000, per_thread: true, symbol: 606 },
    ProcEntry { base: "cuStreamCreate", version: 2000, per_thread: false, symbol: 607 },
    ProcEntry { base: "cuStreamCreateWithPriority", version: 5050, per_thread: false, symbol: 608 },
    ProcEntry { base: "cuStreamDestroy", version: 2000, per_thread: false, symbol: 609 },
    ProcEntry { base: "cuStreamDestroy", version: 4000, per_thread: false, symbol: 610 },
    ProcEntry { base: "cuStreamEndCapture", version: 10000, per_thread: false, symbol: 611 },
    ProcEntry { base: "cuStreamEndCapture", version: 10000, per_thread: true, symbol: 614 },
    ProcEntry { base: "cuStreamEndCaptureToCig", version: 13010, per_thread: false, symbol: 612 },
    ProcEntry { base: "cuStreamEndCaptureToCig", version: 13010, per_thread: true, symbol: 613 },
    ProcEntry { base: "cuStreamGetAttribute", version: 11000, per_thread: false, symbol: 615 },
    ProcEntry { base: "cuStreamGetAttribute", version: 11000, per_thread: true, symbol: 616 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 10010, per_thread: false, symbol: 617 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 10010, per_thread: true, symbol: 618 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 11030, per_thread: false, symbol: 619 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 11030, per_thread: true, symbol: 620 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 12030, per_thread: false, symbol: 621 },
    ProcEntry { base: "cuStreamGetCaptureInfo", version: 12030, per_thread: true, symbol: 622 },
    ProcEntry { base: "cuStreamGetCtx", version: 9020, per_thread: false, symbol: 623 },
    ProcEntry { base: "cuStreamGetCtx", version: 9020, per_thread: true, symbol: 624 },
    ProcEntry { base: "cuStreamGetCtx", version: 12050, per_thread: false, symbol: 625 },
    ProcEntry { base: "cuStreamGetCtx", version: 12050, per_thread: true, symbol: 626 },
    ProcEntry { base: "cuStreamGetDevResource", version: 13010, per_thread: false, symbol: 627 },
    ProcEntry { base: "cuStreamGetDevResource", version: 13010, per_thread: true, symbol: 628 },
    ProcEntry { base: "cuStreamGetDevice", version: 12080, per_thread: false, symbol: 629 },
    ProcEntry { base: "cuStreamGetDevice", version: 12080, per_thread: true, symbol: 630 },
    ProcEntry { base: "cuStreamGetFlags", version: 5050, per_thread: false, symbol: 631 },
    ProcEntry { base: "cuStreamGetFlags", version: 7000, per_thread: true, symbol: 632 },
    ProcEntry { base: "cuStreamGetGreenCtx", version: 12040, per_thread: false, symbol: 633 },
    ProcEntry { base: "cuStreamGetId", version: 12000, per_thread: false, symbol: 634 },
    ProcEntry { base: "cuStreamGetId", version: 12000, per_thread: true, symbol: 635 },
    ProcEntry { base: "cuStreamGetPriority", version: 5050, per_thread: false, symbol: 636 },
    ProcEntry { base: "cuStreamGetPriority", version: 7000, per_thread: true, symbol: 637 },
    ProcEntry { base: "cuStreamIsCapturing", version: 10000, per_thread: false, symbol: 638 },
    ProcEntry { base: "cuStreamIsCapturing", version: 10000, per_thread: true, symbol: 639 },
    ProcEntry { base: "cuStreamQuery", version: 2000, per_thread: false, symbol: 640 },
    ProcEntry { base: "cuStreamQuery", version: 7000, per_thread: true, symbol: 641 },
    ProcEntry { base: "cuStreamSetAttribute", version: 11000, per_thread: false, symbol: 642 },
    ProcEntry { base: "cuStreamSetAttribute", version: 11000, per_thread: true, symbol: 643 },
    ProcEntry { base: "cuStreamSynchronize", version: 2000, per_thread: false, symbol: 644 },
    ProcEntry { base: "cuStreamSynchronize", version: 7000, per_thread: true, symbol: 645 },
    ProcEntry { base: "cuStreamUpdateCaptureDependencies", version: 11030, per_thread: false, symbol: 646 },
    ProcEntry { base: "cuStreamUpdateCaptureDependencies", version: 11030, per_thread: true, symbol: 647 },
    ProcEntry { base: "cuStreamUpdateCaptureDependencies", version: 12030, per_thread: false, symbol: 648 },
    ProcEntry { base: "cuStreamUpdateCaptureDependencies", version: 12030, per_thread: true, symbol: 649 },
    ProcEntry { base: "cuStreamWaitEvent", version: 3020, per_thread: false, symbol: 650 },
    ProcEntry { base: "cuStreamWaitEvent", version: 7000, per_thread: true, symbol: 651 },
    ProcEntry { base: "cuStreamWaitValue32", version: 8000, per_thread: false, symbol: 652 },
    ProcEntry { base: "cuStreamWaitValue32", version: 8000, per_thread: true, symbol: 653 },
    ProcEntry { base: "cuStreamWaitValue32", version: 11070, per_thread: false, symbol: 654 },
    ProcEntry { base: "cuStreamWaitValue32", version: 11070, per_thread: true, symbol: 655 },
    ProcEntry { base: "cuStreamWaitValue64", version: 9000, per_thread: false, symbol: 656 },
    ProcEntry { base: "cuStreamWaitValue64", version: 9000, per_thread: true, symbol: 657 },
    ProcEntry { base: "cuStreamWaitValue64", version: 11070, per_thread: false, symbol: 658 },
    ProcEntry { base: "cuStreamWaitValue64", version: 11070, per_thread: true, symbol: 659 },
    ProcEntry { base: "cuStreamWriteValue32", version: 8000, per_thread: false, symbol: 660 },
    ProcEntry { base: "cuStreamWriteValue32", version: 8000, per_thread: true, symbol: 661 },
    ProcEntry { base: "cuStreamWriteValue32", version: 11070, per_thread: false, symbol: 662 },
    ProcEntry { base: "cuStreamWriteValue32", version: 11070, per_thread: true, symbol: 663 },
    ProcEntry { base: "cuStreamWriteValue64", version: 9000, per_thread: false, symbol: 664 },
    ProcEntry { base: "cuStreamWriteValue64", version: 9000, per_thread: true, symbol: 665 },
    ProcEntry { base: "cuStreamWriteValue64", version: 11070, per_thread: false, symbol: 666 },
    ProcEntry { base: "cuStreamWriteValue64", version: 11070, per_thread: true, symbol: 667 },
    ProcEntry { base: "cuSurfObjectCreate", version: 5000, per_thread: false, symbol: 668 },
    ProcEntry { base: "cuSurfObjectDestroy", version: 5000, per_thread: false, symbol: 669 },
    ProcEntry { base: "cuSurfObjectGetResourceDesc", version: 5000, per_thread: false, symbol: 670 },
    ProcEntry { base: "cuSurfRefGetArray", version: 3000, per_thread: false, symbol: 671 },
    ProcEntry { base: "cuSurfRefSetArray", version: 3000, per_thread: false, symbol: 672 },
    ProcEntry { base: "cuTensorMapEncodeIm2col", version: 12000, per_thread: false, symbol: 673 },
    ProcEntry { base: "cuTensorMapEncodeIm2colWide", version: 12080, per_thread: false, symbol: 674 },
    ProcEntry { base: "cuTensorMapEncodeTiled", version: 12000, per_thread: false, symbol: 675 },
    ProcEntry { base: "cuTensorMapReplaceAddress", version: 12000, per_thread: false, symbol: 676 },
    ProcEntry { base: "cuTensorMapSetAllocationClass", version: 13050, per_thread: false, symbol: 677 },
    ProcEntry { base: "cuTexObjectCreate", version: 5000, per_thread: false, symbol: 678 },
    ProcEntry { base: "cuTexObjectDestroy", version: 5000, per_thread: false, symbol: 679 },
    ProcEntry { base: "cuTexObjectGetResourceDesc", version: 5000, per_thread: false, symbol: 680 },
    ProcEntry { base: "cuTexObjectGetResourceViewDesc", version: 5000, per_thread: false, symbol: 681 },
    ProcEntry { base: "cuTexObjectGetTextureDesc", version: 5000, per_thread: false, symbol: 682 },
    ProcEntry { base: "cuTexRefCreate", version: 2000, per_thread: false, symbol: 683 },
    ProcEntry { base: "cuTexRefDestroy", version: 2000, per_thread: false, symbol: 684 },
    ProcEntry { base: "cuTexRefGetAddress", version: 2000, per_thread: false, symbol: 685 },
    ProcEntry { base: "cuTexRefGetAddress", version: 3020, per_thread: false, symbol: 687 },
    ProcEntry { base: "cuTexRefGetAddressMode", version: 2000, per_thread: false, symbol: 686 },
    ProcEntry { base: "cuTexRefGetArray", version: 2000, per_thread: false, symbol: 688 },
    ProcEntry { base: "cuTexRefGetBorderColor", version: 8000, per_thread: false, symbol: 689 },
    ProcEntry { base: "cuTexRefGetFilterMode", version: 2000, per_thread: false, symbol: 690 },
    ProcEntry { base: "cuTexRefGetFlags", version: 2000, per_thread: false, symbol: 691 },
    ProcEntry { base: "cuTexRefGetFormat", version: 2000, per_thread: false, symbol: 692 },
    ProcEntry { base: "cuTexRefGetMaxAnisotropy", version: 5000, per_thread: false, symbol: 693 },
    ProcEntry { base: "cuTexRefGetMipmapFilterMode", version: 5000, per_thread: false, symbol: 694 },
    ProcEntry { base: "cuTexRefGetMipmapLevelBias", version: 5000, per_thread: false, symbol: 695 },
    ProcEntry { base: "cuTexRefGetMipmapLevelClamp", version: 5000, per_thread: false, symbol: 696 },
    ProcEntry { base: "cuTexRefGetMipmappedArray", version: 5000, per_thread: false, symbol: 697 },
    ProcEntry { base: "cuTexRefSetAddress", version: 2000, per_thread: false, symbol: 698 },
    ProcEntry { base: "cuTexRefSetAddress", version: 3020, per_thread: false, symbol: 703 },
    ProcEntry { base: "cuTexRefSetAddress2D", version: 2020, per_thread: false, symbol: 699 },
    ProcEntry { base: "cuTexRefSetAddress2D", version: 3020, per_thread: false, symbol: 700 },
    ProcEntry { base: "cuTexRefSetAddress2D", version: 4010, per_thread: false, symbol: 701 },
    ProcEntry { base: "cuTexRefSetAddressMode", version: 2000, per_thread: false, symbol: 702 },
    ProcEntry { base: "cuTexRefSetArray", version: 2000, per_thread: false, symbol: 704 },
    ProcEntry { base: "cuTexRefSetBorderColor", version: 8000, per_thread: false, symbol: 705 },
    ProcEntry { base: "cuTexRefSetFilterMode", version: 2000, per_thread: false, symbol: 706 },
    ProcEntry { base: "cuTexRefSetFlags", version: 2000, per_thread: false, symbol: 707 },
    ProcEntry { base: "cuTexRefSetFormat", version: 2000, per_thread: false, symbol: 708 },
    ProcEntry { base: "cuTexRefSetMaxAnisotropy", version: 5000, per_thread: false, symbol: 709 },
    ProcEntry { base: "cuTexRefSetMipmapFilterMode", version: 5000, per_thread: false, symbol: 710 },
    ProcEntry { base: "cuTexRefSetMipmapLevelBias", version: 5000, per_thread: false, symbol: 711 },
    ProcEntry { base: "cuTexRefSetMipmapLevelClamp", version: 5000, per_thread: false, symbol: 712 },
    ProcEntry { base: "cuTexRefSetMipmappedArray", version: 5000, per_thread: false, symbol: 713 },
    ProcEntry { base: "cuThreadExchangeStreamCaptureMode", version: 10010, per_thread: false, symbol: 714 },
    ProcEntry { base: "cuUserObjectCreate", version: 11030, per_thread: false, symbol: 715 },
    ProcEntry { base: "cuUserObjectRelease", version: 11030, per_thread: false, symbol: 716 },
    ProcEntry { base: "cuUserObjectRetain", version: 11030, per_thread: false, symbol: 717 },
    ProcEntry { base: "cuVDPAUCtxCreate", version: 3010, per_thread: false, symbol: 718 },
    ProcEntry { base: "cuVDPAUCtxCreate", version: 3020, per_thread: false, symbol: 719 },
    ProcEntry { base: "cuVDPAUGetDevice", version: 3010, per_thread: false, symbol: 720 },
    ProcEntry { base: "cuWGLGetDevice", version: 2020, per_thread: false, symbol: 721 },
    ProcEntry { base: "cuWaitExternalSemaphoresAsync", version: 10000, per_thread: false, symbol: 722 },
    ProcEntry { base: "cuWaitExternalSemaphoresAsync", version: 10000, per_thread: true, symbol: 723 },
];

/// Expands `$callback! { index symbol; ... }` with every exported symbol and its index in
/// [`SYMBOLS`].
#[macro_export]
macro_rules! exported_symbols {
    ($callback:ident) => {
        $callback! {
            0 cuArray3DCreate;
            1 cuArray3DCreate_v2;
            2 cuArray3DGetDescriptor;
            3 cuArray3DGetDescriptor_v2;
            4 cuArrayCreate;
            5 cuArrayCreate_v2;
            6 cuArrayDestroy;
            7 cuArrayGetDescriptor;
            8 cuArrayGetDescriptor_v2;
            9 cuArrayGetMemoryRequirements;
            10 cuArrayGetPlane;
            11 cuArrayGetSparseProperties;
            12 cuCheckpointOperationComplete;
            13 cuCheckpointProcessCheckpoint;
            14 cuCheckpointProcessGetRestoreThreadId;
            15 cuCheckpointProcessGetState;
            16 cuCheckpointProcessLock;
            17 cuCheckpointProcessRestore;
            18 cuCheckpointProcessUnlock;
            19 cuCoredumpDeregisterCompleteCallback;
            20 cuCoredumpDeregisterStartCallback;
            21 cuCoredumpGetAttribute;
            22 cuCoredumpGetAttributeGlobal;
            23 cuCoredumpRegisterCompleteCallback;
            24 cuCoredumpRegisterStartCallback;
            25 cuCoredumpSetAttribute;
            26 cuCoredumpSetAttributeGlobal;
            27 cuCtxAttach;
            28 cuCtxCreate;
            29 cuCtxCreate_v2;
            30 cuCtxCreate_v3;
            31 cuCtxCreate_v4;
            32 cuCtxDestroy;
            33 cuCtxDestroy_v2;
            34 cuCtxDetach;
            35 cuCtxDisablePeerAccess;
            36 cuCtxEnablePeerAccess;
            37 cuCtxFromGreenCtx;
            38 cuCtxGetApiVersion;
            39 cuCtxGetCacheConfig;
            40 cuCtxGetCurrent;
            41 cuCtxGetDevResource;
            42 cuCtxGetDevice;
            43 cuCtxGetDevice_v2;
            44 cuCtxGetExecAffinity;
            45 cuCtxGetFlags;
            46 cuCtxGetId;
            47 cuCtxGetLimit;
            48 cuCtxGetSharedMemConfig;
            49 cuCtxGetStreamPriorityRange;
            50 cuCtxPopCurrent;
            51 cuCtxPopCurrent_v2;
            52 cuCtxPushCurrent;
            53 cuCtxPushCurrent_v2;
            54 cuCtxRecordEvent;
            55 cuCtxResetPersistingL2Cache;
            56 cuCtxSetCacheConfig;
            57 cuCtxSetCurrent;
            58 cuCtxSetFlags;
            59 cuCtxSetLimit;
            60 cuCtxSetSharedMemConfig;
            61 cuCtxSynchronize;
            62 cuCtxSynchronize_v2;
            63 cuCtxWaitEvent;
            64 cuDestroyExternalMemory;
            65 cuDestroyExternalSemaphore;
            66 cuDevResourceGenerateDesc;
            67 cuDevSmResourceSplit;
            68 cuDevSmResourceSplitByCount;
            69 cuDeviceCanAccessPeer;
            70 cuDeviceComputeCapability;
            71 cuDeviceGet;
            72 cuDeviceGetAttribute;
            73 cuDeviceGetByPCIBusId;
            74 cuDeviceGetCliqueCount;
            75 cuDeviceGetCliqueInfo;
            76 cuDeviceGetCount;
            77 cuDeviceGetDefaultMemPool;
            78 cuDeviceGetDevResource;
            79 cuDeviceGetExecAffinitySupport;
            80 cuDeviceGetFabricClusterUuid;
            81 cuDeviceGetGraphMemAttribute;
            82 cuDeviceGetHostAtomicCapabilities;
            83 cuDeviceGetLuid;
            84 cuDeviceGetMemPool;
            85 cuDeviceGetName;
            86 cuDeviceGetNvSciSyncAttributes;
            87 cuDeviceGetP2PAtomicCapabilities;
            88 cuDeviceGetP2PAttribute;
            89 cuDeviceGetPCIBusId;
            90 cuDeviceGetProperties;
            91 cuDeviceGetTexture1DLinearMaxWidth;
            92 cuDeviceGetUuid;
            93 cuDeviceGetUuid_v2;
            94 cuDeviceGraphMemTrim;
            95 cuDevicePrimaryCtxGetState;
            96 cuDevicePrimaryCtxRelease;
            97 cuDevicePrimaryCtxRelease_v2;
            98 cuDevicePrimaryCtxReset;
            99 cuDevicePrimaryCtxReset_v2;
            100 cuDevicePrimaryCtxRetain;
            101 cuDevicePrimaryCtxSetFlags;
            102 cuDevicePrimaryCtxSetFlags_v2;
            103 cuDeviceRegisterAsyncNotification;
            104 cuDeviceSetGraphMemAttribute;
            105 cuDeviceSetMemPool;
            106 cuDeviceTotalMem;
            107 cuDeviceTotalMem_v2;
            108 cuDeviceUnregisterAsyncNotification;
            109 cuDriverGetVersion;
            110 cuEGLStreamConsumerAcquireFrame;
            111 cuEGLStreamConsumerConnect;
            112 cuEGLStreamConsumerConnectWithFlags;
            113 cuEGLStreamConsumerDisconnect;
            114 cuEGLStreamConsumerReleaseFrame;
            115 cuEGLStreamProducerConnect;
            116 cuEGLStreamProducerDisconnect;
            117 cuEGLStreamProducerPresentFrame;
            118 cuEGLStreamProducerReturnFrame;
            119 cuEventCreate;
            120 cuEventCreateFromEGLSync;
            121 cuEventDestroy;
            122 cuEventDestroy_v2;
            123 cuEventElapsedTime;
            124 cuEventElapsedTime_v2;
            125 cuEventQuery;
            126 cuEventRecord;
            127 cuEventRecordWithFlags;
            128 cuEventRecordWithFlags_ptsz;
            129 cuEventRecord_ptsz;
            130 cuEventSynchronize;
            131 cuExternalMemoryGetMappedBuffer;
            132 cuExternalMemoryGetMappedMipmappedArray;
            133 cuFabricCpyBatchAsync;
            134 cuFabricCpyBatchAsync_ptsz;
            135 cuFlushGPUDirectRDMAWrites;
            136 cuFuncGetAttribute;
            137 cuFuncGetModule;
            138 cuFuncGetName;
            139 cuFuncGetParamCount;
            140 cuFuncGetParamInfo;
            141 cuFuncIsLoaded;
            142 cuFuncLoad;
            143 cuFuncSetAttribute;
            144 cuFuncSetBlockShape;
            145 cuFuncSetCacheConfig;
            146 cuFuncSetSharedMemConfig;
            147 cuFuncSetSharedSize;
            148 cuGLCtxCreate;
            149 cuGLCtxCreate_v2;
            150 cuGLGetDevices;
            151 cuGLGetDevices_v2;
            152 cuGLInit;
            153 cuGLMapBufferObject;
            154 cuGLMapBufferObjectAsync;
            155 cuGLMapBufferObjectAsync_v2;
            156 cuGLMapBufferObjectAsync_v2_ptsz;
            157 cuGLMapBufferObject_v2;
            158 cuGLMapBufferObject_v2_ptds;
            159 cuGLRegisterBufferObject;
            160 cuGLSetBufferObjectMapFlags;
            161 cuGLUnmapBufferObject;
            162 cuGLUnmapBufferObjectAsync;
            163 cuGLUnregisterBufferObject;
            164 cuGetErrorName;
            165 cuGetErrorString;
            166 cuGetExportTable;
            167 cuGetProcAddress;
            168 cuGetProcAddress_v2;
            169 cuGraphAddBatchMemOpNode;
            170 cuGraphAddChildGraphNode;
            171 cuGraphAddDependencies;
            172 cuGraphAddDependencies_v2;
            173 cuGraphAddEmptyNode;
            174 cuGraphAddEventRecordNode;
            175 cuGraphAddEventWaitNode;
            176 cuGraphAddExternalSemaphoresSignalNode;
            177 cuGraphAddExternalSemaphoresWaitNode;
            178 cuGraphAddHostNode;
            179 cuGraphAddKernelNode;
            180 cuGraphAddKernelNode_v2;
            181 cuGraphAddMemAllocNode;
            182 cuGraphAddMemFreeNode;
            183 cuGraphAddMemcpyNode;
            184 cuGraphAddMemsetNode;
            185 cuGraphAddNode;
            186 cuGraphAddNode_v2;
            187 cuGraphAddNode_v3;
            188 cuGraphBatchMemOpNodeGetParams;
            189 cuGraphBatchMemOpNodeSetParams;
            190 cuGraphChildGraphNodeGetGraph;
            191 cuGraphClone;
            192 cuGraphConditionalHandleCreate;
            193 cuGraphCreate;
            194 cuGraphDebugDotPrint;
            195 cuGraphDestroy;
            196 cuGraphDestroyNode;
            197 cuGraphEventRecordNodeGetEvent;
            198 cuGraphEventRecordNodeSetEvent;
            199 cuGraphEventWaitNodeGetEvent;
            200 cuGraphEventWaitNodeSetEvent;
            201 cuGraphExecBatchMemOpNodeSetParams;
            202 cuGraphExecChildGraphNodeSetParams;
            203 cuGraphExecDestroy;
            204 cuGraphExecEventRecordNodeSetEvent;
            205 cuGraphExecEventWaitNodeSetEvent;
            206 cuGraphExecExternalSemaphoresSignalNodeSetParams;
            207 cuGraphExecExternalSemaphoresWaitNodeSetParams;
            208 cuGraphExecGetFlags;
            209 cuGraphExecGetId;
            210 cuGraphExecHostNodeSetParams;
            211 cuGraphExecKernelNodeSetParams;
            212 cuGraphExecKernelNodeSetParams_v2;
            213 cuGraphExecMemcpyNodeSetParams;
            214 cuGraphExecMemsetNodeSetParams;
            215 cuGraphExecNodeSetParams;
            216 cuGraphExecUpdate;
            217 cuGraphExecUpdate_v2;
            218 cuGraphExternalSemaphoresSignalNodeGetParams;
            219 cuGraphExternalSemaphoresSignalNodeSetParams;
            220 cuGraphExternalSemaphoresWaitNodeGetParams;
            221 cuGraphExternalSemaphoresWaitNodeSetParams;
            222 cuGraphGetEdges;
            223 cuGraphGetEdges_v2;
            224 cuGraphGetId;
            225 cuGraphGetNodes;
            226 cuGraphGetRootNodes;
            227 cuGraphHostNodeGetParams;
            228 cuGraphHostNodeSetParams;
            229 cuGraphInstantiate;
            230 cuGraphInstantiateWithFlags;
            231 cuGraphInstantiateWithParams;
            232 cuGraphInstantiateWithParams_ptsz;
            233 cuGraphInstantiate_v2;
            234 cuGraphKernelNodeCopyAttributes;
            235 cuGraphKernelNodeGetAttribute;
            236 cuGraphKernelNodeGetParams;
            237 cuGraphKernelNodeGetParams_v2;
            238 cuGraphKernelNodeSetAttribute;
            239 cuGraphKernelNodeSetParams;
            240 cuGraphKernelNodeSetParams_v2;
            241 cuGraphLaunch;
            242 cuGraphLaunch_ptsz;
            243 cuGraphMemAllocNodeGetParams;
            244 cuGraphMemFreeNodeGetParams;
            245 cuGraphMemcpyNodeGetParams;
            246 cuGraphMemcpyNodeSetParams;
            247 cuGraphMemsetNodeGetParams;
            248 cuGraphMemsetNodeSetParams;
            249 cuGraphNodeFindInClone;
            250 cuGraphNodeGetContainingGraph;
            251 cuGraphNodeGetDependencies;
            252 cuGraphNodeGetDependencies_v2;
            253 cuGraphNodeGetDependentNodes;
            254 cuGraphNodeGetDependentNodes_v2;
            255 cuGraphNodeGetEnabled;
            256 cuGraphNodeGetLocalId;
            257 cuGraphNodeGetParams;
            258 cuGraphNodeGetToolsId;
            259 cuGraphNodeGetType;
            260 cuGraphNodeSetEnabled;
            261 cuGraphNodeSetParams;
            262 cuGraphNodeSetParams_v2;
            263 cuGraphReleaseUserObject;
            264 cuGraphRemoveDependencies;
            265 cuGraphRemoveDependencies_v2;
            266 cuGraphRetainUserObject;
            267 cuGraphUpload;
            268 cuGraphUpload_ptsz;
            269 cuGraphicsEGLRegisterImage;
            270 cuGraphicsGLRegisterBuffer;
            271 cuGraphicsGLRegisterImage;
            272 cuGraphicsMapResources;
            273 cuGraphicsMapResources_ptsz;
            274 cuGraphicsResourceGetMappedEglFrame;
            275 cuGraphicsResourceGetMappedMipmappedArray;
            276 cuGraphicsResourceGetMappedPointer;
            277 cuGraphicsResourceGetMappedPointer_v2;
            278 cuGraphicsResourceSetMapFlags;
            279 cuGraphicsResourceSetMapFlags_v2;
            280 cuGraphicsSubResourceGetMappedArray;
            281 cuGraphicsUnmapResources;
            282 cuGraphicsUnmapResources_ptsz;
            283 cuGraphicsUnregisterResource;
            284 cuGraphicsVDPAURegisterOutputSurface;
            285 cuGraphicsVDPAURegisterVideoSurface;
            286 cuGreenCtxCreate;
            287 cuGreenCtxDestroy;
            288 cuGreenCtxGetDevResource;
            289 cuGreenCtxGetId;
            290 cuGreenCtxRecordEvent;
            291 cuGreenCtxStreamCreate;
            292 cuGreenCtxWaitEvent;
            293 cuImportExternalMemory;
            294 cuImportExternalSemaphore;
            295 cuInit;
            296 cuIpcCloseMemHandle;
            297 cuIpcGetEventHandle;
            298 cuIpcGetMemHandle;
            299 cuIpcOpenEventHandle;
            300 cuIpcOpenMemHandle;
            301 cuIpcOpenMemHandle_v2;
            302 cuKernelGetAttribute;
            303 cuKernelGetFunction;
            304 cuKernelGetLibrary;
            305 cuKernelGetName;
            306 cuKernelGetParamCount;
            307 cuKernelGetParamInfo;
            308 cuKernelSetAttribute;
            309 cuKernelSetCacheConfig;
            310 cuLaunch;
            311 cuLaunchCooperativeKernel;
            312 cuLaunchCooperativeKernelMultiDevice;
            313 cuLaunchCooperativeKernel_ptsz;
            314 cuLaunchGrid;
            315 cuLaunchGridAsync;
            316 cuLaunchHostFunc;
            317 cuLaunchHostFunc_ptsz;
            318 cuLaunchHostFunc_v2;
            319 cuLaunchHostFunc_v2_ptsz;
            320 cuLaunchKernel;
            321 cuLaunchKernelEx;
            322 cuLaunchKernelEx_ptsz;
            323 cuLaunchKernel_ptsz;
            324 cuLibraryEnumerateKernels;
            325 cuLibraryGetGlobal;
            326 cuLibraryGetKernel;
            327 cuLibraryGetKernelCount;
            328 cuLibraryGetManaged;
            329 cuLibraryGetModule;
            330 cuLibraryGetUnifiedFunction;
            331 cuLibraryLoadData;
            332 cuLibraryLoadFromFile;
            333 cuLibraryUnload;
            334 cuLinkAddData;
            335 cuLinkAddData_v2;
            336 cuLinkAddFile;
            337 cuLinkAddFile_v2;
            338 cuLinkComplete;
            339 cuLinkCreate;
            340 cuLinkCreate_v2;
            341 cuLinkDestroy;
            342 cuLogicalEndpointAddDevice;
            343 cuLogicalEndpointBindAddr;
            344 cuLogicalEndpointBindMem;
            345 cuLogicalEndpointCreate;
            346 cuLogicalEndpointDestroy;
            347 cuLogicalEndpointExport;
            348 cuLogicalEndpointGetLimits;
            349 cuLogicalEndpointIdRelease;
            350 cuLogicalEndpointIdReserve;
            351 cuLogicalEndpointImport;
            352 cuLogicalEndpointQuery;
            353 cuLogicalEndpointUnbind;
            354 cuLogsCurrent;
            355 cuLogsDumpToFile;
            356 cuLogsDumpToMemory;
            357 cuLogsRegisterCallback;
            358 cuLogsUnregisterCallback;
            359 cuMemAddressFree;
            360 cuMemAddressReserve;
            361 cuMemAdvise;
            362 cuMemAdvise_v2;
            363 cuMemAlloc;
            364 cuMemAllocAsync;
            365 cuMemAllocAsync_ptsz;
            366 cuMemAllocFromPoolAsync;
            367 cuMemAllocFromPoolAsync_ptsz;
            368 cuMemAllocHost;
            369 cuMemAllocHost_v2;
            370 cuMemAllocManaged;
            371 cuMemAllocPitch;
            372 cuMemAllocPitch_v2;
            373 cuMemAlloc_v2;
            374 cuMemBatchDecompressAsync;
            375 cuMemBatchDecompressAsync_ptsz;
            376 cuMemCreate;
            377 cuMemDiscardAndPrefetchBatchAsync;
            378 cuMemDiscardAndPrefetchBatchAsync_ptsz;
            379 cuMemDiscardBatchAsync;
            380 cuMemDiscardBatchAsync_ptsz;
            381 cuMemExportToShareableHandle;
            382 cuMemFree;
            383 cuMemFreeAsync;
            384 cuMemFreeAsync_ptsz;
            385 cuMemFreeHost;
            386 cuMemFree_v2;
            387 cuMemGetAccess;
            388 cuMemGetAddressRange;
            389 cuMemGetAddressRange_v2;
            390 cuMemGetAllocationGranularity;
            391 cuMemGetAllocationPropertiesFromHandle;
            392 cuMemGetDefaultMemPool;
            393 cuMemGetHandleForAddressRange;
            394 cuMemGetInfo;
            395 cuMemGetInfo_v2;
            396 cuMemGetLocationInfo;
            397 cuMemGetMemPool;
            398 cuMemHostAlloc;
            399 cuMemHostGetDevicePointer;
            400 cuMemHostGetDevicePointer_v2;
            401 cuMemHostGetFlags;
            402 cuMemHostRegister;
            403 cuMemHostRegister_v2;
            404 cuMemHostUnregister;
            405 cuMemImportFromShareableHandle;
            406 cuMemMap;
            407 cuMemMapArrayAsync;
            408 cuMemMapArrayAsync_ptsz;
            409 cuMemPoolCreate;
            410 cuMemPoolDestroy;
            411 cuMemPoolExportPointer;
            412 cuMemPoolExportToShareableHandle;
            413 cuMemPoolGetAccess;
            414 cuMemPoolGetAttribute;
            415 cuMemPoolImportFromShareableHandle;
            416 cuMemPoolImportPointer;
            417 cuMemPoolSetAccess;
            418 cuMemPoolSetAttribute;
            419 cuMemPoolTrimTo;
            420 cuMemPrefetchAsync;
            421 cuMemPrefetchAsync_ptsz;
            422 cuMemPrefetchAsync_v2;
            423 cuMemPrefetchAsync_v2_ptsz;
            424 cuMemPrefetchBatchAsync;
            425 cuMemPrefetchBatchAsync_ptsz;
            426 cuMemRangeGetAttribute;
            427 cuMemRangeGetAttributes;
            428 cuMemRelease;
            429 cuMemRetainAllocationHandle;
            430 cuMemSetAccess;
            431 cuMemSetMemPool;
            432 cuMemUnmap;
            433 cuMemcpy;
            434 cuMemcpy2D;
            435 cuMemcpy2DAsync;
            436 cuMemcpy2DAsync_v2;
            437 cuMemcpy2DAsync_v2_ptsz;
            438 cuMemcpy2DUnaligned;
            439 cuMemcpy2DUnaligned_v2;
            440 cuMemcpy2DUnaligned_v2_ptds;
            441 cuMemcpy2D_v2;
            442 cuMemcpy2D_v2_ptds;
            443 cuMemcpy3D;
            444 cuMemcpy3DAsync;
            445 cuMemcpy3DAsync_v2;
            446 cuMemcpy3DAsync_v2_ptsz;
            447 cuMemcpy3DBatchAsync;
            448 cuMemcpy3DBatchAsync_ptsz;
            449 cuMemcpy3DBatchAsync_v2;
            450 cuMemcpy3DBatchAsync_v2_ptsz;
            451 cuMemcpy3DPeer;
            452 cuMemcpy3DPeerAsync;
            453 cuMemcpy3DPeerAsync_ptsz;
            454 cuMemcpy3DPeer_ptds;
            455 cuMemcpy3DWithAttributesAsync;
            456 cuMemcpy3DWithAttributesAsync_ptsz;
            457 cuMemcpy3D_v2;
            458 cuMemcpy3D_v2_ptds;
            459 cuMemcpyAsync;
            460 cuMemcpyAsync_ptsz;
            461 cuMemcpyAtoA;
            462 cuMemcpyAtoA_v2;
            463 cuMemcpyAtoA_v2_ptds;
            464 cuMemcpyAtoD;
            465 cuMemcpyAtoD_v2;
            466 cuMemcpyAtoD_v2_ptds;
            467 cuMemcpyAtoH;
            468 cuMemcpyAtoHAsync;
            469 cuMemcpyAtoHAsync_v2;
            470 cuMemcpyAtoHAsync_v2_ptsz;
            471 cuMemcpyAtoH_v2;
            472 cuMemcpyAtoH_v2_ptds;
            473 cuMemcpyBatchAsync;
            474 cuMemcpyBatchAsync_ptsz;
            475 cuMemcpyBatchAsync_v2;
            476 cuMemcpyBatchAsync_v2_ptsz;
            477 cuMemcpyDtoA;
            478 cuMemcpyDtoA_v2;
            479 cuMemcpyDtoA_v2_ptds;
            480 cuMemcpyDtoD;
            481 cuMemcpyDtoDAsync;
            482 cuMemcpyDtoDAsync_v2;
            483 cuMemcpyDtoDAsync_v2_ptsz;
            484 cuMemcpyDtoD_v2;
            485 cuMemcpyDtoD_v2_ptds;
            486 cuMemcpyDtoH;
            487 cuMemcpyDtoHAsync;
            488 cuMemcpyDtoHAsync_v2;
            489 cuMemcpyDtoHAsync_v2_ptsz;
            490 cuMemcpyDtoH_v2;
            491 cuMemcpyDtoH_v2_ptds;
            492 cuMemcpyHtoA;
            493 cuMemcpyHtoAAsync;
            494 cuMemcpyHtoAAsync_v2;
            495 cuMemcpyHtoAAsync_v2_ptsz;
            496 cuMemcpyHtoA_v2;
            497 cuMemcpyHtoA_v2_ptds;
            498 cuMemcpyHtoD;
            499 cuMemcpyHtoDAsync;
            500 cuMemcpyHtoDAsync_v2;
            501 cuMemcpyHtoDAsync_v2_ptsz;
            502 cuMemcpyHtoD_v2;
            503 cuMemcpyHtoD_v2_ptds;
            504 cuMemcpyPeer;
            505 cuMemcpyPeerAsync;
            506 cuMemcpyPeerAsync_ptsz;
            507 cuMemcpyPeer_ptds;
            508 cuMemcpyWithAttributesAsync;
            509 cuMemcpyWithAttributesAsync_ptsz;
            510 cuMemcpy_ptds;
            511 cuMemsetD16;
            512 cuMemsetD16Async;
            513 cuMemsetD16Async_ptsz;
            514 cuMemsetD16_v2;
            515 cuMemsetD16_v2_ptds;
            516 cuMemsetD2D16;
            517 cuMemsetD2D16Async;
            518 cuMemsetD2D16Async_ptsz;
            519 cuMemsetD2D16_v2;
            520 cuMemsetD2D16_v2_ptds;
            521 cuMemsetD2D32;
            522 cuMemsetD2D32Async;
            523 cuMemsetD2D32Async_ptsz;
            524 cuMemsetD2D32_v2;
            525 cuMemsetD2D32_v2_ptds;
            526 cuMemsetD2D8;
            527 cuMemsetD2D8Async;
            528 cuMemsetD2D8Async_ptsz;
            529 cuMemsetD2D8_v2;
            530 cuMemsetD2D8_v2_ptds;
            531 cuMemsetD32;
            532 cuMemsetD32Async;
            533 cuMemsetD32Async_ptsz;
            534 cuMemsetD32_v2;
            535 cuMemsetD32_v2_ptds;
            536 cuMemsetD8;
            537 cuMemsetD8Async;
            538 cuMemsetD8Async_ptsz;
            539 cuMemsetD8_v2;
            540 cuMemsetD8_v2_ptds;
            541 cuMipmappedArrayCreate;
            542 cuMipmappedArrayDestroy;
            543 cuMipmappedArrayGetLevel;
            544 cuMipmappedArrayGetMemoryRequirements;
            545 cuMipmappedArrayGetSparseProperties;
            546 cuModuleEnumerateFunctions;
            547 cuModuleGetFunction;
            548 cuModuleGetFunctionCount;
            549 cuModuleGetGlobal;
            550 cuModuleGetGlobal_v2;
            551 cuModuleGetLoadingMode;
            552 cuModuleGetSurfRef;
            553 cuModuleGetTexRef;
            554 cuModuleLoad;
            555 cuModuleLoadData;
            556 cuModuleLoadDataEx;
            557 cuModuleLoadFatBinary;
            558 cuModuleUnload;
            559 cuMulticastAddDevice;
            560 cuMulticastBindAddr;
            561 cuMulticastBindAddr_v2;
            562 cuMulticastBindMem;
            563 cuMulticastBindMem_v2;
            564 cuMulticastCreate;
            565 cuMulticastGetGranularity;
            566 cuMulticastUnbind;
            567 cuOccupancyAvailableDynamicSMemPerBlock;
            568 cuOccupancyMaxActiveBlocksPerMultiprocessor;
            569 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
            570 cuOccupancyMaxActiveClusters;
            571 cuOccupancyMaxPotentialBlockSize;
            572 cuOccupancyMaxPotentialBlockSizeWithFlags;
            573 cuOccupancyMaxPotentialClusterSize;
            574 cuParamSetSize;
            575 cuParamSetTexRef;
            576 cuParamSetf;
            577 cuParamSeti;
            578 cuParamSetv;
            579 cuPointerGetAttribute;
            580 cuPointerGetAttributes;
            581 cuPointerSetAttribute;
            582 cuProfilerInitialize;
            583 cuProfilerStart;
            584 cuProfilerStop;
            585 cuSignalExternalSemaphoresAsync;
            586 cuSignalExternalSemaphoresAsync_ptsz;
            587 cuStreamAddCallback;
            588 cuStreamAddCallback_ptsz;
            589 cuStreamAttachMemAsync;
            590 cuStreamAttachMemAsync_ptsz;
            591 cuStreamBatchMemOp;
            592 cuStreamBatchMemOp_ptsz;
            593 cuStreamBatchMemOp_v2;
            594 cuStreamBatchMemOp_v2_ptsz;
            595 cuStreamBeginCapture;
            596 cuStreamBeginCaptureToCig;
            597 cuStreamBeginCaptureToCig_ptsz;
            598 cuStreamBeginCaptureToGraph;
            599 cuStreamBeginCaptureToGraph_ptsz;
            600 cuStreamBeginCapture_ptsz;
            601 cuStreamBeginCapture_v2;
            602 cuStreamBeginCapture_v2_ptsz;
            603 cuStreamBeginRecaptureToGraph;
            604 cuStreamBeginRecaptureToGraph_ptsz;
            605 cuStreamCopyAttributes;
            606 cuStreamCopyAttributes_ptsz;
            607 cuStreamCreate;
            608 cuStreamCreateWithPriority;
            609 cuStreamDestroy;
            610 cuStreamDestroy_v2;
            611 cuStreamEndCapture;
            612 cuStreamEndCaptureToCig;
            613 cuStreamEndCaptureToCig_ptsz;
            614 cuStreamEndCapture_ptsz;
            615 cuStreamGetAttribute;
            616 cuStreamGetAttribute_ptsz;
            617 cuStreamGetCaptureInfo;
            618 cuStreamGetCaptureInfo_ptsz;
            619 cuStreamGetCaptureInfo_v2;
            620 cuStreamGetCaptureInfo_v2_ptsz;
            621 cuStreamGetCaptureInfo_v3;
            622 cuStreamGetCaptureInfo_v3_ptsz;
            623 cuStreamGetCtx;
            624 cuStreamGetCtx_ptsz;
            625 cuStreamGetCtx_v2;
            626 cuStreamGetCtx_v2_ptsz;
            627 cuStreamGetDevResource;
            628 cuStreamGetDevResource_ptsz;
            629 cuStreamGetDevice;
            630 cuStreamGetDevice_ptsz;
            631 cuStreamGetFlags;
            632 cuStreamGetFlags_ptsz;
            633 cuStreamGetGreenCtx;
            634 cuStreamGetId;
            635 cuStreamGetId_ptsz;
            636 cuStreamGetPriority;
            637 cuStreamGetPriority_ptsz;
            638 cuStreamIsCapturing;
            639 cuStreamIsCapturing_ptsz;
            640 cuStreamQuery;
            641 cuStreamQuery_ptsz;
            642 cuStreamSetAttribute;
            643 cuStreamSetAttribute_ptsz;
            644 cuStreamSynchronize;
            645 cuStreamSynchronize_ptsz;
            646 cuStreamUpdateCaptureDependencies;
            647 cuStreamUpdateCaptureDependencies_ptsz;
            648 cuStreamUpdateCaptureDependencies_v2;
            649 cuStreamUpdateCaptureDependencies_v2_ptsz;
            650 cuStreamWaitEvent;
            651 cuStreamWaitEvent_ptsz;
            652 cuStreamWaitValue32;
            653 cuStreamWaitValue32_ptsz;
            654 cuStreamWaitValue32_v2;
            655 cuStreamWaitValue32_v2_ptsz;
            656 cuStreamWaitValue64;
            657 cuStreamWaitValue64_ptsz;
            658 cuStreamWaitValue64_v2;
            659 cuStreamWaitValue64_v2_ptsz;
            660 cuStreamWriteValue32;
            661 cuStreamWriteValue32_ptsz;
            662 cuStreamWriteValue32_v2;
            663 cuStreamWriteValue32_v2_ptsz;
            664 cuStreamWriteValue64;
            665 cuStreamWriteValue64_ptsz;
            666 cuStreamWriteValue64_v2;
            667 cuStreamWriteValue64_v2_ptsz;
            668 cuSurfObjectCreate;
            669 cuSurfObjectDestroy;
            670 cuSurfObjectGetResourceDesc;
            671 cuSurfRefGetArray;
            672 cuSurfRefSetArray;
            673 cuTensorMapEncodeIm2col;
            674 cuTensorMapEncodeIm2colWide;
            675 cuTensorMapEncodeTiled;
            676 cuTensorMapReplaceAddress;
            677 cuTensorMapSetAllocationClass;
            678 cuTexObjectCreate;
            679 cuTexObjectDestroy;
            680 cuTexObjectGetResourceDesc;
            681 cuTexObjectGetResourceViewDesc;
            682 cuTexObjectGetTextureDesc;
            683 cuTexRefCreate;
            684 cuTexRefDestroy;
            685 cuTexRefGetAddress;
            686 cuTexRefGetAddressMode;
            687 cuTexRefGetAddress_v2;
            688 cuTexRefGetArray;
            689 cuTexRefGetBorderColor;
            690 cuTexRefGetFilterMode;
            691 cuTexRefGetFlags;
            692 cuTexRefGetFormat;
            693 cuTexRefGetMaxAnisotropy;
            694 cuTexRefGetMipmapFilterMode;
            695 cuTexRefGetMipmapLevelBias;
            696 cuTexRefGetMipmapLevelClamp;
            697 cuTexRefGetMipmappedArray;
            698 cuTexRefSetAddress;
            699 cuTexRefSetAddress2D;
            700 cuTexRefSetAddress2D_v2;
            701 cuTexRefSetAddress2D_v3;
            702 cuTexRefSetAddressMode;
            703 cuTexRefSetAddress_v2;
            704 cuTexRefSetArray;
            705 cuTexRefSetBorderColor;
            706 cuTexRefSetFilterMode;
            707 cuTexRefSetFlags;
            708 cuTexRefSetFormat;
            709 cuTexRefSetMaxAnisotropy;
            710 cuTexRefSetMipmapFilterMode;
            711 cuTexRefSetMipmapLevelBias;
            712 cuTexRefSetMipmapLevelClamp;
            713 cuTexRefSetMipmappedArray;
            714 cuThreadExchangeStreamCaptureMode;
            715 cuUserObjectCreate;
            716 cuUserObjectRelease;
            717 cuUserObjectRetain;
            718 cuVDPAUCtxCreate;
            719 cuVDPAUCtxCreate_v2;
            720 cuVDPAUGetDevice;
            721 cuWGLGetDevice;
            722 cuWaitExternalSemaphoresAsync;
            723 cuWaitExternalSemaphoresAsync_ptsz;
        }
    };
}
