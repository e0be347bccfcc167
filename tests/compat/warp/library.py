"""Kernels of Warp's own library: sorting, scans, sums, hash grids, meshes, and a captured graph."""

import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()
device = wp.get_device("cuda:0")
random = np.random.default_rng(5)

x = random.integers(-1000, 1000, 2000).astype(np.int32)
keys, values = np.zeros(4000, np.int32), np.zeros(4000, np.int32)
keys[:2000], values[:2000] = x, np.arange(2000)
keys, values = wp.array(keys, device=device), wp.array(values, device=device)
wp.utils.radix_sort_pairs(keys, values, 2000)
np.testing.assert_array_equal(keys.numpy()[:2000], np.sort(x))
np.testing.assert_array_equal(values.numpy()[:2000], np.argsort(x, kind="stable"))

given, out = wp.array(x, device=device), wp.zeros(2000, dtype=int, device=device)
wp.utils.array_scan(given, out, inclusive=True)
np.testing.assert_array_equal(out.numpy(), np.cumsum(x))
assert wp.utils.array_sum(wp.array(x.astype(np.float32), device=device)) == x.sum()


@wp.kernel
def neighbours(grid: wp.uint64, points: wp.array(dtype=wp.vec3), near: float, count: wp.array(dtype=int)):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, points[i], near):
        if wp.length(points[j] - points[i]) < near:
            count[i] = count[i] + 1


points = random.random((400, 3)).astype(np.float32) * 4
on_device = wp.array(points, dtype=wp.vec3, device=device)
grid = wp.HashGrid(16, 16, 16, device=device)
grid.build(on_device, 0.6)
count = wp.zeros(400, dtype=int, device=device)
wp.launch(neighbours, dim=400, inputs=[grid.id, on_device, 0.6, count], device=device)
away = np.linalg.norm(points[:, None] - points[None], axis=2)
np.testing.assert_array_equal(count.numpy(), (away < 0.6).sum(1))


@wp.kernel
def rays(mesh: wp.uint64, starts: wp.array(dtype=wp.vec3), far: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, starts[i], wp.vec3(0.0, 0.0, -1.0), 100.0)
    if hit.result:
        far[i] = hit.t


corners = np.array([[-9, -9, 0], [9, -9, 0], [9, 9, 0], [-9, 9, 0]], np.float32)
mesh = wp.Mesh(
    wp.array(corners, dtype=wp.vec3, device=device), wp.array([0, 1, 2, 0, 2, 3], dtype=int, device=device)
)
far = wp.zeros(400, dtype=float, device=device)
wp.launch(rays, dim=400, inputs=[mesh.id, on_device, far], device=device)
np.testing.assert_allclose(far.numpy(), points[:, 2], atol=1e-4)


@wp.kernel
def double(y: wp.array(dtype=int)):
    y[wp.tid()] = y[wp.tid()] * 2


y = wp.array(np.arange(100, dtype=np.int32), device=device)
wp.load_module(device=device)
with wp.ScopedCapture(device=device) as capture:
    for _ in range(3):
        wp.launch(double, dim=100, inputs=[y], device=device)
for _ in range(2):
    wp.capture_launch(capture.graph)
np.testing.assert_array_equal(y.numpy(), np.arange(100) * 64)
