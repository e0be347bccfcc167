"""Loops, branches, and functions over batches."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

x = np.random.default_rng(4).standard_normal((64, 50)).astype(np.float32)


def while_loop(x):
    return jax.lax.while_loop(lambda state: state[0] < 10, lambda state: (state[0] + 1, jnp.cos(state[1])), (0, x))[1]


def scan(x):
    return jax.lax.scan(lambda carry, row: (carry * 0.5 + row, carry.sum()), jnp.zeros(x.shape[1]), x)


def branches(x):
    return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), jax.lax.switch(2, [jnp.sin, jnp.cos, jnp.tan], x * 0.1)


def batches(x):
    return jax.vmap(lambda row: jnp.interp(row, jnp.linspace(-1, 1, 5), jnp.arange(5.0)))(x)


def fixed_point(x):
    return jax.lax.fori_loop(0, 5, lambda n, value: value - (value**3 - x) / (3 * value**2 + 1), jnp.ones_like(x))


check(while_loop, x)
check(scan, x)
check(branches, x)
check(batches, x)
check(fixed_point, x, tolerance=1e-3)
