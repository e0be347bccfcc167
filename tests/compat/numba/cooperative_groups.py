"""A grid that meets at a barrier: each block reads what another wrote."""

import numpy as np
from numba import cuda


@cuda.jit
def shift(data):
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    for _ in range(5):
        value = data[(i + 64) % data.size]
        grid.sync()
        data[i] = value + 1
        grid.sync()


data = np.arange(256, dtype=np.int64)
device = cuda.to_device(data)
shift[4, 64](device)
np.testing.assert_array_equal(device.copy_to_host(), np.roll(data, -5 * 64) + 5)
