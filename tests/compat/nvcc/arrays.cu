// Arrays: copies of rows, 2-D and 3-D copies between arrays and all kinds of memory, in streams and in graphs.
#include "check.h"
#include <vector>

static std::vector<float> numbers(int n, float first) {
    std::vector<float> x(n);
    for (int i = 0; i < n; i++) x[i] = first + i;
    return x;
}

int main() {
    const int W = 37, H = 11, D = 5;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();

    // Two dimensions, with the device's memory between.
    cudaArray_t flat;
    CHECK(cudaMallocArray(&flat, &format, W, H));
    std::vector<float> in = numbers(W * H, 1), out(W * H);
    CHECK(cudaMemcpy2DToArray(flat, 0, 0, in.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    float *device;
    size_t pitch;
    CHECK(cudaMallocPitch((void **)&device, &pitch, W * 4, H));
    CHECK(cudaMemcpy2DFromArray(device, pitch, flat, 0, 0, W * 4, H, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(out.data(), W * 4, device, pitch, W * 4, H, cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    cudaExtent extent;
    unsigned flags;
    cudaChannelFormatDesc got;
    CHECK(cudaArrayGetInfo(&got, &extent, &flags, flat));
    EXPECT(extent.width == W && extent.height == H && extent.depth == 0);
    EXPECT(got.f == cudaChannelFormatKindFloat && got.x == 32 && got.y == 0);

    // A part, from and to pinned memory, in a stream.
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    float *pinned;
    CHECK(cudaMallocHost(&pinned, 6 * 4));
    for (int i = 0; i < 6; i++) pinned[i] = -i;
    CHECK(cudaMemcpy2DToArrayAsync(flat, 8, 3, pinned, 12, 12, 2, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DFromArrayAsync(out.data(), W * 4, flat, 0, 0, W * 4, H, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bool inside = x >= 2 && x < 5 && y >= 3 && y < 5;
            EXPECT(out[y * W + x] == (inside ? -((y - 3) * 3 + x - 2) : in[y * W + x]));
        }

    // Three dimensions, larger than what is staged at once.
    const int LW = 300, LH = 200, LD = 20;
    cudaArray_t volume;
    CHECK(cudaMalloc3DArray(&volume, &format, make_cudaExtent(LW, LH, LD)));
    std::vector<float> large = numbers(LW * LH * LD, 0), back(large.size());
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(large.data(), LW * 4, LW, LH);
    copy.dstArray = volume;
    copy.extent = make_cudaExtent(LW, LH, LD);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaMemcpy3DParms from = {};
    from.srcArray = volume;
    from.dstPtr = make_cudaPitchedPtr(back.data(), LW * 4, LW, LH);
    from.extent = copy.extent;
    from.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&from));
    EXPECT(large == back);

    // Between arrays, captured.
    cudaArray_t small;
    CHECK(cudaMalloc3DArray(&small, &format, make_cudaExtent(W, H, D)));
    cudaMemcpy3DParms between = {};
    between.srcArray = volume;
    between.srcPos = make_cudaPos(5, 6, 7);
    between.dstArray = small;
    between.extent = make_cudaExtent(W, H, D);
    between.kind = cudaMemcpyDeviceToDevice;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpy3DAsync(&between, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<float> box(W * H * D);
    from.srcArray = small;
    from.dstPtr = make_cudaPitchedPtr(box.data(), W * 4, W, H);
    from.extent = between.extent;
    CHECK(cudaMemcpy3D(&from));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                EXPECT(box[(z * H + y) * W + x] == large[((z + 7) * LH + y + 6) * LW + x + 5]);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    // What reaches out of an array is refused, and an array is gone once.
    EXPECT(cudaMemcpy2DToArray(flat, 4, 0, in.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice) ==
           cudaErrorInvalidValue);
    (void)cudaGetLastError();
    for (cudaArray_t array : {flat, volume, small}) CHECK(cudaFreeArray(array));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(stream));
}
