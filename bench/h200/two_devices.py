#!/usr/bin/env python3
"""Two GPUs under mixed load: natively, under NVIDIA's MPS and through openmps, in the same run.

    two_devices.py DIST --output FILE [--ways native,mps,openmps] [--parts serving,upgrade,shares,faulting] [--seconds S]

    serving   two LLM decode servers (serving.py) on each device, a data-parallel training of ResNet-18 with a rank on
              each, and both at once: tokens and steps a second, beside those alone
    upgrade   both at once, and `openmps upgrade` in the middle (openmps only)
    shares    two programs on each device with shares that differ by device (30 and 60 % there, 60 and 30 % here):
              products a second of each, over that of one alone with all SMs (not natively)
    faulting  a program with contexts on both devices writes to a bad address on the first: what its next calls on
              each device answer

What faults, kills and upgrades cost programs on the other device: recovery.py --device 0. FILE is JSON, written after
each part; a table is printed. Needs PyTorch and torchvision; five minutes. Called as `two_devices.py worker NAME ...`,
it is one of the programs.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from multi import say  # noqa: E402
from serving import result_of, start_server, summary  # noqa: E402

PARTS = ("serving", "upgrade", "shares", "faulting")
SLOTS = 4
# Shares in percent of the two programs on each device.
SHARES = ((30, 60), (60, 30))


def training_rank(rank, ranks, port, directory, count, seconds):
    import torch
    import torch.distributed as dist
    from networks import data_parallel, wait_for_all

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    step = data_parallel(rank)
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    if rank == 0:
        wait_for_all(directory, "serving", count)
    dist.barrier()
    torch.cuda.synchronize()
    begin, steps, over = time.perf_counter(), 0, torch.zeros(1, device="cuda")
    while True:
        loss = step()
        steps += 1
        if steps % 10 == 0:
            # The ranks agree on when to end.
            over.fill_(float(time.perf_counter() - begin > seconds))
            dist.all_reduce(over)
            if float(over) > 0:
                break
    took = time.perf_counter() - begin
    if rank == 0:
        say(steps_per_s=steps / took, loss=float(loss))
    dist.destroy_process_group()


def training(directory, count, seconds):
    import torch.multiprocessing as mp

    mp.spawn(training_rank, (2, 29500 + os.getpid() % 500, directory, count, seconds), nprocs=2)


def products(directory, count, seconds):
    """Products that fill the device."""
    import torch
    from networks import wait_for_all

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    b = torch.empty_like(a)
    for _ in range(3):
        torch.mm(a, a, out=b)
    torch.cuda.synchronize()
    wait_for_all(directory, "shares", count)
    begin, rounds = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(4):
            torch.mm(a, a, out=b)
        torch.cuda.synchronize()
        rounds += 4
    say(per_s=rounds / (time.perf_counter() - begin),
        sms=torch.cuda.get_device_properties(0).multi_processor_count)


STRAY_PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry stray() {
    .reg .b64 %a;
    .reg .b32 %v;
    mov.b64 %a, 64;
    mov.b32 %v, 1;
    st.global.b32 [%a], %v;
    ret;
}
\0"""


def faulting():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
    contexts, memory = [], []
    assert cuda.cuInit(0) == 0
    for device in (0, 1):
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), 4096) == 0
        contexts.append(context)
        memory.append(address)

    def calls(device):
        cuda.cuCtxSetCurrent(contexts[device])
        here, more = ctypes.create_string_buffer(16), ctypes.c_uint64()
        return {"synchronize": cuda.cuCtxSynchronize(), "copy": cuda.cuMemcpyDtoH_v2(here, memory[device], 16),
                "allocate": cuda.cuMemAlloc_v2(ctypes.byref(more), 64)}

    before = [calls(0), calls(1)]
    cuda.cuCtxSetCurrent(contexts[0])
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), STRAY_PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"stray") == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    say(before=before, after=[calls(0), calls(1)], again=[calls(0), calls(1)])


def start(way, *words, **variables):
    command = [sys.executable, str(HERE / "two_devices.py"), "worker", *map(str, words)]
    return subprocess.Popen(command, env={**way.environment, **variables}, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def mixed(way, seconds, servers=True, trains=True, meanwhile=None):
    """Two servers a device and a training across both, of which either may be left out."""
    with tempfile.TemporaryDirectory() as directory:
        count = 4 * servers + trains
        group = [start_server(way.environment, directory, number, count, slots=SLOTS, seconds=seconds,
                              CUDA_VISIBLE_DEVICES=str(number // 2)) for number in range(4 * servers)]
        train = start(way, "training", directory, count, seconds) if trains else None
        if meanwhile:
            threading.Thread(target=meanwhile, args=(directory, count), daemon=True).start()
        figures = {}
        results = [result_of(process) for process in group]
        for device in (0, 1):
            if servers:
                figures[f"servers_{device}"] = summary(results[2 * device : 2 * device + 2])
        if trains:
            figures["training"] = result_of(train)
        return figures


def serving(way, seconds):
    return {"servers_alone": mixed(way, seconds, trains=False), "training_alone": mixed(way, seconds, servers=False),
            "both": mixed(way, seconds)}


def upgrade(way, seconds):
    if way.name != "openmps":
        return {}
    said = {}

    def act(directory, count):
        while sum(entry.startswith("serving.") for entry in os.listdir(directory)) < count:
            time.sleep(0.05)
        time.sleep(seconds / 2)
        begin = time.monotonic()
        done = subprocess.run([way.dist / "bin/openmps", "upgrade"], env=way.environment, text=True,
                              capture_output=True, timeout=60)
        said.update(status=done.returncode, took_ms=1e3 * (time.monotonic() - begin),
                    text=(done.stdout + done.stderr).strip()[-500:])

    figures = mixed(way, seconds, meanwhile=act)
    return {**figures, "upgrade": said}


def shares(way, seconds):
    if way.name == "native":
        return {}

    def group(places):
        with tempfile.TemporaryDirectory() as directory:
            started = [start(way, "products", directory, len(places), seconds, CUDA_VISIBLE_DEVICES=str(device),
                             CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(percent)) for device, percent in places]
            return [result_of(process) for process in started]

    alone = group([(0, 100), (1, 100)])
    places = [(device, percent) for device in (0, 1) for percent in SHARES[device]]
    figures = {}
    for (device, percent), result in zip(places, group(places)):
        wrong = [r["error"] for r in (result, alone[device]) if "error" in r]
        figures[f"device_{device}_{percent}_percent"] = (
            {"error": wrong[0]} if wrong else {"of_alone": result["per_s"] / alone[device]["per_s"], "sms": result["sms"]})
    return figures


def measure(way, part, seconds):
    if part == "faulting":
        return result_of(start(way, "faulting"), 60)
    return {"serving": serving, "upgrade": upgrade, "shares": shares}[part](way, seconds)


def rows(figures, name=""):
    """Each figure by its path."""
    if isinstance(figures, dict):
        for key, value in figures.items():
            yield from rows(value, f"{name}.{key}" if name else key)
    else:
        yield name, figures


def table(found):
    names = dict.fromkeys(name for parts in found.values() for name, _ in rows(parts))
    by_way = {way: dict(rows(parts)) for way, parts in found.items()}
    lines = []
    for name in names:
        cells = [by_way[way].get(name, "-") for way in found]
        lines.append(f"{name:48} " + " ".join(
            f"{c:>14.2f}" if isinstance(c, float) else f"{str(c)[:60]:>14}" for c in cells))
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["worker"]:
        name, *words = sys.argv[2:]
        if name == "faulting":
            return faulting()
        directory, count, seconds = words
        return {"training": training, "products": products}[name](directory, int(count), float(seconds))
    from common import Way, log, vendor_control

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.ways.split(","):
        if name == "mps" and vendor_control() is None:
            continue
        way = Way(name, options.dist.resolve())
        here = found.setdefault(name, {})
        for part in options.parts.split(","):
            # A daemon for each part: a fault under NVIDIA's MPS is not the next part's.
            with way.running():
                here[part] = measure(way, part, options.seconds)
            options.output.write_text(json.dumps(found, indent=1) + "\n")
            log(f"{name} {part}: {json.dumps(here[part])[:400]}")
    print(table(found), flush=True)


if __name__ == "__main__":
    main()
