#include <math.h>

enum { SIDE = 256 };

static int clamp(int i) { return i < 0 ? 0 : i >= SIDE ? SIDE - 1 : i; }

static float sample(const unsigned char *image, float x, float y)
{
    x -= 0.5f, y -= 0.5f;
    float a = floorf((x - floorf(x)) * 256.0f + 0.5f) / 256.0f, b = floorf((y - floorf(y)) * 256.0f + 0.5f) / 256.0f;
    int i = clamp((int)floorf(x)), j = clamp((int)floorf(y)), k = clamp((int)floorf(x) + 1), l = clamp((int)floorf(y) + 1);
    const unsigned char *p = image + 4 * (SIDE * j + i), *q = image + 4 * (SIDE * j + k);
    const unsigned char *r = image + 4 * (SIDE * l + i), *s = image + 4 * (SIDE * l + k);
    float sum = 0.0f, factor = 1.0f;
    for (int c = 0; c < 4; ++c, factor *= 2.0f)
        sum += factor * ((1.0f - a) * (1.0f - b) * (p[c] / 255.0f) + a * (1.0f - b) * (q[c] / 255.0f) +
                         (1.0f - a) * b * (r[c] / 255.0f) + a * b * (s[c] / 255.0f));
    return sum;
}

void run(void **args)
{
    const unsigned char *restrict image = args[0];
    float *restrict result = args[1];
    int width = *(int *)args[2];
    float c = *(float *)args[3], s = *(float *)args[4];

    for (int j = 0; j < width; ++j)
        for (int i = 0; i < width; ++i) {
            float half = 0.5f * width, x = i - half, y = j - half;
            result[j * width + i] = sample(image, fmaf(c, x, -s * y) + half, fmaf(s, x, c * y) + half) +
                                    sample(image, fmaf(c, x, s * y) + half, fmaf(-s, x, c * y) + half);
        }
}
