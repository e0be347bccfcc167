"""Ufuncs, broadcasting, indexing and elementwise kernels of one's own."""
import cupy as cp
import numpy as np

a = np.random.default_rng(1).random((37, 53)).astype(np.float32)
d = cp.asarray(a)
np.testing.assert_allclose(cp.asnumpy(cp.sqrt(d) * 2 + d[:, :1]), np.sqrt(a) * 2 + a[:, :1], rtol=1e-6)
np.testing.assert_array_equal(cp.asnumpy(cp.where(d > 0.5, d.T[0, 0], -d)), np.where(a > 0.5, a[0, 0], -a))
np.testing.assert_array_equal(cp.asnumpy(d[::2, 5:40:3].astype(cp.int64)), a[::2, 5:40:3].astype(np.int64))
squares = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")
np.testing.assert_allclose(cp.asnumpy(squares(d, cp.float32(0.5))), (a - np.float32(0.5)) ** 2, rtol=1e-6)
