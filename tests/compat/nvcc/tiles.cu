// Cooperative groups: tiles of a warp, and of several warps, reduce and scan, each by itself
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <vector>

namespace cg = cooperative_groups;

constexpr int THREADS = 256, BLOCKS = 4, RESULTS = 6;

template <int LANES>
__global__ void tiles(int* out, const int* in) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<LANES>(block);
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int value = in[at];
    int* result = out + at * RESULTS;
    result[0] = cg::reduce(tile, value, cg::plus<int>());
    result[1] = cg::reduce(tile, value, cg::greater<int>());
    result[2] = cg::reduce(tile, value, cg::bit_xor<int>());
    result[3] = cg::inclusive_scan(tile, value);
    result[4] = tile.any(value == 7);
    result[5] = tile.meta_group_rank();
}

template <int LANES>
void check(const std::vector<int>& values, const int* in) {
    int* out;
    size_t bytes = values.size() * RESULTS * sizeof(int);
    CHECK(cudaMalloc(&out, bytes));
    tiles<LANES><<<BLOCKS, THREADS>>>(out, in);
    std::vector<int> results(values.size() * RESULTS);
    CHECK(cudaMemcpy(results.data(), out, bytes, cudaMemcpyDeviceToHost));
    for (size_t first = 0; first < values.size(); first += LANES) {
        int sum = 0, most = values[first], parity = 0, any = 0, before = 0;
        for (size_t i = first; i < first + LANES; i++) {
            sum += values[i];
            most = values[i] > most ? values[i] : most;
            parity ^= values[i];
            any |= values[i] == 7;
        }
        for (size_t i = first; i < first + LANES; i++) {
            before += values[i];
            const int* result = &results[i * RESULTS];
            EXPECT(result[0] == sum && result[1] == most && result[2] == parity);
            EXPECT(result[3] == before && result[4] == any);
            EXPECT(result[5] == int(first % THREADS / LANES));
        }
    }
    CHECK(cudaFree(out));
}

#if CUDART_VERSION >= 12000
// A tile of two warps: these meet in memory that is kept for the library.
__global__ void wide(int* out, const int* in) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < int(tile.meta_group_rank()); round++) {
        tile.sync();
    }
    out[at] = cg::reduce(tile, in[at], cg::plus<int>());
}

void check_wide(const std::vector<int>& values, const int* in) {
    int* out;
    size_t bytes = values.size() * sizeof(int);
    CHECK(cudaMalloc(&out, bytes));
    wide<<<BLOCKS, THREADS>>>(out, in);
    std::vector<int> sums(values.size());
    CHECK(cudaMemcpy(sums.data(), out, bytes, cudaMemcpyDeviceToHost));
    for (size_t first = 0; first < values.size(); first += 64) {
        int sum = 0;
        for (size_t i = first; i < first + 64; i++) {
            sum += values[i];
        }
        for (size_t i = first; i < first + 64; i++) {
            EXPECT(sums[i] == sum);
        }
    }
}
#else
// That library has no such tiles.
void check_wide(const std::vector<int>&, const int*) {}
#endif

int main() {
    std::vector<int> values(THREADS * BLOCKS);
    for (size_t i = 0; i < values.size(); i++) {
        values[i] = int(i * 7919 % 1013) - 300;
    }
    int* in;
    size_t bytes = values.size() * sizeof(int);
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMemcpy(in, values.data(), bytes, cudaMemcpyHostToDevice));
    check<2>(values, in);
    check<4>(values, in);
    check<8>(values, in);
    check<16>(values, in);
    check<32>(values, in);
    check_wide(values, in);
    std::printf("tiles of 2 to 64 threads\n");
    return 0;
}
