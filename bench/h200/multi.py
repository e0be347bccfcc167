#!/usr/bin/env python3
"""Several GPUs: native, NVIDIA's MPS and openmps, in the same run.

    multi.py DIST --output FILE [--ways native,mps,openmps] [--parts list,peer,sharing,nccl,ddp,visible,pairs]

DIST is an installation, as for run.py. On two GPUs with PyTorch about five minutes:

    list     how many devices torch sees, and their UUIDs; for the two with a daemon also `device_query` and `ps`
    peer     copies between the first two devices, GB/s, both ways
    sharing  the sample `sharing`: what NCCL shares between processes and within one, call by call
    nccl     all-reduce of a rank a device: 1, 64 and 512 MiB, GiB/s of the bus, and whether the sums are right; if it does
             not start, again as nccl_legacy with NCCL_CUMEM_ENABLE=0
    ddp      data-parallel training of ResNet-18: steps a second and the loss
    visible  CUDA_VISIBLE_DEVICES=1: the one device that a program sees, by its UUID, and a sum on it
    pairs    two programs on each device at once, work of each beside alone: 2.0 is no loss

Called by itself as `multi.py worker PART ...`, it is one of these programs. Prints a table of the figures
and openmps's share of native, and writes all as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run import Way, vendor_control  # noqa: E402

PARTS = ("list", "peer", "sharing", "nccl", "ddp", "visible", "pairs")
LIMIT_S = 180
SIZES_MIB = (1, 64, 512)


def say(**fields):
    print("RESULT " + json.dumps(fields), flush=True)


def port():
    return 29500 + os.getpid() % 500


def list_devices():
    import torch

    count = torch.cuda.device_count()
    uuids = [str(torch.cuda.get_device_properties(i).uuid) for i in range(count)]
    sums = [float(torch.ones(4, device=f"cuda:{i}").sum()) for i in range(count)]
    say(devices=count, uuids=uuids, sums=sums)


def peer():
    import torch

    a = torch.randn(64 << 20, device="cuda:0")
    b = torch.empty_like(a, device="cuda:1")
    fields = {"can_access": torch.cuda.can_device_access_peer(0, 1)}
    for name, (source, target) in {"there": (a, b), "back": (b, a)}.items():
        def wait():
            torch.cuda.synchronize(0)
            torch.cuda.synchronize(1)

        target.copy_(source)
        wait()
        start = time.time()
        for _ in range(20):
            target.copy_(source)
        wait()
        fields[f"gb_per_s_{name}"] = 20 * a.numel() * 4 / 1e9 / (time.time() - start)
    fields["right"] = bool((a.cpu() == b.cpu()).all())
    say(**fields)


def nccl_rank(rank, ranks, where):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(where))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    for mib in SIZES_MIB:
        x = torch.full((mib << 18,), float(rank + 1), device="cuda")
        dist.all_reduce(x)
        torch.cuda.synchronize()
        right = bool((x == ranks * (ranks + 1) / 2).all())
        times = 20
        start = time.time()
        for _ in range(times):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        each = (time.time() - start) / times
        if rank == 0:
            say(**{f"gib_per_s_{mib}": mib / 1024 / each * 2 * (ranks - 1) / ranks, f"right_{mib}": right})
    dist.destroy_process_group()


def ddp_rank(rank, ranks, where):
    import torch
    import torch.distributed as dist
    import torchvision
    from torch.nn.parallel import DistributedDataParallel

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(where))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    model = DistributedDataParallel(torchvision.models.resnet18().cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(32, 3, 224, 224, generator=generator).cuda()
    y = torch.randint(0, 1000, (32,), generator=generator).cuda()
    warm_up, steps = 10, 60
    for step in range(warm_up + steps):
        if step == warm_up:
            torch.cuda.synchronize()
            start = time.time()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    if rank == 0:
        say(steps_per_s=steps / (time.time() - start), loss=float(loss))
    dist.destroy_process_group()


def spawned(rank_function):
    import torch
    import torch.multiprocessing as mp

    ranks = torch.cuda.device_count()
    mp.spawn(rank_function, (ranks, port()), nprocs=ranks)


def small_work(device, seconds):
    """Kernels of few blocks, so that two programs fit beside each other."""
    import torch

    torch.cuda.set_device(device)
    x = torch.randn(256, 256, device="cuda")
    for _ in range(20):
        y = x @ x
    torch.cuda.synchronize()
    rounds, end = 0, time.time() + seconds
    while time.time() < end:
        for _ in range(50):
            y = x @ x
        torch.cuda.synchronize()
        rounds += 1
    say(device=device, rounds_per_s=rounds / seconds, value=float(y[0, 0]))


def worker(part, arguments):
    if part in ("list", "visible"):
        list_devices()
    elif part == "peer":
        peer()
    elif part == "nccl":
        spawned(nccl_rank)
    elif part == "ddp":
        spawned(ddp_rank)
    elif part == "work":
        small_work(int(arguments[0]), float(arguments[1]))


def results(output):
    fields = {}
    for line in output.splitlines():
        if line.startswith("RESULT "):
            fields.update(json.loads(line[len("RESULT "):]))
    return fields


def start(way, *words, **variables):
    command = [sys.executable, os.path.abspath(__file__), "worker", *words]
    environment = dict(way.environment, **variables)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def finish(process):
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        errors += f"\nno end after {LIMIT_S} s"
    fields = results(output)
    if process.returncode != 0 or not fields:
        fields["error"] = (errors or output).strip()[-4000:]
    return fields


def pairs(way, seconds=4.0):
    """Work of two programs on each device at once, beside one alone."""
    alone = finish(start(way, "work", "0", str(seconds)))
    group = [start(way, "work", str(device), str(seconds)) for device in (0, 0, 1, 1)]
    ends = [finish(process) for process in group]
    errors = [end["error"] for end in [alone, *ends] if "error" in end]
    if errors:
        return {"error": errors[0]}
    sums = [sum(end["rounds_per_s"] for end in ends if end["device"] == device) for device in (0, 1)]
    return {f"gain_device_{device}": total / alone["rounds_per_s"] for device, total in enumerate(sums)}


def control(way, command):
    own = str(way.dist / "bin/nvidia-cuda-mps-control")
    program = own if way.name == "openmps" else vendor_control()
    done = subprocess.run([program], input=command + "\n", text=True, env=way.environment,
                          capture_output=True, timeout=30)
    return done.stdout.splitlines()


def sharing(way):
    sample = way.dist / "lib/openmps/samples/sharing"
    try:
        done = subprocess.run([str(sample)], env=dict(way.environment, OPENMPS_TRACE="errors"),
                              capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"error": "no end after 60 s"}
    if done.returncode != 0:
        return {"error": (done.stderr or done.stdout).strip()[-2000:]}
    return {"said": done.stdout.strip()}


def measure(way, part):
    if part == "pairs":
        return pairs(way)
    if part == "sharing":
        return sharing(way)
    variables = {"CUDA_VISIBLE_DEVICES": "1"} if part == "visible" else {}
    if part in ("nccl", "ddp"):
        # What it says where it fails; nothing else.
        variables = {"NCCL_DEBUG": "WARN", "OPENMPS_TRACE": "errors"}
    fields = finish(start(way, part, **variables))
    if part == "nccl" and "error" in fields:
        fields["nccl_legacy"] = finish(start(way, part, NCCL_CUMEM_ENABLE="0", **variables))
    return fields


def table(found):
    """A line a figure: each way's, and openmps's share of native."""
    figures = {}
    for name, parts in found.items():
        for part, fields in parts.items():
            for key, value in fields.items():
                figures.setdefault((part, key), {})[name] = value
    lines = []
    for (part, key), values in figures.items():
        share = ""
        numbers = [values.get("native"), values.get("openmps")]
        if all(isinstance(n, float) and n for n in numbers):
            share = f"{numbers[1] / numbers[0]:.3f}"
        cells = [f"{v:.1f}" if isinstance(v, float) else str(v)[:60] for v in (values.get(n, "-") for n in found)]
        lines.append(f"{part:8} {key:18} " + " ".join(f"{cell:>20}" for cell in cells) + f" {share:>8}")
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    found = {}
    for name in options.ways.split(","):
        way = Way(name, options.dist.resolve())
        with way.running():
            found[name] = {part: measure(way, part) for part in options.parts.split(",")}
            if name != "native" and "list" in found[name]:
                commands = ("device_query", "get_server_list", "get_device_client_list")
                found[name]["list"]["control"] = {command: control(way, command) for command in commands}
        if any("error" in fields for fields in found[name].values()):
            found[name]["log"] = {"end": way.log[-4000:]}
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
