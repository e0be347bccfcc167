enum { RUNS = 64, RUN = 512, BITS = 9 };

struct float2 {
    float x, y;
};

void run(void **args)
{
    const struct float2 *restrict values = args[0], *restrict factors = args[1];
    struct float2 *restrict transformed = args[2];

    for (int r = 0; r < RUNS; ++r) {
        struct float2 *local = transformed + r * RUN;
        for (unsigned i = 0; i < RUN; ++i) {
            unsigned reversed = 0;
            for (int bit = 0; bit < BITS; ++bit)
                reversed |= (i >> bit & 1) << (BITS - 1 - bit);
            local[reversed] = values[r * RUN + i];
        }
        for (unsigned half = 1; half < RUN; half *= 2)
            for (unsigned thread = 0; thread < RUN / 2; ++thread) {
                unsigned k = thread & (half - 1);
                unsigned i = 2 * thread - k;
                struct float2 factor = factors[k * (RUN / 2 / half)];
                struct float2 a = local[i], b = local[i + half];
                float x = b.x * factor.x - b.y * factor.y, y = b.x * factor.y + b.y * factor.x;
                local[i] = (struct float2){a.x + x, a.y + y};
                local[i + half] = (struct float2){a.x - x, a.y - y};
            }
    }
}
