// Devices and contexts by the driver API: what they are asked, what is set, which one is current.
#include "driver.h"

static void devices() {
    CUdevice device, same;
    int count = 0, value = -1, major = 0, minor = 0, version = 0;
    char name[64], bus[32];
    CUuuid uuid, again;
    size_t bytes = 0;
    CU(cuDriverGetVersion, &version);
    EXPECT(version >= 11000);
    CU(cuDeviceGetCount, &count);
    EXPECT(count >= 1);
    ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, count);
    CU(cuDeviceGet, &device, 0);
    CU(cuDeviceGetName, name, sizeof name, device);
    EXPECT(std::strlen(name) > 3);
    CU(cuDeviceGetUuid, &uuid, device);
    CU(cuDeviceGetUuid_v2, &again, device);
    EXPECT(std::memcmp(&uuid, &again, sizeof uuid) == 0);
    CU(cuDeviceTotalMem, &bytes, device);
    EXPECT(bytes > 1 << 20);
    CU(cuDeviceGetPCIBusId, bus, sizeof bus, device);
    CU(cuDeviceGetByPCIBusId, &same, bus);
    EXPECT(same == device);
    CU(cuDeviceComputeCapability, &major, &minor, device);
    CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    EXPECT(value == major);
    CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
    EXPECT(value == 32);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value, CUdevice_attribute(9999), device);
    CU(cuDeviceCanAccessPeer, &value, device, device);
    EXPECT(value == 0);
    ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute, &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device,
            device);
}

static void errors() {
    const char *text = nullptr;
    CU(cuGetErrorName, CUDA_ERROR_INVALID_VALUE, &text);
    EXPECT(std::strcmp(text, "CUDA_ERROR_INVALID_VALUE") == 0);
    CU(cuGetErrorString, CUDA_ERROR_OUT_OF_MEMORY, &text);
    EXPECT(std::strcmp(text, "out of memory") == 0);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName, CUresult(123456), &text);
    EXPECT(text == nullptr);
}

static void primary() {
    unsigned flags = 99;
    int active = -1;
    CUcontext context, current;
    CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    EXPECT(flags == 0 && active == 0);
    CU(cuDevicePrimaryCtxSetFlags, 0, CU_CTX_SCHED_BLOCKING_SYNC);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC && active == 1);
    CU(cuCtxGetCurrent, &current);
    EXPECT(current == nullptr);
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize);
    CU(cuCtxPushCurrent, context);
    CU(cuCtxSynchronize);
    CU(cuCtxGetFlags, &flags);
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    CU(cuCtxPopCurrent, &current);
    EXPECT(current == context);
    CU(cuDevicePrimaryCtxRelease, 0);
    CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    EXPECT(active == 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuDevicePrimaryCtxReset, 0);
    CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    EXPECT(active == 0);
}

static void settings() {
    size_t value = 0;
    int least = -99, greatest = 99;
    CUfunc_cache cache;
    CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 4096);
    CU(cuCtxGetLimit, &value, CU_LIMIT_STACK_SIZE);
    EXPECT(value >= 4096);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit, &value, CUlimit(77));
    CU(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
    CU(cuCtxGetCacheConfig, &cache);
    EXPECT(cache == CU_FUNC_CACHE_PREFER_L1 || cache == CU_FUNC_CACHE_PREFER_NONE);
    CU(cuCtxGetStreamPriorityRange, &least, &greatest);
    EXPECT(greatest <= least);
    CU(cuCtxResetPersistingL2Cache);
}

static void own_contexts() {
    CUcontext first = primary_context(), second, current;
    CUdevice device = -1;
    unsigned version = 0;
#if CUDA_VERSION >= 13000
    CU(cuCtxCreate, &second, nullptr, CU_CTX_SCHED_AUTO, 0);
#else
    CU(cuCtxCreate, &second, CU_CTX_SCHED_AUTO, 0);
#endif
    CU(cuCtxGetCurrent, &current);
    EXPECT(current == second && second != first);
    CU(cuCtxGetApiVersion, second, &version);
    EXPECT(version >= 3010);
    settings();
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, 4096);
    CU(cuMemsetD32, memory, 5, 1024);
    CU(cuCtxSynchronize);
#if CUDA_VERSION >= 12000
    unsigned long long id = 0, other = 0;
    CU(cuCtxGetId, first, &id);
    CU(cuCtxGetId, second, &other);
    EXPECT(id != other);
    CU(cuCtxSetFlags, CU_CTX_SCHED_SPIN);
#endif
#if CUDA_VERSION >= 13000
    CU(cuCtxGetDevice_v2, &device, first);
    CU(cuCtxSynchronize_v2, first);
#endif
    ANSWERS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, first);
    CU(cuCtxDestroy, second);
    CU(cuCtxGetCurrent, &current);
    EXPECT(current != second);
    CU(cuCtxSetCurrent, first);
    CU(cuCtxGetDevice, &device);
    EXPECT(device == 0);
}

int main() {
    CUdevice device;
    ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet, &device, 0);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuInit, 1);
    CU(cuInit, 0);
    devices();
    errors();
    primary();
    own_contexts();
}
