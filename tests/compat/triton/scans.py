"""Scans: running sums, and an associative operation of one's own over pairs."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan(x, a, sums, recurrent, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    values = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(values, axis=0))
    _, result = tl.associative_scan((tl.load(a + at), values), 0, linear)
    tl.store(recurrent + at, result)


rows, N = 5, 512
random = np.random.default_rng(9)
x, a = random.standard_normal((rows, N), np.float32), random.random((rows, N), np.float32)
sums, recurrent = (zeros(x.shape, np.float32) for _ in range(2))
scan[(rows,)](Array(x), Array(a), sums, recurrent, N=N)
close(sums.numpy(), x.cumsum(1, dtype=np.float64), 1e-3)
state, expected = np.zeros(rows), np.empty(x.shape)
for n in range(N):
    state = state * a[:, n] + x[:, n]
    expected[:, n] = state
close(recurrent.numpy(), expected, 1e-4)
