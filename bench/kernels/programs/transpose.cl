#define TILE 32
#define ROWS 8

kernel void transpose(global const float *from, global float *to, int size)
{
    local float tile[TILE][TILE + 1];
    int tx = get_local_id(0), ty = get_local_id(1);
    int x = get_group_id(0) * TILE + tx, y = get_group_id(1) * TILE + ty;
    for (int j = 0; j < TILE; j += ROWS)
        tile[ty + j][tx] = from[(y + j) * size + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * TILE + tx;
    y = get_group_id(0) * TILE + ty;
    for (int j = 0; j < TILE; j += ROWS)
        to[(y + j) * size + x] = tile[tx][ty + j];
}
