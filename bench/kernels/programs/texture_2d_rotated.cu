// An image of four channels of 8 bits, rotated with bilinear filtering: every lane of a warp reads from rows of its own.

extern "C" __global__ void texture_2d_rotated(cudaTextureObject_t image, float *result, int width, float c, float s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    float half = 0.5f * width, x = i - half, y = j - half;
    float4 p = tex2D<float4>(image, fmaf(c, x, -s * y) + half, fmaf(s, x, c * y) + half);
    float4 q = tex2D<float4>(image, fmaf(c, x, s * y) + half, fmaf(-s, x, c * y) + half);
    result[j * width + i] = (p.x + q.x) + (p.y + q.y) * 2.0f + (p.z + q.z) * 4.0f + (p.w + q.w) * 8.0f;
}
