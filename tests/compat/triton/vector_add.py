"""Addition of vectors, whose last block is masked."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


n = 98432
random = np.random.default_rng(1)
x, y = (random.random(n, np.float32) for _ in range(2))
out = zeros(n, np.float32)
add[(triton.cdiv(n, 1024),)](Array(x), Array(y), out, n, BLOCK=1024)
close(out.numpy(), x + y, 1e-6)
