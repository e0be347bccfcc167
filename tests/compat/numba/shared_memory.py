"""Tiles in shared memory with barriers: a matrix product."""
import numpy as np
from numba import cuda, float32

TILE = 8


@cuda.jit
def product(a, b, out):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        sa[tx, ty] = a[x, tile * TILE + ty]
        sb[tx, ty] = b[tile * TILE + tx, y]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[tx, k] * sb[k, ty]
        cuda.syncthreads()
    out[x, y] = total


random = np.random.default_rng(1)
a = random.random((32, 48), dtype=np.float32)
b = random.random((48, 40), dtype=np.float32)
out = np.zeros((32, 40), dtype=np.float32)
product[(4, 5), (TILE, TILE)](a, b, out)
np.testing.assert_allclose(out, a @ b, rtol=1e-5)
