#!/usr/bin/env python3
"""Latency-critical services beside batch work: what each way of sharing gives, and each mechanism.

    latency.py DIST [--output FILE] [--ways native,mps,mps-priority,mps-50,openmps] [--sets basic]
               [--seconds 5] [--settings NAME,...] [--budget SECONDS] [--slow NAME]

DIST is an installation, as for run.py. Sets, each of critical services and one batch program; each can
be run by itself:

    basic      BERT-base, 128 tokens, as a CUDA graph, 100 requests a second; ResNet-50 training (batch 64, fp16)
    services   the same, and ResNet-50 inference as a CUDA graph, 100 a second
    decode     four decoders of a small Llama-like model, 20 tokens a second each; prefills of 2048 tokens

The programs of a way are started once. Through openmps all settings are measured one after the other
with the same two programs, which is why basic takes about five minutes for all ways and fifteen settings,
of which openmps has three. Each row is written when it is there; rows that FILE has already are not
measured again, so that a run which --budget has cut short goes on where it stopped. A way or a setting
that fails is said and left out. Arrivals are even, and with :poisson behind a setting's name at random:
exponential distances, the same ones in each run.

--slow NAME records, with that setting and through openmps, all that the device does for two seconds, and says of
the slowest request of that time where its time went (rows SET/openmps/NAME:slow).

Columns (latency_report.py): p50, p99 and p99.9 of requests from when they were due to their end, ms, and p99 as a
multiple of alone, and of what the services have together without the batch program (rows SET/WAY/together); steps a second of batch and as a share of alone; device time that openmps has charged.

Called as `latency.py role NAME` it is one of these programs: `measure SECONDS ARRIVALS` on its standard
input, one JSON line on its standard output; ARRIVALS are even, poisson, or closed: one request after the other.
"""

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import latency_report  # noqa: E402

READY_SECONDS_MAX = 120
ANSWER_SECONDS_MAX = 30
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
    "20us": "in-flight=20us",
    "50us": "in-flight=50us",
    "100us": "in-flight=100us",
    "200us": "in-flight=200us",
    "400us": "in-flight=400us",
    "1ms": "in-flight=1ms",
    "2ms": "in-flight=2ms",
    "pause+elastic-16": "in-flight=200us floor=16 elastic=on",
    "200us:unreserved": "in-flight=200us reserve=off",
    "50us+elastic-16": "in-flight=50us floor=16 elastic=on",
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
        requests = measure(torch, step, seconds, rate, arrivals)
        print(json.dumps(summary(requests, seconds)), flush=True)


def measure(torch, step, seconds, rate, arrivals):
    """Requests, or steps without end where there is no rate: when each was due, began and ended, ns of
    CLOCK_MONOTONIC."""
    choose = random.Random(7)
    requests = []
    now = time.monotonic_ns
    begin = due = now()
    end = begin + int(1e9 * seconds)
    while True:
        if rate:
            due += int(1e9 * (choose.expovariate(rate) if arrivals == "poisson" else 1 / rate))
            while now() < due:
                pass
        start = now()
        if (due if rate else start) >= end:
            return requests
        step()
        torch.cuda.synchronize()
        requests.append((due if rate else start, start, now()))


def summary(requests, seconds):
    if not requests:
        return {"rate": 0.0}
    times = sorted((end - due) / 1e6 for due, _, end in requests)
    at = lambda part: round(times[min(int(len(times) * part), len(times) - 1)], 3)
    return {"rate": round(len(times) / seconds, 2), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999),
            "longest": at(1), "pid": os.getpid(), "slowest": max(requests, key=lambda r: r[2] - r[0])}


# The measurement.


class Program:
    """A role that runs and answers."""

    def __init__(self, name, environment):
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "role", name], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, seconds=READY_SECONDS_MAX):
        # One line at a time is asked for, so nothing is left in the reader's buffer.
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"{self.name} has not answered within {seconds:.0f} s")
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
    return [program.answer(seconds + ANSWER_SECONDS_MAX) for program in programs]


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


def setting_text(setting):
    """What `schedule` is told for a setting's name, which may have :poisson or :slow behind it."""
    plain = setting.split(":")[0]
    return f"policy=classes preset=balanced {SETTINGS.get(setting) or SETTINGS[plain]}"


def slow(way, programs, critical, arrivals):
    """The slowest request of two seconds, with what was recorded meanwhile."""
    with tempfile.TemporaryDirectory(prefix="openmps-slow-") as directory:
        path = Path(directory) / "trace.json"
        recorder = subprocess.Popen([str(way.dist / "bin/openmps"), "trace", "--seconds", "60", "-o", str(path)],
                                    env=way.environment, stderr=subprocess.PIPE, text=True)
        try:
            recorder.stderr.readline()
            answers = together(programs, 2, arrivals)
            recorder.send_signal(signal.SIGINT)
            said = recorder.communicate(timeout=60)[1].strip()
        finally:
            recorder.kill()
            recorder.wait()
        trace = json.loads(path.read_text())
    found = max(answers[:critical], key=lambda a: a.get("longest", 0))
    return {"critical": answers[:critical], "batch": answers[-1], "recorded": said,
            "request": latency_report.slow_request(trace, found["pid"], *found["slowest"])}


def rows_of(name, way_name, arguments, have):
    """Measures what is missing of a set through a way; yields rows by name."""
    from common import Way
    critical_names, batch_name = SETS[name]
    chosen = arguments.settings.split(",") if arguments.settings else list(SETTINGS)
    settings = chosen if way_name == "openmps" else ["", ":poisson"]
    if way_name == "openmps" and arguments.slow:
        settings = [*settings, f"{arguments.slow}:slow"]
    # What several services are to each other without the batch program.
    before = ["alone", "together"] if len(critical_names) > 1 else ["alone"]
    wanted = [s for s in [*before, *settings] if f"{name}/{way_name}/{s}" not in have]
    if not wanted:
        return
    way = Way("openmps" if way_name == "openmps" else way_name.split("-")[0], arguments.dist)
    with way.running():
        # One after the other: what fails to start is named, and what was started is ended.
        critical, batch = [], None
        try:
            for n in critical_names:
                critical.append(Program(n, environment_of(way_name, "critical", way.environment)))
            batch = Program(batch_name, environment_of(way_name, "batch", way.environment))
            programs = [*critical, batch]
            for program in programs:
                program.answer()
            for setting in wanted:
                if time.monotonic() > arguments.end:
                    print(f"{name}/{way_name}/{setting}: the time is up", file=sys.stderr, flush=True)
                    return
                try:
                    yield f"{name}/{way_name}/{setting}", measured(
                        way_name, way, programs, len(critical), setting, arguments.seconds)
                except (RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
                    print(f"{name}/{way_name}/{setting}: {error}", file=sys.stderr, flush=True)
                    if any(program.process.poll() is not None for program in programs):
                        return
        finally:
            for program in [*critical, *([batch] if batch else [])]:
                program.end()


def measured(way_name, way, programs, critical, setting, seconds):
    """One row."""
    if setting == "alone":
        # Each kind of service once, and the batch program.
        names = [program.name for program in programs[:critical]]
        alone = [together([program], seconds, "even")[0] for at, program in enumerate(programs[:critical])
                 if program.name not in names[:at]]
        return {"critical": alone, "batch": together(programs[-1:], seconds, "even")[0]}
    if setting == "together":
        return {"critical": together(programs[:critical], seconds, "even"), "batch": {"rate": 0.0}}
    before = {}
    if way_name == "openmps":
        schedule(way, setting_text(setting))
        before = charged(way)
    arrivals = "poisson" if setting.endswith(":poisson") else "even"
    # The first moments still have what the last setting left.
    together(programs, 0.5, arrivals)
    if setting.endswith(":slow"):
        return slow(way, programs, critical, arrivals)
    *answers, of_batch = together(programs, seconds, arrivals)
    row = {"critical": answers, "batch": of_batch}
    if way_name == "openmps":
        after = charged(way)
        row["charged"] = {c: round(after[c] - before.get(c, 0), 3) for c in after}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("latency.json"))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--sets", default="basic")
    parser.add_argument("--settings", default="")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--budget", type=float, default=3600, help="seconds for all of it")
    parser.add_argument("--slow", default="", help="the setting of which a slow request is looked at")
    arguments = parser.parse_args()
    for wanted, known in [(arguments.sets, SETS), (arguments.ways, WAYS), (arguments.slow, SETTINGS)]:
        if unknown := set(filter(None, wanted.split(","))) - set(known):
            parser.error(f"{unknown}: there are {', '.join(known)}")
    arguments.dist = arguments.dist.resolve()
    arguments.end = time.monotonic() + arguments.budget
    rows = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    for name in arguments.sets.split(","):
        for way in arguments.ways.split(","):
            if time.monotonic() > arguments.end:
                print(f"{name}/{way}: the time is up", file=sys.stderr, flush=True)
                continue
            try:
                for key, row in rows_of(name, way, arguments, rows):
                    rows[key] = row
                    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
                    print(f"{key}: {json.dumps(row)[:600]}", file=sys.stderr, flush=True)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f"{name}/{way}: {error}", file=sys.stderr, flush=True)
    print(latency_report.table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["role"]:
        role(sys.argv[2])
    else:
        main()
