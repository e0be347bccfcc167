"""Sorting: CuPy's own library of compiled Thrust and CUB code."""
import cupy as cp
import numpy as np

a = np.random.default_rng(4).integers(0, 1 << 30, 20000).astype(np.int32)
d = cp.asarray(a)
np.testing.assert_array_equal(cp.asnumpy(cp.sort(d)), np.sort(a))
np.testing.assert_array_equal(a[cp.asnumpy(cp.argsort(d))], np.sort(a))
np.testing.assert_array_equal(cp.asnumpy(cp.unique(d % 100)), np.unique(a % 100))
