/* bf16 is the upper half of a float. */
static float widen(unsigned short value)
{
    union {
        unsigned bits;
        float value;
    } wide = {.bits = (unsigned)value << 16};
    return wide.value;
}

void run(void **args)
{
    const unsigned short *restrict a = args[0], *restrict b = args[1];
    float *restrict product = args[2];
    int size = *(int *)args[3];

    for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) {
            float sum = 0.0f;
            for (int k = 0; k < size; ++k)
                sum += widen(a[i * size + k]) * widen(b[j * size + k]);
            product[i * size + j] = sum;
        }
}
