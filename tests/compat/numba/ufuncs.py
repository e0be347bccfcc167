"""NumPy ufuncs made from Python functions, and mathematics from libdevice."""
import math

import numpy as np
from numba import cuda, float64, vectorize


@vectorize([float64(float64, float64)], target="cuda")
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


@cuda.jit
def mathematics(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) * math.exp(-x[i]) + math.log1p(x[i]) ** 2


a = np.linspace(0, 10, 3001)
np.testing.assert_allclose(hypotenuse(a, a + 1), np.hypot(a, a + 1), rtol=1e-14)
out = np.zeros_like(a)
mathematics[32, 128](a, out)
np.testing.assert_allclose(out, np.sin(a) * np.exp(-a) + np.log1p(a) ** 2, rtol=1e-12)
