// Kernels whose parameters need padding.
struct Pair { double a; char b; };
extern "C" __global__ void scale(float *out, float factor, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] *= factor;
}
extern "C" __global__ void mixed(char a, short b, Pair pair, long long c, int *out)
{
    *out = a + b + (int)pair.a + pair.b + (int)c;
}
extern "C" __global__ void nothing() {}
