// Memory by the driver API: fills, copies of every form, host memory, managed memory, pointers.
#include "driver.h"
#include <numeric>

static CUdeviceptr a, b;
static std::vector<unsigned> host(1024);

static void download(CUdeviceptr from) { CU(cuMemcpyDtoH, host.data(), from, 4096); }

static void fills() {
    CU(cuMemsetD8, a, 0x11, 4096);
    CU(cuMemsetD16, a, 0x2222, 1024);
    CU(cuMemsetD32, a, 0x33333333, 256);
    download(a);
    EXPECT(host[0] == 0x33333333 && host[256] == 0x22222222 && host[512] == 0x11111111);
    CU(cuMemsetD2D8, a, 64, 0x44, 4, 3);
    CU(cuMemsetD2D16, a + 4, 64, 0x5555, 2, 3);
    CU(cuMemsetD2D32, a + 8, 64, 0x66666666, 1, 3);
    download(a);
    for (int row = 0; row < 4; row++) {
        bool in = row < 3;
        EXPECT(host[16 * row] == (in ? 0x44444444 : 0x33333333) && host[16 * row + 1] == (in ? 0x55555555 : 0x33333333));
        EXPECT(host[16 * row + 2] == (in ? 0x66666666 : 0x33333333) && host[16 * row + 3] == 0x33333333);
    }
    CUstream stream;
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemsetD8Async, a, 1, 4096, stream);
    CU(cuMemsetD16Async, a, 0x202, 8, stream);
    CU(cuMemsetD32Async, a, 0x3030303, 2, stream);
    CU(cuMemsetD2D8Async, a + 1024, 64, 4, 4, 2, stream);
    CU(cuMemsetD2D16Async, a + 2048, 64, 0x505, 2, 2, stream);
    CU(cuMemsetD2D32Async, a + 3072, 64, 0x6060606, 1, 2, stream);
    CU(cuStreamSynchronize, stream);
    download(a);
    EXPECT(host[1] == 0x3030303 && host[3] == 0x2020202 && host[4] == 0x1010101);
    EXPECT(host[256 + 16] == 0x4040404 && host[512 + 16] == 0x5050505 && host[768 + 16] == 0x6060606);
    CU(cuStreamDestroy, stream);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32, a + 1, 0, 1);
}

static void copies() {
    std::vector<unsigned> in(1024);
    std::iota(in.begin(), in.end(), 0);
    CU(cuMemcpyHtoD, a, in.data(), 4096);
    CU(cuMemcpyDtoD, b, a, 4096);
    download(b);
    EXPECT(host == in);
    CU(cuMemcpy, a, b + 2048, 2048);
    download(a);
    EXPECT(host[0] == 512 && host[512] == 512);
    CUstream stream;
    CU(cuStreamCreate, &stream, CU_STREAM_DEFAULT);
    CU(cuMemcpyHtoDAsync, a, in.data(), 4096, stream);
    CU(cuMemcpyDtoDAsync, b, a, 4, stream);
    CU(cuMemcpyAsync, b + 4, a + 8, 4, stream);
    CU(cuMemcpyDtoHAsync, host.data(), b, 4096, stream);
    CU(cuStreamSynchronize, stream);
    EXPECT(host[0] == 0 && host[1] == 2 && host[2] == 2);
    CUcontext context;
    CU(cuCtxGetCurrent, &context);
    CU(cuMemcpyPeer, b, context, a, context, 64);
    CU(cuMemcpyPeerAsync, b + 64, context, a, context, 64, stream);
    CU(cuStreamSynchronize, stream);
    download(b);
    EXPECT(host[1] == 1 && host[17] == 1);
#if CUDA_VERSION >= 13000
    CUdeviceptr to[2] = {b, b + 1024}, from[2] = {a + 400, a + 800};
    size_t sizes[2] = {40, 80}, first = 0;
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CU(cuMemcpyBatchAsync, to, from, sizes, 2, &attributes, &first, 1, stream);
    CU(cuStreamSynchronize, stream);
    download(b);
    EXPECT(host[0] == 100 && host[256] == 200);
#endif
    CU(cuStreamDestroy, stream);
}

static void boxes() {
    std::vector<unsigned> in(1024);
    std::iota(in.begin(), in.end(), 0);
    CUDA_MEMCPY2D flat = {};
    flat.srcMemoryType = CU_MEMORYTYPE_HOST;
    flat.srcHost = in.data();
    flat.srcPitch = 128;
    flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    flat.dstDevice = a;
    flat.dstPitch = 64;
    flat.srcXInBytes = 8;
    flat.srcY = 1;
    flat.WidthInBytes = 16;
    flat.Height = 4;
    CU(cuMemcpy2D, &flat);
    download(a);
    EXPECT(host[0] == 34 && host[16] == 66 && host[19] == 69);
    flat.WidthInBytes = 4;
    CU(cuMemcpy2DUnaligned, &flat);
    flat.srcY = 2;
    CU(cuMemcpy2DAsync, &flat, nullptr);
    CU(cuStreamSynchronize, nullptr);
    download(a);
    EXPECT(host[0] == 66 && host[1] == 35);
    CUDA_MEMCPY3D deep = {};
    deep.srcMemoryType = CU_MEMORYTYPE_HOST;
    deep.srcHost = in.data();
    deep.srcPitch = 32;
    deep.srcHeight = 8;
    deep.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    deep.dstDevice = b;
    deep.dstPitch = 16;
    deep.dstHeight = 2;
    deep.srcZ = 1;
    deep.WidthInBytes = 16;
    deep.Height = 2;
    deep.Depth = 2;
    CU(cuMemcpy3D, &deep);
    download(b);
    EXPECT(host[0] == 64 && host[4] == 72 && host[8] == 128 && host[15] == 139);
    deep.srcZ = 0;
    CU(cuMemcpy3DAsync, &deep, nullptr);
    CU(cuStreamSynchronize, nullptr);
    download(b);
    EXPECT(host[0] == 0 && host[8] == 64);
    CUDA_MEMCPY3D_PEER peer = {};
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    peer.srcDevice = b;
    peer.dstDevice = a;
    peer.srcPitch = peer.dstPitch = 16;
    peer.srcHeight = peer.dstHeight = 4;
    CU(cuCtxGetCurrent, &peer.srcContext);
    peer.dstContext = peer.srcContext;
    peer.WidthInBytes = 16;
    peer.Height = 4;
    peer.Depth = 1;
    CU(cuMemcpy3DPeer, &peer);
    CU(cuMemcpy3DPeerAsync, &peer, nullptr);
    CU(cuStreamSynchronize, nullptr);
    download(a);
    EXPECT(host[8] == 64);
}

static void pointers() {
    CUdeviceptr base = 0, pitched;
    size_t size = 0, pitch = 0;
    CU(cuMemGetAddressRange, &base, &size, a + 100);
    EXPECT(base == a && size == 4096);
    CU(cuMemAllocPitch, &pitched, &pitch, 100, 10, 4);
    EXPECT(pitch >= 100 && pitch % 4 == 0);
    CUmemorytype type = {};
    CUcontext context, current;
    unsigned long long id = 0, other = 0;
    CU(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 8);
    EXPECT(type == CU_MEMORYTYPE_DEVICE);
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&context, &id};
    CU(cuPointerGetAttributes, 2, names, values, a);
    CU(cuCtxGetCurrent, &current);
    EXPECT(context == current);
    CU(cuPointerGetAttribute, &other, CU_POINTER_ATTRIBUTE_BUFFER_ID, b);
    EXPECT(id != other);
    int stack = 0, synchronous = 1;
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(&stack));
    CU(cuPointerSetAttribute, &synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a);
    CU(cuMemFree, pitched);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree, pitched);
}

static void host_memory() {
    void *pinned, *mapped;
    unsigned flags = 0;
    CUdeviceptr seen = 0;
    CU(cuMemAllocHost, &pinned, 4096);
    CU(cuMemHostAlloc, &mapped, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    CU(cuMemHostGetFlags, &flags, mapped);
    EXPECT(flags & CU_MEMHOSTALLOC_DEVICEMAP);
    CU(cuMemHostGetDevicePointer, &seen, mapped, 0);
    CU(cuMemsetD8, seen, 9, 4096);
    EXPECT(static_cast<char *>(mapped)[4095] == 9);
    CU(cuMemcpyDtoH, pinned, seen, 4096);
    EXPECT(static_cast<char *>(pinned)[17] == 9);
    void *pages = std::aligned_alloc(4096, 4096);
    CU(cuMemHostRegister, pages, 4096, CU_MEMHOSTREGISTER_DEVICEMAP);
    ANSWERS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, pages, 4096, 0);
    CU(cuMemcpyDtoH, pages, seen, 4096);
    CU(cuMemHostUnregister, pages);
    EXPECT(static_cast<char *>(pages)[1] == 9);
    CU(cuMemFreeHost, pinned);
    CU(cuMemFreeHost, mapped);
    std::free(pages);
}

static void managed() {
    CUdeviceptr memory;
    CU(cuMemAllocManaged, &memory, 8192, CU_MEM_ATTACH_GLOBAL);
    int *words = reinterpret_cast<int *>(memory), answer = -1, preferred = -1;
    words[5] = 4;
#if CUDA_VERSION >= 13000
    CUmemLocation place = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CU(cuMemAdvise, memory, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, place);
    CU(cuMemAdvise, memory, 8192, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place);
    CU(cuMemPrefetchAsync, memory, 8192, place, 0, nullptr);
#else
    CU(cuMemAdvise, memory, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
    CU(cuMemAdvise, memory, 8192, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
    CU(cuMemPrefetchAsync, memory, 8192, 0, nullptr);
#endif
    CU(cuMemRangeGetAttribute, &answer, sizeof answer, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 8192);
    EXPECT(answer == 1);
    void *values[] = {&answer, &preferred};
    size_t sizes[] = {sizeof answer, sizeof preferred};
    CUmem_range_attribute names[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    CU(cuMemRangeGetAttributes, values, sizes, names, 2, memory, 8192);
    EXPECT(answer == 1 && preferred == 0);
    CU(cuStreamAttachMemAsync, nullptr, memory, 0, CU_MEM_ATTACH_GLOBAL);
    CU(cuMemsetD32, memory, 8, 5);
    CU(cuCtxSynchronize);
    EXPECT(words[4] == 8 && words[5] == 4);
    CU(cuMemFree, memory);
}

int main() {
    size_t free_bytes = 0, total = 0;
    primary_context();
    CU(cuMemAlloc, &a, 4096);
    CU(cuMemAlloc, &b, 4096);
    CU(cuMemGetInfo, &free_bytes, &total);
    EXPECT(0 < free_bytes && free_bytes <= total);
    fills();
    copies();
    boxes();
    pointers();
    host_memory();
    managed();
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc, &a, 0);
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &a, size_t(1) << 60);
}
