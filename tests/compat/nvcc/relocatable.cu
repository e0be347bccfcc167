// Relocatable device code: the driver links what the compiler left as PTX, with the device runtime library.
// nvcc: -rdc=true
#include "check.h"

extern __device__ int offset;
__device__ int twice(int x);
static __device__ __noinline__ int own(int x) { return x + 1; }
typedef int (*Function)(int);
__device__ Function table[] = {twice, own};

__global__ void kernel(int *out, int which) { out[threadIdx.x] = table[which](threadIdx.x) + offset; }

#include "relocatable_part.h"

int main() {
    int *device, host[32];
    CHECK(cudaMalloc(&device, sizeof host));
    for (int which = 0; which < 2; which++) {
        kernel<<<1, 32>>>(device, which);
        CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 32; i++) EXPECT(host[i] == (which ? i + 1 : 2 * i) + 5);
    }
    int value = 7;
    CHECK(cudaMemcpyToSymbol(offset, &value, sizeof value));
    kernel<<<1, 32>>>(device, 0);
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    EXPECT(host[3] == 6 + 7);
}
