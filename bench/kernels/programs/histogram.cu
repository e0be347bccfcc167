// A histogram of bytes for each part of an array, counted by atomics in shared memory.

extern "C" __global__ void histogram(const unsigned *words, unsigned *bins, int part)
{
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    const unsigned *mine = words + (size_t)blockIdx.x * part;
    for (int i = threadIdx.x; i < part; i += blockDim.x) {
        unsigned word = mine[i];
        atomicAdd(&local[word & 0xff], 1u);
        atomicAdd(&local[word >> 8 & 0xff], 1u);
        atomicAdd(&local[word >> 16 & 0xff], 1u);
        atomicAdd(&local[word >> 24], 1u);
    }
    __syncthreads();
    bins[blockIdx.x * 256 + threadIdx.x] = local[threadIdx.x];
}
