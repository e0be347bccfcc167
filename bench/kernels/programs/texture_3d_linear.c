#include <math.h>

enum { SIDE = 64, HEIGHT = 128, STEPS = 32 };

static int clamp(int i) { return i < 0 ? 0 : i >= SIDE ? SIDE - 1 : i; }

static float plane(const unsigned char *image, int i, int j, float a, float b)
{
    const unsigned char *low = image + SIDE * clamp(j), *high = image + SIDE * clamp(j + 1);
    int k = clamp(i + 1);
    i = clamp(i);
    return (1.0f - a) * (1.0f - b) * (low[i] / 255.0f) + a * (1.0f - b) * (low[k] / 255.0f) +
           (1.0f - a) * b * (high[i] / 255.0f) + a * b * (high[k] / 255.0f);
}

static float weight(float x) { return floorf((x - floorf(x)) * 256.0f + 0.5f) / 256.0f; }

static float sample(const unsigned char *volume, float x, float y, float z)
{
    x = x * SIDE - 0.5f, y = y * SIDE - 0.5f, z = z * SIDE - 0.5f;
    float a = weight(x), b = weight(y), c = weight(z);
    int i = (int)floorf(x), j = (int)floorf(y), k = (int)floorf(z);
    return (1.0f - c) * plane(volume + SIDE * SIDE * clamp(k), i, j, a, b) +
           c * plane(volume + SIDE * SIDE * clamp(k + 1), i, j, a, b);
}

void run(void **args)
{
    const unsigned char *restrict volume = args[0];
    float *restrict result = args[1];
    int width = *(int *)args[2];
    float step = *(float *)args[3];

    for (int j = 0; j < HEIGHT; ++j)
        for (int i = 0; i < width; ++i) {
            float x = (i + 0.25f) * step, y = (j + 0.75f) * step, z = 0.125f * step, sum = 0.0f;
            for (int k = 0; k < STEPS; ++k) {
                sum += sample(volume, x, y, z);
                x += 0.0625f * step, z += step;
            }
            result[j * width + i] = sum;
        }
}
