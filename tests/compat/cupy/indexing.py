"""Indexing, scans, sets and scatter: kernels of CuPy's own beyond elementwise ones."""
import cupy as cp
import numpy as np

random = np.random.default_rng(3)
host = random.integers(0, 50, (40, 30))
a = cp.asarray(host)
np.testing.assert_array_equal(cp.asnumpy(a[a > 25]), host[host > 25])
rows = np.array([3, 1, 1, 39])
np.testing.assert_array_equal(cp.asnumpy(a[cp.asarray(rows)]), host[rows])
np.testing.assert_array_equal(cp.asnumpy(a[::-2, 3:20:4]), host[::-2, 3:20:4])
np.testing.assert_array_equal(cp.asnumpy(cp.cumsum(a, axis=1)), np.cumsum(host, axis=1))
np.testing.assert_array_equal(cp.asnumpy(cp.where(a > 10, a, -a)), np.where(host > 10, host, -host))
np.testing.assert_array_equal(cp.asnumpy(cp.bincount(a.ravel())), np.bincount(host.ravel()))
counts = cp.zeros(50, dtype=cp.int64)
cp.add.at(counts, a.ravel(), 1)
np.testing.assert_array_equal(cp.asnumpy(counts), np.bincount(host.ravel(), minlength=50))
np.testing.assert_array_equal(cp.asnumpy(cp.concatenate([a, a.T[:30, :30]])), np.concatenate([host, host.T[:30, :30]]))
assert [axis.tolist() for axis in cp.nonzero(a == 7)] == [axis.tolist() for axis in np.nonzero(host == 7)]
