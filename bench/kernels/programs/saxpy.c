void run(void **args)
{
    const float *restrict x = args[0], *restrict y = args[1];
    float *restrict result = args[2];
    float factor = *(float *)args[3];
    int length = *(int *)args[4];

    for (int i = 0; i < length; ++i)
        result[i] = factor * x[i] + y[i];
}
