// Kernels that do what a program must not.

#include <cassert>

// Writes to the address that it gets. A null or stray address is CUDA_ERROR_ILLEGAL_ADDRESS, an address that is no multiple of
// four CUDA_ERROR_MISALIGNED_ADDRESS.
extern "C" __global__ void write_word(char *base, long long offset, unsigned value)
{
    if (threadIdx.x == 0)
        *(volatile unsigned *)(base + offset) = value;
}

extern "C" __global__ void read_word(const char *base, long long offset, unsigned *result)
{
    if (threadIdx.x == 0)
        *result = *(const volatile unsigned *)(base + offset);
}

// CUDA_ERROR_ILLEGAL_INSTRUCTION or CUDA_ERROR_LAUNCH_FAILED, as the device has it.
extern "C" __global__ void trap_now()
{
    __trap();
}

// CUDA_ERROR_ASSERT, and the line that assert() writes.
extern "C" __global__ void assert_not(unsigned value)
{
    assert(value == 0);
}

// Calls itself until its stack is full.
__device__ __noinline__ unsigned deeper(unsigned depth)
{
    volatile unsigned frame[256];
    frame[depth % 256] = depth;
    return deeper(depth + 1) + frame[(depth + 1) % 256];
}

extern "C" __global__ void overflow_stack(unsigned *result)
{
    *result = deeper(threadIdx.x);
}
