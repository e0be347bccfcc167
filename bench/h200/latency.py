#!/usr/bin/env python3
"""Latency-critical services beside batch work: what each way of sharing gives, and each mechanism.

    latency.py DIST [--output FILE] [--ways native,mps,mps-priority,mps-50,openmps] [--sets basic]
               [--seconds 5] [--settings NAME,...]

DIST is an installation, as for run.py. Sets, each of critical services and one batch program:

    basic      BERT-base, 128 tokens, as a CUDA graph, 100 requests a second; ResNet-50 training (batch 64, fp16)
    services   the same, and ResNet-50 inference as a CUDA graph, 100 a second
    decode     four decoders of a small Llama-like model, 20 tokens a second each; prefills of 2048 tokens

The programs of a way are started once. Through openmps all settings are measured one after the other
with the same two programs, which is why basic takes about five minutes for all ways and fifteen settings,
of which openmps has three. Each row is written when it is there; rows that FILE has already are not
measured again. Arrivals are even, and with :poisson behind a setting's name at random.

Columns: p50, p99 and p99.9 of requests from when they were due to their end, ms, and p99 as a multiple of
alone; steps a second of batch and as a share of alone; device time that openmps has charged, if it ran.

Called as `latency.py role NAME` it is one of these programs: `measure SECONDS ARRIVALS` on its standard
input, one JSON line on its standard output; ARRIVALS are even, poisson, or closed: one request after the other.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
READY_SECONDS_MAX = 120
SETS = {
    "basic": (["bert"], "train"),
    "services": (["bert", "resnet"], "train"),
    "decode": (["decode"] * 4, "prefill"),
}
RATES = {"bert": 100, "resnet": 100, "decode": 20}
WAYS = ["native", "mps", "mps-priority", "mps-50", "openmps"]
# What `schedule` is told, after preset=balanced; the order is that of the table.
SETTINGS = {
    "off": "preset=off",
    "priorities": "preset=priorities",
    "in-flight": "preset=in-flight",
    "pause": "preset=pause",
    "floor-8": "preset=floor floor=8",
    "floor-16": "preset=floor",
    "floor-32": "preset=floor floor=32",
    "elastic-16": "preset=elastic",
    "50us": "in-flight=50us",
    "100us": "in-flight=100us",
    "200us": "in-flight=200us",
    "400us": "in-flight=400us",
    "1ms": "in-flight=1ms",
    "2ms": "in-flight=2ms",
    "pause+elastic-16": "in-flight=200us floor=16 elastic=on",
    "200us:poisson": "in-flight=200us",
    "off:poisson": "preset=off",
}


# The programs.


def bert(torch):
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig()).eval().half().cuda()
    tokens = torch.randint(0, 30000, (1, 128), device="cuda")
    return graphed(torch, lambda: model(tokens))


def resnet(torch):
    import torchvision
    model = torchvision.models.resnet50().eval().half().cuda()
    image = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.half)
    return graphed(torch, lambda: model(image))


def llama(torch, layers=16, width=2048, heads=16):
    """A decoder with Llama's shapes: RMS norm, attention with a cache, gated feed-forward."""
    import torch.nn.functional as f
    half = {"device": "cuda", "dtype": torch.half}
    weights = [{name: torch.randn(*shape, **half) * 0.02 for name, shape in {
        "qkv": (3 * width, width), "out": (width, width), "up": (2 * 4 * width, width),
        "down": (width, 4 * width)}.items()} for _ in range(layers)]

    def norm(x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).half()

    def forward(x, caches):
        batch, length, _ = x.shape
        for weight, cache in zip(weights, caches):
            q, k, v = f.linear(norm(x), weight["qkv"]).chunk(3, -1)
            split = lambda t: t.view(batch, length, heads, -1).transpose(1, 2)
            q, k, v = split(q), split(k), split(v)
            if cache is not None:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            mixed = f.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
            x = x + f.linear(mixed.transpose(1, 2).reshape(batch, length, -1), weight["out"])
            up, gate = f.linear(norm(x), weight["up"]).chunk(2, -1)
            x = x + f.linear(f.silu(gate) * up, weight["down"])
        return x

    return forward, half, layers, width, heads


def decode(torch):
    forward, half, layers, width, heads = llama(torch)
    token = torch.randn(1, 1, width, **half)
    cache = lambda: torch.randn(1, heads, 512, width // heads, **half)
    caches = [(cache(), cache()) for _ in range(layers)]
    return graphed(torch, lambda: forward(token, caches))


def prefill(torch):
    forward, half, layers, width, _ = llama(torch)
    tokens = torch.randn(4, 2048, width, **half)

    def step():
        with torch.inference_mode():
            forward(tokens, [None] * layers)
    return step


def train(torch):
    import torchvision
    model = torchvision.models.resnet50().cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images = torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.half)
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images).float(), labels).backward()
        optimizer.step()
    return step


def graphed(torch, function):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(5):
            function()
    torch.cuda.synchronize()
    with torch.inference_mode(), torch.cuda.graph(graph):
        function()
    return graph.replay


def role(name):
    import torch
    torch.manual_seed(0)
    step = globals()[name](torch)
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word != "measure":
            break
        seconds, arrivals = float(rest[0]), rest[1]
        rate = None if arrivals == "closed" else RATES.get(name)
        times = measure(torch, step, seconds, rate, arrivals)
        print(json.dumps(summary(times, seconds)), flush=True)


def measure(torch, step, seconds, rate, arrivals):
    """Times of requests, or of steps without end where there is no rate, seconds."""
    choose = random.Random(7)
    times = []
    begin = due = time.perf_counter()
    while True:
        if rate:
            due += choose.expovariate(rate) if arrivals == "poisson" else 1 / rate
            while time.perf_counter() < due:
                pass
        start = due if rate else time.perf_counter()
        if start - begin >= seconds:
            return times
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)


def summary(times, seconds):
    times = sorted(times)
    at = lambda part: round(1e3 * times[min(int(len(times) * part), len(times) - 1)], 3)
    if not times:
        return {"rate": 0.0}
    return {"rate": round(len(times) / seconds, 2), "p50": at(0.5), "p99": at(0.99),
            "p999": at(0.999), "longest": at(1)}


# The measurement.


class Program:
    """A role that runs and answers."""

    def __init__(self, name, environment):
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "role", name], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def together(programs, seconds, arrivals):
    for program in programs:
        program.tell(f"measure {seconds} {arrivals}")
    return [program.answer() for program in programs]


def environment_of(way, kind, base):
    environment = dict(base)
    if way == "mps-priority" and kind == "batch":
        environment["CUDA_MPS_CLIENT_PRIORITY"] = "1"
    if way == "mps-50" and kind == "batch":
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "50"
    if way == "openmps":
        environment["OPENMPS_CLASS"] = "latency" if kind == "critical" else "batch"
    return environment


def schedule(way, text):
    program = str(way.dist / "bin/nvidia-cuda-mps-control")
    command = [program, "schedule", *text.split()]
    done = subprocess.run(command, env=way.environment, capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise RuntimeError(f"schedule {text}: {done.stdout}{done.stderr}")


def charged(way):
    """Device time that the gate has charged each class so far, seconds."""
    program = str(way.dist / "bin/nvidia-cuda-mps-control")
    done = subprocess.run([program, "report"], env=way.environment, capture_output=True, text=True,
                          timeout=20)
    times = {}
    for server in json.loads(done.stdout).get("servers", []):
        for client in server["clients"]:
            of = client.get("scheduling", {})
            times[of.get("class")] = times.get(of.get("class"), 0) + of.get("charged_ns", 0) / 1e9
    return times


def rows_of(name, way_name, arguments, have):
    """Measures what is missing of a set through a way; yields rows by name."""
    from run import Way
    critical_names, batch_name = SETS[name]
    chosen = arguments.settings.split(",") if arguments.settings else list(SETTINGS)
    settings = chosen if way_name == "openmps" else ["", ":poisson"]
    wanted = [s for s in [*settings, "alone"] if f"{name}/{way_name}/{s}" not in have]
    if not wanted:
        return
    way = Way("openmps" if way_name == "openmps" else way_name.split("-")[0], arguments.dist)
    with way.running():
        critical = [Program(n, environment_of(way_name, "critical", way.environment))
                    for n in critical_names]
        batch = Program(batch_name, environment_of(way_name, "batch", way.environment))
        try:
            for program in [*critical, batch]:
                program.answer()
            if "alone" in wanted:
                alone = together(critical[:1], arguments.seconds, "even")
                alone_batch = together([batch], arguments.seconds, "even")
                yield f"{name}/{way_name}/alone", {"critical": alone, "batch": alone_batch[0]}
            for setting in (s for s in settings if s in wanted):
                before = {}
                if way_name == "openmps":
                    schedule(way, f"policy=classes preset=balanced {SETTINGS[setting]}")
                    before = charged(way)
                arrivals = "poisson" if setting.endswith(":poisson") else "even"
                # The first moments still have what the last setting left.
                together([*critical, batch], 0.5, arrivals)
                *answers, of_batch = together([*critical, batch], arguments.seconds, arrivals)
                row = {"critical": answers, "batch": of_batch}
                if way_name == "openmps":
                    after = charged(way)
                    row["charged"] = {c: round(after[c] - before.get(c, 0), 3) for c in after}
                yield f"{name}/{way_name}/{setting}", row
        finally:
            for program in [*critical, batch]:
                program.end()


def table(rows):
    """The rows as text; multiples and shares are of what ran alone without any sharing, else through
    the first way that has it."""
    lines = []
    for name in SETS:
        own = {key: row for key, row in rows.items() if key.startswith(name + "/")}
        alone = next((own[key] for way in WAYS for key in [f"{name}/{way}/alone"] if key in own), None)
        if alone is None:
            continue
        base, base_rate = alone["critical"][0]["p99"], alone["batch"]["rate"]
        lines += [f"{name}: alone p99 {base} ms, batch {base_rate} steps/s",
                  f"{'way':34} {'p50':>8} {'p99':>8} {'p99.9':>8} {'of alone':>9} {'batch/s':>8} {'share':>6}"]
        for key, row in own.items():
            for critical in row["critical"]:
                lines.append(
                    f"{key.split('/', 1)[1]:34} {critical.get('p50', 0):8.3f} {critical.get('p99', 0):8.3f} "
                    f"{critical.get('p999', 0):8.3f} {critical.get('p99', 0) / base:9.2f} "
                    f"{row['batch']['rate']:8.2f} {row['batch']['rate'] / base_rate:6.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("latency.json"))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--sets", default="basic")
    parser.add_argument("--settings", default="")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    sys.path.insert(0, str(HERE))
    rows = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    for name in arguments.sets.split(","):
        for way in arguments.ways.split(","):
            try:
                for key, row in rows_of(name, way, arguments, rows):
                    rows[key] = row
                    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
                    print(f"{key}: {json.dumps(row)}", file=sys.stderr, flush=True)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f"{name}/{way}: {error}", file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["role"]:
        role(sys.argv[2])
    else:
        main()
