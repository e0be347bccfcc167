kernel void vector_add(global const float *a, global const float *b, global float *sum, int length)
{
    int i = get_global_id(0);
    if (i < length)
        sum[i] = a[i] + b[i];
}
