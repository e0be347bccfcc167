enum { PARTS = 64, PART = 1024 };

void run(void **args)
{
    const unsigned *restrict values = args[0];
    unsigned *restrict sums = args[1];

    for (int p = 0; p < PARTS; ++p) {
        unsigned sum = 0;
        for (int i = 0; i < PART; ++i)
            sums[p * PART + i] = sum += values[p * PART + i];
    }
}
