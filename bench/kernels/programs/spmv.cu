// result = matrix * x for a sparse matrix in CSR form, one row a thread, double precision: gathers. Rows are short, so the
// loop over a row is not unrolled: the rest of an unrolled one would do most of the work.

extern "C" __global__ void spmv(const int *starts, const int *columns, const double *values, const double *x,
                                double *result, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0.0;
    int end = starts[row + 1];
#pragma unroll 1
    for (int i = starts[row]; i < end; ++i)
        sum += values[i] * x[columns[i]];
    result[row] = sum;
}
