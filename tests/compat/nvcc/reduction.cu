// Shared memory (static and dynamic), barriers, shuffles and atomics, in a template.
#include "check.h"
#include <vector>

template <typename T> __global__ void reduce(const T *in, T *out, int n) {
    extern __shared__ unsigned char raw[];
    T *shared = reinterpret_cast<T *>(raw);
    T sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = shared[threadIdx.x];
        for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

__global__ void histogram(const unsigned char *in, unsigned *counts, int n) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

template <typename T> void sum_of(int n) {
    std::vector<T> in(n);
    T expected = 0;
    for (int i = 0; i < n; i++) expected += in[i] = T(i % 17);
    T *din, *dout, out;
    CHECK(cudaMalloc(&din, n * sizeof(T)));
    CHECK(cudaMalloc(&dout, sizeof(T)));
    CHECK(cudaMemset(dout, 0, sizeof(T)));
    CHECK(cudaMemcpy(din, in.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    reduce<T><<<24, 256, 256 * sizeof(T)>>>(din, dout, n);
    CHECK(cudaMemcpy(&out, dout, sizeof(T), cudaMemcpyDeviceToHost));
    EXPECT(out == expected);
    CHECK(cudaFree(din));
    CHECK(cudaFree(dout));
}

int main() {
    sum_of<int>(70001);
    sum_of<float>(70001);
    sum_of<double>(70001);
    const int n = 50000;
    std::vector<unsigned char> bytes(n);
    std::vector<unsigned> expected(256), counts(256);
    for (int i = 0; i < n; i++) expected[bytes[i] = (i * 7 + i / 300) & 255]++;
    unsigned char *din;
    unsigned *dcounts;
    CHECK(cudaMalloc(&din, n));
    CHECK(cudaMalloc(&dcounts, 1024));
    CHECK(cudaMemset(dcounts, 0, 1024));
    CHECK(cudaMemcpy(din, bytes.data(), n, cudaMemcpyHostToDevice));
    histogram<<<8, 256>>>(din, dcounts, n);
    CHECK(cudaMemcpy(counts.data(), dcounts, 1024, cudaMemcpyDeviceToHost));
    EXPECT(counts == expected);
}
