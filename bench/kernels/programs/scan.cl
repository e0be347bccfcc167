kernel void scan(global const uint4 *values, global uint4 *sums)
{
    local uint buffer[2][256];
    int thread = get_local_id(0);
    int from = 0;
    uint4 sum = values[get_global_id(0)];
    sum.y += sum.x;
    sum.z += sum.y;
    sum.w += sum.z;
    buffer[0][thread] = sum.w;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 1; offset < 256; offset *= 2) {
        uint other = thread >= offset ? buffer[from][thread - offset] : 0;
        buffer[1 - from][thread] = buffer[from][thread] + other;
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sums[get_global_id(0)] = sum + (buffer[from][thread] - sum.w);
}
