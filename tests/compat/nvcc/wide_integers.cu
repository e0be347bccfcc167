// Integers of 128 bits: products, quotients and remainders, by carries that sums take from differences
#include "check.h"

#include <vector>

typedef unsigned __int128 Wide;

constexpr int COUNT = 64, RESULTS = 3;

__host__ __device__ Wide first(int i) {
    return (Wide(i + 1) << (i * 2 % 120)) * 0x9e3779b97f4a7c15u + i;
}

__host__ __device__ Wide second(int i) {
    return (Wide(i * 3 + 7) << (i % 90)) | 99;
}

__global__ void compute(Wide* out) {
    int i = threadIdx.x;
    Wide a = first(i), b = second(i);
    out[i * RESULTS] = a * b;
    out[i * RESULTS + 1] = a / b;
    out[i * RESULTS + 2] = a % b;
}

int main() {
    Wide* out;
    CHECK(cudaMalloc(&out, COUNT * RESULTS * sizeof(Wide)));
    compute<<<1, COUNT>>>(out);
    std::vector<Wide> results(COUNT * RESULTS);
    CHECK(cudaMemcpy(results.data(), out, results.size() * sizeof(Wide), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++) {
        Wide a = first(i), b = second(i);
        EXPECT(results[i * RESULTS] == a * b);
        EXPECT(results[i * RESULTS + 1] == a / b);
        EXPECT(results[i * RESULTS + 2] == a % b);
    }
    std::printf("%d pairs of numbers\n", COUNT);
    return 0;
}
