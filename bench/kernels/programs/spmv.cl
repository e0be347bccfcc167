kernel void spmv(global const int *starts, global const int *columns, global const double *values,
                 global const double *x, global double *result, int rows)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    double sum = 0.0;
    for (int i = starts[row]; i < starts[row + 1]; ++i)
        sum += values[i] * x[columns[i]];
    result[row] = sum;
}
