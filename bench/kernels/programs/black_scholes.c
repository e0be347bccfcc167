#include <math.h>

static float normal(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float sum = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * expf(-0.5f * d * d) * sum;
    return d > 0.0f ? 1.0f - tail : tail;
}

void run(void **args)
{
    const float *restrict price = args[0], *restrict strike = args[1], *restrict years = args[2];
    float *restrict call = args[3], *restrict put = args[4];
    float rate = *(float *)args[5], volatility = *(float *)args[6];
    int length = *(int *)args[7];

    for (int i = 0; i < length; ++i) {
        float root = sqrtf(years[i]);
        float d1 =
            (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
        float d2 = d1 - volatility * root;
        float discounted = strike[i] * expf(-rate * years[i]);
        call[i] = price[i] * normal(d1) - discounted * normal(d2);
        put[i] = discounted * (1.0f - normal(d2)) - price[i] * (1.0f - normal(d1));
    }
}
