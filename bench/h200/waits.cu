// The two programs of waits.py.
//
//   waits hold KIND SECONDS   streams wait for what comes after so many seconds; says when they were done
//   waits beside SECONDS      launches and waits, again and again; says how often, and how long the longest took
//
// KIND: value (cuStreamWaitValue32), host (a host function), kernel (one that spins, and another one behind it in its
// stream), event (of another stream's kernel that spins).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <string>
#include <thread>

#define CHECK(call)                                                  \
    do {                                                             \
        int code = (int)(call);                                      \
        if (code) {                                                  \
            std::fprintf(stderr, "%s: error %d\n", #call, code);     \
            std::exit(1);                                            \
        }                                                            \
    } while (0)

static const int STREAMS = 3;

__global__ void nothing() {}
__global__ void spin(volatile int *word) {
    while (*word == 0) {}
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

static void CUDA_CB sleeper(void *seconds) { sleep_for(*(double *)seconds); }

static cudaStream_t new_stream() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int hold(const std::string &kind, double seconds) {
    cudaStream_t streams[STREAMS], other = new_stream();
    for (auto &stream : streams) stream = new_stream();
    // The word is changed by the host, so that what ends the wait needs no queue itself.
    volatile int *word;
    int *device_word;
    CHECK(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped));
    *word = 0;
    CHECK(cudaHostGetDevicePointer(&device_word, (void *)word, 0));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    nothing<<<1, 1, 0, other>>>();
    CHECK(cudaDeviceSynchronize());

    if (kind == "event") {
        spin<<<1, 1, 0, other>>>(device_word);
        CHECK(cudaEventRecord(event, other));
    }
    for (auto stream : streams) {
        if (kind == "value") CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)device_word, 1, CU_STREAM_WAIT_VALUE_EQ));
        if (kind == "host") CHECK(cudaLaunchHostFunc(stream, sleeper, &seconds));
        if (kind == "kernel") spin<<<1, 1, 0, stream>>>(device_word);
        if (kind == "event") CHECK(cudaStreamWaitEvent(stream, event, 0));
        nothing<<<1, 1, 0, stream>>>();
        nothing<<<1, 1, 0, stream>>>();
    }
    CHECK(cudaGetLastError());
    sleep_for(seconds);
    *word = 1;
    double released = now();
    CHECK(cudaDeviceSynchronize());
    std::printf("{\"done_after_s\": %.3f}\n", now() - released);
    return 0;
}

static int beside(double seconds) {
    cudaStream_t stream = new_stream();
    nothing<<<1, 1, 0, stream>>>();
    CHECK(cudaDeviceSynchronize());
    double longest = 0, end = now() + seconds;
    long waits = 0;
    for (; now() < end; waits++) {
        double start = now();
        nothing<<<1, 1, 0, stream>>>();
        nothing<<<1, 1, 0, stream>>>();
        CHECK(cudaStreamSynchronize(stream));
        double took = now() - start;
        if (took > longest) longest = took;
    }
    std::printf("{\"waits\": %ld, \"longest_ms\": %.2f}\n", waits, longest * 1e3);
    return 0;
}

int main(int argc, char **argv) {
    std::string role = argc > 1 ? argv[1] : "";
    if (role == "hold" && argc == 4) return hold(argv[2], std::atof(argv[3]));
    if (role == "beside" && argc == 3) return beside(std::atof(argv[2]));
    std::fprintf(stderr, "usage: waits hold KIND SECONDS | waits beside SECONDS\n");
    return 2;
}
