"""Triton kernels of the program's own: a sum of vectors and a product of matrices."""

import hashlib

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def multiply(a, b, c, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        total += tl.dot(tl.load(a + rows[:, None] * n + inner[None, :]),
                        tl.load(b + inner[:, None] * n + columns[None, :]))
    tl.store(c + rows[:, None] * n + columns[None, :], total)


torch.manual_seed(0)
x, y = torch.randn(10_000).cuda(), torch.randn(10_000).cuda()
out = torch.empty_like(x)
add[(triton.cdiv(10_000, 1024),)](x, y, out, 10_000, BLOCK=1024)
print("add", torch.equal(out, x + y))
a, b = torch.randn(512, 512).half().cuda(), torch.randn(512, 512).half().cuda()
c = torch.empty(512, 512, device="cuda")
multiply[(8, 8)](a, b, c, 512, BLOCK=64)
error = (c - a.float() @ b.float()).norm() / c.norm()
print("multiply", error.item() < 1e-3, hashlib.sha256(c.cpu().numpy().tobytes()).hexdigest()[:16])
