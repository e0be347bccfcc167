// Vectors of four floats in plain memory, fetched by numbers in no order, as programs with particles do.

static constexpr int READS = 8;

extern "C" __global__ void texture_memory(cudaTextureObject_t table, const int *numbers, float *result, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < READS; ++k) {
        float4 p = tex1Dfetch<float4>(table, numbers[k * count + i]);
        sum += (p.x + p.y) + (p.z + p.w);
    }
    result[i] = sum;
}
