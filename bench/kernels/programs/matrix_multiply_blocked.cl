#define TILE 64
#define DEPTH 16

kernel void matrix_multiply_blocked(global const float *a, global const float *b, global float *product, int size)
{
    local float tile_a[DEPTH][TILE], tile_b[DEPTH][TILE];
    int thread = get_local_id(0);
    int x = thread % 16, y = thread / 16;
    int row = get_group_id(1) * TILE, column = get_group_id(0) * TILE;
    float sum[4][4] = {{0}};
    for (int start = 0; start < size; start += DEPTH) {
        for (int i = 0; i < 4; ++i) {
            int which = thread + 256 * i;
            tile_a[which % DEPTH][which / DEPTH] = a[(row + which / DEPTH) * size + start + which % DEPTH];
            tile_b[which / TILE][which % TILE] = b[(start + which / TILE) * size + column + which % TILE];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < DEPTH; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sum[i][j] += tile_a[k][y + 16 * i] * tile_b[k][x + 16 * j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            product[(row + y + 16 * i) * size + column + x + 16 * j] = sum[i][j];
}
