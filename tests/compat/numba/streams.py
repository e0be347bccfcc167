"""Streams, events, pinned memory, and a reduction."""
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


@cuda.reduce
def total(a, b):
    return a + b


streams = [cuda.stream() for _ in range(3)]
host = [cuda.pinned_array(4096, dtype=np.float32) for _ in streams]
start, end = cuda.event(), cuda.event()
start.record()
for by, (stream, array) in enumerate(zip(streams, host), start=2):
    array[:] = np.arange(4096)
    device = cuda.to_device(array, stream=stream)
    scale[32, 128, stream](device, by)
    device.copy_to_host(array, stream=stream)
for by, (stream, array) in enumerate(zip(streams, host), start=2):
    stream.synchronize()
    np.testing.assert_array_equal(array, np.arange(4096, dtype=np.float32) * by)
end.record()
end.synchronize()
assert start.elapsed_time(end) >= 0
assert total(np.arange(1000, dtype=np.int64)) == 499500
