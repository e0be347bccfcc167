"""Softmax of rows, a row a program: reductions over a block."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


rows, columns = 61, 781
x = np.random.default_rng(2).standard_normal((rows, columns), np.float32)
out = zeros(x.shape, np.float32)
softmax[(rows,)](Array(x), out, columns, BLOCK=1024)
powers = np.exp(x - x.max(1, keepdims=True))
close(out.numpy(), powers / powers.sum(1, keepdims=True), 1e-5)
