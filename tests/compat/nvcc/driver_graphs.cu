// Graphs by the driver API: every kind of node, made, asked, changed and run; structure, clones, updates.
#include "driver.h"
#include <atomic>
#include <unistd.h>
#include <algorithm>

static CUcontext context;
static CUstream stream;
static CUmodule module;
static CUdeviceptr x;
static CUfunction add;
static int host[64];

static void CUDA_CB increment(void *word) { ++*static_cast<int *>(word); }
static void CUDA_CB add_ten(void *word) { *static_cast<int *>(word) += 10; }

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
}

static void run(CUgraphExec exec) {
    CU(cuGraphLaunch, exec, stream);
    CU(cuStreamSynchronize, stream);
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(void **values) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.func = add;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 64, params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = values;
    return params;
}

static CUDA_MEMSET_NODE_PARAMS fill_params(unsigned value) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    params.dst = x;
    params.value = value;
    params.elementSize = 4;
    params.width = 64;
    params.height = 1;
    return params;
}

static CUDA_MEMCPY3D download_params() {
    CUDA_MEMCPY3D params = {};
    params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = x;
    params.dstMemoryType = CU_MEMORYTYPE_HOST;
    params.dstHost = host;
    params.srcPitch = params.dstPitch = params.WidthInBytes = sizeof host;
    params.srcHeight = params.dstHeight = params.Height = params.Depth = 1;
    return params;
}

static void nodes() {
    CUgraph graph;
    CUgraphNode fill, kernel, again, down, call;
    int by = 5, n = 64, calls = 0;
    void *values[] = {&x, &by, &n};
    CU(cuGraphCreate, &graph, 0);
    CUDA_MEMSET_NODE_PARAMS set = fill_params(1), shown_set;
    CUDA_KERNEL_NODE_PARAMS launch = kernel_params(values), shown_launch;
    CUDA_MEMCPY3D copy = download_params(), shown_copy;
    CUDA_HOST_NODE_PARAMS function = {increment, &calls}, shown_function;
    CU(cuGraphAddMemsetNode, &fill, graph, nullptr, 0, &set, context);
    CU(cuGraphAddKernelNode, &kernel, graph, &fill, 1, &launch);
    CU(cuGraphAddKernelNode, &again, graph, &kernel, 1, &launch);
    CU(cuGraphAddMemcpyNode, &down, graph, &again, 1, &copy, context);
    CU(cuGraphAddHostNode, &call, graph, &down, 1, &function);
    CUgraphExec exec = instantiate(graph);
    run(exec);
    EXPECT(host[0] == 11 && host[63] == 11 && calls == 1);
    // What each node holds, and what it holds when it is changed.
    CU(cuGraphMemsetNodeGetParams, fill, &shown_set);
    EXPECT(shown_set.value == 1 && shown_set.width == 64);
    CU(cuGraphKernelNodeGetParams, kernel, &shown_launch);
    EXPECT(shown_launch.func == add && *static_cast<int *>(shown_launch.kernelParams[1]) == 5);
    CU(cuGraphMemcpyNodeGetParams, down, &shown_copy);
    EXPECT(shown_copy.dstHost == host);
    CU(cuGraphHostNodeGetParams, call, &shown_function);
    EXPECT(shown_function.fn == increment);
    set = fill_params(100), by = 50, function.fn = add_ten;
    CU(cuGraphMemsetNodeSetParams, fill, &set);
    CU(cuGraphKernelNodeSetParams, kernel, &launch);
    CU(cuGraphMemcpyNodeSetParams, down, &copy);
    CU(cuGraphHostNodeSetParams, call, &function);
    CUgraphExec changed = instantiate(graph);
    run(changed);
    EXPECT(host[0] == 155 && calls == 11);
    // The same on the executable graph.
    CU(cuGraphExecMemsetNodeSetParams, exec, fill, &set, context);
    CU(cuGraphExecKernelNodeSetParams, exec, again, &launch);
    CU(cuGraphExecMemcpyNodeSetParams, exec, down, &copy, context);
    CU(cuGraphExecHostNodeSetParams, exec, call, &function);
    CU(cuGraphUpload, exec, stream);
    run(exec);
    EXPECT(host[0] == 155 && calls == 21);
    unsigned enabled = 0;
    CU(cuGraphNodeSetEnabled, exec, again, 0);
    CU(cuGraphNodeGetEnabled, exec, again, &enabled);
    run(exec);
    EXPECT(enabled == 0 && host[0] == 105);
    CUkernelNodeAttrValue attribute = {};
    attribute.cooperative = 1;
    CU(cuGraphKernelNodeSetAttribute, kernel, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &attribute);
    CU(cuGraphKernelNodeCopyAttributes, again, kernel);
    attribute.cooperative = 0;
    CU(cuGraphKernelNodeGetAttribute, again, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &attribute);
    EXPECT(attribute.cooperative == 1);
    for (auto each : {exec, changed}) CU(cuGraphExecDestroy, each);
    CU(cuGraphDestroy, graph);
}

static void structure() {
    CUgraph graph, clone, inner;
    CUgraphNode first, second, found, list[4];
    CUgraphNodeType type;
    size_t count = 4;
    CU(cuGraphCreate, &graph, 0);
    CU(cuGraphAddEmptyNode, &first, graph, nullptr, 0);
    CU(cuGraphAddEmptyNode, &second, graph, nullptr, 0);
    CU(cuGraphGetRootNodes, graph, list, &count);
    EXPECT(count == 2);
#if CUDA_VERSION >= 13000
    CU(cuGraphAddDependencies, graph, &first, &second, nullptr, 1);
    CUgraphNode from[4], to[4];
    count = 4;
    CU(cuGraphGetEdges, graph, from, to, nullptr, &count);
    EXPECT(count == 1 && from[0] == first && to[0] == second);
    count = 4;
    CU(cuGraphNodeGetDependencies, second, list, nullptr, &count);
    EXPECT(count == 1 && list[0] == first);
    count = 4;
    CU(cuGraphNodeGetDependentNodes, first, list, nullptr, &count);
    EXPECT(count == 1 && list[0] == second);
#else
    CU(cuGraphAddDependencies, graph, &first, &second, 1);
    CUgraphNode from[4], to[4];
    count = 4;
    CU(cuGraphGetEdges, graph, from, to, &count);
    EXPECT(count == 1 && from[0] == first && to[0] == second);
    count = 4;
    CU(cuGraphNodeGetDependencies, second, list, &count);
    EXPECT(count == 1 && list[0] == first);
    count = 4;
    CU(cuGraphNodeGetDependentNodes, first, list, &count);
    EXPECT(count == 1 && list[0] == second);
#endif
    CU(cuGraphNodeGetType, first, &type);
    EXPECT(type == CU_GRAPH_NODE_TYPE_EMPTY);
    CU(cuGraphClone, &clone, graph);
    CU(cuGraphNodeFindInClone, &found, second, clone);
    EXPECT(found != second);
    CUgraphNode child;
    CU(cuGraphAddChildGraphNode, &child, clone, &found, 1, graph);
    CU(cuGraphChildGraphNodeGetGraph, child, &inner);
    count = 0;
    CU(cuGraphGetNodes, inner, nullptr, &count);
    EXPECT(count == 2);
    run(instantiate(clone));
    CU(cuGraphDebugDotPrint, clone, "/dev/null", 0);
#if CUDA_VERSION >= 13000
    CU(cuGraphRemoveDependencies, graph, &first, &second, nullptr, 1);
#else
    CU(cuGraphRemoveDependencies, graph, &first, &second, 1);
#endif
    CU(cuGraphDestroyNode, second);
    count = 0;
    CU(cuGraphGetNodes, graph, nullptr, &count);
    EXPECT(count == 1);
    CU(cuGraphDestroy, clone);
    CU(cuGraphDestroy, graph);
}

static void events_and_memory() {
    CUgraph graph;
    CUgraphNode record, wait, ops, alloc, set, release;
    CUevent event, other, found;
    CU(cuEventCreate, &event, 0);
    CU(cuEventCreate, &other, 0);
    CU(cuGraphCreate, &graph, 0);
    CU(cuGraphAddEventRecordNode, &record, graph, nullptr, 0, event);
    CU(cuGraphAddEventWaitNode, &wait, graph, &record, 1, event);
    CU(cuGraphEventRecordNodeSetEvent, record, other);
    CU(cuGraphEventRecordNodeGetEvent, record, &found);
    EXPECT(found == other);
    CU(cuGraphEventWaitNodeSetEvent, wait, other);
    CU(cuGraphEventWaitNodeGetEvent, wait, &found);
    EXPECT(found == other);
    CUstreamBatchMemOpParams write = {};
    write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = x;
    write.writeValue.value = 44;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 1, &write, 0}, shown;
    CU(cuGraphAddBatchMemOpNode, &ops, graph, &wait, 1, &batch);
    CU(cuGraphBatchMemOpNodeGetParams, ops, &shown);
    EXPECT(shown.count == 1 && shown.paramArray[0].writeValue.value == 44);
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {}, shown_memory;
    memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    memory.bytesize = 4096;
    CU(cuGraphAddMemAllocNode, &alloc, graph, &ops, 1, &memory);
    CU(cuGraphMemAllocNodeGetParams, alloc, &shown_memory);
    EXPECT(shown_memory.dptr == memory.dptr && memory.dptr != 0);
    CUDA_MEMSET_NODE_PARAMS fill = fill_params(3);
    fill.dst = memory.dptr;
    CU(cuGraphAddMemsetNode, &set, graph, &alloc, 1, &fill, context);
    CU(cuGraphAddMemFreeNode, &release, graph, &set, 1, memory.dptr);
    CUdeviceptr freed = 0;
    CU(cuGraphMemFreeNodeGetParams, release, &freed);
    EXPECT(freed == memory.dptr);
    CUgraphExec exec = instantiate(graph);
    CU(cuGraphExecEventRecordNodeSetEvent, exec, record, event);
    CU(cuGraphExecEventWaitNodeSetEvent, exec, wait, event);
    run(exec);
    CU(cuMemcpyDtoH, host, x, 4);
    EXPECT(host[0] == 44);
    write.writeValue.value = 45;
    CU(cuGraphBatchMemOpNodeSetParams, ops, &batch);
    CU(cuGraphExecBatchMemOpNodeSetParams, exec, ops, &batch);
    run(exec);
    CU(cuMemcpyDtoH, host, x, 4);
    EXPECT(host[0] == 45);
    CU(cuEventQuery, event);
    cuuint64_t bytes = 1;
    CU(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes);
    CU(cuDeviceGraphMemTrim, 0);
    bytes = 0;
    CU(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes);
    CU(cuGraphExecDestroy, exec);
    CU(cuGraphDestroy, graph);
}

static std::atomic<int> destroyed;
static void CUDA_CB destroy(void *) { destroyed++; }

static void objects_and_updates() {
    CUgraph graph, other;
    CUgraphNode node, another;
    CUDA_MEMSET_NODE_PARAMS fill = fill_params(1), more = fill_params(2);
    CU(cuGraphCreate, &graph, 0);
    CU(cuGraphCreate, &other, 0);
    CU(cuGraphAddMemsetNode, &node, graph, nullptr, 0, &fill, context);
    CU(cuGraphAddMemsetNode, &another, other, nullptr, 0, &more, context);
    CUuserObject object;
    CU(cuUserObjectCreate, &object, nullptr, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    CU(cuUserObjectRetain, object, 1);
    CU(cuGraphRetainUserObject, graph, object, 1, 0);
    CU(cuUserObjectRelease, object, 2);
    EXPECT(destroyed == 0);
    CUgraphExec exec = instantiate(graph);
    run(exec);
#if CUDA_VERSION >= 12000
    CUgraphExecUpdateResultInfo info = {};
    CU(cuGraphExecUpdate, exec, other, &info);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    cuuint64_t flags = 9;
    CU(cuGraphExecGetFlags, exec, &flags);
    EXPECT(flags == 0);
    CUDA_GRAPH_INSTANTIATE_PARAMS with = {};
    CUgraphExec third;
    CU(cuGraphInstantiateWithParams, &third, graph, &with);
    EXPECT(with.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    CU(cuGraphExecDestroy, third);
#else
    CUgraphExecUpdateResult result;
    CUgraphNode failed;
    CU(cuGraphExecUpdate, exec, other, &failed, &result);
    EXPECT(result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
#endif
    run(exec);
    CU(cuMemcpyDtoH, host, x, 4);
    EXPECT(host[0] == 2);
    CU(cuGraphReleaseUserObject, graph, object, 1);
    CU(cuGraphDestroy, graph);
    CU(cuGraphDestroy, other);
    CU(cuGraphExecDestroy, exec);
    // The driver calls it when it comes to it, on a thread of its own.
    for (int ms = 0; ms < 10000 && destroyed == 0; ms++) usleep(1000);
    EXPECT(destroyed == 1);
}

int main() {
    context = primary_context();
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuModuleLoadData, &module, ADD);
    CU(cuModuleGetFunction, &add, module, "add");
    CU(cuMemAlloc, &x, sizeof host);
    nodes();
    structure();
    events_and_memory();
    objects_and_updates();
}
