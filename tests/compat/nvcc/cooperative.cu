// A cooperative launch: the whole grid meets at a barrier.
#include "check.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void neighbours(int *a, int *b, int n) {
    cg::grid_group grid = cg::this_grid();
    int i = int(grid.thread_rank());
    a[i] = i;
    grid.sync();
    b[i] = a[(i + 97) % n];
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    b[i] += warp.shfl(1, 0) + (warp.any(warp.thread_rank() == 7) ? 1 : 0);
}

int main() {
    int n = 256, *a, *b, host[256];
    CHECK(cudaMalloc(&a, sizeof host));
    CHECK(cudaMalloc(&b, sizeof host));
    void *arguments[] = {&a, &b, &n};
    CHECK(cudaLaunchCooperativeKernel((void *)neighbours, dim3(4), dim3(64), arguments, 0, 0));
    CHECK(cudaMemcpy(host, b, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(host[i] == (i + 97) % n + 2);
}
