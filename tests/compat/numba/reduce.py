"""cuda.reduce, and a sum by warps with shuffles."""

import numpy as np
from numba import cuda


@cuda.reduce
def total(a, b):
    return a + b


@cuda.reduce
def largest(a, b):
    return max(a, b)


@cuda.jit
def sum_of_warps(values, out):
    i = cuda.grid(1)
    value = values[i] if i < values.size else 0.0
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


values = np.random.default_rng(2).normal(size=5000)
np.testing.assert_allclose(total(values), values.sum())
assert largest(values) == values.max()
assert total(np.arange(7, dtype=np.int64)) == 21
out = cuda.to_device(np.zeros(1))
sum_of_warps[20, 256](cuda.to_device(values), out)
np.testing.assert_allclose(out.copy_to_host()[0], values.sum())
