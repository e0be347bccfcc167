enum { HEIGHT = 128 };

void run(void **args)
{
    unsigned *restrict counts = args[0];
    int width = *(int *)args[1];
    float left = *(float *)args[2], top = *(float *)args[3], step = *(float *)args[4];
    unsigned limit = *(unsigned *)args[5];

    for (int row = 0; row < HEIGHT; ++row)
        for (int column = 0; column < width; ++column) {
            float cx = left + column * step, cy = top + row * step;
            float x = 0.0f, y = 0.0f;
            unsigned count = 0;
            while (count < limit && x * x + y * y <= 4.0f) {
                float next = x * x - y * y + cx;
                y = 2.0f * x * y + cy;
                x = next;
                ++count;
            }
            counts[row * width + column] = count;
        }
}
