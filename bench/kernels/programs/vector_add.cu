// sum = a + b, one element a thread.

extern "C" __global__ void vector_add(const float *a, const float *b, float *sum, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        sum[i] = a[i] + b[i];
}
