"""A histogram: of each block by Triton's own, of all by atomic additions."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def count(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(bins + tl.arange(0, BINS), tl.histogram(values, BINS, mask=at < n))


n = 20000
x = np.random.default_rng(11).integers(0, 128, n, np.int32)
bins = zeros(128, np.int32)
count[(triton.cdiv(n, 1024),)](Array(x), bins, n, BLOCK=1024, BINS=128)
close(bins.numpy(), np.bincount(x, minlength=128), 0)
