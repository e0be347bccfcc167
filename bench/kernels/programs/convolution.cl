#define SIDE 5

kernel void convolution(global const float *image, global const float *filter, global float *result, int width,
                        int pitch)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int j = 0; j < SIDE; ++j)
        for (int i = 0; i < SIDE; ++i)
            sum += filter[j * SIDE + i] * image[(y + j) * pitch + x + i];
    result[y * width + x] = sum;
}
