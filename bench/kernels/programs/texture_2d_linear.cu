// An image that repeats, scaled with bilinear filtering: four reads a pixel, in normalized coordinates.

extern "C" __global__ void texture_2d_linear(cudaTextureObject_t image, float *result, int width, float step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x * step, v = y * step, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += tex2D<float>(image, u + (k & 1) * 0.5f * step, v + (k >> 1) * 0.5f * step);
    result[y * width + x] = 0.25f * sum;
}
