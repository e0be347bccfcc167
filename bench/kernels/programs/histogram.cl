kernel void histogram(global const uint *words, global uint *bins, int part)
{
    local uint counts[256];
    int thread = get_local_id(0);
    counts[thread] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    global const uint *mine = words + (size_t)get_group_id(0) * part;
    for (int i = thread; i < part; i += get_local_size(0)) {
        uint word = mine[i];
        atomic_inc(&counts[word & 0xff]);
        atomic_inc(&counts[word >> 8 & 0xff]);
        atomic_inc(&counts[word >> 16 & 0xff]);
        atomic_inc(&counts[word >> 24]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    bins[get_group_id(0) * 256 + thread] = counts[thread];
}
