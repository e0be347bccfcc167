"""JAX on the CUDA device, also where there is no NVIDIA device file, which is all that JAX looks for before it asks the driver."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from jax._src import hardware_utils  # noqa: E402

hardware_utils._NVIDIA_GPU_DEVICES.append("/proc/self")

import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)
CPU = jax.devices("cpu")[0]
GPU = jax.devices("cuda")[0]


def check(function, *arguments, tolerance=1e-5):
    """Compiles a function for the device and for the CPU; fails if what they give differs."""
    results = []
    for device in (GPU, CPU):
        with jax.default_device(device):
            given = [jax.device_put(argument, device) for argument in arguments]
            results.append(jax.tree.map(np.asarray, jax.jit(function)(*given)))
    got, expected = (jax.tree.leaves(result) for result in results)
    assert len(got) == len(expected) > 0
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=function.__name__)
