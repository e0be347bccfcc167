"""A product of matrices in tiles, with loads in flight: what the programs matmul_* launch."""

import numpy as np
import triton
import triton.language as tl

from . import Array, close, zeros


@triton.jit
def product(a, b, c, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, SUM: tl.constexpr):
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    n = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    total = tl.zeros((TILE_M, TILE_N), dtype=SUM)
    for start in range(0, K, TILE_K):
        inside = start + k < K
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(m[:, None] < M) & inside[None, :], other=0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=inside[:, None] & (n[None, :] < N), other=0)
        total = tl.dot(left, right, total, out_dtype=SUM)
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def check(a, b, total, kind, tolerance, tiles=(64, 64, 32), stages=3):
    """Multiplies on the device and compares."""
    (M, K), (_, N) = a.shape, b.shape
    c = zeros((M, N), kind)
    grid = (triton.cdiv(M, tiles[0]), triton.cdiv(N, tiles[1]))
    product[grid](
        Array(a), Array(b), c, M, N, K, TILE_M=tiles[0], TILE_N=tiles[1], TILE_K=tiles[2], SUM=total, num_stages=stages
    )
    close(c.numpy(), a.astype(np.float64) @ b.astype(np.float64), tolerance)
