"""Kernels of Triton, compiled to PTX without a GPU: python emitted_triton.py FOLDER"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    top = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * n + at, top / tl.sum(top, axis=0), mask=at < n)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + rows[:, None] * k + start + inner[None, :], mask=(rows[:, None] < m) & (start + inner[None, :] < k), other=0.0)
        right = tl.load(b + (start + inner[:, None]) * n + columns[None, :], mask=(start + inner[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def attention(q, k, v, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
    rows, d = tl.arange(0, BLOCK), tl.arange(0, D)
    left = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    top = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    made = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, n, BLOCK):
        other = start + tl.arange(0, BLOCK)
        keys = tl.load(k + other[None, :] * D + d[:, None], mask=other[None, :] < n, other=0.0)
        scores = tl.where(other[None, :] < n, tl.dot(left, keys), -1e30)
        new = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp(scores - new[:, None])
        old = tl.exp(top - new)
        total = total * old + tl.sum(weights, axis=1)
        values = tl.load(v + other[:, None] * D + d[None, :], mask=other[:, None] < n, other=0.0)
        made = tl.dot(weights.to(values.dtype), values, made * old[:, None])
        top = new
    tl.store(out + rows[:, None] * D + d[None, :], made / total[:, None], mask=rows[:, None] < n)


@triton.jit
def scan(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + at, mask=at < n, other=0)
    tl.store(out + at, tl.cumsum(row, axis=0), mask=at < n)
    tl.store(out + BLOCK + at, tl.sort(row), mask=at < n)
    tl.atomic_add(out + 2 * BLOCK + at % 7, row, mask=at < n)


def compile_to(folder, name, function, signature, constants, arch, **options):
    signature = {**signature, **{word: "constexpr" for word in constants}}
    source = ASTSource(function, signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    (folder / f"triton_{name}_{arch}.ptx").write_text(made.asm["ptx"])


def main():
    folder = Path(sys.argv[1])
    for arch in (80, 90, 100):
        for ty in ("fp32", "fp16", "i32"):
            one = {"x": f"*{ty}", "y": f"*{ty}", "out": f"*{ty}", "n": "i32"}
            compile_to(folder, f"add_{ty}", add, one, {"BLOCK": 1024}, arch)
        for ty in ("fp32", "fp16", "bf16"):
            row = {"x": f"*{ty}", "out": "*fp32", "n": "i32"}
            compile_to(folder, f"softmax_{ty}", softmax, row, {"BLOCK": 256}, arch)
            three = {"a": f"*{ty}", "b": f"*{ty}", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
            for stages in (1, 3):
                sizes = {"M": 64, "N": 64, "K": 32}
                compile_to(folder, f"matmul_{ty}_{stages}", matmul, three, sizes, arch, num_stages=stages)
            heads = {"q": f"*{ty}", "k": f"*{ty}", "v": f"*{ty}", "out": "*fp32", "n": "i32"}
            compile_to(folder, f"attention_{ty}", attention, heads, {"BLOCK": 32, "D": 32}, arch)
        compile_to(folder, "scan", scan, {"x": "*i32", "out": "*i32", "n": "i32"}, {"BLOCK": 256}, arch)


main()
