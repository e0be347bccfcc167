// CUB's algorithms of one pass, whose blocks look back at one another: scans, runs, selections, a sort
// toolkits: 13
#include "check.h"

#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>
#include <vector>

// Asks for temporary memory, then runs.
template <typename Algorithm>
void run(Algorithm algorithm) {
    void* temporary = nullptr;
    size_t bytes = 0;
    CHECK(algorithm(temporary, bytes));
    CHECK(cudaMalloc(&temporary, bytes));
    CHECK(algorithm(temporary, bytes));
    CHECK(cudaFree(temporary));
}

template <typename T>
T* device(const std::vector<T>& values) {
    T* memory;
    CHECK(cudaMalloc(&memory, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

template <typename T>
std::vector<T> host(const T* memory, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

int main() {
    constexpr int COUNT = 20000, ROUNDS = 8;
    std::vector<int> values(COUNT);
    for (int i = 0; i < COUNT; i++) {
        values[i] = int(i * 2654435761u >> 8) % 2500;
    }
    std::vector<int> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> keys = sorted, lengths, before(COUNT);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (int key : keys) {
        auto run = std::equal_range(sorted.begin(), sorted.end(), key);
        lengths.push_back(int(run.second - run.first));
    }
    std::vector<long long> wide(values.begin(), values.end()), sums(COUNT);
    std::partial_sum(values.begin(), values.end(), before.begin());
    std::partial_sum(wide.begin(), wide.end(), sums.begin());

    int *in = device(values), *out = device(values), *counts = device(values), *number = device(std::vector<int>(1));
    long long *wide_in = device(wide), *wide_out = device(wide);
    // What goes wrong between blocks does so now and then.
    for (int round = 0; round < ROUNDS; round++) {
        run([&](void* t, size_t& n) { return cub::DeviceScan::InclusiveSum(t, n, in, out, COUNT); });
        EXPECT(host(out, COUNT) == before);
        run([&](void* t, size_t& n) { return cub::DeviceScan::InclusiveSum(t, n, wide_in, wide_out, COUNT); });
        EXPECT(host(wide_out, COUNT) == sums);
        run([&](void* t, size_t& n) { return cub::DeviceRadixSort::SortKeys(t, n, in, out, COUNT); });
        EXPECT(host(out, COUNT) == sorted);
        run([&](void* t, size_t& n) {
            return cub::DeviceRunLengthEncode::Encode(t, n, out, wide_out, counts, number, COUNT);
        });
        EXPECT(host(number, 1)[0] == int(keys.size()));
        EXPECT(host(counts, keys.size()) == lengths);
        EXPECT(host(wide_out, keys.size()) == std::vector<long long>(keys.begin(), keys.end()));
        run([&](void* t, size_t& n) { return cub::DeviceSelect::Unique(t, n, out, counts, number, COUNT); });
        EXPECT(host(counts, keys.size()) == keys);
    }
    std::printf("%d rounds over %d numbers\n", ROUNDS, COUNT);
    return 0;
}
