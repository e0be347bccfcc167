// The inclusive prefix sum of each part of 1024 values, one block a part: four values a thread, shuffles within a warp,
// and one barrier, behind which every warp adds what the warps in front of it came to.

static constexpr unsigned WARPS = 8;

__device__ __forceinline__ unsigned warp_scan(unsigned value, unsigned lane)
{
    for (int offset = 1; offset < 32; offset *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset)
            value += other;
    }
    return value;
}

extern "C" __global__ void scan(const uint4 *values, uint4 *sums)
{
    __shared__ unsigned totals[WARPS];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned i = blockIdx.x * 32 * WARPS + threadIdx.x;
    uint4 sum = values[i];
    sum.y += sum.x;
    sum.z += sum.y;
    sum.w += sum.z;
    unsigned total = warp_scan(sum.w, lane);
    if (lane == 31)
        totals[warp] = total;
    __syncthreads();
    unsigned before = total - sum.w;
    for (unsigned other = 0; other < WARPS; ++other)
        before += other < warp ? totals[other] : 0;
    sums[i] = make_uint4(before + sum.x, before + sum.y, before + sum.z, before + sum.w);
}
