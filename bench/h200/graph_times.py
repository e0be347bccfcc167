#!/usr/bin/env python3
"""Where the time of BERT's graph goes that takes longer through openmps: in its kernels, or between them.

    graph_times.py DIST [--output FILE] [--variants [--only REGEX]]

BERT-base as a graph (latency.py), one launch after the other: the median of a launch, natively and through openmps, and
of each kernel and shape the mean time by CUPTI: torch.profiler's natively, the server's own (`openmps set --counters cupti`)
through openmps. Where a kernel begins before the one before it has ended, their common time counts once, both ways. Says the
sum of the kernels' times, what is left of a launch for the gaps between them, which kernels differ most, and the clock of the SMs
meanwhile. DIST is an installation, as for run.py. A minute. Needs PyTorch and transformers.

--variants also times the graph with what a server does and a program does not, one thing at a time, and says which of them brings the
native time near that of openmps (or openmps near the native one): two minutes more. Natively: 32 hardware queues; memory that is mapped; and
by GRAPH_TIMES_SETUP: `register`, 64 MiB of shared memory that the device reaches; `words`, the same with a word written there
behind each launch; `stack`, a stack of 32 KiB a thread, for which local memory is kept; `stream`, a stream of the highest priority;
`process`, an idle context of another process; `built`, the graph of a second BERT, put together node by node, with what its edges say of early
beginnings; `built,full`, with full edges alone (graph_builds.py makes the first one's in more ways, none of which matters). Through openmps: 8 queues; counters off;
modules loaded eagerly; and 99 % of the SMs, for which nodes are captured in a green context's stream.

Called as `graph_times.py replay` it is the program: `launches NUMBER`, `replay SECONDS` and `profile NUMBER` on its standard
input, one JSON line on its standard output.
"""

import argparse
import ctypes
import json
import mmap
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
LAUNCHES = 1000
# What must live as long as the program.
KEPT = []
SETUPS = ["register", "words", "stack", "stream", "process", "built", "built,full", "register,words,stack,process,built"]
VARIANTS = [*[("native", {"GRAPH_TIMES_SETUP": setup}) for setup in SETUPS],
            ("native", {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}),
            ("native", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
            ("openmps", {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}), ("openmps", {"OPENMPS_COUNTERS": "off"}),
            ("openmps", {"CUDA_MODULE_LOADING": "EAGER"}), ("openmps", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "99"})]


# The program.


def replay():
    import latency
    import torch
    torch.manual_seed(0)
    kinds = set(filter(None, os.environ.get("GRAPH_TIMES_SETUP", "").split(",")))
    step = varied(torch, latency, kinds) if kinds else latency.bert(torch)
    for _ in range(50):
        step()
    torch.cuda.synchronize()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        word, number = line.split()
        print(json.dumps(globals()[f"do_{word}"](torch, step, float(number))), flush=True)


def check(result, what):
    if result:
        raise RuntimeError(f"{what}: CUDA error {result}")


def varied(torch, latency, kinds):
    """BERT as a graph in a process that does some of what a server does."""
    cuda = ctypes.CDLL("libcuda.so.1")
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    if "stack" in kinds:
        check(cuda.cuCtxSetLimit(0, ctypes.c_size_t(32 << 10)), "cuCtxSetLimit")
    word = None
    if kinds & {"register", "words"}:
        file, size = os.memfd_create("region"), 64 << 20
        os.ftruncate(file, size)
        region = mmap.mmap(file, size)
        KEPT.append(ctypes.c_char.from_buffer(region))
        address = ctypes.addressof(KEPT[-1])
        # CU_MEMHOSTREGISTER_PORTABLE | DEVICEMAP
        check(cuda.cuMemHostRegister_v2(ctypes.c_void_p(address), ctypes.c_size_t(size), 3), "cuMemHostRegister")
        word = ctypes.c_uint64()
        check(cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(word), ctypes.c_void_p(address), 0), "cuMemHostGetDevicePointer")
    if "process" in kinds:
        other = "import ctypes, sys; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); p = ctypes.c_void_p(); " \
                "print(c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0), flush=True); sys.stdin.read()"
        # It ends with its standard input.
        KEPT.append(subprocess.Popen([sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        check(int(KEPT[-1].stdout.readline()), "the other process")
    graph = latency.bert(torch)
    stream = torch.cuda.Stream(priority=-1) if "stream" in kinds else torch.cuda.current_stream()
    handle = ctypes.c_void_p(stream.cuda_stream)
    launch = rebuilt(torch, latency, cuda, "full" in kinds) if "built" in kinds else graph
    number = [0]

    def step():
        with torch.cuda.stream(stream):
            launch() if launch is graph else launch(handle)
        if "words" in kinds:
            number[0] += 1
            check(cuda.cuStreamWriteValue32_v2(handle, word, number[0], 0), "cuStreamWriteValue32")
    return step


def rebuilt(torch, latency, cuda, full):
    """BERT's graph put together anew from its kernel nodes, as a server does, its programmatic edges as `full` ones or as they are:
    a function that launches it in a stream."""
    # What cuGraphKernelNodeGetParams_v2 fills in.
    fields = [("func", ctypes.c_void_p), ("shape", ctypes.c_uint * 7), ("params", ctypes.c_void_p),
              ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]
    params = type("Params", (ctypes.Structure,), {"_fields_": fields})
    kept = []
    plain = torch.cuda.CUDAGraph
    torch.cuda.CUDAGraph = lambda *_: kept.append(plain(keep_graph=True)) or kept[-1]
    try:
        KEPT.append(latency.bert(torch))
    finally:
        torch.cuda.CUDAGraph = plain
    old, new, count = ctypes.c_void_p(kept[0].raw_cuda_graph()), ctypes.c_void_p(), ctypes.c_size_t()
    check(cuda.cuGraphGetNodes(old, None, ctypes.byref(count)), "cuGraphGetNodes")
    nodes = (ctypes.c_void_p * count.value)()
    check(cuda.cuGraphGetNodes(old, nodes, ctypes.byref(count)), "cuGraphGetNodes")
    check(cuda.cuGraphCreate(ctypes.byref(new), 0), "cuGraphCreate")
    made = {}
    for node in nodes:
        kind = ctypes.c_int()
        check(cuda.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)), "cuGraphNodeGetType")
        if kind.value != 0:
            raise RuntimeError(f"a node of kind {kind.value}: only kernels can be built again")
        values, built = params(), ctypes.c_void_p()
        check(cuda.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(node), ctypes.byref(values)), "cuGraphKernelNodeGetParams")
        if values.kern and not values.func:
            function = ctypes.c_void_p()
            check(cuda.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(values.kern)), "cuKernelGetFunction")
            values.func, values.kern = function.value, None
        values.ctx = None
        check(cuda.cuGraphAddKernelNode_v2(ctypes.byref(built), new, None, ctypes.c_size_t(0), ctypes.byref(values)),
              "cuGraphAddKernelNode")
        # Clusters and their like.
        check(cuda.cuGraphKernelNodeCopyAttributes(built, ctypes.c_void_p(node)), "cuGraphKernelNodeCopyAttributes")
        made[node] = built.value
    check(cuda.cuGraphGetEdges_v2(old, None, None, None, ctypes.byref(count)), "cuGraphGetEdges")
    ends = [(ctypes.c_void_p * count.value)() for _ in range(2)]
    # CUgraphEdgeData: 8 bytes each.
    data = (ctypes.c_uint64 * count.value)()
    check(cuda.cuGraphGetEdges_v2(old, *ends, data, ctypes.byref(count)), "cuGraphGetEdges")
    ends = [(ctypes.c_void_p * count.value)(*[made[node] for node in end]) for end in ends]
    check(cuda.cuGraphAddDependencies_v2(new, *ends, None if full else data, count), "cuGraphAddDependencies")
    exec_ = ctypes.c_void_p()
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(exec_), new, ctypes.c_ulonglong(0)), "cuGraphInstantiate")
    KEPT.extend(kept)
    return lambda stream: check(cuda.cuGraphLaunch(exec_, stream), "cuGraphLaunch")


def do_launches(torch, step, number):
    times = []
    for _ in range(int(number)):
        begin = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        times.append((time.monotonic_ns() - begin) / 1e3)
    return {"p50_us": round(statistics.median(times), 2), "least_us": round(min(times), 2)}


def do_replay(torch, step, seconds):
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step()
        torch.cuda.synchronize()
        number += 1
    return {"launches": number}


def do_profile(torch, step, number):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(int(number)):
            step()
            torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiled.export_chrome_trace(file.name)
        events = json.load(open(file.name))["traceEvents"]
    return {"kernels": kernel_rows(events, int(number))}


# What is made of the answers.


def base(name):
    """What a demangled name and the mangled one have in common: the function's own name."""
    name = re.sub(r"^.*>::type ", "", name.replace("(anonymous namespace)", ""))
    # Template arguments and parameters begin behind it.
    head = re.split(r"[<(]", name, maxsplit=1)[0]
    return head.split("::")[-1].split()[-1] if head.split() else name


def kernel_rows(events, replays):
    """Kernels of a profile, by own name, grid and block: how many a launch has, and their mean time, ns."""
    kernels = sorted((e for e in events if e.get("ph") == "X" and e.get("cat") == "kernel"), key=lambda e: e["ts"])
    rows, until, gaps = {}, 0, []
    for event in kernels:
        arguments, begin, end = event["args"], event["ts"], event["ts"] + event["dur"]
        row = rows.setdefault((base(event["name"]), str(arguments["grid"]), str(arguments["block"])), [0, 0.0])
        row[0] += 1
        row[1] += max(0, end - max(begin, until))
        gaps.append(max(0, begin - until))
        until = max(until, end)
    gap = statistics.median(gaps) if gaps else 0
    return {"gap_ns": round(1e3 * gap), "rows": [[*key, number / replays, round(1e3 * us / number)] for key, (number, us) in rows.items()]}


def counted_rows(counts, before):
    """The same, of what `counts` says; kernels that CUPTI has not timed have no mean."""
    def shapes(of):
        for client in of:
            for kernel in client["kernels"]:
                for shape in kernel["shapes"]:
                    yield kernel, shape, (kernel["name"], str(shape["grid"]), str(shape["block"]))
    earlier = {key: shape["launches"] for _, shape, key in shapes(before)}
    rows, graphs = [], 0
    for kernel, shape, key in shapes(counts):
        grown = shape["launches"] - earlier.get(key, 0)
        if kernel["name"] == "(graphs)":
            graphs += grown
        elif grown:
            rows.append([*key, grown, shape["mean_ns"] if kernel["timing"] == "cupti" and shape["samples"] else None])
    return [[name, grid, block, grown / max(1, graphs), mean] for name, grid, block, grown, mean in rows]


def compared(native, openmps):
    """Kernels of both: own name, grid, block, number a launch, means, and what they differ in all, ns."""
    rows, missing = [], []
    for name, grid, block, number, mean in native:
        found = [r for r in openmps if r[1] == grid and r[2] == block and name in r[0] and r[4] is not None]
        if not found:
            missing.append([name, grid, block, number])
            continue
        launches = sum(r[3] for r in found)
        other = sum(r[3] * r[4] for r in found) / launches
        rows.append([name, grid, block, number, mean, round(other), round(number * (other - mean))])
    rows.sort(key=lambda row: -abs(row[-1]))
    return rows, missing


# The measurement.


class Program:
    def __init__(self, environment, log):
        self.log = open(log, "w+")
        self.process = subprocess.Popen([sys.executable, str(Path(__file__).resolve()), "replay"], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.answer(90)

    def answer(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"no answer within {seconds} s")
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(f"the program ended: {self.log.read()[-1500:]}")
        return json.loads(line)

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, text, seconds=40):
        self.tell(text)
        return self.answer(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


def clock():
    """MHz of the SMs, or None."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None


def shell(way, *words):
    done = subprocess.run([str(way.dist / "bin/nvidia-cuda-mps-control"), *words], env=way.environment, capture_output=True,
                          text=True, timeout=20)
    return json.loads(done.stdout)


def with_clock(program, seconds):
    program.tell(f"replay {seconds}")
    time.sleep(seconds / 2)
    said = clock()
    program.answer(seconds + 20)
    return said


def measured(arguments, directory):
    from common import Way
    from observe import libcupti
    way = Way("native", arguments.dist)
    with way.running(), Program(way.environment, directory / "native.log") as program:
        native = program.ask(f"launches {LAUNCHES}")
        native["clock"] = with_clock(program, 1)
        profiled = program.ask("profile 50")["kernels"]
        native.update(gap_ns=profiled["gap_ns"], sum_us=round(sum(r[3] * r[4] for r in profiled["rows"]) / 1e3, 2))
        yield "native", native
    way = Way("openmps", arguments.dist)
    if cupti := libcupti():
        way.environment.setdefault("OPENMPS_CUPTI", cupti)
    with way.running(), Program(way.environment, directory / "openmps.log") as program:
        shared = program.ask(f"launches {LAUNCHES}")
        shared["clock"] = with_clock(program, 1)
        subprocess.run([str(way.dist / "bin/openmps"), "set", "--counters", "cupti"], env=way.environment, check=True,
                       capture_output=True, timeout=20)
        before = shell(way, "counts")
        program.ask("replay 6")
        rows = counted_rows(shell(way, "counts"), before)
        shared["sum_us"] = round(sum(r[3] * (r[4] or 0) for r in rows) / 1e3, 2)
        yield "openmps", shared
    both, missing = compared(profiled["rows"], rows)
    yield "kernels", {"compared": both, "not found": missing, "longer_us": round(sum(r[-1] for r in both) / 1e3, 2),
                      "untimed": [r for r in rows if r[4] is None][:20]}
    for name, settings in VARIANTS if arguments.variants else []:
        if not re.search(arguments.only, f"{name} {settings}"):
            continue
        way = Way(name, arguments.dist)
        way.environment.update(settings)
        try:
            with way.running(), Program(way.environment, directory / "variant.log") as program:
                row = program.ask(f"launches {LAUNCHES}")
        except (RuntimeError, OSError) as error:
            yield f"{name} {settings}", {"failed": str(error)[-600:]}
            continue
        # 0: as natively; 1: all that openmps takes longer.
        row["of_the_difference"] = round((row["p50_us"] - native["p50_us"]) / max(0.1, shared["p50_us"] - native["p50_us"]), 2)
        yield f"{name} {settings}", row


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "replay":
        return replay()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("graph_times.json"))
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--only", default="", help="variants whose names this regular expression finds")
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    rows = {}
    with tempfile.TemporaryDirectory(prefix="openmps-graph-") as directory:
        for name, row in measured(arguments, Path(directory)):
            rows[name] = row
            arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
            shown = {**row, "compared": row["compared"][:12]} if "compared" in row else row
            print(f"{name}: {json.dumps(shown)[:3500]}", flush=True)


if __name__ == "__main__":
    main()
