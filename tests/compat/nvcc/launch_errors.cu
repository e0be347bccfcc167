// Launches that no device can do are refused with the runtime's own error, which does not stay.
#include "check.h"

__global__ void kernel(int *x) { x[threadIdx.x] = 1; }

int main() {
    int *device;
    CHECK(cudaMalloc(&device, 16384));
    kernel<<<1, 4096>>>(device);
    EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    EXPECT(cudaGetLastError() == cudaSuccess);
    kernel<<<1, 32>>>(device);
    CHECK(cudaDeviceSynchronize());
}
