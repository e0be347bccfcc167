// product = a * b for square row-major matrices: a block makes 64 x 64 values, a thread 4 x 4 of them in registers.

static constexpr int TILE = 64, DEPTH = 16;

extern "C" __global__ void matrix_multiply_blocked(const float *a, const float *b, float *product, int size)
{
    __shared__ float tile_a[DEPTH][TILE], tile_b[DEPTH][TILE];
    int thread = threadIdx.x;
    int x = thread % 16, y = thread / 16;
    int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sum[4][4] = {};
    for (int start = 0; start < size; start += DEPTH) {
        for (int i = 0; i < 4; ++i) {
            int which = thread + 256 * i;
            tile_a[which % DEPTH][which / DEPTH] = a[(row + which / DEPTH) * size + start + which % DEPTH];
            tile_b[which / TILE][which % TILE] = b[(start + which / TILE) * size + column + which % TILE];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float from_a[4], from_b[4];
            for (int i = 0; i < 4; ++i)
                from_a[i] = tile_a[k][y + 16 * i];
            for (int j = 0; j < 4; ++j)
                from_b[j] = tile_b[k][x + 16 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sum[i][j] += from_a[i] * from_b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            product[(row + y + 16 * i) * size + column + x + 16 * j] = sum[i][j];
}
