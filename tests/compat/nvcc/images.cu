// How a program carries its device code: compressed by either method, or not; several architectures.
// nvcc[lz4]: -Xfatbin -compress-mode=speed
// nvcc[zstd]: -Xfatbin -compress-mode=size
// nvcc[plain]: -Xfatbin -compress-mode=none
// nvcc[several]: -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=[compute_90,sm_90]
#include "check.h"

template <int N> __global__ void fill(int *out) {
    for (int i = threadIdx.x; i < N; i += blockDim.x) out[i] = i * N;
}

template <int N> void run() {
    int *device, host[N];
    CHECK(cudaMalloc(&device, sizeof host));
    fill<N><<<1, 64>>>(device);
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(host[i] == i * N);
    CHECK(cudaFree(device));
}

int main() {
    run<10>();
    run<100>();
    run<1000>();
}
