// Which driver calls wait for the work of a context, and whether other threads can launch meanwhile.
//
//   waitcalls CUBIN...     prints a line a call: name, its duration in ms, longest launch of another thread in ms, CUresult
//
// Each call is made while a kernel of KERNEL_MS runs in another stream of the context, and a second thread launches an
// empty kernel in a third stream again and again. A call that takes about as long as the kernel waits for the context;
// if the other thread's longest launch takes as long too, the driver's lock is taken. CUBINs have the kernels k1, k2, k3;
// k3 has 16 KiB of local memory a thread and all have the variable g (waitcalls.py compiles them).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

static const double KERNEL_MS = 400;
static const double CLOCKS_PER_MS = 1.98e6;
static const size_t MIB = 1 << 20;

#define CHECK(call)                                                         \
    do {                                                                    \
        CUresult code = (call);                                             \
        if (code) {                                                         \
            std::fprintf(stderr, "line %d: %s: error %d\n", __LINE__, #call, code); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

static const char *SPIN = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 clocks) {
    .reg .b64 %r<4>; .reg .pred %p;
    ld.param.u64 %r1, [clocks];
    mov.u64 %r2, %clock64;
loop:
    mov.u64 %r3, %clock64;
    sub.s64 %r3, %r3, %r2;
    setp.lt.s64 %p, %r3, %r1;
    @%p bra loop;
    ret;
}
.visible .entry nothing() { ret; }
.visible .entry add(.param .u64 at) {
    .reg .b64 %r<3>; .reg .b32 %a<3>;
    ld.param.u64 %r1, [at];
    ld.global.u32 %a1, [%r1];
    add.u32 %a1, %a1, 1;
    st.global.u32 [%r1], %a1;
    ret;
}
)";

static CUcontext context;
static CUstream holder, own, others;
static CUfunction spin, nothing;
static std::atomic<bool> ended{false};
static std::atomic<long> longest_ns{0};
// When the launch that has not returned yet began; 0 if none is in progress.
static std::atomic<double> launching_since_ms{0};

static double now_ms() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

static void launch_again_and_again() {
    CHECK(cuCtxSetCurrent(context));
    for (long count = 0; !ended; count++) {
        double start = now_ms();
        launching_since_ms = start;
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, others, nullptr, nullptr));
        launching_since_ms = 0;
        long took = long((now_ms() - start) * 1e6), seen = longest_ns;
        while (took > seen && !longest_ns.compare_exchange_weak(seen, took)) {}
        // The queue is short, so that a launch does not wait for room in it.
        while (cuStreamQuery(others) == CUDA_ERROR_NOT_READY && !ended) usleep(20);
        usleep(50);
    }
}

static void measure(const char *name, const std::function<CUresult()> &call) {
    static long long clocks = (long long)(CLOCKS_PER_MS * KERNEL_MS);
    void *parameters[] = {&clocks};
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, holder, parameters, nullptr));
    usleep(10000);
    longest_ns = 0;
    double start = now_ms();
    CUresult result = call();
    double end = now_ms(), took = end - start, since = launching_since_ms;
    double other = std::max(double(longest_ns) / 1e6, since > 0 ? end - since : 0);
    std::printf("%s\t%.3f\t%.3f\t%d\n", name, took, other, result);
    std::fflush(stdout);
    CHECK(cuStreamSynchronize(holder));
    cuStreamSynchronize(own);
}

static std::string contents(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

static std::string fresh_ptx(int number) {
    std::string text = SPIN;
    return text + ".visible .entry f" + std::to_string(number) + "() { ret; }\n";
}

static char *host_pages(size_t bytes) {
    void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(pages, 1, bytes);
    return (char *)pages;
}

static void modules(int count, char **paths) {
    std::string first = fresh_ptx(1), second = fresh_ptx(2);
    CUmodule module;
    CUfunction function;
    CUdeviceptr global;
    size_t bytes;
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, MIB));
    void *parameters[] = {&memory};
    measure("cuModuleLoadDataEx(PTX)", [&] { return cuModuleLoadDataEx(&module, first.c_str(), 0, nullptr, nullptr); });
    measure("cuModuleGetFunction(PTX)", [&] { return cuModuleGetFunction(&function, module, "add"); });
    measure("cuLaunchKernel(first, PTX)",
            [&] { return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, own, parameters, nullptr); });
    measure("cuLaunchKernel", [&] { return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, own, parameters, nullptr); });
    measure("cuFuncSetAttribute", [&] {
        return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536);
    });
    measure("cuFuncSetCacheConfig", [&] { return cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_SHARED); });
    int answer;
    measure("cuFuncGetAttribute", [&] { return cuFuncGetAttribute(&answer, CU_FUNC_ATTRIBUTE_NUM_REGS, function); });
    measure("cuModuleUnload", [&] { return cuModuleUnload(module); });
    for (int index = 0; index < count; index++) {
        std::string image = contents(paths[index]), kernel = "k" + std::to_string(index + 1);
        std::string label = index == 2 ? "(cubin, local memory)" : index == 1 ? "(cubin, second)" : "(cubin)";
        measure(("cuModuleLoadDataEx" + label).c_str(),
                [&] { return cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr); });
        measure(("cuModuleGetFunction" + label).c_str(),
                [&] { return cuModuleGetFunction(&function, module, kernel.c_str()); });
        measure(("cuModuleGetGlobal" + label).c_str(), [&] { return cuModuleGetGlobal(&global, &bytes, module, "g"); });
        measure(("cuLaunchKernel(first)" + label).c_str(),
                [&] { return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, own, parameters, nullptr); });
    }
    CUlibrary library;
    CUkernel kernel;
    measure("cuLibraryLoadData(PTX)",
            [&] { return cuLibraryLoadData(&library, second.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0); });
    measure("cuLibraryGetKernel", [&] { return cuLibraryGetKernel(&kernel, library, "add"); });
    measure("cuKernelGetFunction(first)", [&] { return cuKernelGetFunction(&function, kernel); });
    measure("cuKernelGetFunction", [&] { return cuKernelGetFunction(&function, kernel); });
    measure("cuLibraryUnload", [&] { return cuLibraryUnload(library); });
    CUlinkState link;
    void *cubin;
    std::string input = fresh_ptx(3);
    measure("cuLinkCreate", [&] { return cuLinkCreate(0, nullptr, nullptr, &link); });
    measure("cuLinkAddData", [&] {
        return cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)input.c_str(), input.size() + 1, "x", 0, nullptr, nullptr);
    });
    measure("cuLinkComplete", [&] { return cuLinkComplete(link, &cubin, &bytes); });
    measure("cuLinkDestroy", [&] { return cuLinkDestroy(link); });
}

static void memory() {
    char *pages = host_pages(8 * MIB);
    void *pinned;
    CUdeviceptr device, managed, registered;
    measure("cuMemHostRegister", [&] { return cuMemHostRegister(pages, 4 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP); });
    measure("cuMemHostGetDevicePointer", [&] { return cuMemHostGetDevicePointer(&registered, pages, 0); });
    measure("cuMemHostUnregister", [&] { return cuMemHostUnregister(pages); });
    measure("cuMemHostAlloc", [&] { return cuMemHostAlloc(&pinned, 16 * MIB, 0); });
    measure("cuMemFreeHost", [&] { return cuMemFreeHost(pinned); });
    measure("cuMemAlloc", [&] { return cuMemAlloc(&device, 64 * MIB); });
    measure("cuMemFree", [&] { return cuMemFree(device); });
    measure("cuMemAllocAsync", [&] { return cuMemAllocAsync(&device, 64 * MIB, own); });
    measure("cuMemFreeAsync", [&] { return cuMemFreeAsync(device, own); });
    measure("cuMemAllocManaged", [&] { return cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL); });
    measure("cuMemFree(managed)", [&] { return cuMemFree(managed); });
    size_t free_bytes, total;
    measure("cuMemGetInfo", [&] { return cuMemGetInfo(&free_bytes, &total); });

    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle physical, imported;
    CUdeviceptr at;
    int file = -1;
    measure("cuMemCreate", [&] { return cuMemCreate(&physical, 64 * MIB, &properties, 0); });
    measure("cuMemAddressReserve", [&] { return cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0); });
    measure("cuMemMap", [&] { return cuMemMap(at, 64 * MIB, 0, physical, 0); });
    measure("cuMemSetAccess", [&] { return cuMemSetAccess(at, 64 * MIB, &access, 1); });
    measure("cuMemExportToShareableHandle",
            [&] { return cuMemExportToShareableHandle(&file, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0); });
    measure("cuMemImportFromShareableHandle", [&] {
        return cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    });
    measure("cuMemsetD8Async", [&] { return cuMemsetD8Async(at, 0, MIB, own); });
    measure("cuMemsetD2D8Async", [&] { return cuMemsetD2D8Async(at, 4096, 0, 256, 16, own); });
    measure("cuMemcpyDtoDAsync", [&] { return cuMemcpyDtoDAsync(at, at + 2 * MIB, MIB, own); });
    measure("cuMemcpyHtoDAsync", [&] { return cuMemcpyHtoDAsync(at, pages, MIB, own); });
    measure("cuMemcpyDtoHAsync", [&] { return cuMemcpyDtoHAsync(pages, at, MIB, own); });
    measure("cuMemUnmap", [&] { return cuMemUnmap(at, 64 * MIB); });
    measure("cuMemAddressFree", [&] { return cuMemAddressFree(at, 64 * MIB); });
    measure("cuMemRelease", [&] { return cuMemRelease(physical); });

    CUarray array;
    CUmipmappedArray mipmapped;
    CUDA_ARRAY3D_DESCRIPTOR shape{256, 256, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    measure("cuArray3DCreate", [&] { return cuArray3DCreate(&array, &shape); });
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = pages, copy.srcPitch = 1024;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
    copy.WidthInBytes = 1024, copy.Height = 256, copy.Depth = 1;
    measure("cuMemcpy3D", [&] { return cuMemcpy3D(&copy); });
    measure("cuMemcpy3DAsync", [&] { return cuMemcpy3DAsync(&copy, own); });
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC sampling{};
    CUtexObject texture;
    CUsurfObject surface;
    measure("cuTexObjectCreate", [&] { return cuTexObjectCreate(&texture, &resource, &sampling, nullptr); });
    measure("cuTexObjectDestroy", [&] { return cuTexObjectDestroy(texture); });
    measure("cuSurfObjectCreate", [&] { return cuSurfObjectCreate(&surface, &resource); });
    measure("cuSurfObjectDestroy", [&] { return cuSurfObjectDestroy(surface); });
    measure("cuArrayDestroy", [&] { return cuArrayDestroy(array); });
    measure("cuMipmappedArrayCreate", [&] { return cuMipmappedArrayCreate(&mipmapped, &shape, 3); });
    measure("cuMipmappedArrayGetLevel", [&] { return cuMipmappedArrayGetLevel(&array, mipmapped, 1); });
    measure("cuMipmappedArrayDestroy", [&] { return cuMipmappedArrayDestroy(mipmapped); });
}

static void streams_and_graphs() {
    CUevent event;
    CUstream stream;
    measure("cuEventCreate", [&] { return cuEventCreate(&event, 0); });
    measure("cuEventRecord", [&] { return cuEventRecord(event, own); });
    measure("cuStreamWaitEvent", [&] { return cuStreamWaitEvent(own, event, 0); });
    measure("cuEventQuery", [&] { return cuEventQuery(event); });
    measure("cuEventDestroy", [&] { return cuEventDestroy(event); });
    measure("cuStreamCreateWithPriority", [&] { return cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0); });
    measure("cuStreamDestroy", [&] { return cuStreamDestroy(stream); });
    CUdeviceptr word;
    CHECK(cuMemAlloc(&word, 4096));
    measure("cuStreamWriteValue32", [&] { return cuStreamWriteValue32(own, word, 1, 0); });
    measure("cuStreamWaitValue32", [&] { return cuStreamWaitValue32(own, word, 1, CU_STREAM_WAIT_VALUE_GEQ); });
    measure("cuLaunchHostFunc", [&] { return cuLaunchHostFunc(own, [](void *) {}, nullptr); });
    measure("cuStreamSynchronize(other stream)", [&] { return cuStreamSynchronize(own); });
    measure("cuStreamSynchronize(default stream)", [&] { return cuStreamSynchronize(nullptr); });

    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    measure("cuGraphCreate", [&] { return cuGraphCreate(&graph, 0); });
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = nothing;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    measure("cuGraphAddKernelNode", [&] { return cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel); });
    measure("cuGraphInstantiate", [&] { return cuGraphInstantiateWithFlags(&exec, graph, 0); });
    measure("cuGraphLaunch(first)", [&] { return cuGraphLaunch(exec, own); });
    measure("cuGraphLaunch", [&] { return cuGraphLaunch(exec, own); });
    CUgraphExecUpdateResultInfo update;
    measure("cuGraphExecKernelNodeSetParams", [&] { return cuGraphExecKernelNodeSetParams(exec, node, &kernel); });
    measure("cuGraphExecUpdate", [&] { return cuGraphExecUpdate(exec, graph, &update); });
    measure("cuGraphExecDestroy", [&] { return cuGraphExecDestroy(exec); });
    measure("cuGraphDestroy", [&] { return cuGraphDestroy(graph); });
}

static void context_settings() {
    measure("cuCtxSetLimit(printf FIFO)", [] { return cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 8 * MIB); });
    measure("cuCtxSetLimit(heap)", [] { return cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB); });
    measure("cuCtxSetLimit(stack)", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 32768); });
    CUdevResource all, group[1], rest;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    unsigned count = 1;
    measure("cuDeviceGetDevResource", [&] { return cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM); });
    measure("cuDevSmResourceSplitByCount", [&] { return cuDevSmResourceSplitByCount(group, &count, &all, &rest, 0, 16); });
    measure("cuDevResourceGenerateDesc", [&] { return cuDevResourceGenerateDesc(&description, &rest, 1); });
    measure("cuGreenCtxCreate", [&] { return cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM); });
    measure("cuGreenCtxStreamCreate", [&] { return cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0); });
    measure("cuStreamDestroy(green)", [&] { return cuStreamDestroy(stream); });
    measure("cuGreenCtxDestroy", [&] { return cuGreenCtxDestroy(green); });
}

int main(int count, char **arguments) {
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, SPIN));
    CHECK(cuModuleGetFunction(&spin, module, "spin"));
    CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
    for (CUstream *stream : {&holder, &own, &others}) CHECK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, own, nullptr, nullptr));
    CHECK(cuStreamSynchronize(own));
    std::thread other(launch_again_and_again);
    modules(count - 1, arguments + 1);
    memory();
    streams_and_graphs();
    context_settings();
    ended = true;
    other.join();
    std::fflush(stdout);
    _exit(0);
}
