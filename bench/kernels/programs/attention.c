#include <math.h>

enum { KEYS = 128, DIMENSIONS = 32 };

void run(void **args)
{
    const float *restrict queries = args[0], *restrict keys = args[1], *restrict values = args[2];
    float *restrict result = args[3];
    int length = *(int *)args[4];

    for (int i = 0; i < length; ++i) {
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
            float larger = fmaxf(most, score);
            float old = expf(most - larger), own = expf(score - larger);
            most = larger;
            total = total * old + own;
            for (int d = 0; d < DIMENSIONS; ++d)
                sum[d] = sum[d] * old + own * values[k * DIMENSIONS + d];
        }
        for (int d = 0; d < DIMENSIONS; ++d)
            result[d * length + i] = sum[d] / total;
    }
}
