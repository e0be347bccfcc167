// Host memory that kernels use: mapped and registered.
#include "check.h"
#include <cstdlib>

__global__ void twice(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main() {
    int *host, *seen;
    CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
    for (int i = 0; i < 1024; i++) host[i] = i;
    CHECK(cudaHostGetDevicePointer(&seen, host, 0));
    twice<<<8, 128>>>(seen, 1024);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 1024; i++) EXPECT(host[i] == 2 * i);
    CHECK(cudaFreeHost(host));

    void *pages = std::aligned_alloc(4096, 8192);
    CHECK(cudaHostRegister(pages, 8192, cudaHostRegisterDefault));
    int *registered = static_cast<int *>(pages), *device;
    for (int i = 0; i < 2048; i++) registered[i] = i;
    CHECK(cudaMalloc(&device, 8192));
    CHECK(cudaMemcpyAsync(device, registered, 8192, cudaMemcpyHostToDevice));
    twice<<<16, 128>>>(device, 2048);
    CHECK(cudaMemcpyAsync(registered, device, 8192, cudaMemcpyDeviceToHost));
    CHECK(cudaStreamSynchronize(0));
    for (int i = 0; i < 2048; i++) EXPECT(registered[i] == 2 * i);
    CHECK(cudaHostUnregister(pages));
}
