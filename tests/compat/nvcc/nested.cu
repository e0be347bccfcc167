// Kernels that launch kernels: order of parents and children, memory, streams, tail launches, launches to be forgotten,
// recursion, errors.
// nvcc: -rdc=true -lcudadevrt
// toolkits: 13 12
#include "check.h"
#include <algorithm>
#include <vector>

__device__ int steps;
__device__ int order[64];

__device__ void note(int what) { order[atomicAdd(&steps, 1)] = what; }

__global__ void mark(int what) {
    if (threadIdx.x == 0 && blockIdx.x == 0) note(what);
}

// What a child reads was written by its parent; what comes last comes after all children and their children.
__global__ void add(int *values, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += by;
}

__global__ void nest(int depth) {
    note(100 + depth);
    if (depth > 0) nest<<<1, 1>>>(depth - 1);
}

__global__ void parent(int *values, int n) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < n; i++) values[i] = i;
    mark<<<1, 32, 0, cudaStreamTailLaunch>>>(3);
    add<<<(n + 63) / 64, 64>>>(values, n, 1);
    add<<<(n + 63) / 64, 64>>>(values, n, 10);
    mark<<<2, 32>>>(1);
    nest<<<1, 1>>>(3);
    mark<<<1, 32>>>(2);
    note(0);
}

static void order_of_children() {
    const int N = 1000;
    int *values, host[N], none = 0;
    CHECK(cudaMalloc(&values, sizeof host));
    CHECK(cudaMemcpyToSymbol(steps, &none, sizeof none));
    parent<<<1, 32>>>(values, N);
    // In the stream all of it comes before what is put there next.
    add<<<(N + 63) / 64, 64>>>(values, N, 100);
    CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(host[i] == i + 111);
    int count, seen[64];
    CHECK(cudaMemcpyFromSymbol(&count, steps, sizeof count));
    CHECK(cudaMemcpyFromSymbol(seen, order, sizeof seen));
    EXPECT(count == 8);
    auto place = [&](int what) { return int(std::find(seen, seen + count, what) - seen); };
    EXPECT(place(1) < place(103) && place(103) < place(102) && place(102) < place(101));
    EXPECT(place(101) < place(100) && place(100) < place(2));
    EXPECT(place(3) == count - 1);
    EXPECT(place(0) < count);
    CHECK(cudaFree(values));
}

__device__ int below(const int *data, int left, int right) {
    return data[left + (right - left) / 2];
}

// As CUDA's own sample: each half is sorted by a kernel of its own.
__global__ void quicksort(int *data, int left, int right, int depth) {
    if (right - left < 32 || depth > 20) {
        for (int i = left + 1; i <= right; i++)
            for (int j = i; j > left && data[j - 1] > data[j]; j--) {
                int t = data[j];
                data[j] = data[j - 1], data[j - 1] = t;
            }
        return;
    }
    int i = left, j = right, pivot = below(data, left, right);
    while (i <= j) {
        while (data[i] < pivot) i++;
        while (data[j] > pivot) j--;
        if (i <= j) {
            int t = data[i];
            data[i++] = data[j], data[j--] = t;
        }
    }
    cudaStream_t stream;
    if (left < j) {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        quicksort<<<1, 1, 0, stream>>>(data, left, j, depth + 1);
        cudaStreamDestroy(stream);
    }
    if (i < right) quicksort<<<1, 1, 0, cudaStreamFireAndForget>>>(data, i, right, depth + 1);
}

static void recursion() {
    const int N = 20000;
    std::vector<int> numbers(N);
    unsigned state = 7;
    for (int &number : numbers) number = int((state = state * 1664525u + 1013904223u) >> 8);
    int *data;
    CHECK(cudaMalloc(&data, N * sizeof(int)));
    CHECK(cudaMemcpy(data, numbers.data(), N * sizeof(int), cudaMemcpyHostToDevice));
    quicksort<<<1, 1>>>(data, 0, N - 1, 0);
    std::vector<int> sorted(N);
    CHECK(cudaMemcpy(sorted.data(), data, N * sizeof(int), cudaMemcpyDeviceToHost));
    std::sort(numbers.begin(), numbers.end());
    EXPECT(sorted == numbers);
    CHECK(cudaFree(data));
}

struct Large {
    double numbers[20];
    int last;
};

__global__ void child_with_structure(Large large, double *sum) {
    extern __shared__ double shared[];
    shared[threadIdx.x] = large.numbers[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = large.last;
        for (unsigned i = 0; i < blockDim.x; i++) all += shared[i];
        atomicAdd(sum, all);
    }
}

// Every block and thread has children of its own, which wait in the device's heap.
__global__ void many(double *sum) {
    Large large;
    for (int i = 0; i < 20; i++) large.numbers[i] = i;
    large.last = threadIdx.x;
    child_with_structure<<<1, 20, 20 * sizeof(double)>>>(large, sum);
}

static void many_children() {
    double *sum, host = 0;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    many<<<4, 32>>>(sum);
    CHECK(cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost));
    EXPECT(host == 4 * (32 * 190 + 31 * 16));
    CHECK(cudaFree(sum));
}

// What else the device runtime has.
__global__ void runtime(int *out, int *from, int *to) {
    int device = -1, count = -1, warp = -1;
    out[0] = cudaGetDevice(&device) == cudaSuccess && device == 0;
    out[1] = cudaGetDeviceCount(&count) == cudaSuccess && count >= 1;
    out[2] = cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0) == cudaSuccess && warp == 32;
    void *memory = nullptr;
    out[3] = cudaMalloc(&memory, 100) == cudaSuccess && memory != nullptr;
    out[4] = cudaFree(memory) == cudaSuccess;
    out[5] = cudaGetLastError() == cudaSuccess;
    // More threads than a block may have.
    mark<<<1, 5000>>>(0);
    out[6] = cudaPeekAtLastError() == cudaErrorInvalidConfiguration;
    out[7] = cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
    cudaEvent_t event;
    out[8] = cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess;
    out[9] = cudaMemcpyAsync(to, from, 4 * sizeof(int), cudaMemcpyDeviceToDevice) == cudaSuccess;
    out[10] = cudaEventRecord(event) == cudaSuccess && cudaStreamWaitEvent(0, event, 0) == cudaSuccess;
    add<<<1, 32>>>(to, 4, 5);
    out[11] = cudaMemsetAsync(to + 3, 0, sizeof(int)) == cudaSuccess;
    out[12] = cudaEventDestroy(event) == cudaSuccess;
}

static void other_functions() {
    const int N = 13;
    int *out, *memory, answers[N], numbers[8] = {1, 2, 3, 4};
    CHECK(cudaMalloc(&out, sizeof answers));
    CHECK(cudaMalloc(&memory, sizeof numbers));
    CHECK(cudaMemcpy(memory, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    runtime<<<1, 1>>>(out, memory, memory + 4);
    CHECK(cudaMemcpy(answers, out, sizeof answers, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(answers[i] == 1);
    CHECK(cudaMemcpy(numbers, memory, sizeof numbers, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 3; i++) EXPECT(numbers[4 + i] == numbers[i] + 5);
    EXPECT(numbers[7] == 0);
    CHECK(cudaFree(out));
    CHECK(cudaFree(memory));
}

// A graph whose kernel launches others, twice.
static void in_a_graph() {
    int *values, host[100];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaMalloc(&values, sizeof host));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    parent<<<1, 32, 0, stream>>>(values, 100);
    add<<<1, 128, 0, stream>>>(values, 100, 1000);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++) EXPECT(host[i] == i + 1011);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(values));
}

// A child's fault is its parent's stream's.
__global__ void faulty(int *nowhere) { *nowhere = 1; }
__global__ void parent_of_faulty() { faulty<<<1, 1>>>(reinterpret_cast<int *>(0x10)); }

int main() {
    order_of_children();
    recursion();
    many_children();
    other_functions();
    in_a_graph();
    parent_of_faulty<<<1, 1>>>();
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}
