// Code compiled and linked at run time, asked for as machine code: NVRTC, nvJitLink, and both with code for optimisation
// at link time.
// toolkits: 13
// nvcc: -Xlinker -l:libnvrtc.so.13 -Xlinker -l:libnvJitLink.so.13
#include "driver.h"
#include <nvJitLink.h>
#include <nvrtc.h>

#define COMPILES(call) EXPECT((call) == NVRTC_SUCCESS)
#define LINKS(call) EXPECT((call) == NVJITLINK_SUCCESS)

using Bytes = std::vector<char>;
enum Kind { MACHINE_CODE, FOR_LINKING };

static std::string architecture() {
    int major, minor;
    CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    return "-arch=sm_" + std::to_string(10 * major + minor);
}

static Bytes compile(const char *source, Kind kind, std::vector<const char *> options = {}) {
    nvrtcProgram program;
    COMPILES(nvrtcCreateProgram(&program, source, "source.cu", 0, nullptr, nullptr));
    std::string arch = architecture();
    options.push_back(arch.c_str());
    if (kind == FOR_LINKING) options.push_back("-dlto");
    nvrtcResult result = nvrtcCompileProgram(program, int(options.size()), options.data());
    if (result != NVRTC_SUCCESS) {
        size_t length;
        COMPILES(nvrtcGetProgramLogSize(program, &length));
        Bytes log(length);
        COMPILES(nvrtcGetProgramLog(program, log.data()));
        std::printf("%s: %s\n", nvrtcGetErrorString(result), log.data());
        std::exit(1);
    }
    size_t length = 0;
    COMPILES(kind == FOR_LINKING ? nvrtcGetLTOIRSize(program, &length) : nvrtcGetCUBINSize(program, &length));
    EXPECT(length > 0);
    Bytes code(length);
    COMPILES(kind == FOR_LINKING ? nvrtcGetLTOIR(program, code.data()) : nvrtcGetCUBIN(program, code.data()));
    COMPILES(nvrtcDestroyProgram(&program));
    return code;
}

static nvJitLinkHandle linker(bool at_link_time) {
    nvJitLinkHandle handle;
    std::string arch = architecture();
    const char *options[] = {arch.c_str(), "-lto"};
    LINKS(nvJitLinkCreate(&handle, at_link_time ? 2 : 1, options));
    return handle;
}

static Bytes linked(const std::vector<Bytes> &inputs, Kind kind) {
    nvJitLinkHandle handle = linker(kind == FOR_LINKING);
    for (const Bytes &input : inputs) {
        nvJitLinkInputType type = kind == FOR_LINKING ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_CUBIN;
        LINKS(nvJitLinkAddData(handle, type, input.data(), input.size(), "input"));
    }
    nvJitLinkResult result = nvJitLinkComplete(handle);
    if (result != NVJITLINK_SUCCESS) {
        size_t length;
        LINKS(nvJitLinkGetErrorLogSize(handle, &length));
        Bytes log(length + 1);
        LINKS(nvJitLinkGetErrorLog(handle, log.data()));
        std::printf("linker answers %d: %s\n", int(result), log.data());
        std::exit(1);
    }
    size_t length = 0;
    LINKS(nvJitLinkGetLinkedCubinSize(handle, &length));
    Bytes code(length);
    LINKS(nvJitLinkGetLinkedCubin(handle, code.data()));
    LINKS(nvJitLinkDestroy(&handle));
    return code;
}

// Runs `scale`, which makes 3 x + 1 of each number.
static void run(CUfunction function) {
    const int N = 100;
    int numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = i;
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, sizeof numbers);
    CU(cuMemcpyHtoD, memory, numbers, sizeof numbers);
    int n = N;
    void *parameters[] = {&memory, &n};
    CU(cuLaunchKernel, function, 1, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr);
    CU(cuMemcpyDtoH, numbers, memory, sizeof numbers);
    for (int i = 0; i < N; i++) EXPECT(numbers[i] == 3 * i + 1);
    CU(cuMemFree, memory);
}

static void run_module(const Bytes &code) {
    CUmodule module;
    CUfunction function;
    CU(cuModuleLoadData, &module, code.data());
    CU(cuModuleGetFunction, &function, module, "scale");
    run(function);
    CU(cuModuleUnload, module);
}

static void run_library(const Bytes &code) {
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CU(cuLibraryLoadData, &library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    CU(cuLibraryGetKernel, &kernel, library, "scale");
    CU(cuKernelGetFunction, &function, kernel);
    run(function);
    CU(cuLibraryUnload, library);
}

static const char *const WHOLE = R"(
extern "C" __global__ void scale(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 3 * x[threadIdx.x] + 1; }
)";
static const char *const PART = R"(
extern "C" __device__ int scaled(int x);
extern "C" __global__ void scale(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = scaled(x[threadIdx.x]); }
)";
static const char *const OTHER_PART = R"(
extern "C" __device__ int scaled(int x) { return 3 * x + 1; }
)";

int main() {
    primary_context();
    int major, minor;
    COMPILES(nvrtcVersion(&major, &minor));
    EXPECT(major == 13);
    unsigned linker_major, linker_minor;
    LINKS(nvJitLinkVersion(&linker_major, &linker_minor));
    EXPECT(linker_major == 13);
    run_module(compile(WHOLE, MACHINE_CODE));
    run_library(compile(WHOLE, MACHINE_CODE));
    Bytes part = compile(PART, MACHINE_CODE, {"-rdc=true"}), other = compile(OTHER_PART, MACHINE_CODE, {"-rdc=true"});
    run_module(linked({part, other}, MACHINE_CODE));
    run_library(linked({part, other}, MACHINE_CODE));
    Bytes ir = compile(PART, FOR_LINKING), other_ir = compile(OTHER_PART, FOR_LINKING);
    run_module(linked({ir, other_ir}, FOR_LINKING));
    // A program that asks for PTX itself.
    nvJitLinkHandle handle;
    std::string arch = architecture();
    const char *options[] = {arch.c_str(), "-lto", "-ptx"};
    LINKS(nvJitLinkCreate(&handle, 3, options));
    LINKS(nvJitLinkAddData(handle, NVJITLINK_INPUT_LTOIR, ir.data(), ir.size(), "part"));
    LINKS(nvJitLinkAddData(handle, NVJITLINK_INPUT_LTOIR, other_ir.data(), other_ir.size(), "other part"));
    LINKS(nvJitLinkComplete(handle));
    size_t length = 0;
    LINKS(nvJitLinkGetLinkedPtxSize(handle, &length));
    Bytes text(length);
    LINKS(nvJitLinkGetLinkedPtx(handle, text.data()));
    EXPECT(std::strstr(text.data(), ".version"));
    LINKS(nvJitLinkDestroy(&handle));
    // One definition too many.
    handle = linker(false);
    for (const Bytes *input : {&part, &other, &other})
        LINKS(nvJitLinkAddData(handle, NVJITLINK_INPUT_CUBIN, input->data(), input->size(), "input"));
    EXPECT(nvJitLinkComplete(handle) != NVJITLINK_SUCCESS);
    LINKS(nvJitLinkGetErrorLogSize(handle, &length));
    EXPECT(length > 1);
    Bytes log(length);
    LINKS(nvJitLinkGetErrorLog(handle, log.data()));
    EXPECT(std::strstr(log.data(), "scaled"));
    LINKS(nvJitLinkDestroy(&handle));
}
