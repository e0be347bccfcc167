"""cuda.core's linker: two PTX texts, one of which calls a function of the other."""

import numpy as np
from cuda.bindings import driver
from cuda.core import (
    Device,
    LaunchConfig,
    Linker,
    LinkerOptions,
    Program,
    ProgramOptions,
    launch,
)

MAIN = """
extern __device__ int square(int x);
extern "C" __global__ void kernel(int *out) { out[threadIdx.x] = square(threadIdx.x); }
"""
PART = "__device__ int square(int x) { return x * x; }"

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(arch="compute_80", relocatable_device_code=True)
parts = [Program(source, code_type="c++", options=options).compile("ptx") for source in (MAIN, PART)]
linked = Linker(*parts, options=LinkerOptions(arch="sm_80")).link("cubin")
out = device.memory_resource.allocate(4 * 32, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), linked.get_kernel("kernel"), out)
host = np.empty(32, dtype=np.int32)
(status,) = driver.cuMemcpyDtoHAsync(host.ctypes.data, int(out.handle), host.nbytes, stream.handle)
assert int(status) == 0
stream.sync()
np.testing.assert_array_equal(host, np.arange(32) ** 2)
