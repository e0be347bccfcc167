// What the software GPU and openmps do not have is refused by the call itself, and the program goes on.
#include "check.h"

__global__ void one(int *x) { *x = 1; }

int main() {
    cudaExternalMemory_t memory;
    cudaExternalMemoryHandleDesc description = {};
    description.type = cudaExternalMemoryHandleTypeOpaqueFd;
    description.handle.fd = 0;
    description.size = 4096;
    EXPECT(cudaImportExternalMemory(&memory, &description) != cudaSuccess);
    (void)cudaGetLastError();
    int *device, host = 0;
    CHECK(cudaMalloc(&device, sizeof host));
    one<<<1, 1>>>(device);
    CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
    EXPECT(host == 1);
}
