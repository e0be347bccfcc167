// Nine reads around each pixel of an image in rows of memory, between texels, in coordinates of texels.

extern "C" __global__ void texture_pitched(cudaTextureObject_t image, float *result, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
#pragma unroll
    for (int j = -1; j <= 1; ++j)
#pragma unroll
        for (int i = -1; i <= 1; ++i)
            sum += tex2D<float>(image, x + i + 0.75f, y + j + 0.625f);
    result[y * width + x] = sum;
}
