// result = factor * x + y, each thread striding over the grid.

extern "C" __global__ void saxpy(const float *x, const float *y, float *result, float factor, int length)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x)
        result[i] = factor * x[i] + y[i];
}
