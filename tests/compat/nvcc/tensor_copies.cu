// nvcc: -gencode arch=compute_90a,code=compute_90a
// Tiles of a matrix, copied by tensor maps that lie in parameters, in constant and in global memory, and in one that
// the kernel made itself; to two blocks of a cluster at once, and back, added to what is there.
#include "tensor_maps.h"
#if CUDART_VERSION < 12000
int main() { std::puts("no tensor maps before CUDA 12"); }
#else

constexpr int WIDTH = 200, HEIGHT = 100, COLUMNS = 64, ROWS = 16, TILE = COLUMNS * ROWS;
constexpr uint32_t TILE_BYTES = TILE * sizeof(__half);

__constant__ CUtensorMap constant_map;

// Where an element of a tile is whose rows of 128 bytes are swizzled.
__device__ int swizzled(int row, int column) {
    return row * COLUMNS + ((column / 8 ^ row % 8) * 8 + column % 8);
}

// Element (x, y) of the matrix, or 0 outside.
static float element(int x, int y) {
    return x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT ? float((x * 7 + y * 13) % 251) : 0;
}

__device__ void load(__half *tile, uint64_t *barrier, const CUtensorMap *map, int x, int y, __half *out, bool swizzle) {
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barrier_expect(barrier, TILE_BYTES);
        load_tile(tile, map, x, y, barrier);
    }
    __syncthreads();
    barrier_wait(barrier, 0);
    for (int i = threadIdx.x; i < TILE; i += blockDim.x)
        out[i] = tile[swizzle ? swizzled(i / COLUMNS, i % COLUMNS) : i];
}

__global__ void by_parameter(const __grid_constant__ CUtensorMap map, int x, int y, __half *out, bool swizzle) {
    __shared__ alignas(1024) __half tile[TILE];
    __shared__ uint64_t barrier;
    load(tile, &barrier, &map, x, y, out, swizzle);
}

__global__ void by_constant(int x, int y, __half *out) {
    __shared__ alignas(1024) __half tile[TILE];
    __shared__ uint64_t barrier;
    load(tile, &barrier, &constant_map, x, y, out, false);
}

__global__ void by_pointer(const CUtensorMap *map, int x, int y, __half *out) {
    __shared__ alignas(1024) __half tile[TILE];
    __shared__ uint64_t barrier;
    asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
    load(tile, &barrier, map, x, y, out, false);
}

// Makes a map for another matrix of another size from one that it was given, and uses it.
__global__ void by_own(const __grid_constant__ CUtensorMap map, CUtensorMap *own, __half *matrix, int height, int x, int y,
                       __half *out) {
    __shared__ alignas(1024) __half tile[TILE];
    __shared__ alignas(128) CUtensorMap copy;
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        copy = map;
        uint32_t at = shared_address(&copy);
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(matrix));
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(height));
    }
    __syncthreads();
    if (threadIdx.x < 32)
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
                         own),
                     "r"(shared_address(&copy))
                     : "memory");
    __syncthreads();
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(own) : "memory");
    load(tile, &barrier, own, x, y, out, false);
}

// The first block of two loads for both.
__global__ void __cluster_dims__(2) for_two(const __grid_constant__ CUtensorMap map, int x, int y, __half *out) {
    __shared__ alignas(1024) __half tile[TILE];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        barrier_init(&barrier, 1);
        barrier_expect(&barrier, TILE_BYTES);
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (blockIdx.x == 0 && threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                     "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(tile)),
                     "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)), "h"(uint16_t(3))
                     : "memory");
    barrier_wait(&barrier, 0);
    for (int i = threadIdx.x; i < TILE; i += blockDim.x)
        out[blockIdx.x * TILE + i] = tile[i];
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Adds or writes a tile of ones.
__global__ void back(const __grid_constant__ CUtensorMap map, int x, int y, bool add) {
    __shared__ alignas(1024) __half tile[TILE];
    for (int i = threadIdx.x; i < TILE; i += blockDim.x)
        tile[i] = __float2half(1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    if (add)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
                     "r"(y), "r"(shared_address(tile))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
                     "r"(shared_address(tile))
                     : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

static __half results[2 * TILE];

// Compares tiles that were read from (x, y) on.
static void expect_tiles(const __half *out, int count, int x, int y, int height = HEIGHT) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(results, out, count * TILE_BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count * TILE; i++) {
        int row = y + i % TILE / COLUMNS;
        EXPECT(__half2float(results[i]) == (row < height ? element(x + i % COLUMNS, row) : 0));
    }
    CHECK(cudaMemset(const_cast<__half *>(out), 0xff, 2 * TILE_BYTES));
}

int main() {
    static __half host[WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        host[i] = __float2half(element(i % WIDTH, i / WIDTH));
    __half *matrix, *out;
    CUtensorMap *maps;
    CHECK(cudaMalloc(&matrix, sizeof host));
    CHECK(cudaMalloc(&out, 2 * TILE_BYTES));
    CHECK(cudaMalloc(&maps, 2 * sizeof *maps));
    CHECK(cudaMemcpy(matrix, host, sizeof host, cudaMemcpyHostToDevice));
    CUtensorMap plain = matrix_map(matrix, WIDTH, HEIGHT, COLUMNS, ROWS);
    CUtensorMap swizzled = matrix_map(matrix, WIDTH, HEIGHT, COLUMNS, ROWS, CU_TENSOR_MAP_SWIZZLE_128B);
    CHECK(cudaMemcpy(maps, &plain, sizeof plain, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(constant_map, &plain, sizeof plain));
    // Inside, and over each edge; rows of a tile begin at multiples of 16 bytes.
    int places[][2] = {{8, 5}, {-8, -3}, {168, 90}, {-72, 0}, {0, 200}};
    for (auto [x, y] : places) {
        by_parameter<<<1, 128>>>(plain, x, y, out, false);
        expect_tiles(out, 1, x, y);
        by_parameter<<<1, 128>>>(swizzled, x, y, out, true);
        expect_tiles(out, 1, x, y);
        by_constant<<<1, 128>>>(x, y, out);
        expect_tiles(out, 1, x, y);
        by_pointer<<<1, 128>>>(maps, x, y, out);
        expect_tiles(out, 1, x, y);
        for_two<<<2, 128>>>(plain, x, y, out);
        expect_tiles(out, 2, x, y);
        by_own<<<1, 128>>>(plain, maps + 1, matrix, 50, x, y, out);
        expect_tiles(out, 1, x, y, 50);
    }
    back<<<1, 128>>>(plain, 168, 90, false);
    back<<<1, 128>>>(plain, 168, 90, true);
    back<<<1, 128>>>(plain, 8, 5, true);
    CHECK(cudaMemcpy(host, matrix, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        int x = i % WIDTH, y = i / WIDTH;
        bool written = x >= 168 && y >= 90, added = x >= 8 && x < 72 && y >= 5 && y < 21;
        EXPECT(__half2float(host[i]) == (written ? 2 : element(x, y) + (added ? 1 : 0)));
    }
}
#endif
