"""Random numbers, derivatives, and steps of training a small network."""

import jax
import jax.numpy as jnp
import numpy as np
from support import check

random = np.random.default_rng(6)
x, target = random.standard_normal((64, 32)).astype(np.float32), random.standard_normal((64, 8)).astype(np.float32)
first, second = (random.standard_normal(shape).astype(np.float32) * 0.2 for shape in ((32, 48), (48, 8)))


def numbers(seed):
    key = jax.random.key(seed)
    return jax.random.uniform(key, (1000,)), jax.random.normal(key, (1000,)), jax.random.permutation(key, 100)


def loss(weights, x, target):
    hidden = jnp.tanh(x @ weights[0])
    return jnp.mean((hidden @ weights[1] - target) ** 2)


def gradient(first, second, x, target):
    return jax.grad(loss)((first, second), x, target)


def training(first, second, x, target):
    def step(weights, _):
        value, slope = jax.value_and_grad(loss)(weights, x, target)
        return jax.tree.map(lambda weight, by: weight - 0.1 * by, weights, slope), value

    return jax.lax.scan(step, (first, second), None, 20)[1]


def second_derivatives(x):
    return jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v**2))(x[0, :6])


check(numbers, np.uint32(7))
check(gradient, first, second, x, target, tolerance=2e-2)
check(training, first, second, x, target, tolerance=2e-2)
check(second_derivatives, x)
