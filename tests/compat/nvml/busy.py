"""Utilisation, seen from a process that does not use the device itself."""

import ctypes
import os
import subprocess
import sys
import time

import pynvml as nvml

# A kernel that goes on until a word is set; then it ends.
PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry wait_for(.param .u64 word)
{
    .reg .u64 %a; .reg .u32 %v; .reg .pred %p;
    ld.param.u64 %a, [word];
again:
    ld.volatile.u32 %v, [%a];
    setp.eq.u32 %p, %v, 0;
    @%p bra again;
    ret;
}
\0"""


def spin():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, function, word = (ctypes.c_void_p() for _ in range(4))
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"wait_for") == 0
    assert cuda.cuMemHostAlloc(ctypes.byref(word), ctypes.c_size_t(4096), 2) == 0
    ctypes.c_uint32.from_address(word.value).value = 0
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(word))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
    device_memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(device_memory), ctypes.c_size_t(8 << 20)) == 0
    print("running", flush=True)
    sys.stdin.readline()
    ctypes.c_uint32.from_address(word.value).value = 1
    assert cuda.cuCtxSynchronize() == 0


def shares_of_processes(device):
    try:
        return {row.pid: row.smUtil for row in nvml.nvmlDeviceGetProcessUtilization(device, 0)}
    except nvml.NVMLError_NotFound:
        return {}


def main():
    worker = subprocess.Popen([sys.executable, __file__, "spin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout.readline() == b"running\n"
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    nvml.nvmlDeviceGetUtilizationRates(device)
    time.sleep(0.5)
    busy = nvml.nvmlDeviceGetUtilizationRates(device).gpu
    clients = nvml.nvmlDeviceGetMPSComputeRunningProcesses(device)
    pids = [row.pid for row in nvml.nvmlDeviceGetComputeRunningProcesses(device)]
    shares = shares_of_processes(device)
    worker.communicate(b"\n")
    assert worker.returncode == 0
    assert busy > 20, busy
    assert worker.pid in pids, (worker.pid, pids)
    # A daemon knows whose kernel it was.
    assert worker.pid not in shares or shares[worker.pid] > 20, shares
    through_daemon = [row.pid for row in clients]
    assert (worker.pid in shares) == (worker.pid in through_daemon), (shares, through_daemon)
    # Asking has not made this process a user of the device, and its children may still use it.
    assert os.getpid() not in pids
    # A daemon takes a moment to see that its client is gone.
    for _ in range(100):
        after = [row.pid for row in nvml.nvmlDeviceGetComputeRunningProcesses(device)]
        if worker.pid not in after:
            return
        time.sleep(0.1)
    raise SystemExit(f"{worker.pid} has ended and is still listed: {after}")


if sys.argv[1:] == ["spin"]:
    spin()
else:
    main()
