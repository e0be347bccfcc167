void run(void **args)
{
    const float *restrict a = args[0], *restrict b = args[1];
    float *restrict sum = args[2];
    int length = *(int *)args[3];

    for (int i = 0; i < length; ++i)
        sum[i] = a[i] + b[i];
}
