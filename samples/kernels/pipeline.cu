// The middle of a copy in, compute, copy out pipeline: `rounds` of an exact integer mix of every word, so that a chunk
// may be made as heavy as the copies around it.

extern "C" __global__ void mix(const unsigned *input, unsigned *output, int length, int rounds)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += stride) {
        unsigned word = input[i];
        for (int round = 0; round < rounds; ++round) {
            word ^= word << 13;
            word ^= word >> 17;
            word ^= word << 5;
            word += 0x9e3779b9u;
        }
        output[i] = word;
    }
}
