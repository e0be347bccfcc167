kernel void stencil(global const double *from, global double *to, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        to[i] = from[i];
    else
        to[i] = 0.25 * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
}
