// product = a * b for square row-major matrices, by 16 x 16 tiles in shared memory, as in NVIDIA's programming guide.

static constexpr int TILE = 16;

extern "C" __global__ void matrix_multiply(const float *a, const float *b, float *product, int size)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < size; start += TILE) {
        tile_a[y][x] = a[row * size + start + x];
        tile_b[y][x] = b[(start + y) * size + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    product[row * size + column] = sum;
}
