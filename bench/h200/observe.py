#!/usr/bin/env python3
"""Holds what openmps counts on an NVIDIA GPU against CUPTI, and measures what counting costs.

    observe.py DIST [--output FILE] [--part time|overhead|advise|profilers|trace]

DIST is an installation, made by `cargo xtask dist --release`. Needs torch. The parts:

    time       device time of ResNet-50, BERT and training: torch.profiler (CUPTI) natively, per step,
               beside what `counts` says of the same program under openmps, per step
    overhead   launches a second of a program that does nothing but launch, and steps a second of the
               networks, natively and under openmps, in turns within one run; and while it is traced
    advise     `openmps advise --json` on networks: predicted and measured gain of 2, 4 and 8 copies
    profilers  which of torch.profiler, nsys, ncu, cuda-gdb and compute-sanitizer work under openmps
    trace      `openmps run --trace`: how many kernels are in the file, beside what was counted

Leaves no process and changes no setting of the GPU.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# What a step is, by network; run in a process of its own.
PROGRAM = r"""
import json, os, sys, time, torch
network, steps, profile = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "profile"
torch.manual_seed(0)
def block(i, o, s=1):
    return torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, s, 1, bias=False), torch.nn.BatchNorm2d(o), torch.nn.ReLU())
if network == "launch":
    x = torch.zeros(32, device="cuda")
    def step():
        for _ in range(1000): x.add_(1)
elif network == "bert":
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, device="cuda").half().eval()
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()
    x = torch.randn(8, 128, 768, device="cuda").half()
    def step():
        with torch.no_grad(): model(x)
else:
    try:
        import torchvision
        model = torchvision.models.resnet50().cuda()
    except ImportError:
        model = torch.nn.Sequential(block(3, 64, 2), block(64, 64), block(64, 128, 2), block(128, 256, 2),
            block(256, 512, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000)).cuda()
    x = torch.randn(16, 3, 224, 224, device="cuda")
    if network == "train":
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        y = torch.randint(0, 1000, (16,), device="cuda")
        def step():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    else:
        model = model.half().eval(); x = x.half()
        def step():
            with torch.no_grad(): model(x)
for _ in range(5): step()
torch.cuda.synchronize()
print("READY", flush=True)
if os.environ.get("WAIT"): sys.stdin.readline()
begin = time.perf_counter()
if profile:
    from torch.profiler import profile as profiler, ProfilerActivity
    with profiler(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(steps): step()
        torch.cuda.synchronize()
    device = 0.0
    count = 0
    for e in p.events():
        if str(e.device_type).endswith("CUDA") and not e.name.startswith("Mem"):
            device += e.self_device_time_total if hasattr(e, "self_device_time_total") else e.cuda_time_total
            count += 1
    print(json.dumps({"device_ns": device * 1000 / steps, "kernels": count / steps}), flush=True)
else:
    for _ in range(steps): step()
    torch.cuda.synchronize()
    print(json.dumps({"steps_per_s": steps / (time.perf_counter() - begin)}), flush=True)
if os.environ.get("WAIT"): sys.stdin.readline()
"""
NETWORKS = ["resnet50", "bert", "train"]


class Bench:
    def __init__(self, dist, directory):
        self.dist, self.directory = dist.resolve(), directory
        self.program = directory / "program.py"
        self.program.write_text(PROGRAM)
        self.environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(directory / "pipe"),
                            "CUDA_MPS_LOG_DIRECTORY": str(directory / "log"),
                            "OPENMPS_PROVIDER": "vendor"}

    def openmps(self, *arguments, **options):
        options = {"check": True, **options}
        return subprocess.run([self.dist / "bin/openmps", *map(str, arguments)], text=True,
                              capture_output=True, env=self.environment, **options)

    def shell(self, line):
        answer = subprocess.run([self.dist / "bin/nvidia-cuda-mps-control"], input=line + "\n", text=True,
                                capture_output=True, env=self.environment, check=True)
        return json.loads(answer.stdout)

    def words(self, network, steps, mode):
        return [sys.executable, str(self.program), network, str(steps), mode]

    def native(self, network, steps, mode="plain"):
        answer = subprocess.run(self.words(network, steps, mode), text=True, capture_output=True,
                                check=True, stdin=subprocess.DEVNULL)
        return json.loads(answer.stdout.splitlines()[-1])

    def shared(self, network, steps, mode="plain"):
        answer = self.openmps("run", "-q", *self.words(network, steps, mode),
                              stdin=subprocess.DEVNULL)
        return json.loads(answer.stdout.splitlines()[-1])

    def counted(self, network, steps):
        """Device time and kernels of a step, as the server counts them."""
        environment = {**self.environment, "WAIT": "1"}
        program = subprocess.Popen([self.dist / "bin/openmps", "run", "-q",
                                    *self.words(network, steps, "plain")], text=True, env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout.readline().strip() == "READY"
        def read():
            time.sleep(0.5)
            kernels = [k for c in self.shell("counts") for k in c["kernels"]]
            return sum(k["device_ns"] for k in kernels), sum(k["launches"] for k in kernels), kernels
        # The mean of all samples times launches: both readings move with it, so steps are many.
        before = read()
        program.stdin.write("\n"); program.stdin.flush()
        program.stdout.readline()
        after = read()
        program.stdin.write("\n"); program.stdin.flush()
        program.wait()
        launches = after[1] - before[1]
        return {"device_ns": after[0] / max(1, after[1]) * launches / steps, "kernels": launches / steps,
                "untimed": [k["name"] for k in after[2] if k["timing"] == "none"]}


def part_time(bench):
    rows = {}
    for network in NETWORKS:
        cupti, counted = bench.native(network, 100, "profile"), bench.counted(network, 1000)
        error = counted["device_ns"] / cupti["device_ns"] - 1
        rows[network] = {"cupti": cupti, "openmps": counted, "error": error}
        print(f"{network}: CUPTI {cupti['device_ns'] / 1e6:.3f} ms a step, openmps "
              f"{counted['device_ns'] / 1e6:.3f} ms, {100 * error:+.1f} %", flush=True)
    return rows


def part_overhead(bench):
    rows = {}
    for network, steps in [("launch", 300), ("resnet50", 500), ("bert", 500)]:
        ways = {"native": [], "openmps": [], "traced": []}
        for _ in range(3):
            ways["native"].append(bench.native(network, steps)["steps_per_s"])
            ways["openmps"].append(bench.shared(network, steps)["steps_per_s"])
            answer = bench.openmps("run", "-q", "--trace", bench.directory / "t.pftrace",
                                   *bench.words(network, steps, "plain"), stdin=subprocess.DEVNULL)
            ways["traced"].append(json.loads(answer.stdout.splitlines()[-1])["steps_per_s"])
        rows[network] = {way: sorted(values)[1] for way, values in ways.items()}
        print(network, rows[network], flush=True)
    return rows


def part_advise(bench):
    rows = {}
    for network, steps in [("resnet50", 600), ("bert", 600), ("train", 200), ("launch", 200)]:
        answer = bench.openmps("advise", "--json", "--", *bench.words(network, steps, "plain"),
                               check=False)
        if answer.returncode:
            rows[network] = {"error": answer.stderr[-500:]}
            print(network, rows[network], flush=True)
            continue
        advice = json.loads(answer.stdout)
        rows[network] = {"measured": advice["measured"], "words": advice["words"]}
        for m in advice["measured"]:
            off = m["predicted"] / m["gain"] - 1
            print(f"{network} x{m['copies']}: {m['gain']:.2f}, predicted {m['predicted']:.2f} "
                  f"({100 * off:+.0f} %)", flush=True)
    return rows


def part_profilers(bench):
    rows = {}
    run = [str(bench.dist / "bin/openmps"), "run", "-q"]
    plain = bench.words("bert", 20, "plain")
    tries = {"torch.profiler": [*run, *bench.words("bert", 20, "profile")]}
    for tool, words in {
        "nsys": ["nsys", "profile", "-o", str(bench.directory / "n"), *run, *plain],
        "ncu": ["ncu", "--launch-count", "3", *run, *plain],
        "compute-sanitizer": ["compute-sanitizer", *run, *plain],
        "cuda-gdb": ["cuda-gdb", "-batch", "-ex", "run", "--args", *run, *plain],
    }.items():
        tries[tool] = words if shutil.which(tool) else None
    for tool, words in tries.items():
        if words is None:
            rows[tool] = "not installed"
        else:
            try:
                answer = subprocess.run(words, text=True, capture_output=True, timeout=120,
                                        env=bench.environment, stdin=subprocess.DEVNULL)
                rows[tool] = {"status": answer.returncode, "said": (answer.stdout + answer.stderr)[-600:]}
            except subprocess.TimeoutExpired:
                rows[tool] = "no end within 120 s"
        print(tool, rows[tool], flush=True)
    return rows


def part_trace(bench):
    path = bench.directory / "trace.json"
    answer = bench.openmps("run", "-q", "--trace", path, *bench.words("resnet50", 100, "plain"),
                           stdin=subprocess.DEVNULL)
    events = json.loads(path.read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "B" and e.get("cat") == "kernel"]
    print(f"{len(kernels)} kernels in the trace; {answer.stderr.strip()}", flush=True)
    return {"kernels": len(kernels), "said": answer.stderr}


PARTS = {"time": part_time, "overhead": part_overhead, "advise": part_advise,
         "profilers": part_profilers, "trace": part_trace}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--part", choices=PARTS)
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="openmps-observe-") as directory:
        bench = Bench(arguments.dist, Path(directory))
        bench.openmps("up")
        try:
            for name, part in PARTS.items():
                if arguments.part in (None, name):
                    results[name] = part(bench)
                    if arguments.output:
                        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
        finally:
            bench.openmps("down", "--timeout", "0", check=False)


if __name__ == "__main__":
    main()
