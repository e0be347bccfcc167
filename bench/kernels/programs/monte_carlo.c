enum { STREAMS = 4096 };

static unsigned next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

void run(void **args)
{
    const unsigned *restrict seeds = args[0];
    unsigned *restrict hits = args[1];
    int rounds = *(int *)args[2];

    for (int i = 0; i < STREAMS; ++i) {
        unsigned state = seeds[i], inside = 0;
        for (int round = 0; round < rounds; ++round) {
            float x = (next(&state) >> 8) * 0x1p-24f, y = (next(&state) >> 8) * 0x1p-24f;
            if (x * x + y * y < 1.0f)
                ++inside;
        }
        hits[i] = inside;
    }
}
