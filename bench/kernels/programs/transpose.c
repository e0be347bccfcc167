enum { TILE = 32 };

void run(void **args)
{
    const float *restrict from = args[0];
    float *restrict to = args[1];
    int size = *(int *)args[2];

    for (int row = 0; row < size; row += TILE)
        for (int column = 0; column < size; column += TILE)
            for (int y = 0; y < TILE; ++y)
                for (int x = 0; x < TILE; ++x)
                    to[(column + y) * size + row + x] = from[(row + x) * size + column + y];
}
