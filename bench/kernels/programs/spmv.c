void run(void **args)
{
    const int *restrict starts = args[0], *restrict columns = args[1];
    const double *restrict values = args[2], *restrict x = args[3];
    double *restrict result = args[4];
    int rows = *(int *)args[5];

    for (int row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (int i = starts[row]; i < starts[row + 1]; ++i)
            sum += values[i] * x[columns[i]];
        result[row] = sum;
    }
}
