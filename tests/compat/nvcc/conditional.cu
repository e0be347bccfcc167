// Conditional nodes: a loop, an if with an else, a switch; the device sets the words that decide.
// Graphs have them since CUDA 12.4, and an else and a switch since 12.8.
#include "check.h"

#if CUDART_VERSION >= 12040

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *runs) {
    *runs += 1;
    if (--*left == 0) cudaGraphSetConditional(handle, 0);
}

__global__ void choose(cudaGraphConditionalHandle handle, const int *value) {
    cudaGraphSetConditional(handle, *value);
}

__global__ void set(int *x, int value) { *x = value; }

static cudaGraphNode_t kernel(cudaGraph_t graph, cudaGraphNode_t after, void *function, void **arguments) {
    cudaKernelNodeParams params = {};
    params.func = function;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &params));
    return node;
}

static cudaGraphNode_t conditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *bodies) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &params));
#else
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &params));
#endif
    for (unsigned i = 0; i < size; i++) bodies[i] = params.conditional.phGraph_out[i];
    return node;
}

int main() {
    int *memory, host[4];
    CHECK(cudaMalloc(&memory, sizeof host));
    int *left = memory, *runs = memory + 1, *value = memory + 2, *result = memory + 3;
    cudaGraph_t graph, body, bodies[3];
    CHECK(cudaGraphCreate(&graph, 0));

    // A loop whose body is captured.
    cudaGraphConditionalHandle loop;
    CHECK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNode_t node = conditional(graph, nullptr, loop, cudaGraphCondTypeWhile, 1, &body);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    count_down<<<1, 1, 0, stream>>>(loop, left, runs);
    CHECK(cudaStreamEndCapture(stream, nullptr));

    // Then one of several.
    cudaGraphConditionalHandle choice;
    CHECK(cudaGraphConditionalHandleCreate(&choice, graph, 0, 0));
    void *of_choice[] = {&choice, &value};
    node = kernel(graph, node, (void *)choose, of_choice);
#if CUDART_VERSION >= 12080
    conditional(graph, node, choice, cudaGraphCondTypeSwitch, 3, bodies);
    const int cases = 3;
#else
    conditional(graph, node, choice, cudaGraphCondTypeIf, 1, bodies);
    const int cases = 1;
#endif
    for (int i = 0; i < cases; i++) {
        int number = 100 + i;
        void *of_case[] = {&result, &number};
        kernel(bodies[i], nullptr, (void *)set, of_case);
    }

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        int before[] = {3 + i, 0, i, -1};
        CHECK(cudaMemcpy(memory, before, sizeof before, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
        EXPECT(host[0] == 0 && host[1] == 3 + i);
        // A switch runs the body of that number, an if the one that it has.
        int expected = cases == 3 ? (i < 3 ? 100 + i : -1) : (i != 0 ? 100 : -1);
        EXPECT(host[3] == expected);
    }

    cudaGraph_t clone;
    EXPECT(cudaGraphClone(&clone, graph) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

#else
int main() {}
#endif
