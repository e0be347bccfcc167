// A cube's faces, seen from its centre in directions that turn, with bilinear filtering.

static constexpr int READS = 8;

extern "C" __global__ void texture_cubemap(cudaTextureObject_t cube, float *result, int width, float step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    float x = i * step - 1.0f, y = j * step - 1.0f, z = 0.75f, sum = 0.0f;
    for (int k = 0; k < READS; ++k) {
        sum += texCubemap<float>(cube, x, y, z);
        float was = x;
        x = z, z = -y, y = was;
    }
    result[j * width + i] = sum;
}
