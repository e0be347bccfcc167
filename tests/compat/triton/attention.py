"""Attention in tiles with a running maximum (flash attention), causal, in half precision; edges are masked."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def attention(q, k, v, out, length, scale, TILE_M: tl.constexpr, TILE_N: tl.constexpr, WIDTH: tl.constexpr):
    base = tl.program_id(1) * length * WIDTH
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    d = tl.arange(0, WIDTH)
    queries = tl.load(q + base + m[:, None] * WIDTH + d[None, :], mask=m[:, None] < length, other=0)
    most = tl.full((TILE_M,), -float("inf"), tl.float32)
    total = tl.zeros((TILE_M,), tl.float32)
    sums = tl.zeros((TILE_M, WIDTH), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * TILE_M, TILE_N):
        n = start + tl.arange(0, TILE_N)
        keys = tl.load(k + base + n[None, :] * WIDTH + d[:, None], mask=n[None, :] < length, other=0)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where((m[:, None] >= n[None, :]) & (n[None, :] < length), scores, -1e30)
        new = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp(scores - new[:, None])
        older = tl.exp(most - new)
        total = total * older + tl.sum(powers, 1)
        values = tl.load(v + base + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < length, other=0)
        sums = tl.dot(powers.to(tl.float16), values, sums * older[:, None])
        most = new
    result = (sums / total[:, None]).to(tl.float16)
    tl.store(out + base + m[:, None] * WIDTH + d[None, :], result, mask=m[:, None] < length)


heads, length, width = 4, 200, 64
random = np.random.default_rng(7)
q, k, v = (random.standard_normal((heads, length, width), np.float32).astype(np.float16) for _ in range(3))
out = zeros(q.shape, np.float16)
grid = (triton.cdiv(length, 64), heads)
attention[grid](Array(q), Array(k), Array(v), out, length, width**-0.5, TILE_M=64, TILE_N=32, WIDTH=width, num_stages=3)
scores = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) * width**-0.5
scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
powers = np.exp(scores - scores.max(2, keepdims=True))
expected = np.einsum("hmn,hnd->hmd", powers / powers.sum(2, keepdims=True), v.astype(np.float64))
close(out.numpy(), expected, 2e-2)
