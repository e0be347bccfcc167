// Managed memory: read and written by both sides, in turn.
#include "check.h"

__global__ void twice(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main() {
    int *x;
    CHECK(cudaMallocManaged(&x, 400));
    for (int i = 0; i < 100; i++) x[i] = i;
    twice<<<1, 128>>>(x, 100);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) EXPECT(x[i] == 2 * i);
    CHECK(cudaFree(x));
}
