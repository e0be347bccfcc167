#include <string.h>

enum { RUNS = 64, RUN = 512 };

void run(void **args)
{
    const unsigned *restrict keys = args[0];
    unsigned *restrict sorted = args[1];

    memcpy(sorted, keys, RUNS * RUN * sizeof *keys);
    for (int r = 0; r < RUNS; ++r) {
        unsigned *local = sorted + r * RUN;
        for (unsigned size = 2; size <= RUN; size *= 2)
            for (unsigned distance = size / 2; distance > 0; distance /= 2)
                for (unsigned thread = 0; thread < RUN / 2; ++thread) {
                    unsigned i = 2 * thread - (thread & (distance - 1));
                    unsigned low = local[i], high = local[i + distance];
                    if ((low > high) == ((i & size) == 0)) {
                        local[i] = high;
                        local[i + distance] = low;
                    }
                }
    }
}
