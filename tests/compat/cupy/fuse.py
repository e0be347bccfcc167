"""Fused kernels and scans."""
import cupy as cp
import numpy as np


@cp.fuse()
def fused(x, y):
    return cp.sqrt(x * x + y * y) - x


a = np.random.default_rng(3).random(5000)
np.testing.assert_allclose(cp.asnumpy(fused(cp.asarray(a), cp.asarray(a + 1))),
                           np.sqrt(a * a + (a + 1) ** 2) - a, rtol=1e-12)
np.testing.assert_allclose(cp.asnumpy(cp.cumsum(cp.asarray(a))), np.cumsum(a), rtol=1e-12)
