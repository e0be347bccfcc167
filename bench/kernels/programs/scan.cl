kernel void scan(global const uint *values, global uint *sums)
{
    local uint buffer[2][1024];
    int thread = get_local_id(0);
    int from = 0;
    buffer[0][thread] = values[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 1; offset < 1024; offset *= 2) {
        uint other = thread >= offset ? buffer[from][thread - offset] : 0;
        buffer[1 - from][thread] = buffer[from][thread] + other;
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sums[get_global_id(0)] = buffer[from][thread];
}
