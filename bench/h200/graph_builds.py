#!/usr/bin/env python3
"""What of how a graph is made costs time between its nodes: BERT's graph, made in many ways, natively.

    graph_builds.py DIST [--output FILE] [--shared]

A graph that a server puts together node by node took 135 us more a launch than the same graph as PyTorch captured it (graph_times.py,
the variant `built`). Here one process makes the graph in many ways and times each twice: the median of 300 launches, each waited for, us.

* `replay`: PyTorch's own. `captured FLAGS`: the captured graph, made ready anew with these flags of cuGraphInstantiateWithFlags,
  launched in the default stream; `own stream`: in a stream of its own.
* `clone`; `clone, full edges`: its programmatic edges become full ones; `clone, edges anew`: all edges are taken out and put in again.
* `built ...`: node by node from cuGraphKernelNodeGetParams_v2, by function or by kernel, with the attributes copied, the cluster alone or
  none, edges given after the nodes (with their data, or full) or with them.
* `launched ...`: each kernel launched into a stream that captures, all in one capture, or each into the graph by a capture of its own.

--shared also times `replay` and `built` through openmps, with all SMs and with 99 % of them (the server's nodes are captured then).
DIST is an installation, as for run.py. Half a minute, 60 s with --shared. Needs PyTorch and transformers.
Called as `graph_builds.py build` it is the program: one JSON line on its standard output.
"""

import argparse
import ctypes
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from graph_nodes import (  # noqa: E402
    Driver,
    Edge,
    KernelNode,
    edges_of,
    graph_of_bert,
    launch_us,
    nodes_of,
)

# CUlaunchAttributeID.
COOPERATIVE, CLUSTER, PROGRAMMATIC = 2, 4, 6
# CU_STREAM_CAPTURE_MODE_RELAXED.
RELAXED = 2


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint)]


class Maker:
    """Makes the captured graph's like."""

    def __init__(self, cuda, graph):
        self.cuda, self.graph = cuda, graph
        self.nodes = [node.value for node in nodes_of(cuda, graph)]
        self.edges = edges_of(cuda, graph)
        self.before = {node: [] for node in self.nodes}
        for source, target, edge in self.edges:
            self.before[target].append((source, edge))
        # Asked for before anything captures.
        self.attributes = {node: self.attributes_of(node) for node in self.nodes}

    def attributes_of(self, node):
        attributes, count = (Attribute * 3)(), 0
        for number in (CLUSTER, COOPERATIVE):
            if any(value := self.attribute(node, number)):
                attributes[count] = Attribute(number, 0, value)
                count += 1
        return attributes, count

    def params(self, node):
        params = KernelNode()
        self.cuda.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(node), ctypes.byref(params))
        return params

    def by_function(self, params):
        if params.kernel and not params.function:
            function = ctypes.c_void_p()
            self.cuda.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(params.kernel))
            params.function, params.kernel = function.value, None
        params.context = None
        return params

    def attribute(self, node, number):
        value = (ctypes.c_uint * 16)()
        self.cuda.cuGraphKernelNodeGetAttribute(ctypes.c_void_p(node), number, value)
        return value

    def facts(self):
        place = {node: at for at, node in enumerate(self.nodes)}
        kinds = [f"{e.from_port} {e.to_port} {e.type}" for _, _, e in self.edges]
        params = [self.params(node) for node in self.nodes]
        return {"nodes": len(self.nodes), "edges": {kind: kinds.count(kind) for kind in kinds},
                "most edges to a node": max(map(len, self.before.values())),
                "to the next node": sum(place[t] == place[s] + 1 for s, t, _ in self.edges),
                "by function": sum(bool(p.function) for p in params), "by kernel": sum(bool(p.kernel) for p in params)}

    def clone(self):
        clone = ctypes.c_void_p()
        self.cuda.cuGraphClone(ctypes.byref(clone), self.graph)
        return clone

    def change_edges(self, graph, name, edges, data=True):
        if not edges:
            return
        ends = [(ctypes.c_void_p * len(edges))(*[edge[end] for edge in edges]) for end in (0, 1)]
        kinds = (Edge * len(edges))(*[edge[2] for edge in edges]) if data else None
        getattr(self.cuda, name)(graph, *ends, kinds, ctypes.c_size_t(len(edges)))

    def full_edges(self):
        graph = self.clone()
        early = [edge for edge in edges_of(self.cuda, graph) if edge[2].type]
        self.change_edges(graph, "cuGraphRemoveDependencies_v2", early)
        self.change_edges(graph, "cuGraphAddDependencies_v2", early, False)
        return graph

    def edges_anew(self):
        graph = self.clone()
        edges = edges_of(self.cuda, graph)
        self.change_edges(graph, "cuGraphRemoveDependencies_v2", edges)
        self.change_edges(graph, "cuGraphAddDependencies_v2", edges)
        return graph

    def built(self, by="function", attributes="all", edges="data", reverse=False):
        graph, made = ctypes.c_void_p(), {}
        self.cuda.cuGraphCreate(ctypes.byref(graph), 0)
        for node in reversed(self.nodes) if reverse else self.nodes:
            params = self.params(node)
            if by == "function":
                self.by_function(params)
            before = [made[source] for source, _ in self.before[node]] if edges == "with nodes" else []
            new = ctypes.c_void_p()
            self.cuda.cuGraphAddKernelNode_v2(ctypes.byref(new), graph, (ctypes.c_void_p * len(before))(*before),
                                              ctypes.c_size_t(len(before)), ctypes.byref(params))
            if attributes == "all":
                self.cuda.cuGraphKernelNodeCopyAttributes(new, ctypes.c_void_p(node))
            elif attributes == "cluster" and any(value := self.attribute(node, CLUSTER)):
                self.cuda.cuGraphKernelNodeSetAttribute(new, CLUSTER, value)
            made[node] = new.value
        if edges != "with nodes":
            self.change_edges(graph, "cuGraphAddDependencies_v2", [(made[s], made[t], e) for s, t, e in self.edges], edges == "data")
        return graph

    def launch(self, node, stream, early):
        params = self.params(node)
        attributes, count = self.attributes[node]
        if early and any(edge.type for _, edge in self.before[node]):
            attributes[count] = Attribute(PROGRAMMATIC, 0, (ctypes.c_uint * 16)(1))
            count += 1
        shape = (ctypes.c_uint * 7)(*[getattr(params, f"n{i}") for i in range(7)])
        config = Config(shape, stream, attributes, count)
        self.cuda.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(params.kernel or params.function),
                                   ctypes.c_void_p(params.parameters), None)

    def launched(self, stream, early=True):
        graph = ctypes.c_void_p()
        self.cuda.cuStreamBeginCapture_v2(stream, RELAXED)
        try:
            for node in self.nodes:
                self.launch(node, stream, early)
        finally:
            # What captures and is not ended spoils all that comes.
            self.cuda.library.cuStreamEndCapture(stream, ctypes.byref(graph))
        return graph

    def launched_each(self, stream):
        """Each kernel by a capture of its own, then the edges, as a server does for clients with a share of the SMs."""
        graph, whole, made = ctypes.c_void_p(), ctypes.c_void_p(), {}
        self.cuda.cuGraphCreate(ctypes.byref(graph), 0)
        known = set()
        for node in self.nodes:
            self.cuda.cuStreamBeginCaptureToGraph(stream, graph, None, None, ctypes.c_size_t(0), RELAXED)
            try:
                self.launch(node, stream, False)
            finally:
                self.cuda.library.cuStreamEndCapture(stream, ctypes.byref(whole))
            new = {n.value for n in nodes_of(self.cuda, graph)} - known
            made[node] = new.pop()
            known.add(made[node])
        self.change_edges(graph, "cuGraphAddDependencies_v2", [(made[s], made[t], e) for s, t, e in self.edges])
        return graph


def build():
    import torch
    torch.manual_seed(0)
    graph, replay, kept = graph_of_bert(torch)
    cuda, own, default = Driver(), ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuStreamCreateWithPriority(ctypes.byref(own), 1, 0)
    maker = Maker(cuda, graph)
    ways = {
        "captured 0": lambda: graph,
        "captured 1": lambda: graph,
        "captured 8": lambda: graph,
        "captured 9": lambda: graph,
        "captured 0, own stream": lambda: graph,
        "clone": maker.clone,
        "clone, full edges": maker.full_edges,
        "clone, edges anew": maker.edges_anew,
        "built by function": maker.built,
        "built by function 9": maker.built,
        "built by function, own stream": maker.built,
        "built by kernel": lambda: maker.built("kernel"),
        "built by function, cluster alone": lambda: maker.built(attributes="cluster"),
        "built by function, full edges": lambda: maker.built(edges="full"),
        "built by kernel, edges with nodes": lambda: maker.built("kernel", edges="with nodes"),
        "built by function, edges with nodes": lambda: maker.built(edges="with nodes"),
        "built by function, last node first": lambda: maker.built(reverse=True),
        "launched": lambda: maker.launched(own),
        "launched, full edges": lambda: maker.launched(own, False),
        "launched each": lambda: maker.launched_each(own),
    }
    ready, rows = {}, {"graph": maker.facts(), "failed": {}, "us": {}}

    class Replay:
        @staticmethod
        def cuGraphLaunch(_ready, _stream):
            replay()

        @staticmethod
        def cuStreamSynchronize(_stream):
            torch.cuda.synchronize()

    def timed(name):
        try:
            stream = own if "own stream" in name else default
            took = launch_us(cuda, ready[name], stream) if name in ready else launch_us(Replay, None, None)
            rows["us"].setdefault(name, []).append(round(took, 1))
        except RuntimeError as error:
            rows["failed"][name] = str(error)[:300]

    timed("replay")
    for name, make in ways.items():
        flags = int(word) if (word := name.split(",")[0].split()[-1]).isdigit() else 0
        exec_ = ctypes.c_void_p()
        try:
            cuda.cuGraphInstantiateWithFlags(ctypes.byref(exec_), make(), ctypes.c_uint64(flags))
        except RuntimeError as error:
            rows["failed"][name] = str(error)
            continue
        ready[name] = exec_
        # At once: what a later way spoils is told by the rows before it.
        timed(name)
    for name in ["replay", *ready]:
        timed(name)
    print(json.dumps(rows), flush=True)
    KEPT.append(kept)


KEPT = []


def measured(arguments):
    from common import Way
    ways = [("native", {})]
    if arguments.shared:
        ways += [("openmps", {}), ("openmps", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "99"})]
    for name, settings in ways:
        way = Way(name, arguments.dist)
        way.environment.update(settings)
        with way.running():
            done = subprocess.run([sys.executable, str(Path(__file__).resolve()), "build"], env=way.environment,
                                  capture_output=True, text=True, timeout=60)
        row = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.stderr[-1500:]}
        yield " ".join([name, *(f"{key}={value}" for key, value in settings.items())]), row


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "build":
        return build()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("graph_builds.json"))
    parser.add_argument("--shared", action="store_true")
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    rows = {}
    for name, row in measured(arguments):
        rows[name] = row
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{name}: {json.dumps(row, indent=1)}", flush=True)


if __name__ == "__main__":
    main()
