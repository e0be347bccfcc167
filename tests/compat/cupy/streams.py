"""Streams, events, the memory pool and pinned memory."""
import cupy as cp
import numpy as np

pool = cp.get_default_memory_pool()
streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
results = []
start, end = cp.cuda.Event(), cp.cuda.Event()
start.record()
for by, stream in enumerate(streams, start=2):
    with stream:
        x = cp.arange(4096, dtype=cp.float32) * by
        results.append(x)
end.record()
for by, (stream, x) in enumerate(zip(streams, results), start=2):
    stream.synchronize()
    np.testing.assert_array_equal(x.get(), np.arange(4096, dtype=np.float32) * by)
end.synchronize()
assert cp.cuda.get_elapsed_time(start, end) >= 0
assert pool.used_bytes() > 0
pinned = cp.cuda.alloc_pinned_memory(4096)
host = np.frombuffer(pinned, np.float32, 1024)
host[...] = 7
device = cp.empty(1024, dtype=cp.float32)
device.set(host)
assert float(device.sum()) == 7 * 1024
pool.set_limit(size=1 << 28)
del x, results, device
pool.free_all_blocks()
assert pool.used_bytes() == 0
