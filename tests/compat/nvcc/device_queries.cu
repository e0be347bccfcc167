// What programs ask before they launch: properties, occupancy, attributes of kernels and pointers.
#include "check.h"
#include <cstring>

__global__ void kernel(int *x) {
    __shared__ int s[128];
    s[threadIdx.x % 128] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 1) % 128];
}

int main() {
    int count = 0, runtime = 0, driver = 0, value = 0;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    EXPECT(driver / 1000 >= runtime / 1000);
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    EXPECT(std::strlen(p.name) > 0 && p.totalGlobalMem > 0 && p.warpSize == 32 && p.major >= 8);
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0));
    EXPECT(value == p.maxThreadsPerBlock);
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes > 0 && free_bytes <= total);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    EXPECT(attributes.sharedSizeBytes == 512 && attributes.maxThreadsPerBlock > 0);
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
    CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1));
    int blocks = 0, grid = 0, block = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0));
    EXPECT(blocks > 0);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, 0));
    EXPECT(grid > 0 && block > 0);
    int *device, stack;
    CHECK(cudaMalloc(&device, 512));
    cudaPointerAttributes at;
    CHECK(cudaPointerGetAttributes(&at, device + 3));
    EXPECT(at.type == cudaMemoryTypeDevice && at.device == 0);
    CHECK(cudaPointerGetAttributes(&at, &stack));
    EXPECT(at.type == cudaMemoryTypeUnregistered);
    int least = 0, greatest = 0;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    CHECK(cudaDeviceGetLimit(&total, cudaLimitStackSize));
    // Errors are reported and do not stay.
    EXPECT(cudaMalloc(&device, size_t(1) << 60) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaSetDevice(99) == cudaErrorInvalidDevice);
    CHECK(cudaSetDevice(0));
}
