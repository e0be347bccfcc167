"""Atomic operations: additions, extrema, and a lock that programs take in turn."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def add(x, sums, most, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(sums + at % 7, values, mask=at < n)
    tl.atomic_max(most + at % 5, values, mask=at < n)


@triton.jit
def in_turn(lock, total):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total, volatile=True) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


n = 3000
x = np.random.default_rng(12).integers(0, 1000, n, np.int32)
sums, most = zeros(7, np.int32), zeros(5, np.int32)
add[(triton.cdiv(n, 256),)](Array(x), sums, most, n, BLOCK=256)
places = np.arange(n)
close(sums.numpy(), np.bincount(places % 7, x, 7), 0)
close(most.numpy(), [x[places % 5 == rest].max() for rest in range(5)], 0)
lock, total = zeros(1, np.int32), zeros(1, np.int32)
in_turn[(64,)](lock, total)
close(total.numpy(), [64], 0)
