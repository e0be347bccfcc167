// Launches that no device can do are refused with the runtime's own error, which does not stay.
#include "check.h"

// The runtime of CUDA 13 hands on what the driver answers; older ones look closer.
static const cudaError_t refused = CUDART_VERSION < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;

__global__ void kernel(int *x) { x[threadIdx.x] = 1; }

int main() {
    int *device;
    CHECK(cudaMalloc(&device, 16384));
    kernel<<<1, 4096>>>(device);
    EXPECT(cudaGetLastError() == refused);
    EXPECT(cudaGetLastError() == cudaSuccess);
    kernel<<<1, 32>>>(device);
    CHECK(cudaDeviceSynchronize());
}
