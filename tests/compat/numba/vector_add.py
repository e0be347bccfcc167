"""A kernel over host arrays: Numba copies them in and out."""
import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


a = np.arange(10007, dtype=np.float32)
b = a * 0.5
out = np.zeros_like(a)
add[(a.size + 127) // 128, 128](a, b, out)
np.testing.assert_array_equal(out, a + b)
