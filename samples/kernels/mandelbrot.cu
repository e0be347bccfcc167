// Escape counts of the Mandelbrot set: neighbouring lanes leave the loop at different times. Every operation is rounded
// by itself (no fused multiply-add), so the counts are the same on any device and on a CPU.

extern "C" __global__ void mandelbrot(unsigned *counts, int width, int height, float left, float top, float step,
                                      unsigned limit)
{
    int stride = gridDim.x * blockDim.x;
    for (int pixel = blockIdx.x * blockDim.x + threadIdx.x; pixel < width * height; pixel += stride) {
        float cx = __fadd_rn(left, __fmul_rn((float)(pixel % width), step));
        float cy = __fadd_rn(top, __fmul_rn((float)(pixel / width), step));
        float x = 0.0f, y = 0.0f;
        unsigned count = 0;
        while (count < limit) {
            float xx = __fmul_rn(x, x);
            float yy = __fmul_rn(y, y);
            if (__fadd_rn(xx, yy) > 4.0f)
                break;
            float xy = __fmul_rn(x, y);
            x = __fadd_rn(__fsub_rn(xx, yy), cx);
            y = __fadd_rn(__fadd_rn(xy, xy), cy);
            ++count;
        }
        counts[pixel] = count;
    }
}
