// What a sequence of kernels costs the thread that submits it: launched one by one, as one graph that is
// as it was, and as one graph whose kernels get other parameters first. relaunch.py builds and runs it.
//
// Prints JSON: for each mode the processor time of the thread and the time to the end, ns a kernel.

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static const char *PTX = ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry add(.param .u64 to, .param .u32 value) {\n"
    ".reg .b64 %to; .reg .b32 %v, %w;\n"
    "ld.param.u64 %to, [to]; ld.param.u32 %v, [value];\n"
    "ld.global.u32 %w, [%to]; add.u32 %w, %w, %v; st.global.u32 [%to], %w; ret;\n}\n";

static void check(CUresult result, const char *what) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s answered %d\n", what, result);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static double now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static const int KERNELS = 200, ROUNDS = 41;
static const char *separator = "{";

// The medians of some rounds.
template <typename Submit> static void measure(const char *name, CUstream stream, Submit submit) {
    std::vector<double> spent, took;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuStreamSynchronize(stream));
        double cpu = now(CLOCK_THREAD_CPUTIME_ID), begin = now(CLOCK_MONOTONIC);
        submit(round);
        spent.push_back((now(CLOCK_THREAD_CPUTIME_ID) - cpu) / KERNELS);
        CHECK(cuStreamSynchronize(stream));
        took.push_back((now(CLOCK_MONOTONIC) - begin) / KERNELS);
    }
    std::sort(spent.begin(), spent.end());
    std::sort(took.begin(), took.end());
    printf("%s\n \"%s\": {\"thread_ns\": %.0f, \"done_ns\": %.0f}", separator, name,
           spent[ROUNDS / 2], took[ROUNDS / 2]);
    separator = ",";
}

int main() {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUdeviceptr to;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, PTX));
    CHECK(cuModuleGetFunction(&function, module, "add"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&to, 4));

    unsigned value = 1;
    void *parameters[] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS node = {};
    node.func = function;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = 32, node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    CUgraph graph;
    CUgraphExec exec;
    std::vector<CUgraphNode> nodes(KERNELS);
    CHECK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < KERNELS; i++)
        CHECK(cuGraphAddKernelNode(&nodes[i], graph, i ? &nodes[i - 1] : nullptr, i ? 1 : 0, &node));
    CHECK(cuGraphInstantiate(&exec, graph, 0));

    measure("one by one", stream, [&](int round) {
        value = round;
        for (int i = 0; i < KERNELS; i++)
            CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
    });
    measure("graph as it was", stream, [&](int) { CHECK(cuGraphLaunch(exec, stream)); });
    for (int part : {1, 4, 20}) {
        char name[64];
        snprintf(name, sizeof name, "graph, parameters of 1 in %d set", part);
        measure(name, stream, [&](int round) {
            value = round;
            for (int i = 0; i < KERNELS; i += part)
                CHECK(cuGraphExecKernelNodeSetParams(exec, nodes[i], &node));
            CHECK(cuGraphLaunch(exec, stream));
        });
    }
    printf("\n}\n");
}
