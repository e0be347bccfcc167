// Answers of the driver that differ from what its manual makes one expect.
#include "driver.h"
#include <fcntl.h>
#include <unistd.h>

// Two streams of a capture, the second of which is destroyed before the end.
static void destroyed_in_a_capture(bool joined, CUresult expected) {
    CUstream origin, side;
    CUevent fork, join;
    CUdeviceptr memory;
    CUgraph graph = nullptr;
    CU(cuStreamCreate, &origin, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &side, CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate, &fork, CU_EVENT_DISABLE_TIMING);
    CU(cuEventCreate, &join, CU_EVENT_DISABLE_TIMING);
    CU(cuMemAlloc, &memory, 64);
    CU(cuStreamBeginCapture, origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuMemsetD32Async, memory, 1, 8, origin);
    CU(cuEventRecord, fork, origin);
    CU(cuStreamWaitEvent, side, fork, 0);
    CU(cuMemsetD32Async, memory + 32, 2, 8, side);
    if (joined) {
        CU(cuEventRecord, join, side);
        CU(cuStreamWaitEvent, origin, join, 0);
    }
    CU(cuStreamDestroy, side);
    CUstreamCaptureStatus status;
    CU(cuStreamIsCapturing, origin, &status);
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ANSWERS(expected, cuStreamEndCapture, origin, &graph);
    if (joined) {
        CUgraphExec exec;
        CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
        CU(cuGraphLaunch, exec, origin);
        CU(cuStreamSynchronize, origin);
        int words[16];
        CU(cuMemcpyDtoH, words, memory, sizeof words);
        for (int i = 0; i < 16; i++) EXPECT(words[i] == 1 + i / 8);
        CU(cuGraphExecDestroy, exec);
        CU(cuGraphDestroy, graph);
    } else {
        EXPECT(graph == nullptr);
    }
    CU(cuMemFree, memory);
    CU(cuEventDestroy, fork);
    CU(cuEventDestroy, join);
    CU(cuStreamDestroy, origin);
}

static __global__ void fetch(cudaTextureObject_t texture, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = tex1Dfetch<float>(texture, i);
}

// A texture of linear memory that is said to be longer than the memory is.
static void long_texture() {
    const int N = 1000;
    CUdeviceptr memory, out;
    CU(cuMemAlloc, &memory, N * sizeof(float));
    CU(cuMemAlloc, &out, N * sizeof(float));
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = memory;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = size_t(64) << 20;
    CUDA_TEXTURE_DESC reading = {};
    CUtexObject texture = 0;
    CU(cuTexObjectCreate, &texture, &resource, &reading, nullptr);
    EXPECT(texture != 0);
    CUDA_RESOURCE_DESC said;
    CU(cuTexObjectGetResourceDesc, &said, texture);
    EXPECT(said.res.linear.sizeInBytes == size_t(64) << 20);
    float numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = float(i) / 2;
    CU(cuMemcpyHtoD, memory, numbers, sizeof numbers);
    fetch<<<1, 1>>>(texture, N, reinterpret_cast<float *>(out));
    CHECK(cudaDeviceSynchronize());
    std::memset(numbers, 0, sizeof numbers);
    CU(cuMemcpyDtoH, numbers, out, sizeof numbers);
    for (int i = 0; i < N; i++) EXPECT(numbers[i] == float(i) / 2);
    CU(cuTexObjectDestroy, texture);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy, texture);
    CU(cuTexObjectDestroy, 0);
    CU(cuSurfObjectDestroy, 0);
    CU(cuMemFree, memory);
    CU(cuMemFree, out);
}

// Variables of the program: with a first value in its file, and without.
static int with_value[4096] = {1, 2, 3};
static int without_value[4096];

static __global__ void add_one(int *numbers) { numbers[threadIdx.x] += 1; }

static void registered_variable(int *variable, size_t bytes, const int *expected) {
    CU(cuMemHostRegister, variable, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
    CUdeviceptr device = 0;
    CU(cuMemHostGetDevicePointer, &device, variable, 0);
    add_one<<<1, 3>>>(reinterpret_cast<int *>(device));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 3; i++) EXPECT(variable[i] == expected[i]);
    CU(cuMemHostUnregister, variable);
    for (int i = 0; i < 3; i++) EXPECT(variable[i] == expected[i]);
}

// Code from before rounding was written: one that ptxas takes still.
static const char *const OLD = R"(
.version 2.3
.target sm_10
.address_size 64
.entry old(.param .u64 out)
{
    .reg .u64 %rd;
    .reg .f32 %a, %b;
    ld.param.u64 %rd, [out];
    ld.global.f32 %a, [%rd];
    mov.f32 %b, 0f40000000;
    mad.f32 %a, %a, %b, %b;
    st.global.f32 [%rd], %a;
    exit;
}
)";

static void old_code() {
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    float number = 3;
    CU(cuModuleLoadData, &module, OLD);
    CU(cuModuleGetFunction, &function, module, "old");
    CU(cuMemAlloc, &memory, 4);
    CU(cuMemcpyHtoD, memory, &number, 4);
    void *parameters[] = {&memory};
    CU(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
    CU(cuMemcpyDtoH, &number, memory, 4);
    EXPECT(number == 8);
    CU(cuMemFree, memory);
    CU(cuModuleUnload, module);
}

// The table of tools with whose help NVIDIA's libraries find the kernels of a module.
static void count(void *user, CUfunction function, unsigned long long) {
    if (function) ++*static_cast<int *>(user);
}

static void functions_of_a_module() {
    CUuuid tools;
    const unsigned char bytes[16] = {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d,
                                     0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e};
    std::memcpy(tools.bytes, bytes, sizeof bytes);
    const void *table = nullptr;
    CU(cuGetExportTable, &table, &tools);
    CUmodule module;
    CU(cuModuleLoadData, &module, ADD);
    using Visit = int (*)(void *, CUmodule, void (*)(void *, CUfunction, unsigned long long), void *);
    auto visit = reinterpret_cast<Visit>(static_cast<void *const *>(table)[7]);
    int kernels = 0;
    EXPECT(visit(nullptr, module, count, &kernels) != 0);
    EXPECT(kernels == 2);
    CU(cuModuleUnload, module);
}

static void attributes() {
    int value = -1;
    CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0);
    if (!value) {
        CUDA_ARRAY3D_DESCRIPTOR shape = {};
        shape.Width = shape.Height = 64;
        shape.Format = CU_AD_FORMAT_FLOAT;
        shape.NumChannels = 1;
        shape.Flags = CUDA_ARRAY3D_SPARSE;
        CUarray array;
        ANSWERS(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate, &array, &shape);
    }
    CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0);
    if (!value) {
        CUmemAllocationProp properties = {};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
        CUmemGenericAllocationHandle handle;
        // As a driver does: it is a wish.
        CU(cuMemCreate, &handle, size_t(2) << 20, &properties, 0);
        CU(cuMemGetAllocationPropertiesFromHandle, &properties, handle);
        EXPECT(properties.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_NONE);
        CU(cuMemRelease, handle);
    }
}

// Both sides count in managed memory at once, where the attributes say that they may.
static __global__ void count_up(unsigned *counter, int rounds) {
    for (int i = 0; i < rounds; i++) atomicAdd_system(counter, 1u);
}

static void counting_together() {
    int concurrent = 0;
    CU(cuDeviceGetAttribute, &concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
    if (!concurrent) return;
    unsigned *counter;
    CHECK(cudaMallocManaged(&counter, sizeof *counter));
    *counter = 0;
    const int BLOCKS = 16, THREADS = 64, ROUNDS = 200, MINE = 400000;
    count_up<<<BLOCKS, THREADS>>>(counter, ROUNDS);
    for (int i = 0; i < MINE; i++) __atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED);
    CHECK(cudaDeviceSynchronize());
    EXPECT(*counter == unsigned(BLOCKS * THREADS * ROUNDS + MINE));
    CHECK(cudaFree(counter));
}

// What a failed assertion says is on the program's standard error. After it nothing works any more.
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
static __global__ void assert_small(int x) {
    if (x > 3) __assertfail("x <= 3", "driver_answers.cu", 42, "assert_small", 1);
}

static void failed_assertion() {
    char name[] = "/tmp/driver_answers-XXXXXX";
    int file = mkstemp(name), before = dup(2);
    EXPECT(file >= 0);
    unlink(name);
    dup2(file, 2);
    assert_small<<<1, 1>>>(4);
    cudaError_t error = cudaDeviceSynchronize();
    dup2(before, 2);
    char text[4096] = {};
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    EXPECT(error == cudaErrorAssert);
    EXPECT(length > 0);
    EXPECT(std::strstr(text, "driver_answers.cu:42"));
    EXPECT(std::strstr(text, "Assertion `x <= 3` failed"));
}

int main() {
    CHECK(cudaFree(nullptr));
    destroyed_in_a_capture(true, CUDA_SUCCESS);
    destroyed_in_a_capture(false, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    long_texture();
    const int first[] = {2, 3, 4}, second[] = {1, 1, 1};
    registered_variable(with_value, sizeof with_value, first);
    registered_variable(without_value, sizeof without_value, second);
    old_code();
    functions_of_a_module();
    attributes();
    counting_together();
    failed_assertion();
}
