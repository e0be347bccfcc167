// The transpose of a square matrix by 32 x 32 tiles in shared memory, four rows of a tile a thread.

static constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose(const float *from, float *to, int size)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        tile[threadIdx.y + j][threadIdx.x] = from[(y + j) * size + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        to[(y + j) * size + x] = tile[threadIdx.x][threadIdx.y + j];
}
