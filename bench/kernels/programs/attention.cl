#define KEYS 128
#define DIMENSIONS 32

kernel void attention(global const float *queries, global const float *keys, global const float *values,
                      global float *result, int length)
{
    int i = get_global_id(0);
    float query[DIMENSIONS], sum[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; ++d) {
        query[d] = queries[d * length + i];
        sum[d] = 0.0f;
    }
    float most = -3.4e38f, total = 0.0f;
    for (int k = 0; k < KEYS; ++k) {
        float score = 0.0f;
        for (int d = 0; d < DIMENSIONS; ++d)
            score += query[d] * keys[k * DIMENSIONS + d];
        float larger = fmax(most, score);
        float old = exp(most - larger), own = exp(score - larger);
        most = larger;
        total = total * old + own;
        for (int d = 0; d < DIMENSIONS; ++d)
            sum[d] = sum[d] * old + own * values[k * DIMENSIONS + d];
    }
    for (int d = 0; d < DIMENSIONS; ++d)
        result[d * length + i] = sum[d] / total;
}
