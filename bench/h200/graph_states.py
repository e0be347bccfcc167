#!/usr/bin/env python3
"""What of a process's history makes each launch of a graph longer for good.

    graph_states.py DIST [--output FILE] [--only REGEX]

BERT-base as a graph is captured first of all in a process and timed; then the process does what HISTORIES say, step by step, and
the same graph is timed after each: the median of 150 launches, each waited for, us. Natively it takes 1005 us until five kernels have been launched
one by one after it, and 1140 from then on, whichever kernels, streams and queues; so do graphs and models that are made then, in a green context too.

* `adds`: a small kernel a step. `copies`: a copy to the host, then a fill. `models`: the graph captured once more, a second model,
  the second with the first one's weights. `ways back`: what might restore the fast state (resetting L2 lines that persist, filling 1 GiB,
  an urgent stream, launches in a row, a rest). `green`: in a stream of a green context of all SMs.
* `adds` also with one hardware queue, longer launch queues, modules loaded eagerly, and through openmps, where the first graph is as long as natively the later ones.

DIST is an installation, as for run.py. A process a row, 10 to 15 s each, a minute and a half in all. Needs PyTorch and transformers.
Called as `graph_states.py history NAME` it is such a process: one JSON line on its standard output.
"""

import argparse
import ctypes
import json
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
LAUNCHES = 150
KEPT = []
VARIANTS = [
    ("native", "adds", {}),
    ("openmps", "adds", {}),
    ("openmps", "adds", {"OPENMPS_COUNTERS": "off"}),
    ("openmps", "adds", {"OPENMPS_CLASS": "latency"}),
    ("native", "models", {}),
    ("native", "copies", {}),
    ("native", "ways back", {}),
    ("native", "green", {}),
    ("native", "adds", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    ("native", "adds", {"CUDA_SCALE_LAUNCH_QUEUES": "4x"}),
    ("native", "adds", {"CUDA_MODULE_LOADING": "EAGER"}),
]


def launch_us(torch, graph):
    times = []
    for _ in range(LAUNCHES + 20):
        begin = time.monotonic_ns()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.monotonic_ns() - begin) / 1e3)
    return round(sorted(times[20:])[LAUNCHES // 2], 1)


class History:
    """A process that has BERT as a graph; a method is a history, which yields the name of each step it has made and the graph to time."""

    def __init__(self):
        import torch
        from transformers import BertConfig, BertModel
        torch.manual_seed(0)
        self.torch = torch
        self.new_model = lambda: BertModel(BertConfig()).eval().half().cuda()
        self.model = self.new_model()
        self.tokens = torch.randint(0, 30000, (1, 128), device="cuda")
        self.graph = self.captured(self.model)

    def captured(self, model, warm=True):
        torch = self.torch
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.inference_mode(), torch.cuda.stream(stream):
            for _ in range(5 if warm else 0):
                model(self.tokens)
        torch.cuda.synchronize()
        with torch.inference_mode(), torch.cuda.graph(graph):
            KEPT.append(model(self.tokens))
        KEPT.extend([graph, model])
        return graph

    def adds(self, times=7):
        for number in range(times):
            self.tokens + 1
            self.torch.cuda.synchronize()
            yield f"add {number + 1}", self.graph

    def copies(self):
        for number in range(7):
            self.tokens.cpu()
            yield f"copy {number + 1}", self.graph
        for number in range(7):
            self.tokens.zero_()
            yield f"fill {number + 1}", self.graph

    def models(self):
        yield "captured again, without a launch", self.captured(self.model, warm=False)
        yield "the first", self.graph
        yield "captured again", self.captured(self.model)
        yield "the first, then", self.graph
        yield "second model", self.captured(self.new_model())
        third = self.new_model()
        for to, source in zip(third.parameters(), self.model.parameters()):
            to.data = source.data
        yield "second model, the first's weights", self.captured(third)

    def ways_back(self):
        torch = self.torch
        for _ in self.adds():
            pass
        yield "seven adds", self.graph
        ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
        yield "persisting lines reset", self.graph
        large = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
        yield "1 GiB filled", self.graph
        large.sum()
        del large
        torch.cuda.empty_cache()
        yield "1 GiB read and freed", self.graph
        with torch.cuda.stream(torch.cuda.Stream(priority=-5)):
            yield "an urgent stream", self.graph
        for _ in range(1000):
            self.graph.replay()
        yield "1000 in a row", self.graph
        torch.cuda.synchronize()
        time.sleep(3)
        yield "3 s of rest", self.graph

    def green(self):
        with self.torch.cuda.stream(self.green_stream()):
            yield "in a green context", self.graph
        for _ in self.adds():
            pass
        yield "seven adds", self.graph
        with self.torch.cuda.stream(self.green_stream()):
            yield "in a new green context", self.graph

    def green_stream(self):
        """A stream of a green context that has all SMs."""
        cuda = ctypes.CDLL("libcuda.so.1")
        resource, descriptor, context, stream = (ctypes.c_ubyte * 256)(), *(ctypes.c_void_p() for _ in range(3))
        for status in (cuda.cuDeviceGetDevResource(0, ctypes.byref(resource), 1),
                       cuda.cuDevResourceGenerateDesc(ctypes.byref(descriptor), resource, 1),
                       cuda.cuGreenCtxCreate(ctypes.byref(context), descriptor, 0, 1),
                       cuda.cuGreenCtxStreamCreate(ctypes.byref(stream), context, 1, 0)):
            if status:
                raise RuntimeError(f"green context: CUDA error {status}")
        return self.torch.cuda.ExternalStream(stream.value)


def history(name):
    of = History()
    rows = {"first": launch_us(of.torch, of.graph)}
    for step, graph in getattr(of, name.replace(" ", "_"))():
        of.torch.cuda.synchronize()
        rows[step] = launch_us(of.torch, graph)
    print(json.dumps(rows), flush=True)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "history":
        return history(sys.argv[2])
    from common import Way
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("graph_states.json"))
    parser.add_argument("--only", default="", help="rows whose names this regular expression finds")
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    rows = {}
    for name, what, settings in VARIANTS:
        title = " ".join([name, what, *(f"{key}={value}" for key, value in settings.items())])
        if not re.search(arguments.only, title):
            continue
        way = Way(name, arguments.dist)
        way.environment.update(settings)
        with way.running():
            done = subprocess.run([sys.executable, str(Path(__file__).resolve()), "history", what], env=way.environment,
                                  capture_output=True, text=True, timeout=60)
        rows[title] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.stderr[-800:]}
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{title}: {json.dumps(rows[title])}", flush=True)


if __name__ == "__main__":
    main()
