"""Atomic operations: a histogram, a maximum, a compare-and-swap."""
import numpy as np
from numba import cuda


@cuda.jit
def histogram(x, counts, largest, first):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)
        cuda.atomic.max(largest, 0, x[i])
        cuda.atomic.cas(first, 0, -1, i)


x = np.random.default_rng(2).integers(0, 100, 5000).astype(np.int32)
counts = cuda.to_device(np.zeros(100, dtype=np.int32))
largest = cuda.to_device(np.zeros(1, dtype=np.int32))
first = cuda.to_device(np.full(1, -1, dtype=np.int32))
histogram[40, 128](cuda.to_device(x), counts, largest, first)
np.testing.assert_array_equal(counts.copy_to_host(), np.bincount(x, minlength=100))
assert largest.copy_to_host()[0] == x.max()
assert 0 <= first.copy_to_host()[0] < 5000
