"""Numba with nvJitLink installed, by which it then links: a kernel, and one that calls a function of CUDA C."""

import numpy as np
from numba import cuda

SOURCE = cuda.CUSource("""
extern "C" __device__ int scaled(float *out, float x, int by) { *out = x * by; return 0; }
""")

scaled = cuda.declare_device("scaled", "float32(float32, int32)", link=SOURCE)


@cuda.jit
def add(values, more):
    i = cuda.grid(1)
    if i < values.size:
        values[i] += more


@cuda.jit
def scale(values, by):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = scaled(values[i], by)


values = np.arange(100, dtype=np.float32)
device = cuda.to_device(values)
add[2, 64](device, 1)
scale[2, 64](device, 3)
np.testing.assert_array_equal(device.copy_to_host(), (values + 1) * 3)
