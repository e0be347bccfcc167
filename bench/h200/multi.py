#!/usr/bin/env python3
"""Several GPUs: native, NVIDIA's MPS and openmps, in the same run.

    multi.py DIST --output FILE [--ways native,mps,openmps] [--parts list,peer,...] [--quick] [--timeout S] [--trace]

DIST is an installation, as for run.py. On two GPUs with PyTorch about seven minutes:

    list     how many devices torch sees, and their UUIDs; for the two with a daemon also `device_query` and `ps`
    peer     copies between the first two devices, GB/s, both ways
    sharing  the sample `sharing`: what NCCL shares between processes and within one, call by call
    nccl     all-reduce of a rank a device: 1, 64 and 512 MiB, GiB/s of the bus, and whether the sums are right; if it does
             not start, again as nccl_legacy with NCCL_CUMEM_ENABLE=0
    ddp      data-parallel training of ResNet-18: steps a second and the loss
    fsdp     fully sharded training of a transformer of 100 M parameters: steps a second and the loss
    stages   the same transformer as a pipeline of two stages of one process, with peer copies between them
    pipeline the same with a rank a stage and NCCL's send and receive (torch.distributed.pipelining)
    double   two data-parallel trainings at once, so two processes on each device: steps of both beside one alone
    small    all-reduces of 4 KiB and 1 MiB, 20 and 200 of them: how long a rank takes to ask for one, and to get it
    gaps     what a row of 64 MiB all-reduces consists of: each waited for by the stream, all asked for at once, as one CUDA
             graph (us each by the clock and by events, best of five); and of NCCL's kernels how long each takes and how long after the one before it
             begins, by PyTorch's profiler, through openmps by `openmps trace`
    chain    two streams of one device that wait for each other's events: as small, without NCCL
    visible  CUDA_VISIBLE_DEVICES=1: the one device that a program sees, by its UUID, and a sum on it
    pairs    two programs on each device at once, work of each beside alone: 2.0 is no loss

With --trace, programs and servers have OPENMPS_TRACE=calls: what programs waited for and what servers did for
each kind of request is in the output file (`waits`, `log`). It costs time: not for figures.
With --quick, models are small and steps few: what runs at all, in a third of the time; not for figures either.
A program that takes longer than --timeout is ended. Before that, what all processes wait for (stuck.py), `ps` and
the end of the logs are written beside the output file, as .stuck.txt.

Called by itself as `multi.py worker PART ...`, it is one of these programs. Prints a table of the figures
and openmps's share of native, and writes all as JSON.
"""

import argparse
import faulthandler
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from common import Way, vendor_control  # noqa: E402
from stuck import describe  # noqa: E402

PARTS = ("list", "peer", "sharing", "nccl", "ddp", "fsdp", "stages", "pipeline", "double", "small", "gaps", "chain", "visible",
         "pairs")
DISTRIBUTED = ("nccl", "ddp", "fsdp", "pipeline", "small", "gaps")
# No program takes longer; of a worker, by its environment.
LIMIT_S = float(os.environ.get("MULTI_TIMEOUT", 180))
QUICK = bool(os.environ.get("MULTI_QUICK"))
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


def watch():
    """What Python's threads are at goes to standard error shortly before the process is ended."""
    faulthandler.dump_traceback_later(LIMIT_S * 0.9)


def join(rank, ranks, where):
    watch()
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(where))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    return torch, dist


def nccl_rank(rank, ranks, where):
    torch, dist = join(rank, ranks, where)
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


def small_rank(rank, ranks, where):
    """Asking for a collective costs processor time, getting it the device's too: which of the two is slow."""
    torch, dist = join(rank, ranks, where)
    for kib in (4, 1024):
        x = torch.ones(kib << 8, device="cuda")
        for _ in range(20):
            dist.all_reduce(x)
        for times in (20, 200):
            fields = timed(torch, times, lambda: dist.all_reduce(x))
            if rank == 0:
                say(**{f"{key}_{kib}_kib_{times}": value for key, value in fields.items()})
    dist.destroy_process_group()


def gaps_rank(rank, ranks, where):
    torch, dist = join(rank, ranks, where)
    x = torch.ones(64 << 18, device="cuda")
    times = 20

    def in_turn():
        for _ in range(times):
            dist.all_reduce(x)

    def at_once():
        for work in [dist.all_reduce(x, async_op=True) for _ in range(times)]:
            work.wait()

    in_turn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        in_turn()
    fields = {}
    for name, work in {"in_turn": in_turn, "at_once": at_once, "graph": graph.replay}.items():
        took, on_device = [], []
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(5):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.time()
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            took.append((time.time() - start) / times * 1e6)
            on_device.append(begin.elapsed_time(end) / times * 1e3)
        fields[f"{name}_us"], fields[f"{name}_device_us"] = min(took), min(on_device)
    # A profiler that does not end costs only what it would have said.
    if rank == 0:
        say(**fields)
    if os.environ.get("MULTI_PROFILE") and rank == 0:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(5):
                in_turn()
                torch.cuda.synchronize()
        kernels = [(e.time_range.start, e.time_range.end) for e in profiler.events() if "ncclDevKernel" in e.name]
        say(**kernels_and_gaps(kernels))
    elif os.environ.get("MULTI_PROFILE"):
        for _ in range(5):
            in_turn()
            torch.cuda.synchronize()
    else:
        # Seconds of them, for a recorder.
        Path(os.environ["MULTI_RECORD"]).touch()
        for _ in range(1000):
            in_turn()
            torch.cuda.synchronize()
    # NCCL's end waits for the graphs that it is in.
    graph.reset()
    dist.destroy_process_group()


def kernels_and_gaps(kernels):
    """Medians of how long kernels take and of the time between two, of (begin, end) in us; nothing of none."""
    kernels = sorted(kernels)
    if len(kernels) < 2:
        return {}
    # Rows of collectives have a pause between them.
    gaps = [after[0] - before[1] for before, after in zip(kernels, kernels[1:]) if after[0] - before[1] < 200]
    return {"kernels": len(kernels), "kernel_us": statistics.median(end - begin for begin, end in kernels),
            "gap_us": statistics.median(gaps) if gaps else None}


def gaps(way):
    if way.name != "openmps":
        return finish(way, start(way, "gaps", MULTI_PROFILE="1"))
    path, record = way.directory / "gaps.json", way.directory / "record"
    process = start(way, "gaps", MULTI_RECORD=str(record))
    while not record.exists() and process.poll() is None and time.monotonic() < process.end:
        time.sleep(0.05)
    traced = subprocess.run([way.dist / "bin/openmps", "trace", "-o", path, "--seconds", "2"], env=way.environment,
                            capture_output=True, text=True, timeout=60)
    fields = finish(way, process)
    if traced.returncode != 0:
        return {**fields, "trace": (traced.stdout + traced.stderr)[-500:]}
    tracks = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("ph") == "X" and "ncclDevKernel" in event.get("name", ""):
            begin = float(event["ts"])
            tracks.setdefault((event["pid"], event["tid"]), []).append((begin, begin + float(event["dur"])))
    if tracks:
        fields.update(kernels_and_gaps(max(tracks.values(), key=len)))
    return fields


def timed(torch, times, work):
    torch.cuda.synchronize()
    start = time.time()
    for _ in range(times):
        work()
    asked = time.time() - start
    torch.cuda.synchronize()
    return {"asked_us": asked / times * 1e6, "done_us": (time.time() - start) / times * 1e6}


def chain():
    """What a collective does around its kernel: events between two streams, and a small kernel."""
    import torch

    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.ones(1024, device="cuda")
    events = [torch.cuda.Event() for _ in range(4)]

    def hop(event, source, target):
        event.record(source)
        target.wait_event(event)

    def one(hops):
        if hops > 1:
            hop(events[0], a, b)
        if hops > 2:
            hop(events[1], b, a)
            hop(events[2], a, b)
        with torch.cuda.stream(b):
            x.add_(1)
        if hops > 0:
            hop(events[3], b, a)

    for hops in (0, 1, 2, 4):
        one(hops)
        for times in (20, 200):
            fields = timed(torch, times, lambda: one(hops))
            say(**{f"{key}_{hops}_hops_{times}": value for key, value in fields.items()})


WIDTH = 256 if QUICK else 1024


def transformer(torch, layers=8, width=WIDTH):
    """About 100 million parameters, in two halves."""
    torch.manual_seed(0)
    layers = 4 if QUICK else layers
    layer = lambda: torch.nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True)  # noqa: E731
    half = lambda: torch.nn.Sequential(*[layer() for _ in range(layers // 2)])  # noqa: E731
    return half(), half()


def data(torch, seed, batch=16, length=128, width=WIDTH):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, width, generator=generator)
    return x, torch.randn(batch, length, width, generator=generator)


def steps_per_s(torch, step, warm_up=5, steps=30):
    warm_up, steps = (2, 8) if QUICK else (warm_up, steps)
    for _ in range(warm_up):
        step()
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)
    start = time.time()
    for _ in range(steps):
        loss = step()
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)
    return {"steps_per_s": steps / (time.time() - start), "loss": float(loss) if loss is not None else None}


def fsdp_rank(rank, ranks, where):
    torch, dist = join(rank, ranks, where)
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = torch.nn.Sequential(*transformer(torch)).cuda()
    policy = ModuleWrapPolicy({torch.nn.TransformerEncoderLayer})
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = (part.cuda() for part in data(torch, rank))

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    fields = steps_per_s(torch, step)
    if rank == 0:
        say(**fields)
    dist.destroy_process_group()


def stages():
    """A pipeline within one process: pieces of a batch go from device to device."""
    import torch

    first, second = transformer(torch)
    first, second = first.to("cuda:0"), second.to("cuda:1")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], 0.01)
    x, y = data(torch, 0)
    xs, ys = x.to("cuda:0").chunk(4), y.to("cuda:1").chunk(4)

    def step():
        optimizer.zero_grad()
        losses = []
        for piece, wanted in zip(xs, ys):
            found = second(first(piece).to("cuda:1", non_blocking=True))
            losses.append(torch.nn.functional.mse_loss(found, wanted))
        loss = sum(losses) / len(losses)
        loss.backward()
        optimizer.step()
        return loss

    say(**steps_per_s(torch, step))


def pipeline_rank(rank, ranks, where):
    torch, dist = join(rank, ranks, where)
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    # Two stages: more ranks than that have none.
    device = torch.device("cuda", rank)
    model = transformer(torch)[rank].to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    stage = PipelineStage(model, rank, ranks, device)
    schedule = ScheduleGPipe(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    x, y = (part.to(device) for part in data(torch, 0))

    def step():
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        optimizer.step()
        return sum(losses) / len(losses) if losses else None

    fields = steps_per_s(torch, step)
    if rank == ranks - 1:
        say(**fields)
    dist.destroy_process_group()


def ddp_rank(rank, ranks, where):
    torch, dist = join(rank, ranks, where)
    from networks import data_parallel

    train = data_parallel(rank)
    warm_up, steps = (3, 20) if QUICK else (10, 60)
    for step in range(warm_up + steps):
        if step == warm_up:
            torch.cuda.synchronize()
            start = time.time()
        loss = train()
    torch.cuda.synchronize()
    if rank == 0:
        say(steps_per_s=steps / (time.time() - start), loss=float(loss))
    dist.destroy_process_group()


def spawned(rank_function):
    import torch
    import torch.multiprocessing as mp

    ranks = min(torch.cuda.device_count(), 2)
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
    watch()
    if part in ("list", "visible"):
        list_devices()
    elif part == "peer":
        peer()
    elif part == "chain":
        chain()
    elif part == "stages":
        stages()
    elif part in DISTRIBUTED:
        ranks = {"nccl": nccl_rank, "ddp": ddp_rank, "fsdp": fsdp_rank, "pipeline": pipeline_rank, "small": small_rank,
                 "gaps": gaps_rank}
        spawned(ranks[part])
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
    process = subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)
    process.end = time.monotonic() + LIMIT_S
    return process


def finish(way, process):
    try:
        output, errors = process.communicate(timeout=max(process.end - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        report_stuck(way, process)
        # Ranks are processes of their own.
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        errors += f"\nno end after {LIMIT_S} s"
    fields = results(output)
    waits = [line.split("openmps: ")[-1] for line in errors.splitlines() if "openmps: waited " in line]
    if waits:
        fields["waits"] = waits
    if process.returncode != 0 or not fields:
        fields["error"] = (errors or output).strip()[-4000:]
    return fields


def report_stuck(way, process):
    """Writes what the processes of this run wait for, and what the daemon says."""
    lines = [f"{way.name}: {' '.join(process.args[2:])}: no end after {LIMIT_S} s", describe([os.getpid()])]
    if way.name != "native":
        for command in ("ps", "get_server_list"):
            try:
                lines += [f"{command}:", *control(way, command)]
            except (OSError, subprocess.SubprocessError) as error:
                lines.append(f"{command}: {error}")
        for path in sorted(way.directory.glob("*.log")):
            lines += [f"{path.name}:", path.read_text(errors="replace")[-6000:]]
    text = "\n".join(lines)
    if way.stuck:
        with open(way.stuck, "a") as file:
            file.write(text + "\n")
    print(text[:4000], file=sys.stderr, flush=True)


def pairs(way, seconds=4.0):
    """Work of two programs on each device at once, beside one alone."""
    alone = finish(way, start(way, "work", "0", str(seconds)))
    group = [start(way, "work", str(device), str(seconds)) for device in (0, 0, 1, 1)]
    ends = [finish(way, process) for process in group]
    errors = [end["error"] for end in [alone, *ends] if "error" in end]
    if errors:
        return {"error": errors[0]}
    sums = [sum(end["rounds_per_s"] for end in ends if end["device"] == device) for device in (0, 1)]
    return {f"gain_device_{device}": total / alone["rounds_per_s"] for device, total in enumerate(sums)}


def double(way):
    """Two trainings at once, each with a rank on each device."""
    alone = finish(way, start(way, "ddp"))
    both = [start(way, "ddp"), start(way, "ddp")]
    ends = [finish(way, process) for process in both]
    errors = [end["error"] for end in [alone, *ends] if "error" in end]
    if errors:
        return {"error": errors[0]}
    together = sum(end["steps_per_s"] for end in ends)
    return {"gain": together / alone["steps_per_s"], "losses": sorted({end["loss"] for end in [alone, *ends]})}


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
    if part == "double":
        return double(way)
    if part == "sharing":
        return sharing(way)
    if part == "gaps":
        return gaps(way)
    variables = {"CUDA_VISIBLE_DEVICES": "1"} if part == "visible" else {}
    if part in DISTRIBUTED:
        # What it says where it fails; nothing else.
        variables = {"NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"), "OPENMPS_TRACE": way.environment.get("OPENMPS_TRACE", "errors")}
    fields = finish(way, start(way, part, **variables))
    if part == "nccl" and "error" in fields:
        fields["nccl_legacy"] = finish(way, start(way, part, NCCL_CUMEM_ENABLE="0", **variables))
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
    global LIMIT_S
    if sys.argv[1:2] == ["worker"]:
        return worker(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small models and few steps")
    parser.add_argument("--timeout", type=float, default=LIMIT_S, metavar="S", help="of each program (180)")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    # Workers are this file too.
    os.environ["MULTI_TIMEOUT"] = str(options.timeout)
    LIMIT_S = options.timeout
    if options.quick:
        os.environ["MULTI_QUICK"] = "1"
    found = {}
    for name in options.ways.split(","):
        way = Way(name, options.dist.resolve())
        way.stuck = options.output.with_suffix(".stuck.txt")
        if options.trace:
            way.environment["OPENMPS_TRACE"] = "calls"
        with way.running():
            found[name] = {}
            for part in options.parts.split(","):
                found[name][part] = measure(way, part)
                options.output.write_text(json.dumps(found, indent=1) + "\n")
            if name != "native" and "list" in found[name]:
                commands = ("device_query", "get_server_list", "get_device_client_list")
                found[name]["list"]["control"] = {command: control(way, command) for command in commands}
        if any("error" in fields for fields in found[name].values()):
            found[name]["log"] = {"end": way.log[-4000:]}
        if options.trace:
            found[name]["log"] = {"end": way.log[-40000:]}
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
