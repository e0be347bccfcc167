enum { SIDE = 256 };

static int clamp(int i) { return i < 0 ? 0 : i >= SIDE ? SIDE - 1 : i; }

void run(void **args)
{
    const unsigned *restrict from = args[0];
    unsigned *restrict to = args[1];

    for (int y = 0; y < SIDE; ++y)
        for (int x = 0; x < SIDE; ++x) {
            const unsigned *row = from + SIDE * y;
            unsigned above = y > 0 ? row[x - SIDE] : 0, below = y + 1 < SIDE ? row[x + SIDE] : 0;
            to[SIDE * y + x] = (row[clamp(x - 1)] + row[clamp(x + 1)] + above + below) / 4;
        }
}
