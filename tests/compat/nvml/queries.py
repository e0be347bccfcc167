"""nvidia-ml-py: what is asked of a device, before and while this process uses it."""

import ctypes
import os

import pynvml as nvml

# Before nvmlInit.
try:
    nvml.nvmlDeviceGetCount()
    raise SystemExit("answered before nvmlInit")
except nvml.NVMLError as error:
    assert error.value == nvml.NVML_ERROR_UNINITIALIZED, error

nvml.nvmlInit()
assert nvml.nvmlDeviceGetCount() == 1
device = nvml.nvmlDeviceGetHandleByIndex(0)
name, uuid = nvml.nvmlDeviceGetName(device), nvml.nvmlDeviceGetUUID(device)
pci = nvml.nvmlDeviceGetPciInfo(device)
assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(uuid)) == 0
assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)) == 0
assert nvml.nvmlSystemGetDriverVersion().split(".")[0].isdigit()

# The same device as CUDA's.
cuda = ctypes.CDLL("libcuda.so.1")


def call(function, *arguments):
    status = getattr(cuda, function)(*arguments)
    assert status == 0, f"{function}: {status}"


version = ctypes.c_int()
call("cuDriverGetVersion", ctypes.byref(version))
assert nvml.nvmlSystemGetCudaDriverVersion() == version.value
before = nvml.nvmlDeviceGetMemoryInfo(device)
assert before.total == before.used + before.free
v2 = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
assert v2.total == before.total

call("cuInit", 0)
text = ctypes.create_string_buffer(256)
call("cuDeviceGetName", text, 256, 0)
assert text.value.decode() == name, (text.value, name)
raw = (ctypes.c_ubyte * 16)()
call("cuDeviceGetUuid", raw, 0)
assert bytes(raw).hex() == uuid.removeprefix("GPU-").replace("-", "")
major, minor = ctypes.c_int(), ctypes.c_int()
call("cuDeviceComputeCapability", ctypes.byref(major), ctypes.byref(minor), 0)
assert nvml.nvmlDeviceGetCudaComputeCapability(device) == (major.value, minor.value)
total = ctypes.c_size_t()
call("cuDeviceTotalMem_v2", ctypes.byref(total), 0)
assert total.value == before.total

# This process, with what it has.
BYTES = 64 << 20
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(BYTES))
call("cuMemsetD8_v2", pointer, 1, ctypes.c_size_t(BYTES))
call("cuCtxSynchronize")
mine = [row for row in nvml.nvmlDeviceGetComputeRunningProcesses(device) if row.pid == os.getpid()]
assert len(mine) == 1 and mine[0].usedGpuMemory >= BYTES, mine
during = nvml.nvmlDeviceGetMemoryInfo(device)
assert during.used >= BYTES, during
assert nvml.nvmlDeviceGetGraphicsRunningProcesses(device) == []
assert 0 <= nvml.nvmlDeviceGetUtilizationRates(device).gpu <= 100
call("cuMemFree_v2", pointer)

# What a software GPU has not.
for function, *arguments in [
    (nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
    (nvml.nvmlDeviceGetPowerUsage,),
    (nvml.nvmlDeviceGetFanSpeed,),
    (nvml.nvmlDeviceGetMigMode,),
    (nvml.nvmlDeviceSetPersistenceMode, 1),
]:
    try:
        function(device, *arguments)
        raise SystemExit(f"{function.__name__} was answered")
    except nvml.NVMLError as error:
        assert error.value == nvml.NVML_ERROR_NOT_SUPPORTED, (function, error)
nvml.nvmlShutdown()
