"""Sums, extrema, means, and a reduction kernel of one's own."""
import cupy as cp
import numpy as np

a = np.random.default_rng(2).random((60, 71))
d = cp.asarray(a)
for axis in (None, 0, 1):
    np.testing.assert_allclose(cp.asnumpy(d.sum(axis=axis)), a.sum(axis=axis), rtol=1e-12)
    np.testing.assert_array_equal(cp.asnumpy(d.max(axis=axis)), a.max(axis=axis))
    np.testing.assert_array_equal(cp.asnumpy(d.argmin(axis=axis)), a.argmin(axis=axis))
    np.testing.assert_allclose(cp.asnumpy(d.std(axis=axis)), a.std(axis=axis), rtol=1e-10)
norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
np.testing.assert_allclose(float(norm(d)), np.linalg.norm(a), rtol=1e-12)
np.testing.assert_array_equal(cp.asnumpy(cp.bincount(cp.arange(100) % 7)), np.bincount(np.arange(100) % 7))
