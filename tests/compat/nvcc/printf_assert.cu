// printf in a kernel, and the error of a kernel that traps.
#include "check.h"

__global__ void say(int x) { printf("thread %d of %d says %.2f\n", threadIdx.x, x, 1.5 * x); }
__global__ void trap() { __trap(); }

int main() {
    say<<<1, 2>>>(7);
    CHECK(cudaDeviceSynchronize());
    std::fflush(stdout);
    trap<<<1, 1>>>();
    EXPECT(cudaDeviceSynchronize() != cudaSuccess);
    void *p;
    EXPECT(cudaMalloc(&p, 16) != cudaSuccess);
}
