// Kernels of `peers`: a device works on its own memory, and on a neighbour's.

// values[i] = (first + i) * scale, in this device's memory.
extern "C" __global__ void fill(unsigned *values, unsigned first, unsigned scale, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = (first + i) * scale;
}

// Reads the neighbour's values, and writes the sums into the neighbour's memory.
extern "C" __global__ void add_to_neighbour(const unsigned *own, const unsigned *neighbour,
                                            unsigned *sums_there, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sums_there[i] = own[i] + 2 * neighbour[i];
}

// Counts in one word of another device's memory, from all devices at once.
extern "C" __global__ void count_there(unsigned *counter)
{
    atomicAdd_system(counter, 1u);
}
