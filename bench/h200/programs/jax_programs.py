"""JAX: products, reductions, random numbers and a training loop, compiled by XLA."""

import hashlib
import os

# JAX takes three quarters of the device's memory otherwise.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# XLA chooses among algorithms by what is fastest at the moment, and they round differently.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp
import numpy as np


def show(name, value):
    print(f"{name:10} {hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:16]}")


print(jax.devices()[0].platform)
key = jax.random.PRNGKey(0)
a = jax.random.normal(key, (512, 512))
show("random", a)
show("matmul", a @ a)
show("fused", jnp.tanh(a).sum(0) + jnp.sort(a, 1)[0])
weights = jax.random.normal(key, (512, 10)) * 0.01


@jax.jit
def step(weights):
    def loss(weights):
        return -jax.nn.log_softmax(a @ weights)[:, 3].mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


for index in range(5):
    weights, value = step(weights)
    print("loss", index, f"{float(value):.6f}")
