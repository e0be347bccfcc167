// The inclusive prefix sum of each part of 1024 values, one block a part, by shuffles within a warp.

__device__ __forceinline__ unsigned warp_scan(unsigned value, unsigned lane)
{
    for (int offset = 1; offset < 32; offset *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset)
            value += other;
    }
    return value;
}

extern "C" __global__ void scan(const unsigned *values, unsigned *sums)
{
    __shared__ unsigned totals[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned i = blockIdx.x * 1024 + threadIdx.x;
    unsigned sum = warp_scan(values[i], lane);
    if (lane == 31)
        totals[warp] = sum;
    __syncthreads();
    if (warp == 0)
        totals[lane] = warp_scan(totals[lane], lane);
    __syncthreads();
    sums[i] = sum + (warp > 0 ? totals[warp - 1] : 0);
}
