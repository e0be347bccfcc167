// Sorts each run of 512 keys in shared memory, one block a run, a thread for each pair.

static constexpr unsigned RUN = 512;

extern "C" __global__ void bitonic_sort(const unsigned *keys, unsigned *sorted)
{
    __shared__ unsigned local[RUN];
    unsigned thread = threadIdx.x;
    local[thread] = keys[blockIdx.x * RUN + thread];
    local[thread + RUN / 2] = keys[blockIdx.x * RUN + thread + RUN / 2];
    for (unsigned size = 2; size <= RUN; size *= 2)
        for (unsigned distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            unsigned i = 2 * thread - (thread & (distance - 1));
            unsigned low = local[i], high = local[i + distance];
            if ((low > high) == ((i & size) == 0)) {
                local[i] = high;
                local[i + distance] = low;
            }
        }
    __syncthreads();
    sorted[blockIdx.x * RUN + thread] = local[thread];
    sorted[blockIdx.x * RUN + thread + RUN / 2] = local[thread + RUN / 2];
}
