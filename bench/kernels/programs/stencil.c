void run(void **args)
{
    const double *restrict from = args[0];
    double *restrict to = args[1];
    int width = *(int *)args[2], height = *(int *)args[3];

    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            int i = y * width + x;
            if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
                to[i] = from[i];
            else
                to[i] = 0.25 * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
        }
}
