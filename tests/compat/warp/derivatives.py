"""Derivatives by a tape: a kernel and its adjoint."""

import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()
device = wp.get_device("cuda:0")


@wp.kernel
def loss(x: wp.array(dtype=float), target: wp.array(dtype=float), sum: wp.array(dtype=float)):
    i = wp.tid()
    away = wp.tanh(x[i]) - target[i]
    wp.atomic_add(sum, 0, away * away)


n = 3000
random = np.random.default_rng(3)
x, target = (random.standard_normal(n).astype(np.float32) for _ in range(2))
given = wp.array(x, device=device, requires_grad=True)
sum = wp.zeros(1, dtype=float, device=device, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(loss, dim=n, inputs=[given, wp.array(target, device=device), sum], device=device)
tape.backward(sum)
expected = 2 * (np.tanh(x) - target) * (1 - np.tanh(x) ** 2)
np.testing.assert_allclose(given.grad.numpy(), expected, rtol=1e-4, atol=1e-4)
np.testing.assert_allclose(sum.numpy()[0], ((np.tanh(x) - target) ** 2).sum(), rtol=1e-3)
