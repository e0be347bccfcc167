"""A stream captured into a graph."""
import cupy as cp
import numpy as np

x = cp.zeros(100, dtype=cp.float32)
x += 1
stream = cp.cuda.Stream(non_blocking=True)
cp.cuda.Device().synchronize()
with stream:
    stream.begin_capture()
    x += 1
    graph = stream.end_capture()
    for _ in range(3):
        graph.launch()
stream.synchronize()
np.testing.assert_array_equal(x.get(), np.full(100, 4, dtype=np.float32))
