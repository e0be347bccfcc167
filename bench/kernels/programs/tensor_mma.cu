// product = a * b^T for row-major bf16 matrices of `size` rows and `depth` columns with float results, on tensor cores as libraries drive them: tiles come to
// shared memory by asynchronous copies while those before them are multiplied, to registers by ldmatrix, where each
// fragment serves several products. A block of four warps makes 128 x 128 values, a warp 64 x 64.

#include <cuda_bf16.h>

static constexpr int BLOCK = 128, WARP = 64, STEP = 32, THREADS = 128;
// Elements from row to row: eight rows of 16 bytes are in different banks.
static constexpr int PITCH = STEP + 8;

using Tile = __nv_bfloat16[BLOCK][PITCH];

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy_tile(Tile &to, const __nv_bfloat16 *from, int depth)
{
#pragma unroll
    for (int i = 0; i < BLOCK * STEP / 8 / THREADS; ++i) {
        int row = i * (THREADS * 8 / STEP) + threadIdx.x / (STEP / 8), column = threadIdx.x % (STEP / 8) * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&to[row][column])),
                     "l"(&from[row * depth + column]));
    }
}

// Four 8 x 8 matrices: those of 16 rows and 16 columns.
__device__ void load_matrices(unsigned (&to)[4], const __nv_bfloat16 *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)));
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tensor_mma(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *product, int size, int depth)
{
    __shared__ alignas(16) Tile tile_a[2], tile_b[2];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = blockIdx.y * BLOCK, column = blockIdx.x * BLOCK;
    int warp_row = warp / 2 * WARP, warp_column = warp % 2 * WARP;
    a += row * depth;
    b += column * depth;
    float sum[WARP / 16][WARP / 8][4] = {};
    copy_tile(tile_a[0], a, depth);
    copy_tile(tile_b[0], b, depth);
    asm volatile("cp.async.commit_group;");
#pragma unroll 1
    for (int start = 0, stage = 0; start < depth; start += STEP, stage ^= 1) {
        if (start + STEP < depth) {
            copy_tile(tile_a[stage ^ 1], a + start + STEP, depth);
            copy_tile(tile_b[stage ^ 1], b + start + STEP, depth);
        }
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 1;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            unsigned from_a[WARP / 16][4], from_b[WARP / 16][4];
#pragma unroll
            for (int i = 0; i < WARP / 16; ++i) {
                int r = lane % 16, c = k + lane / 16 * 8;
                load_matrices(from_a[i], &tile_a[stage][warp_row + i * 16 + r][c]);
                load_matrices(from_b[i], &tile_b[stage][warp_column + i * 16 + r][c]);
            }
#pragma unroll
            for (int i = 0; i < WARP / 16; ++i)
#pragma unroll
                for (int j = 0; j < WARP / 8; ++j)
                    multiply(sum[i][j], from_a[i], from_b[j / 2][j % 2], from_b[j / 2][j % 2 + 2]);
        }
        __syncthreads();
    }
    for (int i = 0; i < WARP / 16; ++i)
        for (int j = 0; j < WARP / 8; ++j)
            for (int half = 0; half < 2; ++half) {
                int r = row + warp_row + i * 16 + half * 8 + lane / 4, c = column + warp_column + j * 8 + lane % 4 * 2;
                float2 pair = {sum[i][j][half * 2], sum[i][j][half * 2 + 1]};
                *(float2 *)&product[r * size + c] = pair;
            }
}
