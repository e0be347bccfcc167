"""CuPy's memory pools: what is freed is kept, counted, limited and given back."""
import cupy as cp
import numpy as np

pool = cp.get_default_memory_pool()
pool.free_all_blocks()
a = cp.zeros(1 << 20, dtype=cp.uint8)
assert pool.used_bytes() == 1 << 20 and pool.total_bytes() >= 1 << 20
del a
assert pool.used_bytes() == 0 and pool.total_bytes() >= 1 << 20
b = cp.ones(1 << 18, dtype=cp.float32)
np.testing.assert_array_equal(cp.asnumpy(b), 1)
del b
pool.free_all_blocks()
assert pool.total_bytes() == 0
pool.set_limit(size=1 << 20)
try:
    cp.zeros(1 << 21, dtype=cp.uint8)
    raise SystemExit("more than the limit was allocated")
except cp.cuda.memory.OutOfMemoryError:
    pass
pool.set_limit(size=0)

stream_ordered = cp.cuda.MemoryAsyncPool()
with cp.cuda.using_allocator(stream_ordered.malloc):
    c = cp.arange(1000)
    assert int(c.sum()) == 499500
    del c
pinned = cp.cuda.alloc_pinned_memory(4000)
host = np.frombuffer(pinned, np.float32, 1000)
host[...] = np.arange(1000)
np.testing.assert_array_equal(cp.asnumpy(cp.asarray(host) * 2), np.arange(1000) * 2)
