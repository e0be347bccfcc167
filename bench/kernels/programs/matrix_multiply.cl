#define TILE 16

kernel void matrix_multiply(global const float *a, global const float *b, global float *product, int size)
{
    local float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1);
    int row = get_global_id(1), column = get_global_id(0);
    float sum = 0.0f;
    for (int start = 0; start < size; start += TILE) {
        tile_a[y][x] = a[row * size + start + x];
        tile_b[y][x] = b[(start + y) * size + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[y][k] * tile_b[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    product[row * size + column] = sum;
}
