// product = a * b^T for row-major bf16 matrices with float results, on tensor cores as compilers drive them: tiles come
// to shared memory by asynchronous copies, to registers by ldmatrix, and are multiplied by mma.m16n8k16. A block of four
// warps makes 32 x 32 values, a warp 16 x 16.

#include <cuda_bf16.h>

static constexpr int TILE = 32;

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy_16_bytes(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}

extern "C" __global__ void tensor_mma(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *product, int size)
{
    __shared__ alignas(16) __nv_bfloat16 tile_a[TILE][TILE], tile_b[TILE][TILE];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    int warp_row = warp / 2 * 16, warp_column = warp % 2 * 16;
    int copy_row = threadIdx.x / 4, copy_column = threadIdx.x % 4 * 8;
    float sum[2][4] = {};
    for (int start = 0; start < size; start += TILE) {
        copy_16_bytes(&tile_a[copy_row][copy_column], &a[(row + copy_row) * size + start + copy_column]);
        copy_16_bytes(&tile_b[copy_row][copy_column], &b[(column + copy_row) * size + start + copy_column]);
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        for (int k = 0; k < TILE; k += 16) {
            unsigned from_a[4], from_b[2][2];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(from_a[0]), "=r"(from_a[1]), "=r"(from_a[2]), "=r"(from_a[3])
                         : "r"(shared_address(&tile_a[warp_row + lane % 16][k + lane / 16 * 8])));
            for (int half = 0; half < 2; ++half) {
                int n = warp_column + half * 8 + lane % 8;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(from_b[half][0]), "=r"(from_b[half][1])
                             : "r"(shared_address(&tile_b[n][k + lane / 8 % 2 * 8])));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                             "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[half][0]), "+f"(sum[half][1]), "+f"(sum[half][2]), "+f"(sum[half][3])
                             : "r"(from_a[0]), "r"(from_a[1]), "r"(from_a[2]), "r"(from_a[3]), "r"(from_b[half][0]),
                               "r"(from_b[half][1]));
            }
        }
        __syncthreads();
    }
    for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 4; ++i) {
            int r = row + warp_row + lane / 4 + i / 2 * 8;
            int c = column + warp_column + half * 8 + lane % 4 * 2 + i % 2;
            product[r * size + c] = sum[half][i];
        }
}
