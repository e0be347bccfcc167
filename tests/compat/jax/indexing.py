"""Gathers, scatters, slices and transpositions."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

random = np.random.default_rng(5)
x = random.standard_normal((80, 90)).astype(np.float32)
places = random.integers(0, 80, 500, np.int32)


def gather(x, places):
    return x[places], jnp.take_along_axis(x, places[:90][None, :], 0)


def scatter(x, places):
    return x.at[places].add(1.0), x.at[places, 3].max(2.0)


def slices(x):
    return jax.lax.dynamic_slice(x, (3, 4), (20, 30)), jax.lax.dynamic_update_slice(x, x[:5, :5] * 2, (70, 80))


def shapes(x):
    return x.T, jnp.concatenate([x, x * 2], 1), jnp.pad(x, 2), jnp.roll(x, 7, 1), x[::-1, ::2]


check(gather, x, places)
check(scatter, x, places)
check(slices, x)
check(shapes, x)
