// A default stream for each thread, which the others do not wait for.
// nvcc: -default-stream per-thread
#include "check.h"
#include <thread>
#include <vector>

__global__ void add(int *x, int by) { x[threadIdx.x] += by; }

static void work(int id) {
    int *device, host[64];
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemsetAsync(device, 0, sizeof host, 0));
    for (int i = 0; i < 20; i++) add<<<1, 64>>>(device, id);
    CHECK(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    for (int i = 0; i < 64; i++) EXPECT(host[i] == 20 * id);
    CHECK(cudaFree(device));
}

int main() {
    std::vector<std::thread> threads;
    for (int id = 1; id <= 4; id++) threads.emplace_back(work, id);
    for (auto &thread : threads) thread.join();
}
