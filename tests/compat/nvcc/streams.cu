// Streams, events, pinned memory, asynchronous copies, callbacks in stream order.
#include "check.h"
#include <atomic>

__global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

static std::atomic<int> called;
static void count(void *by) { called += *static_cast<int *>(by); }

int main() {
    const int n = 1 << 14, parts = 4;
    float *host, *device;
    CHECK(cudaMallocHost(&host, parts * n * sizeof(float)));
    CHECK(cudaMalloc(&device, parts * n * sizeof(float)));
    for (int i = 0; i < parts * n; i++) host[i] = float(i);
    cudaStream_t streams[parts];
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(start));
    int by = 3;
    for (int p = 0; p < parts; p++) {
        if (p % 2) CHECK(cudaStreamCreateWithFlags(&streams[p], cudaStreamNonBlocking));
        else CHECK(cudaStreamCreateWithPriority(&streams[p], cudaStreamDefault, 0));
        float *part = device + p * n;
        CHECK(cudaMemcpyAsync(part, host + p * n, n * 4, cudaMemcpyHostToDevice, streams[p]));
        scale<<<n / 128, 128, 0, streams[p]>>>(part, float(p + 2), n);
        CHECK(cudaMemcpyAsync(host + p * n, part, n * 4, cudaMemcpyDeviceToHost, streams[p]));
        CHECK(cudaLaunchHostFunc(streams[p], count, &by));
    }
    for (int p = 0; p < parts; p++) CHECK(cudaStreamSynchronize(streams[p]));
    EXPECT(called == parts * by);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventQuery(end));
    float ms = -1;
    CHECK(cudaEventElapsedTime(&ms, start, end));
    EXPECT(ms >= 0);
    for (int i = 0; i < parts * n; i++) EXPECT(host[i] == float(i) * float(i / n + 2));
    // One stream waits for another's event.
    cudaEvent_t first;
    CHECK(cudaEventCreateWithFlags(&first, cudaEventDisableTiming));
    scale<<<n / 128, 128, 0, streams[1]>>>(device, 0.5f, n);
    CHECK(cudaEventRecord(first, streams[1]));
    CHECK(cudaStreamWaitEvent(streams[3], first, 0));
    scale<<<n / 128, 128, 0, streams[3]>>>(device, 4.0f, n);
    CHECK(cudaMemcpyAsync(host, device, n * 4, cudaMemcpyDeviceToHost, streams[3]));
    CHECK(cudaStreamSynchronize(streams[3]));
    for (int i = 0; i < n; i++) EXPECT(host[i] == float(i) * 4);
    for (auto stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
}
