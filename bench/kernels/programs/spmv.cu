// result = matrix * x for a sparse matrix in CSR form, one row a thread, double precision: gathers.

extern "C" __global__ void spmv(const int *starts, const int *columns, const double *values, const double *x,
                                double *result, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0.0;
    for (int i = starts[row]; i < starts[row + 1]; ++i)
        sum += values[i] * x[columns[i]];
    result[row] = sum;
}
