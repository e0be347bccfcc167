"""Kernels of the program's own, by CuPy's templates: elementwise, reduction, and with CUDA C++ around."""
import cupy as cp
import numpy as np

x = cp.arange(4260, dtype=cp.float64).reshape(60, 71)
y = cp.cos(x)
difference = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")
np.testing.assert_allclose(cp.asnumpy(difference(x, y)), (cp.asnumpy(x) - cp.asnumpy(y)) ** 2)
norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm_of_all")
for axis in (None, 0, 1):
    whole = cp.asnumpy(y).reshape(-1) if axis is None else cp.asnumpy(y)
    np.testing.assert_allclose(cp.asnumpy(norm(y, axis=axis)), np.linalg.norm(whole, axis=axis))
indexed = cp.ElementwiseKernel("raw T x, int64 n", "T y", "y = x[n - 1 - i]", "backwards")
np.testing.assert_array_equal(cp.asnumpy(indexed(x[0], 71, size=71)), np.arange(71)[::-1])
