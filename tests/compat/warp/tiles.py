"""Tiles: loads and stores, sums, and products within a block."""

import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()
device = wp.get_device("cuda:0")
ROWS, COLUMNS = 24, 256


@wp.kernel
def sums(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    row = wp.tid()
    tile = wp.tile_load(x[row], shape=COLUMNS)
    wp.tile_store(out[row], wp.tile_sum(tile))


x = np.random.default_rng(4).standard_normal((ROWS, COLUMNS)).astype(np.float32)
out = wp.zeros((ROWS, 1), dtype=float, device=device)
wp.launch_tiled(sums, dim=[ROWS], inputs=[wp.array(x, device=device), out], block_dim=64, device=device)
np.testing.assert_allclose(out.numpy()[:, 0], x.sum(1), rtol=1e-4, atol=1e-4)
