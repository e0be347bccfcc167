enum { READS = 8 };

void run(void **args)
{
    const float *restrict table = args[0];
    const int *restrict numbers = args[1];
    float *restrict result = args[2];
    int count = *(int *)args[3];

    for (int i = 0; i < count; ++i) {
        float sum = 0.0f;
        for (int k = 0; k < READS; ++k) {
            const float *p = table + 4 * numbers[k * count + i];
            sum += (p[0] + p[1]) + (p[2] + p[3]);
        }
        result[i] = sum;
    }
}
