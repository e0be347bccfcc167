kernel void saxpy(global const float *x, global const float *y, global float *result, float factor, int length)
{
    for (int i = get_global_id(0); i < length; i += get_global_size(0))
        result[i] = factor * x[i] + y[i];
}
