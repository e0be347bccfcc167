// Managed memory: allocated, and a managed variable.
#include "check.h"

__managed__ int total = 3;

__global__ void add(const int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&total, x[i]);
}

int main() {
    int *x;
    CHECK(cudaMallocManaged(&x, 400));
    int expected = total;
    for (int i = 0; i < 100; i++) expected += x[i] = i;
    add<<<1, 128>>>(x, 100);
    CHECK(cudaDeviceSynchronize());
    EXPECT(total == expected);
    CHECK(cudaFree(x));
}
