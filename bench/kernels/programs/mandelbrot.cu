// Escape counts of the Mandelbrot set: neighbouring lanes leave the loop at different times.

extern "C" __global__ void mandelbrot(unsigned *counts, int width, float left, float top, float step, unsigned limit)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    float cx = left + column * step, cy = top + row * step;
    float x = 0.0f, y = 0.0f;
    unsigned count = 0;
    while (count < limit && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        ++count;
    }
    counts[row * width + column] = count;
}
