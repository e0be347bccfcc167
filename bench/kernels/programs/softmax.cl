#define WIDTH 256

kernel void softmax(global const float *rows, global float *result)
{
    local float partial[4][32];
    int lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    size_t start = (size_t)(get_group_id(0) * 4 + warp) * WIDTH + lane;
    float values[8];
    float most = -3.4e38f;
    for (int i = 0; i < 8; ++i) {
        values[i] = rows[start + 32 * i];
        most = fmax(most, values[i]);
    }
    partial[warp][lane] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 16; offset > 0; offset /= 2) {
        if (lane < offset)
            partial[warp][lane] = fmax(partial[warp][lane], partial[warp][lane + offset]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = partial[warp][0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) {
        values[i] = exp(values[i] - most);
        sum += values[i];
    }
    partial[warp][lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 16; offset > 0; offset /= 2) {
        if (lane < offset)
            partial[warp][lane] += partial[warp][lane + offset];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 8; ++i)
        result[start + 32 * i] = values[i] / partial[warp][0];
}
