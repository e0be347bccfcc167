// The mean of a pixel's neighbours, read from one surface and written to another; a pixel is an integer.

extern "C" __global__ void surface_2d(cudaSurfaceObject_t from, cudaSurfaceObject_t to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned sum = surf2Dread<unsigned>(from, 4 * (x - 1), y, cudaBoundaryModeClamp) +
                   surf2Dread<unsigned>(from, 4 * (x + 1), y, cudaBoundaryModeClamp) +
                   surf2Dread<unsigned>(from, 4 * x, y - 1, cudaBoundaryModeZero) +
                   surf2Dread<unsigned>(from, 4 * x, y + 1, cudaBoundaryModeZero);
    surf2Dwrite(sum / 4, to, 4 * x, y);
}
