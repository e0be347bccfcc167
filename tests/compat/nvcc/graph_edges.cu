// Edges of graphs that let a kernel begin before the one it waits for has ended: captured, asked for, given, copied, run.
// toolkits: 13
#include "driver.h"

static CUstream stream, side;
static CUfunction add;
static CUdeviceptr x;
static int host[64];

// x[i] += by, not before all that was waited for has ended.
static const char *const ADD_LATE = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 by, .param .u32 n)
{
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [to];
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r1, 4;
    add.u64 %d1, %d1, %d2;
    ld.param.u32 %r2, [by];
    ld.global.u32 %r3, [%d1];
    add.u32 %r3, %r3, %r2;
    st.global.u32 [%d1], %r3;
    ret;
}
)";

// Launches it, with launch attributes.
static void launch(CUstream in, int by, std::vector<CUlaunchAttribute> attributes = {}) {
    int n = 64;
    void *values[] = {&x, &by, &n};
    CUlaunchConfig config = {1, 1, 1, 64, 1, 1, 0, in, attributes.data(), unsigned(attributes.size())};
    CU(cuLaunchKernelEx, &config, add, values, nullptr);
}

static CUlaunchAttribute early() {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    return attribute;
}

static CUlaunchAttribute recording(CUevent event, bool at_start) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    attribute.value.programmaticEvent.event = event;
    attribute.value.programmaticEvent.triggerAtBlockStart = at_start;
    return attribute;
}

// What the edges to a node say: port and type of each.
static std::vector<std::pair<int, int>> edges_to(CUgraphNode node) {
    CUgraphNode from[8];
    CUgraphEdgeData data[8];
    size_t count = 8;
    CU(cuGraphNodeGetDependencies, node, from, data, &count);
    std::vector<std::pair<int, int>> edges;
    for (size_t i = 0; i < count; i++) edges.push_back({data[i].from_port, data[i].type});
    return edges;
}

static std::vector<CUgraphNode> nodes_of(CUgraph graph) {
    size_t count = 0;
    CU(cuGraphGetNodes, graph, nullptr, &count);
    std::vector<CUgraphNode> nodes(count);
    CU(cuGraphGetNodes, graph, nodes.data(), &count);
    return nodes;
}

static void run(CUgraph graph, int expected) {
    CUgraphExec exec;
    CU(cuMemsetD32, x, 0, 64);
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CU(cuGraphLaunch, exec, stream);
    CU(cuStreamSynchronize, stream);
    CU(cuMemcpyDtoH, host, x, sizeof host);
    EXPECT(host[0] == expected && host[63] == expected);
    CU(cuGraphExecDestroy, exec);
}

typedef std::vector<std::pair<int, int>> Edges;
static const std::pair<int, int> FULL = {CU_GRAPH_KERNEL_NODE_PORT_DEFAULT, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT};
static const std::pair<int, int> EARLY = {CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
static const std::pair<int, int> BEGUN = {CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};

static CUgraph captured() {
    CUgraph graph;
    CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    launch(stream, 1);
    launch(stream, 2, {early()});
    launch(stream, 3, {early()});
    launch(stream, 4);
    CU(cuStreamEndCapture, stream, &graph);
    return graph;
}

static void in_a_stream() {
    CUgraph graph = captured(), clone, other;
    auto nodes = nodes_of(graph);
    EXPECT(edges_to(nodes[0]).empty() && edges_to(nodes[1]) == Edges{EARLY});
    EXPECT(edges_to(nodes[2]) == Edges{EARLY} && edges_to(nodes[3]) == Edges{FULL});
    run(graph, 10);
    // Who asks for edges has to ask for what they say.
    CUgraphNode from[4], to[4];
    CUgraphEdgeData data[4];
    size_t count = 4;
    ANSWERS(CUDA_ERROR_LOSSY_QUERY, cuGraphGetEdges, graph, from, to, nullptr, &count);
    ANSWERS(CUDA_ERROR_LOSSY_QUERY, cuGraphNodeGetDependencies, nodes[1], from, nullptr, &count);
    ANSWERS(CUDA_ERROR_LOSSY_QUERY, cuGraphNodeGetDependentNodes, nodes[0], from, nullptr, &count);
    count = 4;
    CU(cuGraphGetEdges, graph, from, to, data, &count);
    int programmatic = 0;
    for (size_t i = 0; i < count; i++) programmatic += data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    EXPECT(count == 3 && programmatic == 2);
    count = 4;
    CU(cuGraphNodeGetDependentNodes, nodes[0], to, data, &count);
    EXPECT(count == 1 && to[0] == nodes[1] && data[0].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
    CU(cuGraphClone, &clone, graph);
    EXPECT(edges_to(nodes_of(clone)[1]) == Edges{EARLY});
    run(clone, 10);
    // The form of a graph is also what its edges say.
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info = {};
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    other = captured();
    CU(cuGraphExecUpdate, exec, other, &info);
    CUgraphEdgeData as_it_is = {CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    auto others = nodes_of(other);
    CUgraphEdgeData full = {};
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies, other, &others[0], &others[1], &full, 1);
    CU(cuGraphRemoveDependencies, other, &others[0], &others[1], &as_it_is, 1);
    CU(cuGraphAddDependencies, other, &others[0], &others[1], nullptr, 1);
    EXPECT(edges_to(others[1]) == Edges{FULL});
    ANSWERS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate, exec, other, &info);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    CU(cuGraphExecDestroy, exec);
    for (auto each : {graph, clone, other}) CU(cuGraphDestroy, each);
}

static void between_streams() {
    for (bool at_start : {false, true}) {
        CUevent event, done;
        CUgraph graph;
        CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
        CU(cuEventCreate, &done, CU_EVENT_DISABLE_TIMING);
        CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        launch(stream, 1, {recording(event, at_start)});
        CU(cuStreamWaitEvent, side, event, 0);
        launch(side, 2);
        CU(cuEventRecord, done, side);
        CU(cuStreamWaitEvent, stream, done, 0);
        launch(stream, 3);
        CU(cuStreamEndCapture, stream, &graph);
        auto nodes = nodes_of(graph);
        EXPECT(edges_to(nodes[1]) == Edges{at_start ? BEGUN : EARLY});
        EXPECT(edges_to(nodes[2]).size() == 2);
        run(graph, 6);
        CU(cuGraphDestroy, graph);
        CU(cuEventDestroy, event);
        CU(cuEventDestroy, done);
    }
}

static void by_hand() {
    CUgraph graph;
    CUgraphNode first, second, empty;
    int by = 5, n = 64;
    void *values[] = {&x, &by, &n};
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = add;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = 64, params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = values;
    CU(cuGraphCreate, &graph, 0);
    CU(cuGraphAddNode, &first, graph, nullptr, nullptr, 0, &params);
    CUgraphEdgeData data = {CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CU(cuGraphAddNode, &second, graph, &first, &data, 1, &params);
    EXPECT(edges_to(second) == Edges{EARLY});
    CU(cuGraphAddEmptyNode, &empty, graph, nullptr, 0);
    // Only between kernels, and from a port that such an edge begins at.
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies, graph, &second, &empty, &data, 1);
    data.from_port = CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies, graph, &first, &second, &data, 1);
    CU(cuGraphAddDependencies, graph, &second, &empty, nullptr, 1);
    run(graph, 10);
    CU(cuGraphDestroy, graph);
}

int main() {
    primary_context();
    CUmodule module;
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &side, CU_STREAM_NON_BLOCKING);
    CU(cuModuleLoadData, &module, ADD_LATE);
    CU(cuModuleGetFunction, &add, module, "add");
    CU(cuMemAlloc, &x, sizeof host);
    in_a_stream();
    between_streams();
    by_hand();
}
