// Graphs made by hand and by capture of several streams: nodes of each type, child graphs, updates, memory, events.
#include "check.h"

__global__ void add(int *x, int by) { x[threadIdx.x] += by; }
__global__ void copy(int *to, const int *from) { to[threadIdx.x] = from[threadIdx.x]; }

static void CUDART_CB increment(void *word) { ++*(int *)word; }

static int *x, *y;
static int host[64];
static cudaStream_t stream;

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static bool updates(cudaGraphExec_t exec, cudaGraph_t graph) {
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    return info.result == cudaGraphExecUpdateSuccess;
#else
    cudaGraphNode_t refused;
    cudaGraphExecUpdateResult result;
    CHECK(cudaGraphExecUpdate(exec, graph, &refused, &result));
    return result == cudaGraphExecUpdateSuccess;
#endif
}

static void run(cudaGraphExec_t exec) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static cudaKernelNodeParams add_params(void **values) {
    cudaKernelNodeParams params = {};
    params.func = (void *)add;
    params.gridDim = dim3(1);
    params.blockDim = dim3(64);
    params.kernelParams = values;
    return params;
}

static void by_hand() {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill, kernel, down, called;
    cudaMemsetParams set = {};
    set.dst = x;
    set.value = 0;
    set.elementSize = 4;
    set.width = 64;
    set.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &set));
    int by = 5;
    void *values[] = {&x, &by};
    cudaKernelNodeParams params = add_params(values);
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &params));
    CHECK(cudaGraphAddMemcpyNode1D(&down, graph, &kernel, 1, host, x, sizeof host, cudaMemcpyDeviceToHost));
    int calls = 0;
    cudaHostNodeParams call = {increment, &calls};
    CHECK(cudaGraphAddHostNode(&called, graph, &down, 1, &call));
    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    EXPECT(count == 4);
    cudaGraphExec_t exec = instantiate(graph);
    by = 6;  // copied when the node was made
    run(exec);
    for (int value : host) EXPECT(value == 5);
    EXPECT(calls == 1);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
    run(exec);
    for (int value : host) EXPECT(value == 6);
    cudaKernelNodeParams shown;
    CHECK(cudaGraphKernelNodeGetParams(kernel, &shown));
    EXPECT(shown.func == (void *)add && shown.blockDim.x == 64 && *(int *)shown.kernelParams[1] == 5);
    cudaGraph_t parent;
    CHECK(cudaGraphCreate(&parent, 0));
    cudaGraphNode_t first, second;
    CHECK(cudaGraphAddChildGraphNode(&first, parent, nullptr, 0, graph));
    CHECK(cudaGraphAddChildGraphNode(&second, parent, &first, 1, graph));
    cudaGraphExec_t twice = instantiate(parent);
    run(twice);
    EXPECT(calls == 4);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphExecDestroy(twice));
    CHECK(cudaGraphDestroy(parent));
    CHECK(cudaGraphDestroy(graph));
}

static cudaGraph_t forked(int by) {
    cudaStream_t side;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(x, 0, 256, stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(side, fork, 0));
    add<<<1, 64, 0, stream>>>(x, by);
    CHECK(cudaMemsetAsync(y, 0, 256, side));
    add<<<1, 64, 0, side>>>(y, 1);
    CHECK(cudaEventRecord(join, side));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    add<<<1, 64, 0, stream>>>(y, 2 * by);
    CHECK(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaStreamDestroy(side));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    return graph;
}

static void captured() {
    cudaGraph_t graph = forked(1), other = forked(10);
    cudaGraphExec_t exec = instantiate(graph);
    run(exec);
    for (int value : host) EXPECT(value == 3);
    EXPECT(updates(exec, other));
    run(exec);
    for (int value : host) EXPECT(value == 21);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(other));
}

static void memory() {
    int *scratch;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&scratch, 256, stream));
    CHECK(cudaMemsetAsync(scratch, 0, 256, stream));
    add<<<1, 64, 0, stream>>>(scratch, 4);
    copy<<<1, 64, 0, stream>>>(x, scratch);
    CHECK(cudaFreeAsync(scratch, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 3; i++) run(exec);
    CHECK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    for (int value : host) EXPECT(value == 4);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceGraphMemTrim(0));
}

static void errors() {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    EXPECT(cudaGetLastError() != cudaSuccess);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    void *more;
    EXPECT(cudaMalloc(&more, 64) == cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    EXPECT(cudaGetLastError() != cudaSuccess);
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&x, 256));
    CHECK(cudaMalloc(&y, 256));
    by_hand();
    captured();
    memory();
    errors();
    add<<<1, 64, 0, stream>>>(x, 1);
    CHECK(cudaStreamSynchronize(stream));
}
