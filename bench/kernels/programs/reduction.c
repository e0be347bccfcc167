enum { PARTS = 64 };

void run(void **args)
{
    const float *restrict values = args[0];
    float *restrict sums = args[1];
    int part = *(int *)args[2];

    for (int p = 0; p < PARTS; ++p) {
        float sum = 0.0f;
        for (int i = 0; i < part; ++i)
            sum += values[p * part + i];
        sums[p] = sum;
    }
}
