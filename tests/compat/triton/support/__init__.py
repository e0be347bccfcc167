"""Arrays in device memory for Triton's kernels, by the driver API: what PyTorch's tensors are to it otherwise."""

import ctypes

import numpy as np

CUDA = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(CUDA, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: CUDA error {code}")


def context():
    """Makes the first device's primary context current."""
    device, handle = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
    call("cuCtxSetCurrent", handle)


context()


class Array:
    """A copy of a NumPy array on the device; Triton asks it for `data_ptr` and `dtype`."""

    def __init__(self, values):
        values = np.ascontiguousarray(values)
        self.shape, self.kind, self.bytes = values.shape, values.dtype, max(values.nbytes, 1)
        self.dtype = str(values.dtype)
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.bytes))
        call("cuMemcpyHtoD_v2", self.address, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))

    def data_ptr(self):
        return self.address.value

    def stride(self, axis):
        return int(np.prod(self.shape[axis + 1 :], dtype=np.int64))

    def numpy(self):
        """What it holds, once the kernels before are done."""
        values = np.empty(self.shape, self.kind)
        call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), self.address, ctypes.c_size_t(values.nbytes))
        return values

    def __del__(self):
        CUDA.cuMemFree_v2(self.address)


def zeros(shape, kind):
    return Array(np.zeros(shape, kind))


def close(got, expected, tolerance):
    """Fails if the results differ, and says where first."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    wrong = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise SystemExit(f"{wrong.sum()} of {wrong.size} wrong, first at {place}: {got[place]}, expected {expected[place]}")
