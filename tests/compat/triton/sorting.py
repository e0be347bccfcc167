"""Sorting of rows, up and down."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def sort(x, up, down, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    values = tl.load(x + at)
    tl.store(up + at, tl.sort(values))
    tl.store(down + at, tl.sort(values, descending=True))


rows, N = 6, 256
x = np.random.default_rng(10).integers(-1000, 1000, (rows, N), np.int32)
up, down = (zeros(x.shape, np.int32) for _ in range(2))
sort[(rows,)](Array(x), up, down, N=N)
close(up.numpy(), np.sort(x, 1), 0)
close(down.numpy(), np.sort(x, 1)[:, ::-1], 0)
