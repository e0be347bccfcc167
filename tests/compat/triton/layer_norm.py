"""Layer normalisation, forward and the gradient of its input."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def forward(x, weight, bias, out, means, scales, columns, EPSILON: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    values = tl.load(x + row * columns + at, mask=mask, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(mask, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + EPSILON)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    result = centred * scale * tl.load(weight + at, mask=mask) + tl.load(bias + at, mask=mask)
    tl.store(out + row * columns + at, result, mask=mask)


@triton.jit
def backward(x, weight, gradient, means, scales, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    scale = tl.load(scales + row)
    normal = (tl.load(x + row * columns + at, mask=mask, other=0.0) - tl.load(means + row)) * scale
    weighted = tl.load(weight + at, mask=mask, other=0.0) * tl.load(gradient + row * columns + at, mask=mask, other=0.0)
    normal = tl.where(mask, normal, 0.0)
    along = tl.sum(normal * weighted, axis=0) / columns
    mean = tl.sum(weighted, axis=0) / columns
    tl.store(out + row * columns + at, (weighted - (normal * along + mean)) * scale, mask=mask)


rows, columns, epsilon = 37, 500, 1e-5
random = np.random.default_rng(6)
x, gradient = (random.standard_normal((rows, columns), np.float32) for _ in range(2))
weight, bias = (random.standard_normal(columns, np.float32) for _ in range(2))
out, means, scales, back = (zeros(shape, np.float32) for shape in (x.shape, rows, rows, x.shape))
on_device = Array(x), Array(weight)
forward[(rows,)](*on_device, Array(bias), out, means, scales, columns, EPSILON=epsilon, BLOCK=512)
backward[(rows,)](*on_device, Array(gradient), means, scales, back, columns, BLOCK=512)
scale = 1 / np.sqrt(x.var(1, keepdims=True) + epsilon)
normal = (x - x.mean(1, keepdims=True)) * scale
close(out.numpy(), normal * weight + bias, 1e-4)
weighted = weight * gradient
along, mean = (normal * weighted).mean(1, keepdims=True), weighted.mean(1, keepdims=True)
close(back.numpy(), (weighted - (normal * along + mean)) * scale, 1e-4)
