"""Kernels of Warp with their adjoints, compiled to PTX without a GPU: python emitted_warp.py FOLDER"""

import sys

import warp as wp

TILE = 64


@wp.func
def wave(x: float) -> float:
    return wp.sin(x) * wp.exp(-x * x) + wp.sqrt(wp.abs(x)) / (1.0 + wp.tanh(x) * wp.pow(wp.abs(x), 0.3))


@wp.kernel
def elementwise(x: wp.array(dtype=float), y: wp.array(dtype=float), count: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = wave(x[i]) + 2.0 * x[i]
    if x[i] > 1.0:
        wp.atomic_add(count, 0, 1)


@wp.kernel
def halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.float64(x[i] * x[i]) + wp.log(wp.abs(y[i]) + wp.float64(1.0))


@wp.kernel
def rotations(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    turn = wp.quat_from_axis_angle(wp.normalize(points[i] + wp.vec3(0.1, 0.2, 0.3)), 0.7)
    out[i] = wp.cross(wp.quat_rotate(turn, points[i]), wp.quat_rotate_inv(turn, out[i]))


@wp.kernel
def matrices(x: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.mat33), d: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    u = wp.mat33()
    v = wp.mat33()
    s = wp.vec3()
    wp.svd3(x[i], u, s, v)
    q = wp.mat33()
    r = wp.mat33()
    wp.qr3(y[i], q, r)
    d[i] = s
    y[i] = u * wp.diag(s) * wp.transpose(v) + q * r + wp.inverse(x[i] + wp.identity(n=3, dtype=float))


@wp.kernel
def random_numbers(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    state = wp.rand_init(42, i)
    x[i] = wp.randf(state) + wp.randn(state) + wp.noise(state, p[i]) + float(wp.poisson(state, 3.0))


@wp.kernel
def bits(x: wp.array(dtype=wp.uint64), y: wp.array(dtype=wp.int32)):
    i = wp.tid()
    a = x[i]
    for k in range(y[i] % 17):
        a = a * wp.uint64(6364136223846793005) + (a >> wp.uint64(33)) ^ wp.uint64(k)
    x[i] = a
    y[i] = wp.atomic_max(y, i % 7, wp.int32(a & wp.uint64(63))) - wp.atomic_min(y, i % 5, y[i])


@wp.kernel
def tiles(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i, lane = wp.tid()
    tile = wp.tile_load(x, shape=TILE, offset=i * TILE)
    wp.tile_store(y, wp.tile_map(wp.sin, tile), offset=i * TILE)
    wp.tile_atomic_add(y, wp.tile_sum(tile))
    wp.tile_atomic_add(y, wp.tile_max(tile))


wp.config.quiet = True
for arch in (80, 90):
    wp.compile_aot_module(sys.modules["__main__"], device=None, arch=arch, module_dir=sys.argv[1], use_ptx=True)
