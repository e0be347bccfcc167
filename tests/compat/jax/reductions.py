"""Reductions, scans and sorting."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

random = np.random.default_rng(3)
x = random.standard_normal((200, 333)).astype(np.float32)
i = random.integers(0, 50, 4000, np.int32)


def sums(x):
    return x.sum(), x.mean(0), x.var(1), x.prod(1)


def extrema(x):
    return x.max(0), x.min(1), x.argmax(1), x.argmin(0), jnp.isnan(x).any()


def softmax(x):
    return jax.nn.softmax(x), jax.nn.logsumexp(x, axis=0)


def running(x):
    return jnp.cumsum(x, 1), jax.lax.associative_scan(jnp.maximum, x, axis=0)


def sorting(x):
    return jnp.sort(x, 1), jnp.argsort(x[0]), jax.lax.top_k(x, 5)


def segments(i):
    return jax.ops.segment_sum(jnp.ones_like(i), i, 50), jnp.bincount(i, length=50)


check(sums, x, tolerance=1e-4)
check(extrema, x)
check(softmax, x)
check(running, x, tolerance=1e-3)
check(sorting, x)
check(segments, i)
