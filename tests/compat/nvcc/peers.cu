// Kernels that read, write and count in memory of other devices, in the order that events across devices give.
// With one device only what CUDA says of a device as its own peer. `OPENMPS_SOFT_DEVICES=4 run.sh nvcc --only peers`
#include "check.h"
#include <vector>

const int WORDS = 100000, ROUNDS = 20;

__global__ void fill(int *x, int first) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < WORDS; i += gridDim.x * blockDim.x) x[i] = first + i;
}

// Reads the neighbour's values, adds the own ones and leaves the sums there.
__global__ void add_to_neighbour(const int *own, int *there) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < WORDS; i += gridDim.x * blockDim.x) there[i] += own[i];
}

__global__ void count(unsigned *counter) { atomicAdd_system(counter, 1u); }

static void one_device() {
    int can = 1;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 0));
    EXPECT(can == 0);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
    cudaGetLastError();
    EXPECT(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaErrorInvalidDevice);
    cudaGetLastError();
}

int main() {
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (const char *wanted = std::getenv("OPENMPS_SOFT_DEVICES")) EXPECT(devices == std::atoi(wanted));
    if (devices == 1) {
        one_device();
        std::printf("one device\n");
        return 0;
    }
    std::vector<int *> a(devices), b(devices);
    std::vector<cudaStream_t> streams(devices);
    std::vector<cudaEvent_t> filled(devices), added(devices);
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc(&a[d], WORDS * sizeof(int)));
        CHECK(cudaMalloc(&b[d], WORDS * sizeof(int)));
        CHECK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&filled[d], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&added[d], cudaEventDisableTiming));
        for (int other = 0; other < devices; other++) {
            int can = 0;
            CHECK(cudaDeviceCanAccessPeer(&can, d, other));
            EXPECT(can == (d != other));
            if (can) CHECK(cudaDeviceEnablePeerAccess(other, 0));
        }
        EXPECT(cudaDeviceEnablePeerAccess((d + 1) % devices, 0) == cudaErrorPeerAccessAlreadyEnabled);
        cudaGetLastError();
    }
    unsigned *counter;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&counter, sizeof *counter));
    CHECK(cudaMemset(counter, 0, sizeof *counter));
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < ROUNDS; round++) {
        for (int d = 0; d < devices; d++) {
            CHECK(cudaSetDevice(d));
            // What the device before this one wrote here in the last round comes first.
            if (round > 0) CHECK(cudaStreamWaitEvent(streams[d], added[(d + devices - 1) % devices], 0));
            fill<<<8, 128, 0, streams[d]>>>(a[d], d + round);
            fill<<<8, 128, 0, streams[d]>>>(b[d], 10 * d);
            CHECK(cudaEventRecord(filled[d], streams[d]));
        }
        for (int d = 0; d < devices; d++) {
            int there = (d + 1) % devices;
            CHECK(cudaSetDevice(d));
            CHECK(cudaStreamWaitEvent(streams[d], filled[there], 0));
            add_to_neighbour<<<8, 128, 0, streams[d]>>>(a[d], b[there]);
            count<<<4, 32, 0, streams[d]>>>(counter);
            CHECK(cudaEventRecord(added[d], streams[d]));
        }
    }
    // The first device gathers.
    CHECK(cudaSetDevice(0));
    int *gathered;
    CHECK(cudaMalloc(&gathered, WORDS * sizeof(int)));
    std::vector<int> host(WORDS);
    for (int d = 0; d < devices; d++) {
        int before = (d + devices - 1) % devices;
        CHECK(cudaStreamWaitEvent(streams[0], added[before], 0));
        CHECK(cudaMemcpyPeerAsync(gathered, 0, b[d], d, WORDS * sizeof(int), streams[0]));
        CHECK(cudaMemcpyAsync(host.data(), gathered, WORDS * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
        CHECK(cudaStreamSynchronize(streams[0]));
        for (int i = 0; i < WORDS; i++) EXPECT(host[i] == 10 * d + i + before + ROUNDS - 1 + i);
    }
    unsigned counted = 0;
    CHECK(cudaMemcpy(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost));
    EXPECT(counted == 4u * 32u * unsigned(devices) * ROUNDS);
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaDeviceDisablePeerAccess((d + 1) % devices));
        EXPECT(cudaDeviceDisablePeerAccess((d + 1) % devices) == cudaErrorPeerAccessNotEnabled);
        cudaGetLastError();
    }
    std::printf("%d devices reach each other's memory\n", devices);
}
