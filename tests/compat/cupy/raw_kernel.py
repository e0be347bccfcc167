"""CUDA C++ compiled at run time: RawKernel and RawModule with a constant."""
import cupy as cp
import numpy as np

add = cp.RawKernel(
    r"""extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }""",
    "add",
)
a = cp.arange(1000, dtype=cp.float32)
c = cp.zeros_like(a)
add((8,), (128,), (a, a * 2, c, np.int32(1000)))
np.testing.assert_array_equal(cp.asnumpy(c), np.arange(1000, dtype=np.float32) * 3)

module = cp.RawModule(
    code=r"""__constant__ float factor[2];
    template <typename T> __global__ void scale(T *x, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) x[i] = x[i] * T(factor[0]) + T(factor[1]);
    }""",
    options=("-std=c++17",),
    name_expressions=["scale<float>", "scale<double>"],
)
for name, dtype in (("scale<float>", cp.float32), ("scale<double>", cp.float64)):
    kernel = module.get_function(name)
    factor = cp.ndarray(2, cp.float32, module.get_global("factor"))
    factor[...] = cp.asarray([3, 4], dtype=cp.float32)
    x = cp.arange(500, dtype=dtype)
    kernel((4,), (128,), (x, np.int32(500)))
    np.testing.assert_array_equal(cp.asnumpy(x), np.arange(500, dtype=dtype) * 3 + 4)
