// Which positions of a text a pattern begins at: lanes leave the inner loop at their first difference.

extern "C" __global__ void string_search(const unsigned char *text, const unsigned char *pattern, unsigned *found,
                                         int length, int pattern_length)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x) {
        int matched = 0;
        while (matched < pattern_length && text[i + matched] == pattern[matched])
            ++matched;
        found[i] = matched == pattern_length;
    }
}
