kernel void mandelbrot(global uint *counts, int width, float left, float top, float step, uint limit)
{
    int column = get_global_id(0), row = get_global_id(1);
    float cx = left + column * step, cy = top + row * step;
    float x = 0.0f, y = 0.0f;
    uint count = 0;
    while (count < limit && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        ++count;
    }
    counts[row * width + column] = count;
}
