// The sum of two vectors: one load, one load, one add, one store a lane, in a grid-stride loop, so that any grid does
// the whole of the work. A float add is correctly rounded, so the result is the same to the bit on any device.

extern "C" __global__ void vector_add(const float *a, const float *b, float *sum, int length)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += stride)
        sum[i] = a[i] + b[i];
}
