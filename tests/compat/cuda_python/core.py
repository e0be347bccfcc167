"""cuda.core: a program compiled to PTX, buffers, streams, events, and a launch with a configuration."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
template <typename T> __global__ void scale(T *values, T by, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] *= by;
}
"""
N = 5000

device = Device()
device.set_current()
stream = device.create_stream()
assert device.properties.multiprocessor_count > 0
program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch="compute_80"))
code = program.compile("ptx", name_expressions=("scale<float>", "scale<double>"))

for name, dtype in (("scale<float>", np.float32), ("scale<double>", np.float64)):
    kernel = code.get_kernel(name)
    values = np.arange(N, dtype=dtype)
    buffer = device.memory_resource.allocate(values.nbytes, stream=stream)
    out = np.empty_like(values)
    start = stream.record()
    (status,) = driver.cuMemcpyHtoDAsync(int(buffer.handle), values.ctypes.data, values.nbytes, stream.handle)
    assert int(status) == 0
    launch(stream, LaunchConfig(grid=16, block=128), kernel, buffer, dtype(3), np.uint64(N))
    (status,) = driver.cuMemcpyDtoHAsync(out.ctypes.data, int(buffer.handle), values.nbytes, stream.handle)
    assert int(status) == 0
    stream.sync()
    assert start.is_done
    np.testing.assert_array_equal(out, values * 3)
    buffer.close(stream)
stream.close()
