#!/usr/bin/env python3
"""Holds what openmps counts on an NVIDIA GPU against CUPTI, and measures what counting costs.

    observe.py DIST [--output FILE] [--parts pairs,time,overhead,advise,profilers,trace] [--budget 180]

DIST is an installation, made by `cargo xtask dist --release`. Needs torch. The parts:

    pairs      what two events see of kernels that count cycles, of some of PyTorch's and of small graphs, beside
               CUPTI's time of the same, natively: what openmps has to take off
    time       device time of ResNet-50, BERT, training and BERT as a graph: torch.profiler (CUPTI) natively, per step,
               beside what `counts` says of the same program under openmps, per step, with counters=sampled
               (events) and counters=cupti; for the kernels that take most time all means; an empty
               kernel's time, and what openmps takes off
    overhead   launches a second of a program that does nothing but launch, and steps a second of BERT as a graph
               and of networks, under openmps with counters=off and counters=sampled in turns, twenty times
               each; natively, with the other kinds, and while it is traced
    advise     `openmps advise --json --seconds 1` on samples and on networks: predicted and measured gain
    profilers  which of torch.profiler, nsys, ncu, cuda-gdb and compute-sanitizer work under openmps
    trace      `openmps run --trace`: kernels, ranges and arrows in the file, beside what was launched

All parts take three minutes, or what --budget says: what does not fit any more is left out and named.
A part that fails says why and leaves the others alone. Results are written as they come. Leaves no
process and changes no setting of the GPU.
"""

import argparse
import collections
import contextlib
import importlib.util
import json
import os
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

# Answers one line of JSON to each line of words. Networks are made when they are first named.
PROGRAM = r"""
import json, sys, time, torch
torch.manual_seed(0)

def network(name):
    if name == "empty":
        def step():
            for _ in range(100): torch.cuda._sleep(0)
    elif name == "launch":
        x = torch.zeros(32, device="cuda")
        def step():
            for _ in range(1000): x.add_(1)
    elif name in ("bert", "graph"):
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, device="cuda").half().eval()
        model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()
        x = torch.randn(8, 128, 768, device="cuda").half()
        def step():
            with torch.no_grad(): model(x)
        if name == "graph":
            plain, side, made = step, torch.cuda.Stream(), torch.cuda.CUDAGraph()
            with torch.cuda.stream(side):
                for _ in range(5): plain()
            torch.cuda.synchronize()
            with torch.cuda.graph(made): plain()
            step = made.replay
    else:
        import torchvision
        model = torchvision.models.resnet50().cuda()
        x = torch.randn(16, 3, 224, 224, device="cuda")
        if name == "train":
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
    for _ in range(10): step()
    torch.cuda.synchronize()
    return step

# Until %r1 cycles have passed.
WAITS = b'''
    mov.u64 %r2, %clock64;
    add.u64 %r3, %r2, %r1;
more:
    mov.u64 %r2, %clock64;
    setp.lt.u64 %p, %r2, %r3;
    @%p bra more;
'''
COUNTING = b'''
.version 6.4
.target sm_75
.address_size 64
.visible .entry counts_nothing() { ret; }
.visible .entry counts(.param .u64 cycles)
{
    .reg .u64 %r<4>;
    .reg .pred %p;
    ld.param.u64 %r1, [cycles];
''' + WAITS + b'''
    ret;
}
.visible .entry counts_and_writes(.param .u64 cycles, .param .u64 at)
{
    .reg .u64 %r<9>;
    .reg .u32 %t<5>;
    .reg .pred %p;
    ld.param.u64 %r1, [cycles];
    ld.param.u64 %r5, [at];
    mov.u32 %t1, %ctaid.x;
    mov.u32 %t2, %ntid.x;
    mov.u32 %t3, %tid.x;
    mad.lo.u32 %t4, %t1, %t2, %t3;
    mul.wide.u32 %r6, %t4, 4;
    add.u64 %r7, %r5, %r6;
''' + WAITS + b'''
    st.global.u32 [%r7], %t4;
    ret;
}
\0'''

# Much code: what runs behind it has none in its caches.
MUCH_CODE = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry much_code(.param .f32 by)\n{ .reg .f32 %f<9>;\n" \
    "ld.param.f32 %f1, [by]; mov.f32 %f2, %f1;\n" + 16384 * "fma.rn.f32 %f2, %f2, %f1, %f1;\n" + \
    ".reg .pred %p; setp.gt.f32 %p, %f2, 0f7F000000; @%p trap; ret; }\n\0"

def pairs(tries):
    # What two events see of kernels of known length, and CUPTI of the same.
    import ctypes, statistics
    from torch.profiler import profile, ProfilerActivity
    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *arguments):
        answer = getattr(cuda, name)(*arguments)
        if answer: raise RuntimeError(f"{name}: {answer}")
    module, stream = ctypes.c_void_p(), torch.cuda.Stream()
    call("cuModuleLoadData", ctypes.byref(module), COUNTING)
    functions = {}
    for name in ["counts_nothing", "counts", "counts_and_writes"]:
        functions[name] = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(functions[name]), module, name.encode())
    code = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(code), MUCH_CODE.encode())
    functions["much_code"] = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(functions["much_code"]), code, b"much_code")
    def launch(name, blocks, threads, *arguments):
        values = [ctypes.c_uint64(a) for a in arguments]
        places = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
        call("cuLaunchKernel", functions[name], blocks, 1, 1, threads, 1, 1, 0,
             ctypes.c_void_p(stream.cuda_stream), places, None)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.zeros(16 * sms * 1024, device="cuda")
    big, huge = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 24, device="cuda")
    half = torch.randn(1024, 1024, device="cuda").half()
    norm = torch.nn.LayerNorm(768, device="cuda").half()
    image = torch.randn(16, 64, 56, 56, device="cuda")
    words = torch.randn(8, 128, 768, device="cuda").half()
    rows = {"nothing": lambda: None, "empty": lambda: launch("counts_nothing", 1, 32)}
    for cycles in [0, 6000, 18000]:
        for blocks in [1, sms, 4 * sms]:
            rows[f"counts {cycles} x {blocks}"] = lambda c=cycles, b=blocks: launch("counts", b, 32, c)
        for blocks in [1, sms, 8 * sms]:
            rows[f"counts and writes {cycles} x {blocks}"] = (
                lambda c=cycles, b=blocks: launch("counts_and_writes", b, 256, c, out.data_ptr()))
    rows.update({"add 4 MiB": lambda: big.add_(1), "add 64 MiB": lambda: huge.add_(1),
                 "matmul": lambda: torch.matmul(half, half), "layer norm": lambda: norm(words),
                 "softmax": lambda: torch.softmax(words, -1), "relu": lambda: torch.relu(image),
                 "to channels last": lambda: image.contiguous(memory_format=torch.channels_last)})
    delay = lambda: launch("counts", 1, 32, 250_000)
    def pair(before, work):
        start, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        delay()
        before()
        start.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        return 1e6 * start.elapsed_time(end)
    found = {}
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(100): delay()
        torch.cuda.synchronize()
        for name, work in rows.items():
            work(), pair(delay, work)
            times = sorted(pair(lambda: None, work) for _ in range(int(tries)))
            behind = sorted(pair(lambda: big.add_(1), work) for _ in range(int(tries) // 2))
            much = lambda: launch("much_code", 2 * sms, 128, 0)
            behind_code = [pair(much, work) for _ in range(int(tries) // 2)]
            behind_all = [pair(lambda: (huge.add_(1), much()), work) for _ in range(int(tries) // 2)]
            found[name] = {"behind_code_ns": statistics.median(behind_code), "behind_all_ns": statistics.median(behind_all),
                           "pair_ns": statistics.median(times), "quartiles": [times[len(times) // 4], times[3 * len(times) // 4]],
                           "behind_writes_ns": statistics.median(behind)}
        graphs = {}
        for name in ["counts 6000 x 1", "add 4 MiB"]:
            for number in [1, 8]:
                made = torch.cuda.CUDAGraph()
                with torch.cuda.graph(made, stream=stream):
                    for _ in range(number): rows[name]()
                made.replay(), torch.cuda.synchronize()
                times = [pair(lambda: None, made.replay) for _ in range(int(tries))]
                graphs[f"graph of {number}: {name}"] = {"pair_ns": statistics.median(times)}
        for name, work in rows.items():
            if name == "nothing": continue
            with profile(activities=[ProfilerActivity.CUDA]) as p:
                for _ in range(int(tries) // 2):
                    delay()
                    work()
                    torch.cuda.synchronize()
            times = [1e3 * (e.self_device_time_total if hasattr(e, "self_device_time_total") else e.cuda_time_total)
                     for e in p.events() if str(e.device_type).endswith("CUDA")]
            # The delays are kernels, too, and much longer.
            times = [t for t in times if 0 < t < 90_000]
            if times:
                row = found[name]
                row.update(cupti_ns=statistics.median(times), records=len(times))
                row["cost_ns"] = row["pair_ns"] - row["cupti_ns"]
    found.update(graphs)
    return {"rows": found}

made = {}
def of(name):
    if name not in made: made[name] = network(name)
    return made[name]

def make(name):
    of(name)
    return {}

def steps(name, number):
    step = of(name)
    begin = time.perf_counter()
    for _ in range(int(number)): step()
    torch.cuda.synchronize()
    return {"steps": int(number), "seconds": time.perf_counter() - begin}

def seconds(name, length):
    step, done = of(name), 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < float(length):
        step()
        torch.cuda.synchronize()
        done += 1
    return {"steps_per_s": done / (time.perf_counter() - begin)}

def marked(name, number):
    step = of(name)
    for at in range(int(number)):
        torch.cuda.nvtx.range_push("step"); step(); torch.cuda.synchronize(); torch.cuda.nvtx.range_pop()
    return {}

def profile(name, number):
    from torch.profiler import profile, ProfilerActivity
    step = of(name)
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(int(number)): step()
        torch.cuda.synchronize()
    kernels = {}
    for e in p.events():
        if str(e.device_type).endswith("CUDA") and not e.name.startswith(("Mem", "Context")):
            row = kernels.setdefault(e.name, [0, 0.0])
            row[0] += 1
            row[1] += 1e3 * (e.self_device_time_total if hasattr(e, "self_device_time_total") else e.cuda_time_total)
    return {"device_ns": sum(r[1] for r in kernels.values()) / int(number),
            "kernels": sum(r[0] for r in kernels.values()) / int(number),
            "top": sorted(([n, r[0] / int(number), r[1] / r[0]] for n, r in kernels.items()), key=lambda r: -r[1] * r[2])[:8]}

if len(sys.argv) > 1:
    what = sys.argv[1:]
    print(json.dumps(globals()[what[0]](*what[1:])), flush=True)
else:
    for line in sys.stdin:
        word, *rest = line.split()
        print(json.dumps(globals()[word](*rest)), flush=True)
"""
# The name under which launches of graphs are counted as a whole.
GRAPHS = "(graphs)"
NETWORKS = ["resnet50", "bert", "train", "graph"]
# Turns of counters=off and counters=sampled.
PAIRS = 20
# Work that goes on until it is ended; one block, some blocks, all SMs, and mixes of copies and kernels.
SAMPLES = [("spin", "--blocks", "1"), ("n_body", "--blocks", "8"), ("matrix_multiply",), ("mlp_inference",),
           ("convnet_inference",), ("reduction",), ("vector_add",), ("histogram",), ("scan",)]
# Where there are no networks.
MORE_SAMPLES = [("mandelbrot",), ("pipeline",), ("globals",)]


def libcupti():
    """CUPTI as torch brings it along, or None."""
    found = [path for folder in map(Path, sys.path) for path in folder.glob("nvidia/*/lib/libcupti.so.1?")]
    return str(found[0]) if found else None


class OutOfTime(Exception):
    pass


class Bench:
    def __init__(self, arguments, directory):
        self.dist, self.directory = arguments.dist.resolve(), directory
        self.end = time.monotonic() + arguments.budget
        self.part_end = self.end
        self.program = directory / "program.py"
        self.program.write_text(PROGRAM)
        self.environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(directory / "pipe"),
                            "CUDA_MPS_LOG_DIRECTORY": str(directory / "log"),
                            "OPENMPS_PROVIDER": os.environ.get("OPENMPS_PROVIDER", "vendor")}
        if cupti := libcupti():
            self.environment.setdefault("OPENMPS_CUPTI", cupti)

    def left(self, most=60):
        """Seconds that a step may take; stops the part if there are none."""
        left = min(self.end, self.part_end) - time.monotonic()
        if left < 2:
            raise OutOfTime
        return min(left, most)

    def run(self, *words, most=60, **options):
        options = {"env": self.environment, **options}
        # A group of its own: what it started ends with it.
        process = subprocess.Popen([str(w) for w in words], text=True, stdin=subprocess.DEVNULL, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        try:
            out, err = process.communicate(timeout=self.left(most))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def openmps(self, *words, **options):
        done = self.run(self.dist / "bin/openmps", *words, **options)
        if done.returncode:
            raise RuntimeError(f"openmps {words[0]}: {done.stderr[-800:]}")
        return done

    def shell(self, line):
        done = self.run(self.dist / "bin/nvidia-cuda-mps-control", *line.split(), most=20)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def words(self, *what):
        return [sys.executable, str(self.program), *what]


class Torch:
    """The program, natively or under openmps; ended on exit."""

    def __init__(self, bench, way):
        self.bench = bench
        before = [str(bench.dist / "bin/openmps"), "run", "-q", "--"] if way == "openmps" else []
        environment = bench.environment if before else {k: v for k, v in os.environ.items() if k != "OPENMPS_PROVIDER"}
        self.log = open(bench.directory / f"{way}.log", "w+")
        self.process = subprocess.Popen([*before, *bench.words()], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, *what, most=60):
        self.process.stdin.write((" ".join(map(str, what)) + "\n").encode())
        self.process.stdin.flush()
        end = time.monotonic() + self.bench.left(most)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0, end - time.monotonic())):
                    raise RuntimeError(f"no answer in time: {what}")
                part = os.read(self.process.stdout.fileno(), 65536)
                if not part:
                    self.log.seek(0)
                    raise RuntimeError(f"{what}: the program ended: {self.log.read()[-2500:]}")
                self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)


def by_shape(counts):
    """Launches and mean time, ns, by kernel and shape; kernels that were never timed have no mean."""
    rows = {}
    for client in counts:
        for kernel in client["kernels"]:
            for shape in kernel["shapes"]:
                key = (kernel["name"], str(shape["grid"]), str(shape["block"]), shape["dynamic_shared_bytes"])
                rows[key] = (shape["launches"], shape["mean_ns"] if shape["samples"] else None)
    return rows


def counted(before, after, steps):
    """Device time and launches of a step, by what `counts` said; and the kernels that took most."""
    device_ns = launches = untimed = whole_ns = 0
    means = collections.defaultdict(lambda: [0, 0])
    for key, (number, mean) in after.items():
        grown = number - before.get(key, (0, None))[0]
        launches += grown
        if key[0] == GRAPHS:
            # The same time once more: that of its kernels and of what is between them.
            launches -= grown
            whole_ns += grown * (mean or 0)
        elif mean is None:
            untimed += grown
        else:
            device_ns += grown * mean
            means[key[0]][0] += grown
            means[key[0]][1] += grown * mean
    top = sorted(([name, n / steps, ns / n] for name, (n, ns) in means.items() if n), key=lambda r: -r[1] * r[2])
    return {"device_ns": device_ns / steps, "kernels": launches / steps, "untimed_launches": untimed,
            "graphs_ns": whole_ns / steps, "top": top[:8]}


def part_pairs(bench, keep):
    with Torch(bench, "native") as native:
        rows = native.ask("pairs", 40)["rows"]
    for name, row in rows.items():
        said = f"{name}: two events see {row['pair_ns']:.0f} ns"
        if "behind_writes_ns" in row:
            said += f", behind writes {row['behind_writes_ns']:.0f}, behind much code {row['behind_code_ns']:.0f}, and 64 MiB {row['behind_all_ns']:.0f}"
        if "cupti_ns" in row:
            said += f", CUPTI {row['cupti_ns']:.0f}, so events cost {row['cost_ns']:.0f}"
        print(said, flush=True)
    keep("rows", rows)


def part_time(bench, keep):
    with Torch(bench, "native") as native, Torch(bench, "openmps") as shared:
        # The server starts, and measures meanwhile what events cost.
        shared.ask("make", "empty")
        empty = native.ask("profile", "empty", 10)
        profiled = {network: native.ask("profile", network, 20) for network in NETWORKS}
        for _ in range(100):
            report = bench.shell("report")
            device = report["servers"][0]["devices"][0]["counts"]
            # It is measured a second after the server's start, or when its clients leave the device idle.
            if device.get("event_cost_ns") is not None:
                break
            time.sleep(0.1)
        events = {"empty_kernel_ns": empty["device_ns"] / max(1, empty["kernels"]),
                  "event_pair_ns": device.get("event_pair_ns"), "event_cost_ns": device.get("event_cost_ns")}
        print(f"events: {events}", flush=True)
        keep("events", events)
        events_of = {}
        for counters in ["sampled", "cupti"]:
            try:
                bench.openmps("set", "--counters", counters)
            except RuntimeError as error:
                keep(f"{counters}: failed", str(error))
                print(error, flush=True)
                continue
            for network in NETWORKS:
                shared.ask("make", network)
                before = by_shape(bench.shell("counts"))
                # Samples are some hundred a second, and CUPTI's windows are one a second.
                steps, seconds, end = 0, 0, time.monotonic() + (2 if counters == "sampled" else 2.2)
                while time.monotonic() < end:
                    done = shared.ask("steps", network, 50)
                    steps, seconds = steps + 50, seconds + done["seconds"]
                time.sleep(0.3 if counters == "sampled" else 1.2)
                cupti, row = profiled[network], counted(before, by_shape(bench.shell("counts")), steps)
                row.update(cupti_ns=cupti["device_ns"], cupti_kernels=cupti["kernels"], cupti_top=cupti["top"],
                           error=row["device_ns"] / cupti["device_ns"] - 1, steps_per_s=steps / seconds,
                           longer_a_launch_ns=(row["device_ns"] - cupti["device_ns"]) / max(1, cupti["kernels"]))
                print(f"{network} {counters}: CUPTI {cupti['device_ns'] / 1e6:.3f} ms a step, openmps "
                      f"{row['device_ns'] / 1e6:.3f} ms, {100 * row['error']:+.1f} %, "
                      f"{row['longer_a_launch_ns']:.0f} ns a launch", flush=True)
                if counters == "cupti" and (sampled := events_of.get(network)):
                    # CUPTI in the server sees the very launches that events do: some kernels take longer or
                    # shorter there than natively.
                    row["events_of_servers_cupti"] = sampled / row["device_ns"] - 1
                    print(f"{network}: events {100 * row['events_of_servers_cupti']:+.1f} % of CUPTI's in the server", flush=True)
                elif counters == "sampled":
                    events_of[network] = row["device_ns"]
                keep(f"{network} {counters}", row)
        bench.openmps("set", "--counters", "sampled")


def part_overhead(bench, keep):
    with Torch(bench, "native") as native, Torch(bench, "openmps") as shared:
        for network in ["launch", "graph", "bert", "resnet50"]:
            native.ask("make", network), shared.ask("make", network)
            ways = {way: [] for way in ["native", "off", "sampled", "every", "cupti", "traced"]}

            def measure(kind, length):
                bench.openmps("set", "--counters", kind)
                ways[kind].append(shared.ask("seconds", network, length)["steps_per_s"])

            # What promises 1 % in turns, each first every other time; the rest twice.
            for turn in range(PAIRS):
                for kind in ["off", "sampled"] if turn % 2 else ["sampled", "off"]:
                    measure(kind, 0.15)
            kinds = ["every", "cupti"]
            for _ in range(2):
                ways["native"].append(native.ask("seconds", network, 0.4)["steps_per_s"])
                for kind in list(kinds):
                    try:
                        # A window of CUPTI's in each second.
                        measure(kind, 1.0 if kind == "cupti" else 0.3)
                    except RuntimeError as error:
                        kinds.remove(kind)
                        keep(f"{network} {kind}: failed", str(error))
            bench.openmps("set", "--counters", "sampled")
            recorder = subprocess.Popen([str(bench.dist / "bin/openmps"), "trace", "--seconds", "30", "-o",
                                         str(bench.directory / "overhead.pftrace")], env=bench.environment,
                                        stderr=subprocess.PIPE, text=True)
            recorder.stderr.readline()
            for _ in range(2):
                ways["traced"].append(shared.ask("seconds", network, 0.5)["steps_per_s"])
            recorder.send_signal(signal.SIGINT)
            said = recorder.communicate(timeout=bench.left())[1].strip()
            row = {way: statistics.median(values) for way, values in ways.items() if values}
            # Neighbours in time are compared.
            ratios = sorted(b / a for a, b in zip(ways["off"], ways["sampled"]))
            ratio = {"sampled": statistics.median(ratios)}
            ratio.update((kind, row[kind] / row["off"]) for kind in kinds)
            quartiles = [ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]]
            # Of a median of values that scatter like these.
            error = 0.93 * (quartiles[1] - quartiles[0]) / len(ratios) ** 0.5
            row["sampled_of_off"] = {"quartiles": quartiles, "standard_error": error, "all": ratios}
            row.update(all=ways, of_native=row["sampled"] / row["native"], of_off=ratio,
                       traced_of_openmps=row["traced"] / row["sampled"], trace=said)
            print(f"{network}: native {row['native']:.1f} steps/s, openmps {row['of_native']:.3f} of it; of counters=off: "
                  + ", ".join(f"{kind} {of:.3f}" for kind, of in ratio.items())
                  + f"; sampled's standard error {error:.3f}; traced {row['traced_of_openmps']:.3f} of sampled; {said}", flush=True)
            keep(network, row)


def part_advise(bench, keep):
    sample = lambda words: [bench.dist / "lib/openmps/samples" / words[0], *words[1:], "--seconds", "600"]
    tries = [(" ".join(words), sample(words)) for words in SAMPLES]
    if importlib.util.find_spec("torch"):
        # Networks take seconds to start, each copy of them: after the samples, while there is time.
        tries += [(name, bench.words("seconds", name, "600")) for name in ["bert", "resnet50", "train"]]
    else:
        tries += [(" ".join(words), sample(words)) for words in MORE_SAMPLES]
    print("| program | 2 copies | predicted | 4 | predicted | 8 | predicted |")
    near = right = number = 0
    for name, words in tries:
        try:
            done = bench.run(bench.dist / "bin/openmps", "advise", "--json", "--seconds", "1", "--", *words, most=45)
        except subprocess.TimeoutExpired as error:
            done = subprocess.CompletedProcess(words, 1, "", f"no end within {error.timeout:.0f} s")
        if done.returncode:
            keep(name, {"error": done.stderr[-600:]})
            print(name, done.stderr[-300:], flush=True)
            continue
        advice = json.loads(done.stdout)
        cells = []
        for m in advice["measured"]:
            m["off"] = m["predicted"] / m["gain"] - 1
            number += 1
            near += abs(m["off"]) <= 0.2
            # Either both say that copies gain a tenth or more, or both that they do not.
            right += (m["predicted"] > 1.1) == (m["gain"] > 1.1) or abs(m["predicted"] - m["gain"]) < 0.1
            cells += [f"{m['gain']:.2f}", f"{m['predicted']:.2f} ({100 * m['off']:+.0f} %)"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        keep(name, {key: advice[key] for key in ["measured", "words", "analysis"]})
    said = f"{near} of {number} within 20 %, {right} with the right sign"
    print(said, flush=True)
    keep("all", said)


def part_profilers(bench, keep):
    run = [str(bench.dist / "bin/openmps"), "run", "-q", "--"]
    plain = bench.words("steps", "bert", "20")
    small = [str(bench.dist / "lib/openmps/samples/vector_add"), "--iterations", "20"]
    tries = {
        "torch.profiler": [*run, *bench.words("profile", "bert", "20")],
        "nsys": ["nsys", "profile", "-t", "cuda,nvtx", "--force-overwrite", "true", "-o", str(bench.directory / "n"), *run, *plain],
        "ncu": ["ncu", "--launch-count", "3", *run, *small],
        "compute-sanitizer": ["compute-sanitizer", *run, *small],
        "cuda-gdb": ["cuda-gdb", "-batch", "-ex", "run", "--args", *run, *small],
    }
    for tool, words in tries.items():
        found = tool == "torch.profiler" or shutil.which(words[0])
        if not found:
            keep(tool, "not installed")
            continue
        try:
            done = bench.run(*words, most=40)
            keep(tool, {"status": done.returncode, "said": (done.stdout + done.stderr)[-2500:]})
        except subprocess.TimeoutExpired as error:
            keep(tool, f"no end within {error.timeout:.0f} s")


def part_trace(bench, keep):
    path = bench.directory / "trace.json"
    done = bench.openmps("run", "-q", "--trace", path, "--", *bench.words("marked", "resnet50", "20"), most=50)
    events = json.loads(path.read_text())["traceEvents"]
    begun = collections.Counter(e.get("cat") for e in events if e["ph"] == "B")
    arrows = sum(e["ph"] == "f" for e in events)
    # The steps' ranges and the kernels that began within them.
    ranges, begin = [], None
    for e in events:
        if e["ph"] == "B" and e.get("cat") == "nvtx":
            begin = (e["tid"], e["ts"])
        elif e["ph"] == "E" and begin and e["tid"] == begin[0]:
            ranges.append((begin[1], e["ts"]))
            begin = None
    inside = sum(any(a <= e["ts"] <= b for a, b in ranges) for e in events if e["ph"] == "B" and e.get("cat") == "kernel")
    row = {"slices": dict(begun), "arrows": arrows, "ranges": len(ranges), "kernels_in_ranges": inside, "said": done.stderr.strip()}
    print(row, flush=True)
    keep("resnet50", row)


# Parts with the most seconds that each may take, in the order of what is to be learnt first.
PARTS = {"pairs": (part_pairs, 30), "time": (part_time, 100), "overhead": (part_overhead, 90), "trace": (part_trace, 30),
         "profilers": (part_profilers, 45), "advise": (part_advise, 150)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("observe.json"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--budget", type=float, default=180, help="seconds for all parts")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="openmps-observe-") as directory:
        bench = Bench(arguments, Path(directory))
        bench.openmps("up")
        try:
            for name in arguments.parts.split(","):
                part, seconds = PARTS[name]
                bench.part_end = time.monotonic() + seconds
                rows = results.setdefault(name, {})

                def keep(key, value):
                    rows[key] = value
                    arguments.output.write_text(json.dumps(results, indent=1) + "\n")

                try:
                    part(bench, keep)
                except OutOfTime:
                    keep("left_out", "the time was up")
                except Exception as error:
                    keep("failed", f"{error}"[-3000:])
                    traceback.print_exc()
                print(f"{name}: {[key for key in rows]}, {bench.end - time.monotonic():.0f} s left", flush=True)
        finally:
            subprocess.run([str(bench.dist / "bin/openmps"), "down", "--timeout", "0"], env=bench.environment,
                           capture_output=True)


if __name__ == "__main__":
    main()
