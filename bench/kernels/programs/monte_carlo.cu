// Points of a random square that fall into the circle, counted by each thread with its own xorshift generator.

__device__ unsigned next(unsigned &state)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

extern "C" __global__ void monte_carlo(const unsigned *seeds, unsigned *hits, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = seeds[i], inside = 0;
    for (int round = 0; round < rounds; ++round) {
        float x = (next(state) >> 8) * 0x1p-24f, y = (next(state) >> 8) * 0x1p-24f;
        if (x * x + y * y < 1.0f)
            ++inside;
    }
    hits[i] = inside;
}
