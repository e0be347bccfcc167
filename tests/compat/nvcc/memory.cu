// Kinds of memory and of copies: pitched, two-dimensional, registered, mapped, stream-ordered.
#include "check.h"
#include <vector>

__global__ void increment(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i]++;
}

int main() {
    const int width = 100, height = 37;
    std::vector<int> in(width * height), out(width * height, -1);
    for (int i = 0; i < width * height; i++) in[i] = i;
    void *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, width * 4, height));
    EXPECT(pitch >= width * 4);
    CHECK(cudaMemcpy2D(pitched, pitch, in.data(), width * 4, width * 4, height,
                       cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(pitched, pitch, 0xff, 8, height));
    CHECK(cudaMemcpy2D(out.data(), width * 4, pitched, pitch, width * 4, height,
                       cudaMemcpyDeviceToHost));
    for (int i = 0; i < width * height; i++) EXPECT(out[i] == (i % width < 2 ? -1 : i));
    CHECK(cudaFree(pitched));

    int *a, *b;
    CHECK(cudaMallocAsync(&a, 4000, 0));
    CHECK(cudaMemsetAsync(a, 0, 4000, 0));
    increment<<<8, 128>>>(a, 1000);
    CHECK(cudaMalloc(&b, 4000));
    CHECK(cudaMemcpyAsync(b, a, 4000, cudaMemcpyDeviceToDevice, 0));
    CHECK(cudaFreeAsync(a, 0));
    CHECK(cudaMemcpy(out.data(), b, 4000, cudaMemcpyDefault));
    for (int i = 0; i < 1000; i++) EXPECT(out[i] == 1);
    CHECK(cudaMemcpy(out.data(), in.data(), 4000, cudaMemcpyHostToHost));
    EXPECT(out[999] == 999);
    CHECK(cudaFree(b));
}
