// One Jacobi step on a grid of doubles: the border stays, each inner value becomes the mean of its four neighbours.

extern "C" __global__ void stencil(const double *from, double *to, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        to[i] = from[i];
    else
        to[i] = 0.25 * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
}
