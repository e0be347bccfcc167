"""cuda.bindings: driver API, runtime API and NVRTC by hand."""

import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime

SOURCE = b"""
extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""
N = 10_000


def check(answer):
    status, *values = answer
    assert int(status) == 0, status
    return values[0] if len(values) == 1 else values


check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
context = check(driver.cuDevicePrimaryCtxRetain(device))
check(driver.cuCtxSetCurrent(context))

program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"axpy.cu", 0, [], []))
check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
check(nvrtc.nvrtcGetPTX(program, ptx))
module = check(driver.cuModuleLoadData(ptx))
kernel = check(driver.cuModuleGetFunction(module, b"axpy"))

x, y = np.arange(N, dtype=np.float32), np.ones(N, dtype=np.float32)
device_x, device_y = (check(driver.cuMemAlloc(array.nbytes)) for array in (x, y))
stream = check(driver.cuStreamCreate(0))
check(driver.cuMemcpyHtoDAsync(device_x, x.ctypes.data, x.nbytes, stream))
check(driver.cuMemcpyHtoDAsync(device_y, y.ctypes.data, y.nbytes, stream))
values = (2.5, int(device_x), int(device_y), N)
types = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
check(driver.cuLaunchKernel(kernel, (N + 255) // 256, 1, 1, 256, 1, 1, 0, stream, (values, types), 0))
out = np.empty_like(y)
check(driver.cuMemcpyDtoHAsync(out.ctypes.data, device_y, out.nbytes, stream))
check(driver.cuStreamSynchronize(stream))
np.testing.assert_allclose(out, y + 2.5 * x)

# The runtime API, on the same context.
assert check(runtime.cudaGetDeviceCount()) == 1
properties = check(runtime.cudaGetDeviceProperties(0))
assert properties.major >= 8 and properties.multiProcessorCount > 0
memory = check(runtime.cudaMalloc(out.nbytes))
check(runtime.cudaMemcpy(memory, int(device_y), out.nbytes, runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice))
again = np.empty_like(out)
check(runtime.cudaMemcpy(again.ctypes.data, memory, out.nbytes, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
np.testing.assert_array_equal(again, out)
check(runtime.cudaFree(memory))
check(driver.cuMemFree(device_x))
check(driver.cuMemFree(device_y))
check(driver.cuModuleUnload(module))
check(driver.cuStreamDestroy(stream))
check(driver.cuDevicePrimaryCtxRelease(device))
