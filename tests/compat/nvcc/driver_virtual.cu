// Memory management in parts by the driver API: reserved addresses, memory handles, access, pools.
#include "driver.h"

static void virtual_memory() {
    CUmemAllocationProp prop = {}, found = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t unit = 0;
    CU(cuMemGetAllocationGranularity, &unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    EXPECT(unit > 0);
    CUdeviceptr range;
    CU(cuMemAddressReserve, &range, 2 * unit, 0, 0, 0);
    CUmemGenericAllocationHandle memory, imported, retained;
    CU(cuMemCreate, &memory, unit, &prop, 0);
    int file = -1;
    CU(cuMemExportToShareableHandle, &file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    CU(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CU(cuMemMap, range, unit, 0, memory, 0);
    CU(cuMemMap, range + unit, unit, 0, imported, 0);
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemSetAccess, range, 2 * unit, &access, 1);
    unsigned long long flags = 0;
    CU(cuMemGetAccess, &flags, &access.location, range);
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    int value = 0;
    CU(cuMemsetD32, range + 64, 77, 1);
    CU(cuMemcpyDtoH, &value, range + unit + 64, sizeof value);
    EXPECT(value == 77);
    CU(cuMemRetainAllocationHandle, &retained, reinterpret_cast<void *>(range));
    CU(cuMemGetAllocationPropertiesFromHandle, &found, retained);
    EXPECT(found.type == prop.type && found.location.id == 0);
    for (auto handle : {memory, imported, retained}) CU(cuMemRelease, handle);
    CU(cuMemUnmap, range, 2 * unit);
    CU(cuMemAddressFree, range, 2 * unit);
}

static void pools() {
    CUmemoryPool own, usual, current;
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CU(cuMemPoolCreate, &own, &props);
    CU(cuDeviceGetDefaultMemPool, &usual, 0);
    CU(cuDeviceGetMemPool, &current, 0);
    EXPECT(current == usual);
    CU(cuDeviceSetMemPool, 0, own);
    CU(cuDeviceGetMemPool, &current, 0);
    EXPECT(current == own);
    cuuint64_t threshold = 1 << 20, read = 0;
    CU(cuMemPoolSetAttribute, own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    CU(cuMemPoolGetAttribute, own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read);
    EXPECT(read == threshold);
    CUdeviceptr first, second;
    CU(cuMemAllocAsync, &first, 4096, nullptr);
    CU(cuMemAllocFromPoolAsync, &second, 4096, usual, nullptr);
    CU(cuMemsetD32, first, 3, 1024);
    CU(cuMemcpyDtoD, second, first, 4096);
    int value = 0;
    CU(cuMemcpyDtoH, &value, second + 4092, 4);
    EXPECT(value == 3);
    CU(cuMemPoolGetAttribute, own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &read);
    EXPECT(read >= 4096);
    CU(cuMemFreeAsync, first, nullptr);
    CU(cuMemFreeAsync, second, nullptr);
    CU(cuStreamSynchronize, nullptr);
    CU(cuMemPoolGetAttribute, own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &read);
    EXPECT(read == 0);
    CU(cuMemPoolTrimTo, own, 0);
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CU(cuMemPoolSetAccess, own, &access, 1);
    CU(cuMemPoolGetAccess, &flags, own, &access.location);
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CU(cuDeviceSetMemPool, 0, usual);
    CU(cuMemPoolDestroy, own);
}

int main() {
    primary_context();
    virtual_memory();
    pools();
}
