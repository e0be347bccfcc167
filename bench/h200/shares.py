#!/usr/bin/env python3
"""Shares of SMs and limits of memory: openmps beside NVIDIA's MPS at the same setting.

    shares.py DIST --output FILE [--ways mps,openmps] [--parts shares,graphs,live,memory,contexts,clusters,networks]
              [--percent 25] [--seconds 5]

DIST is an installation, as for run.py. About three minutes without clusters and networks, which take two and three
more; FILE is written after each part and each group of processes, and what it has of other parts and ways stays:

    shares   kernels a second at 25, 50, 75 and 100 % (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE), of 4 blocks and of
             as many as fill the device, the SMs that blocks were on, and what the attribute says
    graphs   the same share's SMs for launches of a graph
    live     `openmps set --sms` while a program fills the device: how long until its blocks are on the
             new SMs only, there and back, for launches and for graphs
    memory   a program with a limit of 2 GiB: how much it gets, what cuMemGetInfo says, what a neighbour
             without one gets meanwhile; PyTorch's error, if PyTorch is there
    contexts contexts with SMs of their own in one program: by CUexecAffinityParam (an eighth and half of the
             SMs) and by CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING (20 and 50 %): what each
             is told, what cuCtxGetExecAffinity says, the SMs that its blocks and its graphs were on
    clusters at 25, 50, 99 and 100 %: how many clusters of 1 to 16 blocks cuOccupancyMaxActiveClusters says fit, and
             whether a launch of them runs; the same of as many cooperative blocks as the SMs that the program is told
             have room for; BERT-base, whose kernels have clusters of 8, by launches and as a graph: us a step, a
             digest of what came out. Then four processes of it at 25 % at once: the last one's SMs are the device's last
    networks eight processes of ResNet-50 (networks.py) at 12.5, 25, 50 and 100 % each, for --seconds: steps a second of all

--percent N is the only percentage of clusters and networks then: `--parts networks --percent 25` takes a minute and a half.

On NVIDIA's driver shares are green contexts: groups of SMs, of 2 or 8. Called by itself as
`shares.py worker|torch ...`, it is one of these programs. On the software GPU: OPENMPS_PROVIDER=soft.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from common import Way  # noqa: E402

SHARES = (25, 50, 75, 100)
NETWORK_SHARES = (12.5, 25, 50, 100)
CLUSTER_SHARES = (25, 50, 99, 100)
CLUSTERS = (1, 2, 4, 8, 16)
SECONDS = 2.0
LIVE_SECONDS_MAX = 10.0
MIB = 1 << 20
LIMIT_MIB = 2048
MULTIPROCESSOR_COUNT = 16
SM_COUNT = 0
PROCESSES = 8
BERTS = 4
STEPS = 300
NON_PORTABLE_CLUSTERS = 14
CLUSTER = 4
NON_BLOCKING = 1
CAPTURE_RELAXED = 2
OUT_OF_MEMORY = 2
WORDS = 1024

# Notes its SM, then computes for so many rounds.
PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 sms, .param .u32 rounds) {
    .reg .b64 %p<4>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .pred %q;
    ld.param.u64 %p1, [sms];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %smid;
    mul.wide.u32 %p2, %r2, 4;
    add.u64 %p1, %p1, %p2;
    mov.u32 %r3, 1;
    st.global.u32 [%p1], %r3;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F800001;
loop:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %q, %r1, 0;
    @%q bra loop;
    setp.eq.f32 %q, %f1, 0f00000000;
    @%q st.global.u32 [%p1+4096], %r1;
    ret;
}
"""


# Clusters need no code of their own.
EMPTY_PTX = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n\0"


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Driver:
    """The driver API as programs load it."""

    def __init__(self, sms=None):
        """In the primary context; in one of its own of so many SMs, or (0) of as many as the environment
        says, if `sms` is given."""
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        context = ctypes.c_void_p()
        if sms is None:
            self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
            self("cuCtxSetCurrent", context)
        elif sms:
            affinity = (ctypes.c_uint32 * 2)(SM_COUNT, sms)
            self("cuCtxCreate_v3", ctypes.byref(context), affinity, 1, 0, 0)
        else:
            self("cuCtxCreate_v2", ctypes.byref(context), 0, 0)

    def sms(self):
        number = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(number), MULTIPROCESSOR_COUNT, 0)
        return number.value

    def affinity(self):
        """What cuCtxGetExecAffinity says of the current context: SMs, or its error."""
        answer = (ctypes.c_uint32 * 2)()
        result = self.call("cuCtxGetExecAffinity", answer, SM_COUNT)
        return f"error {result}" if result else answer[1]

    def __call__(self, name, *arguments):
        result = self.call(name, *arguments)
        if result:
            raise SystemExit(f"{name} answered {result}")

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def allocate(self, size):
        address = ctypes.c_uint64()
        result = self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return result, address

    def memory_info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


class Worker:
    """Launches one kernel in one stream, by itself or as a graph, and knows which SMs it was on."""

    def __init__(self, blocks, rounds, graph, driver=None):
        self.driver = driver or Driver()
        self.told = self.driver.sms()
        self.blocks = blocks or 16 * 132
        module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver("cuModuleLoadData", ctypes.byref(module), PTX + b"\0")
        self.driver("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"work")
        result, self.notes = self.driver.allocate(8 * WORDS)
        if result:
            raise SystemExit(f"cuMemAlloc answered {result}")
        self.rounds = ctypes.c_uint32(rounds)
        self.parameters = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self.notes), ctypes.c_void_p),
            ctypes.cast(ctypes.byref(self.rounds), ctypes.c_void_p))
        self.stream, self.graph = ctypes.c_void_p(), None
        self.driver("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
        self.once()
        self.wait()
        if graph:
            self.driver("cuStreamBeginCapture_v2", self.stream, CAPTURE_RELAXED)
            self.once()
            captured, made = ctypes.c_void_p(), ctypes.c_void_p()
            self.driver("cuStreamEndCapture", self.stream, ctypes.byref(captured))
            self.driver("cuGraphInstantiateWithFlags", ctypes.byref(made), captured,
                        ctypes.c_ulonglong(0))
            self.graph = made

    def once(self):
        self.driver("cuLaunchKernel", self.kernel, self.blocks, 1, 1, 256, 1, 1, 0, self.stream,
                    self.parameters, None)

    def launch(self):
        if self.graph:
            self.driver("cuGraphLaunch", self.graph, self.stream)
        else:
            self.once()

    def wait(self):
        self.driver("cuStreamSynchronize", self.stream)

    def clear(self):
        self.driver("cuMemsetD8Async", self.notes, ctypes.c_ubyte(0),
                    ctypes.c_size_t(4 * WORDS), self.stream)
        self.wait()

    def used(self):
        """SMs that wrote since the notes were cleared."""
        words = (ctypes.c_uint32 * WORDS)()
        self.driver("cuMemcpyDtoH_v2", words, self.notes, ctypes.c_size_t(4 * WORDS))
        return [number for number, word in enumerate(words) if word == 1]


def worker(arguments):
    """Measures for a while; with --follow says every look which SMs it is on until it is ended."""
    this = Worker(arguments.blocks, arguments.rounds, arguments.graph)
    for _ in range(20):
        this.launch()
    this.wait()
    if arguments.follow:
        while True:
            this.clear()
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                for _ in range(8):
                    this.launch()
                this.wait()
            print(json.dumps({"at": time.monotonic(), "sms": len(this.used())}), flush=True)
    this.clear()
    launches, begin = 0, time.monotonic()
    while time.monotonic() - begin < SECONDS:
        for _ in range(16):
            this.launch()
        this.wait()
        launches += 16
    seconds = time.monotonic() - begin
    used = this.used()
    print(json.dumps({"told": this.told, "sms": len(used), "first": used[0], "last": used[-1],
                      "per_s": launches / seconds}))


def contexts(arguments):
    """Two contexts of different sizes, one after the other, in one program."""
    rows = []
    whole = Driver().sms()
    for share in (12.5, 50) if arguments.affinity else (20, 50):
        if arguments.affinity:
            driver = Driver(round(whole * share / 100))
        else:
            os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share)
            driver = Driver(0)
        row = {"share": share, "affinity": driver.affinity()}
        for graph in (False, True):
            this = Worker(0, 2_000, graph, driver)
            row["told"] = this.told
            this.clear()
            for _ in range(20):
                this.launch()
            this.wait()
            row["sms of a graph" if graph else "sms"] = len(this.used())
        rows.append(row)
    print(json.dumps({"whole": whole, "contexts": rows}))


def fits():
    """What is said of clusters and cooperative launches of 1024 threads a block, and what they answer."""
    driver = Driver()
    module, kernel, blocks = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    driver("cuModuleLoadData", ctypes.byref(module), EMPTY_PTX)
    driver("cuModuleGetFunction", ctypes.byref(kernel), module, b"empty")
    driver("cuFuncSetAttribute", kernel, NON_PORTABLE_CLUSTERS, 1)
    driver("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), kernel, 1024, ctypes.c_size_t(0))
    row = {"told": driver.sms(), "cooperative blocks": driver.sms() * blocks.value}
    answer = driver.call("cuLaunchCooperativeKernel", kernel, row["cooperative blocks"], 1, 1, 1024, 1, 1, 0, None, None)
    row["cooperative"] = answer or driver.call("cuCtxSynchronize")
    for size in CLUSTERS:
        attribute = Attribute(CLUSTER, 0, (size, 1, 1))
        config = Config((16 * 132, 1, 1, 1024, 1, 1, 0), None, ctypes.pointer(attribute), 1)
        asked = driver.call("cuOccupancyMaxActiveClusters", ctypes.byref(blocks), kernel, ctypes.byref(config))
        answer = driver.call("cuLaunchKernelEx", ctypes.byref(config), kernel, None, None)
        row[f"clusters of {size}"] = {"fit": f"error {asked}" if asked else blocks.value,
                                      "launch": answer or driver.call("cuCtxSynchronize")}
    print(json.dumps(row))


def bert():
    """BERT-base, fp16, 128 tokens, by launches and as a graph."""
    import torch
    from networks import digest
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig()).eval().half().cuda()
    tokens = torch.randint(0, 30000, (1, 128)).cuda()
    graph, warming = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def timed(step):
        times = []
        for _ in range(STEPS):
            begin = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1e6)
        return sorted(times)[STEPS // 2]

    with torch.inference_mode():
        with torch.cuda.stream(warming):
            for _ in range(5):
                launched = model(tokens).last_hidden_state
        torch.cuda.synchronize()
        row = {"told": torch.cuda.get_device_properties(0).multi_processor_count, "launches_us": timed(lambda: model(tokens)),
               "launches": digest([launched])}
        with torch.cuda.graph(graph):
            result = model(tokens).last_hidden_state
        row["graph_us"] = timed(graph.replay)
        row["graph"] = digest([result])
    print(json.dumps(row))


def greedy(arguments):
    """Allocates 64 MiB at a time until there is no more."""
    driver = Driver()
    before = driver.memory_info()
    got, result = 0, 0
    while result == 0 and got < arguments.blocks:
        result, _ = driver.allocate(64 * MIB)
        got += 64 if result == 0 else 0
    free, total = driver.memory_info()
    print(json.dumps({"got_mib": got, "error": result, "free_before_mib": before[0] // MIB,
                      "total_mib": total // MIB, "free_mib": free // MIB}))


def torch_program():
    import torch
    held = []
    error = ""
    try:
        for _ in range(200):
            held.append(torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as raised:
        error = str(raised)[:200]
    got = len(held)
    del held
    torch.cuda.empty_cache()
    again = float(torch.ones(1000, device="cuda").sum())
    print(json.dumps({"got_mib": 64 * got, "error": error, "goes_on": again == 1000.0,
                      "info_mib": [part // MIB for part in torch.cuda.mem_get_info()]}))


def own(*words):
    return [sys.executable, __file__, *map(str, words)]


def run_one(way, words, variables=None):
    """One program's result."""
    way.begin_group()
    kept = dict(way.environment)
    way.environment.update(variables or {})
    try:
        result = way.result(way.start(own(*words)))
    finally:
        way.environment = kept
    return result if result is not None else {"failed": way.failures[-1:]}


def shares(way, graph=False):
    rows = {}
    for share in SHARES:
        variables = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)} if share < 100 else {}
        for name, blocks, rounds in (("4 blocks", 4, 20_000), ("full", 0, 2_000)):
            words = ["worker", "--blocks", blocks, "--rounds", rounds]
            words += ["--graph"] if graph else []
            rows[f"{share} % {name}"] = run_one(way, words, variables)
    return rows


def live(way):
    """How long `openmps set` takes to be seen under load."""
    openmps = str(way.dist / "bin/openmps")
    rows = {}
    for graph in (False, True):
        words = ["worker", "--blocks", 0, "--rounds", 2_000, "--follow"]
        program = way.start(own(*words, *(["--graph"] if graph else [])))
        try:
            sms = json.loads(program.stdout.readline())["sms"]
            for share, wanted in (("25%", sms // 4), ("50%", sms // 2), ("100%", sms)):
                begin = time.monotonic()
                done = subprocess.run([openmps, "set", str(program.pid), "--sms", share],
                                      env=way.environment, capture_output=True, text=True)
                row = {"set_s": time.monotonic() - begin, "error": done.stderr.strip()}
                while time.monotonic() - begin < LIVE_SECONDS_MAX:
                    look = json.loads(program.stdout.readline())
                    row["sms"] = look["sms"]
                    if wanted * 0.9 <= look["sms"] <= wanted:
                        row["seen_s"] = look["at"] - begin
                        break
                rows[f"{'graph' if graph else 'launches'} {share}"] = row
        except (ValueError, IndexError) as error:
            rows["failed"] = f"{error}: {program.poll()}"
        finally:
            program.kill()
            program.communicate()
    return rows


def memory(way):
    limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={LIMIT_MIB}M"}
    rows = {"driver API": run_one(way, ["greedy", "--blocks", 8192], limit),
            "neighbour without": run_one(way, ["greedy", "--blocks", 2 * LIMIT_MIB])}
    try:
        import torch  # noqa: F401
        rows["PyTorch"] = run_one(way, ["torch"], limit)
    except ImportError:
        pass
    return rows


def of_contexts(way):
    per_context = {"CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING": "1"}
    return {"CUexecAffinityParam": run_one(way, ["contexts", "--affinity"]),
            "percentage of each": run_one(way, ["contexts"], per_context)}


def of_share(share):
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{share:g}"} if share < 100 else {}


def together(way, words, count, share):
    """The results of several processes that run at once, and why others failed."""
    way.begin_group()
    kept = dict(way.environment)
    way.environment.update(of_share(share))
    processes = [way.start(words) for _ in range(count)]
    results = [way.result(process) for process in processes]
    way.environment = kept
    return [result for result in results if result], way.failures[:2]


def clusters(way, arguments, note):
    rows = {}
    for share in [arguments.percent] if arguments.percent else CLUSTER_SHARES:
        rows[f"{share:g} % fits"] = run_one(way, ["fits"], of_share(share))
        note(rows)
        rows[f"{share:g} % BERT"] = run_one(way, ["bert"], of_share(share))
        note(rows)
    good, failed = together(way, own("bert"), BERTS, 100 // BERTS)
    rows[f"{BERTS} x BERT at {100 // BERTS} %"] = {"processes": good, "failed": failed}
    return rows


def networks(way, arguments, note):
    """Steps a second of eight processes together, at each share."""
    rows = {}
    program = Path(__file__).parent / "networks.py"
    for share in [arguments.percent] if arguments.percent else NETWORK_SHARES:
        with tempfile.TemporaryDirectory() as directory:
            words = [sys.executable, program, "resnet50", arguments.seconds, directory, PROCESSES]
            results, failed = together(way, words, PROCESSES, share)
        good = [result["resnet50"]["per_s"] for result in results]
        rows[f"{share:g} %"] = {"processes": len(good), "per_s": sum(good), "failed": failed}
        note(rows)
    return rows


PARTS = {"shares": shares, "graphs": lambda way: shares(way, graph=True), "live": live,
         "memory": memory, "contexts": of_contexts, "clusters": clusters, "networks": networks}
# Those with several groups, each of which is noted.
LONG_PARTS = ("clusters", "networks")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", help="DIST, or worker, contexts, fits, bert, greedy, torch")
    parser.add_argument("--output")
    parser.add_argument("--ways", default="mps,openmps")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--percent", type=float)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--blocks", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--affinity", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "worker":
        return worker(arguments)
    if arguments.what == "contexts":
        return contexts(arguments)
    if arguments.what == "fits":
        return fits()
    if arguments.what == "bert":
        return bert()
    if arguments.what == "greedy":
        return greedy(arguments)
    if arguments.what == "torch":
        return torch_program()
    results = {}
    if arguments.output and Path(arguments.output).exists():
        results = json.loads(Path(arguments.output).read_text())

    def write():
        if arguments.output:
            # What was measured stays, should the next group take too long.
            Path(arguments.output).write_text(json.dumps(results, indent=1) + "\n")

    for name in arguments.ways.split(","):
        way = Way(name, Path(arguments.what).resolve())
        with way.running():
            for part in arguments.parts.split(","):
                if part == "live" and name == "mps":
                    continue
                print(f"{name} {part}", file=sys.stderr, flush=True)
                of_part = results.setdefault(part, {})

                def note(rows, of_part=of_part, name=name):
                    of_part[name] = rows
                    write()

                note(PARTS[part](way, arguments, note) if part in LONG_PARTS else PARTS[part](way))
                print(json.dumps(results[part][name], indent=1), file=sys.stderr, flush=True)
        notable = ("not kept", "limit of", "refused")
        lines = [line for line in way.log.splitlines() if any(word in line for word in notable)]
        results.setdefault("log", {})[name] = lines[:20]
        write()
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
