// The Fourier transform of each run of 512 complex values, one block a run, radix 2 in shared memory with a barrier
// between the nine stages. Factor k of the table is exp(-2 pi i k / 512).

static constexpr unsigned RUN = 512, BITS = 9;

extern "C" __global__ void fft(const float2 *values, const float2 *factors, float2 *transformed)
{
    __shared__ float2 local[RUN];
    unsigned thread = threadIdx.x;
    for (unsigned i = thread; i < RUN; i += RUN / 2)
        local[__brev(i) >> (32 - BITS)] = values[blockIdx.x * RUN + i];
    for (unsigned half = 1; half < RUN; half *= 2) {
        __syncthreads();
        unsigned k = thread & (half - 1);
        unsigned i = 2 * thread - k;
        float2 factor = factors[k * (RUN / 2 / half)];
        float2 a = local[i], b = local[i + half];
        float x = b.x * factor.x - b.y * factor.y, y = b.x * factor.y + b.y * factor.x;
        local[i] = make_float2(a.x + x, a.y + y);
        local[i + half] = make_float2(a.x - x, a.y - y);
    }
    __syncthreads();
    for (unsigned i = thread; i < RUN; i += RUN / 2)
        transformed[blockIdx.x * RUN + i] = local[i];
}
