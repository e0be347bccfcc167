// One head of attention over 128 keys of 32 dimensions, a query a thread, the softmax computed as the keys go by.

static constexpr int KEYS = 128, DIMENSIONS = 32;

extern "C" __global__ void attention(const float *queries, const float *keys, const float *values, float *result,
                                     int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float query[DIMENSIONS], sum[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; ++d) {
        query[d] = queries[d * length + i];
        sum[d] = 0.0f;
    }
    float most = -3.4e38f, total = 0.0f;
    for (int k = 0; k < KEYS; ++k) {
        float score = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMENSIONS; ++d)
            score += query[d] * keys[k * DIMENSIONS + d];
        float larger = fmaxf(most, score);
        float old = expf(most - larger), own = expf(score - larger);
        most = larger;
        total = total * old + own;
#pragma unroll
        for (int d = 0; d < DIMENSIONS; ++d)
            sum[d] = sum[d] * old + own * values[k * DIMENSIONS + d];
    }
    for (int d = 0; d < DIMENSIONS; ++d)
        result[d * length + i] = sum[d] / total;
}
