void run(void **args)
{
    const _Float16 *restrict a = args[0], *restrict b = args[1];
    float *restrict product = args[2];
    int size = *(int *)args[3];

    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j)
            product[i * size + j] = 0.0f;
        for (int k = 0; k < size; ++k) {
            float factor = a[i * size + k];
            for (int j = 0; j < size; ++j)
                product[i * size + j] += factor * (float)b[k * size + j];
        }
    }
}
