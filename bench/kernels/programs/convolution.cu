// A 5 x 5 convolution of an image whose border of two pixels is padding; the filter lies in constant-like memory.

static constexpr int SIDE = 5;

extern "C" __global__ void convolution(const float *image, const float *filter, float *result, int width, int pitch)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < SIDE; ++j)
#pragma unroll
        for (int i = 0; i < SIDE; ++i)
            sum += filter[j * SIDE + i] * image[(y + j) * pitch + x + i];
    result[y * width + x] = sum;
}
