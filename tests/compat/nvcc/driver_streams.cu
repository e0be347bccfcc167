// Streams and events by the driver API: order, values in memory, attributes, callbacks, capture's state.
#include "driver.h"
#include <atomic>
#include <thread>

#if CUDA_VERSION < 12000
// cuda.h 11 means the first versions, which drivers have switched off for long.
extern "C" {
decltype(cuStreamWaitValue32) cuStreamWaitValue32_v2;
decltype(cuStreamWaitValue64) cuStreamWaitValue64_v2;
decltype(cuStreamWriteValue32) cuStreamWriteValue32_v2;
decltype(cuStreamWriteValue64) cuStreamWriteValue64_v2;
decltype(cuStreamBatchMemOp) cuStreamBatchMemOp_v2;
}
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWaitValue64 cuStreamWaitValue64_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#define cuStreamWriteValue64 cuStreamWriteValue64_v2
#define cuStreamBatchMemOp cuStreamBatchMemOp_v2
#endif

static CUdeviceptr words;
static std::atomic<int> called;

static void CUDA_CB host_function(void *by) { called += *static_cast<int *>(by); }
static void CUDA_CB callback(CUstream, CUresult status, void *by) { called += status == CUDA_SUCCESS ? *static_cast<int *>(by) : 0; }

static void properties(CUstream stream) {
    unsigned flags = 0;
    int priority = 99;
    CUcontext context, current;
    CU(cuStreamGetFlags, stream, &flags);
    EXPECT(flags == CU_STREAM_NON_BLOCKING);
    CU(cuStreamGetPriority, stream, &priority);
    CU(cuStreamGetCtx, stream, &context);
    CU(cuCtxGetCurrent, &current);
    EXPECT(context == current);
    CUstreamAttrValue value = {};
    value.syncPolicy = CU_SYNC_POLICY_YIELD;
    CU(cuStreamSetAttribute, stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    value.syncPolicy = CU_SYNC_POLICY_AUTO;
    CU(cuStreamGetAttribute, stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    EXPECT(value.syncPolicy == CU_SYNC_POLICY_YIELD);
    CUstream other;
    CU(cuStreamCreateWithPriority, &other, CU_STREAM_DEFAULT, priority);
    CU(cuStreamCopyAttributes, other, stream);
    CU(cuStreamGetAttribute, other, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    EXPECT(value.syncPolicy == CU_SYNC_POLICY_YIELD);
#if CUDA_VERSION >= 12000
    unsigned long long id = 0, another = 0;
    CU(cuStreamGetId, stream, &id);
    CU(cuStreamGetId, other, &another);
    EXPECT(id != another);
#endif
#if CUDA_VERSION >= 13000
    CUdevice device = -1;
    CU(cuStreamGetDevice, stream, &device);
    EXPECT(device == 0);
#endif
    CU(cuStreamDestroy, other);
}

static void order(CUstream stream) {
    // All streams are made first: a driver may wait for what runs when it makes one.
    CUstream other, third;
    CUevent event, start, end;
    for (auto each : {&other, &third}) CU(cuStreamCreate, each, CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    CU(cuEventCreate, &start, CU_EVENT_DEFAULT);
    CU(cuEventCreate, &end, CU_EVENT_BLOCKING_SYNC);
    CU(cuEventRecord, start, stream);
    // The first stream waits for a word; the second waits for the first.
    CU(cuMemsetD32, words, 0, 16);
    CU(cuStreamWaitValue32, stream, words, 5, CU_STREAM_WAIT_VALUE_GEQ);
    CU(cuMemsetD32Async, words + 16, 9, 1, stream);
    CU(cuEventRecordWithFlags, event, stream, 0);
    CU(cuStreamWaitEvent, other, event, 0);
    CU(cuMemcpyDtoDAsync, words + 32, words + 16, 4, other);
    ANSWERS(CUDA_ERROR_NOT_READY, cuStreamQuery, other);
    ANSWERS(CUDA_ERROR_NOT_READY, cuEventQuery, event);
    int by = 2;
    CU(cuLaunchHostFunc, other, host_function, &by);
    CU(cuStreamAddCallback, other, callback, &by, 0);
    CU(cuStreamWriteValue32, third, words, 6, CU_STREAM_WRITE_VALUE_DEFAULT);
    CU(cuStreamSynchronize, other);
    EXPECT(called == 4);
    CU(cuStreamQuery, other);
    CU(cuEventSynchronize, event);
    int value = 0;
    CU(cuMemcpyDtoH, &value, words + 32, 4);
    EXPECT(value == 9);
    CU(cuEventRecord, end, stream);
    CU(cuEventSynchronize, end);
    float ms = -1;
    CU(cuEventElapsedTime, &ms, start, end);
    EXPECT(ms >= 0);
    ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, event, end);
    for (auto each : {other, third}) CU(cuStreamDestroy, each);
    for (auto each : {event, start, end}) CU(cuEventDestroy, each);
}

static void values(CUstream stream) {
    unsigned long long seen[2] = {};
    CU(cuStreamWriteValue64, stream, words, 1ull << 40, CU_STREAM_WRITE_VALUE_DEFAULT);
    CU(cuStreamWaitValue64, stream, words, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ);
    CUstreamBatchMemOpParams both[2] = {};
    both[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    both[0].writeValue.address = words + 8;
    both[0].writeValue.value = 3;
    both[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    both[1].waitValue.address = words + 8;
    both[1].waitValue.value = 3;
    both[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CU(cuStreamBatchMemOp, stream, 2, both, 0);
    CU(cuStreamSynchronize, stream);
    CU(cuMemcpyDtoH, seen, words, sizeof seen);
    EXPECT(seen[0] == 1ull << 40 && unsigned(seen[1]) == 3);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32, stream, words + 2, 0, 0);
}

static void capture(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraph graph, whole;
    const CUgraphNode *nodes = nullptr;
    size_t count = 0;
    cuuint64_t id = 0;
    CU(cuThreadExchangeStreamCaptureMode, &mode);
    EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuThreadExchangeStreamCaptureMode, &mode);
    CU(cuStreamIsCapturing, stream, &status);
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU(cuMemsetD32Async, words, 1, 4, stream);
#if CUDA_VERSION >= 13000
    const CUgraphEdgeData *edges = nullptr;
    CU(cuStreamGetCaptureInfo, stream, &status, &id, &graph, &nodes, &edges, &count);
    CUgraphNode last = nodes[0];
    CU(cuStreamUpdateCaptureDependencies, stream, &last, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
#else
    CU(cuStreamGetCaptureInfo_v2, stream, &status, &id, &graph, &nodes, &count);
    CUgraphNode last = nodes[0];
    CU(cuStreamUpdateCaptureDependencies, stream, &last, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
#endif
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1 && id != 0);
    CU(cuStreamEndCapture, stream, &whole);
    CU(cuGraphGetNodes, whole, nullptr, &count);
    EXPECT(count == 1);
    CU(cuGraphDestroy, whole);
}

int main() {
    CUstream stream;
    primary_context();
    CU(cuMemAlloc, &words, 4096);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    properties(stream);
    order(stream);
    values(stream);
    capture(stream);
    CU(cuStreamDestroy, stream);
}
