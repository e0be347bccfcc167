// Histogram of bytes, two variants: a copy of the bins in shared memory that each block adds to the result at its end, and
// straight into global memory. Both are right regardless of the order in which the atomics happen.

static constexpr int BINS = 256;

extern "C" __global__ void histogram_shared(const unsigned *words, int length, unsigned *bins)
{
    __shared__ unsigned local[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        local[bin] = 0;
    __syncthreads();

    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += stride) {
        unsigned word = words[i];
        atomicAdd(&local[word & 0xff], 1u);
        atomicAdd(&local[word >> 8 & 0xff], 1u);
        atomicAdd(&local[word >> 16 & 0xff], 1u);
        atomicAdd(&local[word >> 24], 1u);
    }
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        if (local[bin] != 0)
            atomicAdd(&bins[bin], local[bin]);
}

extern "C" __global__ void histogram_global(const unsigned char *bytes, int length, unsigned *bins)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += stride)
        atomicAdd(&bins[bytes[i]], 1u);
}
