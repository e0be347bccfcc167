#include <math.h>

enum { ROWS = 256, WIDTH = 256 };

void run(void **args)
{
    const float *restrict rows = args[0];
    float *restrict result = args[1];

    for (int r = 0; r < ROWS; ++r) {
        const float *row = rows + r * WIDTH;
        float *out = result + r * WIDTH;
        float most = -3.4e38f, sum = 0.0f;
        for (int i = 0; i < WIDTH; ++i)
            most = fmaxf(most, row[i]);
        for (int i = 0; i < WIDTH; ++i) {
            out[i] = expf(row[i] - most);
            sum += out[i];
        }
        for (int i = 0; i < WIDTH; ++i)
            out[i] /= sum;
    }
}
