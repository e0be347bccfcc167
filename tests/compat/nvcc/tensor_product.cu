// nvcc: -gencode arch=compute_90a,code=compute_90a
// A product of matrices as for compute capability 9.0: tiles come through tensor maps into two stages of swizzled shared
// memory, and four warps multiply them there.
#include "tensor_maps.h"
#if CUDART_VERSION < 12000
int main() { std::puts("no tensor maps before CUDA 12"); }
#else

constexpr int M = 192, N = 128, K = 320, TILE_M = 64, TILE_N = 64, TILE_K = 64, STAGES = 2;
constexpr uint32_t STAGE_BYTES = (TILE_M + TILE_N) * TILE_K * sizeof(__half);

// A tile with rows of 128 bytes, swizzled.
__device__ uint64_t describe(uint32_t address) {
    return uint64_t(address >> 4 & 0x3fff) | uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62;
}

__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b) {
    asm volatile(
        "{\n.reg .pred on;\nsetp.eq.b32 on, 1, 1;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, on, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

__global__ void __launch_bounds__(128)
    product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c) {
    extern __shared__ __align__(1024) unsigned char stages[];
    __shared__ uint64_t full[STAGES];
    int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    auto fetch = [&](int k) {
        unsigned char *stage = stages + k % STAGES * STAGE_BYTES;
        barrier_expect(&full[k % STAGES], STAGE_BYTES);
        load_tile(stage, &a, k * TILE_K, row, &full[k % STAGES]);
        load_tile(stage + TILE_M * TILE_K * sizeof(__half), &b, k * TILE_K, column, &full[k % STAGES]);
    };
    if (threadIdx.x == 0) {
        for (auto &barrier : full)
            barrier_init(&barrier, 1);
        for (int k = 0; k < STAGES; k++)
            fetch(k);
    }
    __syncthreads();
    float d[32] = {};
    for (int k = 0; k < K / TILE_K; k++) {
        barrier_wait(&full[k % STAGES], k / STAGES % 2);
        uint32_t at = shared_address(stages + k % STAGES * STAGE_BYTES);
        uint64_t left = describe(at), right = describe(at + TILE_M * TILE_K * sizeof(__half));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < TILE_K / 16; step++)
            multiply(d, left + step * 2, right + step * 2);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0 && k + STAGES < K / TILE_K)
            fetch(k + STAGES);
    }
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; i++) {
        int y = row + warp * 16 + lane / 4 + i % 4 / 2 * 8, x = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
        c[y * N + x] = d[i];
    }
}

int main() {
    static __half a[M * K], b[N * K];
    static float c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = __float2half(float(i * 37 % 17 - 8));
    for (int i = 0; i < N * K; i++)
        b[i] = __float2half(float(i * 29 % 13 - 6));
    __half *a_there, *b_there;
    float *c_there;
    CHECK(cudaMalloc(&a_there, sizeof a));
    CHECK(cudaMalloc(&b_there, sizeof b));
    CHECK(cudaMalloc(&c_there, sizeof c));
    CHECK(cudaMemcpy(a_there, a, sizeof a, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b_there, b, sizeof b, cudaMemcpyHostToDevice));
    CUtensorMap a_map = matrix_map(a_there, K, M, TILE_K, TILE_M, CU_TENSOR_MAP_SWIZZLE_128B);
    CUtensorMap b_map = matrix_map(b_there, K, N, TILE_K, TILE_N, CU_TENSOR_MAP_SWIZZLE_128B);
    product<<<dim3(N / TILE_N, M / TILE_M), 128, STAGES * STAGE_BYTES>>>(a_map, b_map, c_there);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c, c_there, sizeof c, cudaMemcpyDeviceToHost));
    for (int y = 0; y < M; y++)
        for (int x = 0; x < N; x++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum += __half2float(a[y * K + k]) * __half2float(b[x * K + k]);
            EXPECT(c[y * N + x] == sum);
        }
}
#endif
