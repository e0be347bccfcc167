/* Tiles of b are widened and turned once, so that a row of a is multiplied with many columns at a time. */

enum { STEP = 64, COLUMNS = 32, ROWS = 8 };

/* bf16 is the upper half of a float. */
static inline float widen(unsigned short value)
{
    union {
        unsigned bits;
        float value;
    } wide = {.bits = (unsigned)value << 16};
    return wide.value;
}

void run(void **args)
{
    const unsigned short *restrict a = args[0], *restrict b = args[1];
    float *restrict product = args[2];
    int size = *(int *)args[3], depth = *(int *)args[4];
    static float turned[STEP][COLUMNS];

    for (int column = 0; column < size; column += COLUMNS)
        for (int start = 0; start < depth; start += STEP) {
            for (int j = 0; j < COLUMNS; ++j)
                for (int k = 0; k < STEP; ++k)
                    turned[k][j] = widen(b[(column + j) * depth + start + k]);
            for (int row = 0; row < size; row += ROWS) {
                float sum[ROWS][COLUMNS];
                for (int i = 0; i < ROWS; ++i)
                    for (int j = 0; j < COLUMNS; ++j)
                        sum[i][j] = start ? product[(row + i) * size + column + j] : 0.0f;
                for (int k = 0; k < STEP; ++k)
                    for (int i = 0; i < ROWS; ++i) {
                        float factor = widen(a[(row + i) * depth + start + k]);
                        for (int j = 0; j < COLUMNS; ++j)
                            sum[i][j] += factor * turned[k][j];
                    }
                for (int i = 0; i < ROWS; ++i)
                    for (int j = 0; j < COLUMNS; ++j)
                        product[(row + i) * size + column + j] = sum[i][j];
            }
        }
}
