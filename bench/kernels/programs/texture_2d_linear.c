#include <math.h>

enum { SIDE = 256, HEIGHT = 256 };

static int wrap(int i) { return i & (SIDE - 1); }

static float sample(const float *image, float u, float v)
{
    float x = u * SIDE - 0.5f, y = v * SIDE - 0.5f;
    float a = floorf((x - floorf(x)) * 256.0f + 0.5f) / 256.0f, b = floorf((y - floorf(y)) * 256.0f + 0.5f) / 256.0f;
    int i = (int)floorf(x), j = (int)floorf(y);
    const float *low = image + SIDE * wrap(j), *high = image + SIDE * wrap(j + 1);
    return (1.0f - a) * (1.0f - b) * low[wrap(i)] + a * (1.0f - b) * low[wrap(i + 1)] +
           (1.0f - a) * b * high[wrap(i)] + a * b * high[wrap(i + 1)];
}

void run(void **args)
{
    const float *restrict image = args[0];
    float *restrict result = args[1];
    int width = *(int *)args[2];
    float step = *(float *)args[3];

    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < width; ++x) {
            float u = x * step, v = y * step, sum = 0.0f;
            for (int k = 0; k < 4; ++k)
                sum += sample(image, u + (k & 1) * 0.5f * step, v + (k >> 1) * 0.5f * step);
            result[y * width + x] = 0.25f * sum;
        }
}
