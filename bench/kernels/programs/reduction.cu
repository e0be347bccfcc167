// The sum of each part of an array: a thread sums a stride, a warp combines by shuffles, a block through shared memory.

extern "C" __global__ void reduction(const float *values, float *sums, int part)
{
    __shared__ float warp_sums[32];
    const float *mine = values + (size_t)blockIdx.x * part;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < part; i += blockDim.x)
        sum += mine[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0)
        warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warp_sums[threadIdx.x] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = sum;
    }
}
