// Kernels that take long, each with an end of its own.

// `steps` of a linear congruential generator in each thread. The work is exactly proportional to `steps`, it touches
// memory once, and the result can be checked in logarithmic time.
extern "C" __global__ void spin_steps(unsigned *results, unsigned steps, unsigned seed)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = seed + thread;
#pragma unroll 1 // else the compiler would fold four steps into one
    for (unsigned i = 0; i < steps; ++i)
        state = state * 1664525u + 1013904223u;
    results[thread] = state;
}

// Until the SM's clock has gone on by `cycles`. Writes how many it was in the end, at least `cycles`.
extern "C" __global__ void spin_clock(long long *elapsed, long long cycles)
{
    long long start = clock64();
    long long now = start;
    while (now - start < cycles)
        now = clock64();
    elapsed[blockIdx.x * blockDim.x + threadIdx.x] = now - start;
}

// Runs until another kernel, a copy or the host (mapped memory) makes `*flag` non-zero; writes what it found.
extern "C" __global__ void spin_until(const volatile unsigned *flag, unsigned *seen)
{
    unsigned value = 0;
    while (value == 0)
        value = *flag;
    seen[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Never ends by itself and touches no memory.
extern "C" __global__ void spin_forever()
{
    for (;;)
        clock64();
}
