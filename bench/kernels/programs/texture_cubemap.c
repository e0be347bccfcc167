#include <math.h>

enum { SIDE = 64, HEIGHT = 128, READS = 8 };

static int clamp(int i) { return i < 0 ? 0 : i >= SIDE ? SIDE - 1 : i; }

static float sample(const float *cube, float x, float y, float z)
{
    float p = fabsf(x), q = fabsf(y), r = fabsf(z), m, s, t;
    int face;
    if (p >= q && p >= r)
        face = x < 0.0f, m = p, s = x < 0.0f ? z : -z, t = -y;
    else if (q >= r)
        face = 2 + (y < 0.0f), m = q, s = x, t = y < 0.0f ? -z : z;
    else
        face = 4 + (z < 0.0f), m = r, s = z < 0.0f ? -x : x, t = -y;
    float u = (s / m + 1.0f) / 2.0f * SIDE - 0.5f, v = (t / m + 1.0f) / 2.0f * SIDE - 0.5f;
    float a = floorf((u - floorf(u)) * 256.0f + 0.5f) / 256.0f, b = floorf((v - floorf(v)) * 256.0f + 0.5f) / 256.0f;
    int i = (int)floorf(u), j = (int)floorf(v);
    const float *low = cube + SIDE * (SIDE * face + clamp(j)), *high = cube + SIDE * (SIDE * face + clamp(j + 1));
    return (1.0f - a) * (1.0f - b) * low[clamp(i)] + a * (1.0f - b) * low[clamp(i + 1)] +
           (1.0f - a) * b * high[clamp(i)] + a * b * high[clamp(i + 1)];
}

void run(void **args)
{
    const float *restrict cube = args[0];
    float *restrict result = args[1];
    int width = *(int *)args[2];
    float step = *(float *)args[3];

    for (int j = 0; j < HEIGHT; ++j)
        for (int i = 0; i < width; ++i) {
            float x = i * step - 1.0f, y = j * step - 1.0f, z = 0.75f, sum = 0.0f;
            for (int k = 0; k < READS; ++k) {
                sum += sample(cube, x, y, z);
                float was = x;
                x = z, z = -y, y = was;
            }
            result[j * width + i] = sum;
        }
}
