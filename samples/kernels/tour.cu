// Small kernels for the tour of the driver API.

extern "C" __global__ void nothing()
{
}

extern "C" __global__ void fill(unsigned *words, int length, unsigned value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        words[i] = value;
}

extern "C" __global__ void add_one(unsigned *words, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        words[i] += 1;
}

extern "C" __global__ void copy_word(const unsigned *from, unsigned *to)
{
    *to = *from;
}

// Waits `nanoseconds`, then writes.
extern "C" __global__ void slow_write(unsigned *word, unsigned value, unsigned long long nanoseconds)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
    *(volatile unsigned *)word = value;
}

// Waits until `*flag` is not zero, at most `limit_ns`; *result = 1 if it saw the flag, 2 if it gave up.
extern "C" __global__ void wait_flag(const volatile unsigned *flag, unsigned *result, unsigned long long limit_ns)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    unsigned seen = *flag;
    while (seen == 0) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - start > limit_ns)
            break;
        seen = *flag;
    }
    *result = seen != 0 ? 1 : 2;
}

// Parameters of every width, with the padding between them, and a struct by value.
struct Mixed {
    unsigned char byte;
    unsigned long long wide;
    unsigned short half;
    float real;
};

extern "C" __global__ void parameters(unsigned char a, unsigned long long b, unsigned short c, double d, Mixed e,
                                      unsigned char f, unsigned long long *out)
{
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = (unsigned long long)(d * 4.0);
    out[4] = e.byte;
    out[5] = e.wide;
    out[6] = e.half;
    out[7] = (unsigned long long)(e.real * 4.0f);
    out[8] = f;
}

// Which thread ran where: counts[linear thread] = linear block + 1, for grids and blocks of three dimensions.
extern "C" __global__ void coordinates(unsigned *counts)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    counts[block * threads + thread] = block * threads + thread + 1;
}

// Reverses a block's values through dynamic shared memory of blockDim.x words.
extern "C" __global__ void reverse(unsigned *words)
{
    extern __shared__ unsigned local[];
    local[threadIdx.x] = words[threadIdx.x];
    __syncthreads();
    words[threadIdx.x] = local[blockDim.x - 1 - threadIdx.x];
}

// Says with its launch bounds that no block is larger than 128 threads, and uses 4 KiB of static shared memory.
extern "C" __global__ void __launch_bounds__(128) bounded(unsigned *words)
{
    __shared__ unsigned local[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        local[i] = i;
    __syncthreads();
    words[threadIdx.x] = local[1023 - threadIdx.x];
}

// A local array that is indexed by a value known only at run time, so that it lives in local memory.
extern "C" __global__ void local_array(unsigned *words, unsigned shift)
{
    unsigned own[32];
    for (unsigned i = 0; i < 32; ++i)
        own[(i + shift) % 32] = i * 3;
    unsigned sum = 0;
    for (unsigned i = 0; i < 32; ++i)
        sum += own[(i * 7 + threadIdx.x) % 32] * (i + 1);
    words[threadIdx.x] = sum;
}

extern "C" {
__device__ unsigned tour_variable[4] = {10, 20, 30, 40};
__constant__ unsigned tour_constant[2] = {7, 9};
}

extern "C" __global__ void read_variables(unsigned *out)
{
    for (int i = 0; i < 4; ++i)
        out[i] = tour_variable[i];
    out[4] = tour_constant[0];
    out[5] = tour_constant[1];
}
