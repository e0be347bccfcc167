// product = a * b for square row-major matrices, by 16 x 16 tiles staged in shared memory. Blocks take tiles of the
// product in turns, so the grid may be smaller than the product. Sizes that are no multiple of the tile are padded
// with zeros in shared memory.
//
// Launch with blocks of 16 x 16 threads.

static constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matrix_multiply(const float *a, const float *b, float *product, int size)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int tiles = (size + TILE - 1) / TILE;

    for (int tile = blockIdx.x; tile < tiles * tiles; tile += gridDim.x) {
        int row = tile / tiles * TILE + threadIdx.y;
        int column = tile % tiles * TILE + threadIdx.x;
        float sum = 0.0f;
        for (int step = 0; step < tiles; ++step) {
            int a_column = step * TILE + threadIdx.x;
            int b_row = step * TILE + threadIdx.y;
            tile_a[threadIdx.y][threadIdx.x] = row < size && a_column < size ? a[row * size + a_column] : 0.0f;
            tile_b[threadIdx.y][threadIdx.x] = b_row < size && column < size ? b[b_row * size + column] : 0.0f;
            __syncthreads();
            for (int k = 0; k < TILE; ++k)
                sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
            __syncthreads();
        }
        if (row < size && column < size)
            product[row * size + column] = sum;
    }
}
