// product = a * b for row-major f16 matrices with float results, through CUDA's wmma: a warp makes 16 x 16 values.

#include <mma.h>

using namespace nvcuda::wmma;

extern "C" __global__ void tensor_wmma(const __half *a, const __half *b, float *product, int size)
{
    int tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int tiles = size / 16, row = tile / tiles * 16, column = tile % tiles * 16;
    fragment<matrix_a, 16, 16, 16, __half, row_major> from_a;
    fragment<matrix_b, 16, 16, 16, __half, row_major> from_b;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k = 0; k < size; k += 16) {
        load_matrix_sync(from_a, a + row * size + k, size);
        load_matrix_sync(from_b, b + k * size + column, size);
        mma_sync(sum, from_a, from_b, sum);
    }
    store_matrix_sync(product + row * size + column, sum, size, mem_row_major);
}
