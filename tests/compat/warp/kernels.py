"""Kernels over arrays: arithmetic, vectors, functions of one's own, atomic additions."""

import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()
device = wp.get_device("cuda:0")


@wp.func
def wave(x: float) -> float:
    return wp.sin(x) * wp.exp(-x * x)


@wp.kernel
def apply(x: wp.array(dtype=float), y: wp.array(dtype=float), total: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = wave(x[i]) + 2.0 * x[i]
    if x[i] > 0.0:
        wp.atomic_add(total, 0, 1)


@wp.kernel
def turn(points: wp.array(dtype=wp.vec3), by: wp.quat, out: wp.array(dtype=wp.vec3)):
    out[wp.tid()] = wp.quat_rotate(by, points[wp.tid()])


n = 10001
x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
given, y, total = wp.array(x, device=device), wp.zeros(n, dtype=float, device=device), wp.zeros(1, dtype=int, device=device)
wp.launch(apply, dim=n, inputs=[given, y, total], device=device)
np.testing.assert_allclose(y.numpy(), np.sin(x) * np.exp(-x * x) + 2 * x, rtol=1e-5, atol=1e-5)
assert total.numpy()[0] == (x > 0).sum()

points = np.random.default_rng(2).standard_normal((500, 3)).astype(np.float32)
out = wp.zeros(500, dtype=wp.vec3, device=device)
quarter = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), np.pi / 2)
wp.launch(turn, dim=500, inputs=[wp.array(points, dtype=wp.vec3, device=device), quarter, out], device=device)
np.testing.assert_allclose(out.numpy(), points[:, [1, 0, 2]] * [-1, 1, 1], atol=1e-5)
