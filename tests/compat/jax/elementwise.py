"""Elementwise functions: arithmetic, mathematics, types, comparisons, complex numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

random = np.random.default_rng(1)
x, y = (random.standard_normal((300, 70)).astype(np.float32) for _ in range(2))
i = random.integers(-1000, 1000, 5000, np.int32)


def arithmetic(x, y):
    return x * y + jnp.where(x > y, x, -y) / (1 + y * y)


def mathematics(x):
    return jnp.exp(x), jnp.log(jnp.abs(x) + 1), jnp.sin(x), jnp.tanh(x), jax.scipy.special.erf(x), jnp.cbrt(x)


def activations(x):
    return jax.nn.gelu(x), jax.nn.softplus(x), jax.nn.sigmoid(x), jax.nn.relu(x)


def integers(i):
    return i // 7, i % 13, i << 3, i >> 2, i ^ 0x5A5A, jax.lax.population_count(i), jax.lax.clz(i)


def halves(x):
    return (x.astype(jnp.float16) * 2).astype(jnp.float32), (x.astype(jnp.bfloat16) + 1).astype(jnp.float32)


def doubles(x):
    wide = x.astype(jnp.float64)
    return jnp.exp(wide), jnp.sqrt(jnp.abs(wide)), jax.scipy.special.gammaln(jnp.abs(wide) + 0.5)


def complexes(x, y):
    z = x + 1j * y
    return jnp.abs(z), jnp.real(z * jnp.conj(z)), jnp.imag(jnp.exp(z))


check(arithmetic, x, y)
check(mathematics, x)
check(activations, x)
check(integers, i)
check(halves, x, tolerance=1e-2)
check(doubles, x, tolerance=1e-12)
check(complexes, x, y)
