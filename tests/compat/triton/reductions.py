"""Reductions: sums, extrema and where they are, over either axis of a tile."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def reduce(x, sums, least, most, place, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(sums + m, tl.sum(tile, axis=1))
    tl.store(least + n, tl.min(tile, axis=0))
    tl.store(most + m, tl.max(tile, axis=1))
    tl.store(place + m, tl.argmax(tile, axis=1))


M, N = 64, 128
x = np.random.default_rng(8).standard_normal((M, N), np.float32)
sums, least, most = (zeros(length, np.float32) for length in (M, N, M))
place = zeros(M, np.int32)
reduce[(1,)](Array(x), sums, least, most, place, M=M, N=N)
close(sums.numpy(), x.sum(1), 1e-4)
close(least.numpy(), x.min(0), 0)
close(most.numpy(), x.max(1), 0)
close(place.numpy(), x.argmax(1), 0)
