"""Mathematical functions: the hardware's own, and those of libdevice."""

import math

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros
from triton.language.extra import libdevice


@triton.jit
def functions(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.load(x + at)
    tl.store(out + at, tl.exp(values))
    tl.store(out + N + at, tl.log(values))
    tl.store(out + 2 * N + at, tl.sin(values))
    tl.store(out + 3 * N + at, tl.erf(values))
    tl.store(out + 4 * N + at, libdevice.atan(values))
    tl.store(out + 5 * N + at, libdevice.cbrt(values))
    tl.store(out + 6 * N + at, libdevice.tgamma(values))
    tl.store(out + 7 * N + at, tl.sqrt(values))


N = 256
x = np.linspace(0.1, 5, N, dtype=np.float32)
out = zeros((8, N), np.float32)
functions[(1,)](Array(x), out, N=N)

wide = x.astype(np.float64)
by_number = lambda f: np.array([f(value) for value in wide])
expected = [np.exp(wide), np.log(wide), np.sin(wide), by_number(math.erf), np.arctan(wide), np.cbrt(wide)]
expected += [by_number(math.gamma), np.sqrt(wide)]
close(out.numpy(), expected, 1e-4)
