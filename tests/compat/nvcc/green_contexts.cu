// Green contexts: blocks stay on the SMs of the context in whose streams they were launched.
#include "driver.h"

#if CUDA_VERSION >= 12040
// Each block of one thread marks the SM that it is on, after some time.
__global__ void mark(unsigned *of_sm) {
    unsigned sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    for (volatile int i = 0; i < 3000; i++) {}
    atomicAdd(of_sm + sm, 1);
}

static unsigned *of_sm;
static const int blocks = 512;

// How many SMs the blocks were on.
static unsigned sms_used(CUstream stream) {
    static unsigned host[1024];
    CHECK(cudaMemset(of_sm, 0, sizeof host));
    CHECK(cudaDeviceSynchronize());
    mark<<<blocks, 1, 0, stream>>>(of_sm);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host, of_sm, sizeof host, cudaMemcpyDeviceToHost));
    unsigned used = 0, all = 0;
    for (unsigned count : host) used += count > 0, all += count;
    EXPECT(all == blocks);
    return used;
}

int main() {
    CUcontext primary = primary_context(), context, current;
    CUdevResource all, parts[2], rest, asked;
    CHECK(cudaMalloc(&of_sm, 4096));
    CU(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
    const unsigned sms = all.sm.smCount;
    EXPECT(sms >= 8);
    unsigned groups = 0;
    CU(cuDevSmResourceSplitByCount, nullptr, &groups, &all, nullptr, 0, 1);
    EXPECT(groups >= 1 && groups <= sms);
    groups = sms >= 16 ? 2 : 1;
    CU(cuDevSmResourceSplitByCount, parts, &groups, &all, &rest, 0, 3);
    const unsigned each = parts[0].sm.smCount;
    EXPECT(each >= 3 && rest.sm.smCount == sms - groups * each);
    ANSWERS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cuDevSmResourceSplitByCount, parts, &groups, &all, &rest, 0, sms + 1);

    CUdevResourceDesc description;
    CUgreenCtx green, of;
    CU(cuDevResourceGenerateDesc, &description, parts, 1);
    CU(cuGreenCtxCreate, &green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    CU(cuGreenCtxGetDevResource, green, &asked, CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(asked.sm.smCount == each);
    CUstream stream;
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate, &stream, green, CU_STREAM_DEFAULT, 0);
    CU(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0);
    CU(cuStreamGetGreenCtx, stream, &of);
    EXPECT(of == green);
    EXPECT(sms_used(stream) <= each);
    CU(cuCtxFromGreenCtx, &context, green);
    EXPECT(context != primary);
    CU(cuStreamGetCtx, stream, &current);
    EXPECT(current == context);

    // As a context: its default stream, and what is made in it.
    CU(cuCtxSetCurrent, context);
    CUdevice device = -1;
    CU(cuCtxGetDevice, &device);
    EXPECT(device == 0);
    CU(cuCtxGetDevResource, context, &asked, CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(asked.sm.smCount == each);
    EXPECT(sms_used(nullptr) <= each);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, 64);
    CU(cuMemsetD32, memory, 7, 16);
    CU(cuCtxSynchronize);
    CU(cuCtxSetCurrent, primary);
    unsigned value = 0;
    CU(cuMemcpyDtoH, &value, memory, 4);
    EXPECT(value == 7);
    CU(cuMemFree, memory);
    CU(cuStreamGetGreenCtx, nullptr, &of);
    EXPECT(of == nullptr);
    CU(cuStreamDestroy, stream);
    CU(cuGreenCtxDestroy, green);
    CHECK(cudaFree(of_sm));
}
#else
// This runtime's headers know of none.
int main() {}
#endif
