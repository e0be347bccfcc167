#include <math.h>

enum { SIDE = 256 };

static int clamp(int i) { return i < 0 ? 0 : i >= SIDE ? SIDE - 1 : i; }

static float sample(const float *image, float x, float y)
{
    x -= 0.5f, y -= 0.5f;
    float a = floorf((x - floorf(x)) * 256.0f + 0.5f) / 256.0f, b = floorf((y - floorf(y)) * 256.0f + 0.5f) / 256.0f;
    int i = (int)floorf(x), j = (int)floorf(y);
    const float *low = image + SIDE * clamp(j), *high = image + SIDE * clamp(j + 1);
    return (1.0f - a) * (1.0f - b) * low[clamp(i)] + a * (1.0f - b) * low[clamp(i + 1)] +
           (1.0f - a) * b * high[clamp(i)] + a * b * high[clamp(i + 1)];
}

void run(void **args)
{
    const float *restrict image = args[0];
    float *restrict result = args[1];
    int width = *(int *)args[2];

    for (int y = 0; y < SIDE; ++y)
        for (int x = 0; x < width; ++x) {
            float sum = 0.0f;
            for (int j = -1; j <= 1; ++j)
                for (int i = -1; i <= 1; ++i)
                    sum += sample(image, x + i + 0.75f, y + j + 0.625f);
            result[y * width + x] = sum;
        }
}
