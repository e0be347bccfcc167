// Variables of a module: constants set by the host, a table with an initial value, a pointer to it that the loader must
// fill in, and a counter that lives as long as the module.

extern "C" {
__constant__ float coefficients[8];
__constant__ int degree = 3;
__device__ unsigned table[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__device__ unsigned *table_end = table + 16;
__device__ unsigned long long calls;
__device__ float scratch[64];
}

// results[i] = the polynomial of `coefficients` at xs[i]; counts the threads that took part.
extern "C" __global__ void polynomial(const float *xs, float *results, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length)
        return;
    float value = 0.0f;
    for (int k = degree; k >= 0; --k)
        value = __fadd_rn(__fmul_rn(value, xs[i]), coefficients[k]);
    results[i] = value;
    scratch[i % 64] = value;
    atomicAdd(&calls, 1ull);
}

// Sums the table through the pointer to its end.
extern "C" __global__ void sum_table(unsigned *sum)
{
    unsigned total = 0;
    for (const unsigned *entry = table_end - 16; entry != table_end; ++entry)
        total += *entry;
    *sum = total;
}
