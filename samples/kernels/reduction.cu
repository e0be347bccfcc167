// Sum, float sum, minimum, maximum and the number of negative values of an array, in one pass: each thread walks a
// grid-stride range, a warp combines by shuffles and votes, a block through shared memory, the grid by atomics.
//
// The caller sets the totals to the neutral elements first. The block's size must be a multiple of 32.

struct Totals {
    long long sum;
    float float_sum;
    int minimum;
    int maximum;
    unsigned negatives;
};

static constexpr unsigned ALL_LANES = 0xffffffffu;

extern "C" __global__ void reduce(const int *values, int length, Totals *totals)
{
    __shared__ long long warp_sums[32];
    __shared__ float warp_float_sums[32];
    __shared__ int warp_minima[32];
    __shared__ int warp_maxima[32];

    long long sum = 0;
    float float_sum = 0.0f;
    int minimum = 0x7fffffff;
    int maximum = -0x7fffffff - 1;
    unsigned lane = threadIdx.x % 32;
    unsigned warp = threadIdx.x / 32;

    // Whole warps go round together, so that every lane takes part in the vote.
    int stride = gridDim.x * blockDim.x;
    unsigned negatives = 0;
    for (int base = blockIdx.x * blockDim.x + warp * 32; base < length; base += stride) {
        int i = base + lane;
        int value = i < length ? values[i] : 0;
        negatives += __popc(__ballot_sync(ALL_LANES, value < 0));
        if (i < length) {
            sum += value;
            float_sum += (float)value;
            minimum = min(minimum, value);
            maximum = max(maximum, value);
        }
    }
    if (lane == 0 && negatives != 0)
        atomicAdd(&totals->negatives, negatives);

    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(ALL_LANES, sum, offset);
        float_sum += __shfl_xor_sync(ALL_LANES, float_sum, offset);
        minimum = min(minimum, __shfl_down_sync(ALL_LANES, minimum, offset));
        maximum = max(maximum, __shfl_xor_sync(ALL_LANES, maximum, offset));
    }
    if (lane == 0) {
        warp_sums[warp] = sum;
        warp_float_sums[warp] = float_sum;
        warp_minima[warp] = minimum;
        warp_maxima[warp] = maximum;
    }
    __syncthreads();

    if (warp == 0) {
        bool has_warp = lane < blockDim.x / 32;
        sum = has_warp ? warp_sums[lane] : 0;
        float_sum = has_warp ? warp_float_sums[lane] : 0.0f;
        minimum = has_warp ? warp_minima[lane] : 0x7fffffff;
        maximum = has_warp ? warp_maxima[lane] : -0x7fffffff - 1;
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(ALL_LANES, sum, offset);
            float_sum += __shfl_xor_sync(ALL_LANES, float_sum, offset);
        }
        // One instruction a warp on sm_80 and later.
        minimum = __reduce_min_sync(ALL_LANES, minimum);
        maximum = __reduce_max_sync(ALL_LANES, maximum);
        if (lane == 0) {
            atomicAdd((unsigned long long *)&totals->sum, (unsigned long long)sum);
            atomicAdd(&totals->float_sum, float_sum);
            atomicMin(&totals->minimum, minimum);
            atomicMax(&totals->maximum, maximum);
        }
    }
}
