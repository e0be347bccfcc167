"""Products of matrices: XLA's own kernels, made by Triton within it, where cuBLAS has no PTX."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

random = np.random.default_rng(2)
a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((256, 256), (256, 256)))
c, d = (random.standard_normal(shape).astype(np.float32) for shape in ((100, 70), (70, 130)))
q, k, v = (random.standard_normal((2, 64, 4, 32)).astype(np.float32) for _ in range(3))


def product(a, b):
    return a @ b


def product_with_more(c, d):
    return jax.nn.relu(c @ d + 1)


def halves(a, b):
    return jnp.dot(a.astype(jnp.float16), b.astype(jnp.float16), preferred_element_type=jnp.float32)


def batches(q, k):
    return jnp.einsum("bmhd,bnhd->bhmn", q, k)


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v)


def vector(a, c):
    return a @ a[0]


check(product, a, b, tolerance=3e-1)
check(product_with_more, c, d, tolerance=1e-1)
check(halves, a, b, tolerance=5e-1)
check(batches, q, k, tolerance=1e-1)
check(attention, q, k, v, tolerance=5e-2)
check(vector, a, c, tolerance=3e-1)
