// Work in which the threads of a block depend on each other all the time: an inclusive prefix sum in three kernels, and
// a bitonic sort of a block's keys in shared memory.

static constexpr unsigned ALL_LANES = 0xffffffffu;

// Inclusive prefix sum within a block, of one value a thread. Every thread of the block must call it.
__device__ __noinline__ unsigned block_inclusive_sum(unsigned value, unsigned *warp_totals)
{
    unsigned lane = threadIdx.x % 32;
    unsigned warp = threadIdx.x / 32;
    for (int offset = 1; offset < 32; offset *= 2) {
        unsigned other = __shfl_up_sync(ALL_LANES, value, offset);
        if (lane >= offset)
            value += other;
    }
    if (lane == 31)
        warp_totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < blockDim.x / 32 ? warp_totals[lane] : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            unsigned other = __shfl_up_sync(ALL_LANES, total, offset);
            if (lane >= offset)
                total += other;
        }
        warp_totals[lane] = total;
    }
    __syncthreads();
    unsigned sum = value + (warp != 0 ? warp_totals[warp - 1] : 0);
    __syncthreads();
    return sum;
}

// sums[i] = the sum within its block's part, totals[part] = the part's total. A part is blockDim.x values.
extern "C" __global__ void scan_parts(const unsigned *values, unsigned *sums, unsigned *totals, int length, int parts)
{
    __shared__ unsigned warp_totals[32];
    for (int part = blockIdx.x; part < parts; part += gridDim.x) {
        int i = part * blockDim.x + threadIdx.x;
        unsigned sum = block_inclusive_sum(i < length ? values[i] : 0, warp_totals);
        if (i < length)
            sums[i] = sum;
        if (threadIdx.x == blockDim.x - 1)
            totals[part] = sum;
    }
}

// Turns the parts' totals into where each part begins. One block; any number of parts.
extern "C" __global__ void scan_totals(unsigned *totals, int parts)
{
    __shared__ unsigned warp_totals[32];
    __shared__ unsigned carry;
    if (threadIdx.x == 0)
        carry = 0;
    __syncthreads();
    for (int start = 0; start < parts; start += blockDim.x) {
        int i = start + threadIdx.x;
        unsigned value = i < parts ? totals[i] : 0;
        unsigned sum = block_inclusive_sum(value, warp_totals);
        if (i < parts)
            totals[i] = carry + sum - value;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1)
            carry += sum;
        __syncthreads();
    }
}

extern "C" __global__ void add_offsets(unsigned *sums, const unsigned *offsets, int length, int part_length)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += stride)
        sums[i] += offsets[i / part_length];
}

// Sorts each run of `run` keys (a power of two, at most what shared memory holds), one block a run at a time.
// Dynamic shared memory: `run` words.
extern "C" __global__ void bitonic_sort(unsigned *keys, int runs, int run)
{
    extern __shared__ unsigned local[];
    for (int which = blockIdx.x; which < runs; which += gridDim.x) {
        for (int i = threadIdx.x; i < run; i += blockDim.x)
            local[i] = keys[which * run + i];
        __syncthreads();
        for (int size = 2; size <= run; size *= 2) {
            for (int distance = size / 2; distance > 0; distance /= 2) {
                for (int i = threadIdx.x; i < run; i += blockDim.x) {
                    int partner = i ^ distance;
                    if (partner > i) {
                        unsigned low = local[i], high = local[partner];
                        if ((low > high) == ((i & size) == 0)) {
                            local[i] = high;
                            local[partner] = low;
                        }
                    }
                }
                __syncthreads();
            }
        }
        for (int i = threadIdx.x; i < run; i += blockDim.x)
            keys[which * run + i] = local[i];
        __syncthreads();
    }
}
