#include <string.h>

enum { PARTS = 16, BINS = 256 };

void run(void **args)
{
    const unsigned *restrict words = args[0];
    unsigned *restrict bins = args[1];
    int part = *(int *)args[2];

    for (int p = 0; p < PARTS; ++p) {
        unsigned *mine = bins + p * BINS;
        memset(mine, 0, BINS * sizeof *mine);
        for (int i = 0; i < part; ++i) {
            unsigned word = words[p * part + i];
            ++mine[word & 0xff];
            ++mine[word >> 8 & 0xff];
            ++mine[word >> 16 & 0xff];
            ++mine[word >> 24];
        }
    }
}
