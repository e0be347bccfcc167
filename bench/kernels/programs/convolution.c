enum { SIDE = 5, HEIGHT = 128 };

void run(void **args)
{
    const float *restrict image = args[0], *restrict filter = args[1];
    float *restrict result = args[2];
    int width = *(int *)args[3], pitch = *(int *)args[4];

    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < width; ++x) {
            float sum = 0.0f;
            for (int j = 0; j < SIDE; ++j)
                for (int i = 0; i < SIDE; ++i)
                    sum += filter[j * SIDE + i] * image[(y + j) * pitch + x + i];
            result[y * width + x] = sum;
        }
}
