#!/usr/bin/env python3
"""What one kernel of a graph costs that has the device to itself, by what may make a difference.

    graph_nodes.py DIST [--output FILE] [--bert]

A graph of 200 kernels, each of which waits for the one before, is launched again and again; a row is the
time of a launch by the number of kernels, us, median of 300. Natively it is varied by memory (cuMemAlloc,
cuMemCreate mapped, and the same once exported and imported; at:HINT:GIB:MIB is mapped so far into a reservation of that size), by how the graph was made (captured, node by
node), by the stream's priority, and by CUDA_DEVICE_MAX_CONNECTIONS; then the same under NVIDIA's MPS and
through openmps, also with kernels that have memory or code of their own. --bert adds BERT-base as a graph (latency.py) natively with the same variations that an
environment can make. DIST is an installation, as for run.py. Half a minute; a minute and a half with --bert.

--kernels says what BERT's graph consists of natively and through openmps, as the driver API tells it (kernels with
shapes and attributes, kinds of edges), and times it natively without its programmatic edges and without each attribute.

Called as `graph_nodes.py one MEMORY GRAPH PRIORITY` or `graph_nodes.py kernels` it is one of these programs.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
NODES = 200
# Less is enough but for the kind `memory`.
BYTES = int(os.environ.get("NODES_BYTES", (2 << 20) * NODES))
HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
# Adds to a word of each thread, in so many steps that are no constant.
KERNEL = """
.visible .entry %s(.param .u64 data)
{
    .reg .b64 %%rd<4>;
    .reg .b32 %%r<8>;
    ld.param.u64 %%rd1, [data];
    mov.u32 %%r1, %%ctaid.x;
    mov.u32 %%r2, %%ntid.x;
    mov.u32 %%r3, %%tid.x;
    mad.lo.u32 %%r4, %%r1, %%r2, %%r3;
    mul.wide.u32 %%rd2, %%r4, 4;
    add.u64 %%rd3, %%rd1, %%rd2;
    ld.global.u32 %%r5, [%%rd3];
%s    st.global.u32 [%%rd3], %%r5;
    ret;
}
"""
STEP = "    mul.lo.u32 %r5, %r5, %r1; xor.b32 %r5, %r5, %r3;\n"
# What the kernels of a graph have in common: memory and code; different memory (2 MiB each); different code of
# one module; different code of modules of its own.
KINDS = ["same", "memory", "code", "modules"]


VARIANTS = [
    ("native", "plain capture 0", {}),
    ("native", "plain nodes 0", {}),
    ("native", "plain capture -5", {}),
    ("native", "mapped capture 0", {}),
    ("native", "imported capture 0", {}),
    ("native", "plain capture 0", {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}),
    ("native", "plain capture 0", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    ("native", "imported nodes -5", {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}),
    ("mps", "plain capture 0", {}),
    ("openmps", "plain capture 0", {}),
    ("openmps", "plain capture 0", {"OPENMPS_CLASS": "latency"}),
    *[(way, f"plain capture 0 {kind}", {}) for kind in KINDS[1:] for way in ["native", "mps", "openmps"]],
    ("native", "imported capture 0 memory", {}),
    *[("native", f"at:{place} capture 0 {kind}", {}) for kind in ["same", "memory"]
      for place in ["0:0:0", "0:0:2", "0:256:0", "0x100000000000:0:0", "0x100000000000:256:0",
                    "0x100000000000:256:8"]],
]
BERT = [{}, {"CUDA_DEVICE_MAX_CONNECTIONS": "32"},
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        {"CUDA_MODULE_LOADING": "EAGER"}]


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            status = function(*arguments)
            if status:
                raise RuntimeError(f"{name}: {status}")
        return call


class Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class KernelNode(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p)] + [(f"n{i}", ctypes.c_uint) for i in range(7)] + \
        [("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p),
         ("context", ctypes.c_void_p)]


def memory_of(cuda, kind):
    address = ctypes.c_uint64()
    if kind == "plain":
        cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES))
        return address
    properties = Properties(kind=1, handles=1, location=Location(1, 0))
    handle, descriptor = ctypes.c_uint64(), ctypes.c_int(-1)
    size = ctypes.c_size_t(BYTES)
    cuda.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_uint64(0))
    if kind == "imported":
        cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, 1, ctypes.c_uint64(0))
        cuda.cuMemRelease(handle)
        cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(descriptor.value), 1)
    hint, whole, offset = 0, BYTES, 0
    if kind.startswith("at:"):
        hint, whole, offset = (int(word, 0) << shift for word, shift in zip(kind.split(":")[1:], (0, 30, 20)))
        whole = max(whole, BYTES + offset)
    cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(whole), ctypes.c_size_t(0), ctypes.c_uint64(hint),
                             ctypes.c_uint64(0))
    address.value += offset
    cuda.cuMemMap(address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
    access = Access(Location(1, 0), 3)
    cuda.cuMemSetAccess(address, size, ctypes.byref(access), ctypes.c_size_t(1))
    return address


def launch_us(cuda, ready, stream):
    """Median of 300 launches, each waited for, us."""
    times = []
    for _ in range(350):
        start = time.monotonic_ns()
        cuda.cuGraphLaunch(ready, stream)
        cuda.cuStreamSynchronize(stream)
        times.append((time.monotonic_ns() - start) / 1e3)
    return sorted(times[50:])[150]


def functions_of(cuda, kind):
    """A function for each node."""
    different = kind in ("code", "modules")
    names = [f"step{i}" if different else "step" for i in range(NODES)]
    texts = {name: KERNEL % (name, STEP * (400 if different else 1)) for name in names}
    modules = [HEAD + text for text in texts.values()] if kind == "modules" else [HEAD + "".join(texts.values())]
    found = {}
    for text in modules:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuModuleLoadData(ctypes.byref(module), text.encode() + b"\0")
        for name in texts:
            if f".entry {name}(" in text:
                cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
                found[name] = ctypes.c_void_p(function.value)
    return [found[name] for name in names]


def one(memory, making, priority, kind="same"):
    cuda = Driver()
    null, by = ctypes.c_void_p(), ctypes.byref
    context, stream, graph, ready = (ctypes.c_void_p() for _ in range(4))
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(by(context), 0)
    cuda.cuCtxSetCurrent(context)
    functions = functions_of(cuda, kind)
    data = memory_of(cuda, memory)
    cuda.cuStreamCreateWithPriority(by(stream), 1, int(priority))
    apart = (2 << 20) if kind == "memory" else 0
    places = [ctypes.c_uint64(data.value + i * apart) for i in range(NODES)]
    parameters = [(ctypes.c_void_p * 1)(ctypes.addressof(place)) for place in places]
    rows = {}
    for blocks in [4, 264]:
        if making == "capture":
            cuda.cuStreamBeginCapture_v2(stream, 2)
            for i in range(NODES):
                cuda.cuLaunchKernel(functions[i], blocks, 1, 1, 256, 1, 1, 0, stream, parameters[i], null)
            cuda.cuStreamEndCapture(stream, by(graph))
        else:
            cuda.cuGraphCreate(by(graph), 0)
            last = ctypes.c_void_p()
            for i in range(NODES):
                node = KernelNode(functions[i].value, blocks, 1, 1, 256, 1, 1, 0, ctypes.addressof(parameters[i]))
                made = ctypes.c_void_p()
                cuda.cuGraphAddKernelNode_v2(by(made), graph, by(last), ctypes.c_size_t(min(i, 1)), by(node))
                last = made
        cuda.cuGraphInstantiateWithFlags(by(ready), graph, ctypes.c_uint64(0))
        rows["address"] = hex(data.value)
        rows[f"{blocks} blocks"] = round(launch_us(cuda, ready, stream) / NODES, 4)
    print(json.dumps(rows))


class Edge(ctypes.Structure):
    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte),
                ("reserved", ctypes.c_ubyte * 5)]


# CUlaunchAttributeID; programmatic edges carry what attribute 6 asked for.
ATTRIBUTES = {1: "window", 2: "cooperative", 4: "cluster", 5: "cluster scheduling", 8: "priority",
              9: "domain map", 10: "domain", 14: "carve-out"}


def nodes_of(cuda, graph):
    count = ctypes.c_size_t()
    cuda.cuGraphGetNodes(graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    cuda.cuGraphGetNodes(graph, nodes, ctypes.byref(count))
    return [ctypes.c_void_p(node) for node in nodes]


def edges_of(cuda, graph):
    count = ctypes.c_size_t()
    cuda.cuGraphGetEdges_v2(graph, None, None, None, ctypes.byref(count))
    n = count.value
    froms, tos, kinds = (ctypes.c_void_p * n)(), (ctypes.c_void_p * n)(), (Edge * n)()
    cuda.cuGraphGetEdges_v2(graph, froms, tos, kinds, ctypes.byref(count))
    return [(froms[i], tos[i], kinds[i]) for i in range(n)]


def kernels_of(cuda, graph):
    rows = []
    for node in nodes_of(cuda, graph):
        kind = ctypes.c_int()
        cuda.cuGraphNodeGetType(node, ctypes.byref(kind))
        if kind.value:
            rows.append(f"node of type {kind.value}")
            continue
        params, name = KernelNode(), ctypes.c_char_p()
        cuda.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(params))
        function = ctypes.c_void_p(params.function)
        try:
            if not params.function:
                cuda.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(params.kernel))
            cuda.cuFuncGetName(ctypes.byref(name), function)
        except RuntimeError:
            pass
        shape = [getattr(params, f"n{i}") for i in range(7)]
        of = {}
        for number in [8, 9]:
            value = ctypes.c_int()
            with contextlib.suppress(RuntimeError):
                cuda.cuFuncGetAttribute(ctypes.byref(value), number, function)
                of[f"function {number}"] = value.value
        for number, word in ATTRIBUTES.items():
            value = (ctypes.c_uint32 * 16)()
            with contextlib.suppress(RuntimeError):
                cuda.cuGraphKernelNodeGetAttribute(node, number, value)
                if any(value):
                    of[word] = list(value)[:4]
        rows.append(f"{(name.value or b'?').decode()[:60]} {shape} {of}")
    return rows


def graph_of_bert(torch):
    """The captured graph, what replays it, and what has to be kept for that."""
    import latency
    latency.graphed = lambda _, function: function
    function = latency.bert(torch)
    captured, warming = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(warming):
        for _ in range(5):
            function()
    torch.cuda.synchronize()
    with torch.inference_mode(), torch.cuda.graph(captured):
        function()
    captured.replay()
    torch.cuda.synchronize()
    return ctypes.c_void_p(captured.raw_cuda_graph()), captured.replay, [captured, function]


def kernels():
    import torch
    torch.manual_seed(0)
    graph, _, _kept = graph_of_bert(torch)
    cuda, by = Driver(), ctypes.byref
    stream = ctypes.c_void_p()
    cuda.cuStreamCreateWithPriority(by(stream), 1, 0)

    def timed():
        ready = ctypes.c_void_p()
        cuda.cuGraphInstantiateWithFlags(by(ready), graph, ctypes.c_uint64(0))
        took = round(launch_us(cuda, ready, stream), 2)
        cuda.cuGraphExecDestroy(ready)
        return took

    rows = {"kernels": kernels_of(cuda, graph)}
    edges = edges_of(cuda, graph)
    kinds = [f"{e.from_port} {e.to_port} {e.type}" for _, _, e in edges]
    rows["edges"] = {kind: kinds.count(kind) for kind in kinds}
    rows["us"] = {"as it is": timed()}
    for number, word in ATTRIBUTES.items():
        with contextlib.suppress(RuntimeError):
            for node in nodes_of(cuda, graph):
                value = (ctypes.c_uint32 * 16)()
                if number == 14:
                    value[0] = 0xffffffff
                if number in (1, 5, 8, 14):
                    with contextlib.suppress(RuntimeError):
                        cuda.cuGraphKernelNodeSetAttribute(node, number, value)
            rows["us"][f"without {word}"] = timed()
    with contextlib.suppress(RuntimeError):
        for source, target, edge in edges:
            if edge.type:
                ends = [(ctypes.c_void_p * 1)(source), (ctypes.c_void_p * 1)(target)]
                cuda.cuGraphRemoveDependencies_v2(graph, *ends, by(edge), ctypes.c_size_t(1))
                cuda.cuGraphAddDependencies_v2(graph, *ends, None, ctypes.c_size_t(1))
        rows["us"]["without programmatic edges"] = timed()
    print(json.dumps(rows))


def compared(arguments):
    from common import Way
    found = {}
    for way_name in ["native", "openmps"]:
        way = Way(way_name, arguments.dist)
        with way.running():
            done = subprocess.run([sys.executable, str(Path(__file__).resolve()), "kernels"],
                                  env=way.environment, capture_output=True, text=True, timeout=90)
        if done.returncode:
            yield f"{way_name} kernels", {"failed": done.stderr[-600:]}
            continue
        found[way_name] = json.loads(done.stdout.splitlines()[-1])
        yield f"{way_name} kernels", found[way_name]
    if len(found) == 2:
        pairs = zip(found["native"]["kernels"], found["openmps"]["kernels"])
        yield "different", [pair for pair in pairs if pair[0] != pair[1]][:40]


def measured(arguments):
    from common import Way
    from latency import Program
    for way_name, kind, settings in VARIANTS:
        if not re.search(arguments.only, f"{way_name} {kind}"):
            continue
        way = Way(way_name, arguments.dist)
        with way.running():
            done = subprocess.run([sys.executable, str(Path(__file__).resolve()), "one", *kind.split()],
                                  env=dict(way.environment, **settings), capture_output=True, text=True,
                                  timeout=60)
        name = f"{way_name} {kind} " + " ".join(f"{k}={v}" for k, v in settings.items())
        yield name.strip(), json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr[-300:]}
    for settings in BERT if arguments.bert else []:
        way = Way("native", arguments.dist)
        with way.running():
            program = Program("bert", dict(way.environment, **settings))
            try:
                program.answer()
                program.tell("measure 0.3 closed")
                program.answer()
                program.tell("measure 2 closed")
                answer = program.answer()
                name = "native bert " + " ".join(f"{k}={v}" for k, v in settings.items())
                yield name.strip(), {k: answer[k] for k in ["p50", "p99"]}
            finally:
                program.end()


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "one":
        return one(*sys.argv[2:])
    if len(sys.argv) > 1 and sys.argv[1] == "kernels":
        return kernels()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("graph_nodes.json"))
    parser.add_argument("--only", default="", help="variants whose names this regular expression finds")
    parser.add_argument("--bert", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="only what BERT's graph consists of")
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    rows = {}
    for name, row in (compared if arguments.kernels else measured)(arguments):
        rows[name] = row
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{name:70} {str(row)[-3000:]}", flush=True)


if __name__ == "__main__":
    main()
