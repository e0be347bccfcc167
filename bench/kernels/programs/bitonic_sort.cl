#define RUN 512u

kernel void bitonic_sort(global const uint *keys, global uint *sorted)
{
    local uint near[RUN];
    uint thread = get_local_id(0), start = get_group_id(0) * RUN;
    near[thread] = keys[start + thread];
    near[thread + RUN / 2] = keys[start + thread + RUN / 2];
    for (uint size = 2; size <= RUN; size *= 2)
        for (uint distance = size / 2; distance > 0; distance /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            uint i = 2 * thread - (thread & (distance - 1));
            uint low = near[i], high = near[i + distance];
            if ((low > high) == ((i & size) == 0)) {
                near[i] = high;
                near[i + distance] = low;
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    sorted[start + thread] = near[thread];
    sorted[start + thread + RUN / 2] = near[thread + RUN / 2];
}
