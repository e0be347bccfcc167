kernel void reduction(global const float *values, global float *sums, int part)
{
    local float partial[256];
    int thread = get_local_id(0);
    global const float *mine = values + (size_t)get_group_id(0) * part;
    float sum = 0.0f;
    for (int i = thread; i < part; i += get_local_size(0))
        sum += mine[i];
    partial[thread] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = get_local_size(0) / 2; offset > 0; offset /= 2) {
        if (thread < offset)
            partial[thread] += partial[thread + offset];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0)
        sums[get_group_id(0)] = partial[0];
}
