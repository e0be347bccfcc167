// Modules, libraries, kernels and linking by the driver API; launches in every form.
#include "driver.h"
#include <cstdio>
#include <unistd.h>

static CUdeviceptr numbers;

static void expect_all(int value) {
    int host[256];
    CU(cuMemcpyDtoH, host, numbers, sizeof host);
    for (int number : host) EXPECT(number == value);
}

static void launches(CUfunction function) {
    int by = 1, n = 256;
    void *values[] = {&numbers, &by, &n};
    CU(cuMemsetD32, numbers, 0, 256);
    CU(cuLaunchKernel, function, 2, 1, 1, 128, 1, 1, 0, nullptr, values, nullptr);
    struct {
        CUdeviceptr to;
        int by, n;
    } packed = {numbers, 10, 256};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CU(cuLaunchKernel, function, 2, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra);
    by = 100;
    CU(cuLaunchCooperativeKernel, function, 2, 1, 1, 128, 1, 1, 0, nullptr, values);
#if CUDA_VERSION >= 12000
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config = {};
    config.gridDimX = 2, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    CU(cuLaunchKernelEx, &config, function, values, nullptr);
#else
    CU(cuLaunchKernel, function, 2, 1, 1, 128, 1, 1, 0, nullptr, values, nullptr);
#endif
    expect_all(211);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, function, 1, 1, 1, 2048, 1, 1, 0, nullptr, values, nullptr);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, function, 0, 1, 1, 1, 1, 1, 0, nullptr, values, nullptr);
}

static size_t CUDA_CB no_shared_memory(int) { return 0; }

static void questions(CUfunction function) {
    int value = -1, grid = 0, block = 0;
    size_t bytes = 0;
    CU(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    EXPECT(value > 0 && value <= 1024);
    CU(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8192);
    CU(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    EXPECT(value == 8192);
    CU(cuFuncSetCacheConfig, function, CU_FUNC_CACHE_PREFER_SHARED);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, function, 128, 0);
    EXPECT(value > 0);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &value, function, 128, 0, CU_OCCUPANCY_DEFAULT);
    CU(cuOccupancyMaxPotentialBlockSize, &grid, &block, function, no_shared_memory, 0, 0);
    EXPECT(grid > 0 && block > 0);
    CU(cuOccupancyMaxPotentialBlockSizeWithFlags, &grid, &block, function, nullptr, 1024, 256, CU_OCCUPANCY_DEFAULT);
    EXPECT(block > 0 && block <= 256);
    CU(cuOccupancyAvailableDynamicSMemPerBlock, &bytes, function, 2, 128);
    EXPECT(bytes > 0);
}

static void modules() {
    CUmodule module, other;
    CUfunction function;
    CUdeviceptr counter;
    size_t bytes = 0;
    int value = 0;
    CU(cuModuleLoadData, &module, ADD);
    CU(cuModuleGetFunction, &function, module, "add");
    CUfunction none = function;
    ANSWERS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &none, module, "subtract");
    EXPECT(none == nullptr);
    CU(cuModuleGetGlobal, &counter, &bytes, module, "counter");
    CU(cuMemcpyDtoH, &value, counter, sizeof value);
    EXPECT(bytes == 4 && value == 7);
    launches(function);
    questions(function);
    CU(cuFuncGetModule, &other, function);
    EXPECT(other == module);
#if CUDA_VERSION >= 12040
    CUfunction functions[2];
    const char *name = nullptr;
    unsigned count = 0;
    size_t offset = 0;
    CUfunctionLoadingState state;
    CU(cuModuleGetFunctionCount, &count, module);
    EXPECT(count == 2);
    CU(cuModuleEnumerateFunctions, functions, 2, module);
    CU(cuFuncGetName, &name, functions[0]);
    EXPECT(std::strcmp(name, "add") == 0 || std::strcmp(name, "nothing") == 0);
    CU(cuFuncGetParamInfo, function, 1, &offset, &bytes);
    EXPECT(offset == 8 && bytes == 4);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 3, &offset, &bytes);
    CU(cuFuncLoad, function);
    CU(cuFuncIsLoaded, &state, function);
    EXPECT(state == CU_FUNCTION_LOADING_STATE_LOADED);
#endif
    CU(cuModuleUnload, module);
}

static void files_and_logs() {
    char path[] = "/tmp/openmps-compat-XXXXXX", log[256] = "";
    int file = mkstemp(path);
    EXPECT(write(file, ADD, std::strlen(ADD)) == ssize_t(std::strlen(ADD)));
    close(file);
    CUmodule module;
    CU(cuModuleLoad, &module, path);
    CU(cuModuleUnload, module);
    CUlinkState link;
    CU(cuLinkCreate, 0, nullptr, nullptr, &link);
    CU(cuLinkAddFile, link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr);
    CU(cuLinkDestroy, link);
#if CUDA_VERSION >= 12000
    CUlibrary library;
    CU(cuLibraryLoadFromFile, &library, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CU(cuLibraryUnload, library);
#endif
    unlink(path);
    ANSWERS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad, &module, path);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    const char *wrong = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { mov.u32 %r1, 3; ret; }";
    ANSWERS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx, &module, wrong, 2, options, values);
    EXPECT(std::strstr(log, "%r1") != nullptr);
    CU(cuModuleLoadDataEx, &module, ADD, 2, options, values);
    CU(cuModuleUnload, module);
}

static void linking() {
    const char *caller = ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func (.param .b32 r) seven();\n"
                         ".visible .entry k(.param .u64 to) { .reg .b32 %r; .reg .b64 %d; .param .b32 v;\n"
                         "call (v), seven; ld.param.b32 %r, [v]; ld.param.u64 %d, [to]; st.global.u32 [%d], %r; ret; }";
    const char *callee = ".version 7.0\n.target sm_70\n.address_size 64\n"
                         ".visible .func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }";
    CUlinkState link;
    CUmodule module;
    CUfunction function;
    void *image = nullptr, *values[] = {&numbers};
    size_t size = 0;
    int value = 0;
    CU(cuLinkCreate, 0, nullptr, nullptr, &link);
    CU(cuLinkAddData, link, CU_JIT_INPUT_PTX, (void *)caller, std::strlen(caller) + 1, "caller", 0, nullptr, nullptr);
    CU(cuLinkAddData, link, CU_JIT_INPUT_PTX, (void *)callee, std::strlen(callee) + 1, "callee", 0, nullptr, nullptr);
    CU(cuLinkComplete, link, &image, &size);
    CU(cuModuleLoadData, &module, image);
    CU(cuLinkDestroy, link);
    CU(cuModuleGetFunction, &function, module, "k");
    CU(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, values, nullptr);
    CU(cuMemcpyDtoH, &value, numbers, sizeof value);
    EXPECT(value == 7);
    CU(cuModuleUnload, module);
}

#if CUDA_VERSION >= 12000
static void libraries() {
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUmodule module;
    CUdeviceptr counter;
    size_t bytes = 0;
    int value = -1;
    CU(cuLibraryLoadData, &library, ADD, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CU(cuLibraryGetKernel, &kernel, library, "add");
    CU(cuLibraryGetModule, &module, library);
    CU(cuLibraryGetGlobal, &counter, &bytes, library, "counter");
    EXPECT(counter != 0 && bytes == 4);
    CU(cuKernelGetFunction, &function, kernel);
    launches(function);
    launches(reinterpret_cast<CUfunction>(kernel));
    CU(cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0);
    EXPECT(value > 0);
    CU(cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096, kernel, 0);
    CU(cuKernelSetCacheConfig, kernel, CU_FUNC_CACHE_PREFER_L1, 0);
#if CUDA_VERSION >= 12050
    CUkernel kernels[2];
    CUlibrary owner;
    const char *name = nullptr;
    unsigned count = 0;
    size_t offset = 9;
    CU(cuKernelGetName, &name, kernel);
    EXPECT(std::strcmp(name, "add") == 0);
    CU(cuKernelGetParamInfo, kernel, 2, &offset, &bytes);
    EXPECT(offset == 12 && bytes == 4);
    CU(cuKernelGetLibrary, &owner, kernel);
    EXPECT(owner == library);
    CU(cuLibraryGetKernelCount, &count, library);
    EXPECT(count == 2);
    CU(cuLibraryEnumerateKernels, kernels, 2, library);
    EXPECT(kernels[0] == kernel || kernels[1] == kernel);
#endif
    CU(cuLibraryUnload, library);
}
#endif

int main() {
    CUmoduleLoadingMode mode;
    primary_context();
    CU(cuModuleGetLoadingMode, &mode);
    CU(cuMemAlloc, &numbers, 256 * 4);
    modules();
    files_and_logs();
    linking();
#if CUDA_VERSION >= 12000
    libraries();
#endif
    CU(cuMemFree, numbers);
}
