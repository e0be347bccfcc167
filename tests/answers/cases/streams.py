"""Streams, events, captures and graphs."""

import ctypes

from driver import Float, Handle, Int32, Int64, packed

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)


def streams(c):
    context = c.context()
    handle, out, size, memory = Handle(), Int32(), Int64(), c.memory()
    c.ask("flags 2", "cuStreamCreate", handle, 2)
    c.ask("into nothing", "cuStreamCreate", None, 0)
    for priority in (-100, -5, -1, 0, 7):
        made, out = Handle(), Int32()
        c.ask(f"priority {priority}", "cuStreamCreateWithPriority", made, 1, priority)
        c.ask(f"priority of {priority}", "cuStreamGetPriority", +made, out, priority=out)
    c.ask("priority with flags 9", "cuStreamCreateWithPriority", handle, 9, 0)
    stream, quiet = c.stream(), c.stream(1)
    c.do("cuCtxSynchronize")
    for label, each in (("blocking", stream), ("non-blocking", quiet), ("default", 0), ("legacy", 1), ("thread's", 2)):
        out = Int32()
        c.ask(f"flags of {label}", "cuStreamGetFlags", each, out, flags=out)
        c.ask(f"priority of {label}", "cuStreamGetPriority", each, out, priority=out)
        c.ask(f"query of {label}", "cuStreamQuery", each)
        c.ask(f"wait for {label}", "cuStreamSynchronize", each)
        made = Handle()
        c.ask(f"context of {label}", "cuStreamGetCtx", each, made)
        c.note(f"the context of {label}", "cuStreamGetCtx", +made == context)
        c.ask(f"device of {label}", "cuStreamGetDevice", each, out, device=out)
        c.ask(f"id of {label}", "cuStreamGetId", each, size)
    c.ask("flags into nothing", "cuStreamGetFlags", stream, None)
    c.ask("priority into nothing", "cuStreamGetPriority", stream, None)
    c.ask("id into nothing", "cuStreamGetId", stream, None)
    c.ask("context into nothing", "cuStreamGetCtx", stream, None)
    c.ask("destroy the default", "cuStreamDestroy_v2", 0)
    c.ask("destroy the legacy", "cuStreamDestroy_v2", 1)
    c.ask("destroy the thread's", "cuStreamDestroy_v2", 2)
    event = c.event()
    c.ask("wait for an unrecorded event", "cuStreamWaitEvent", stream, event, 0)
    c.ask("wait with flags 2", "cuStreamWaitEvent", stream, event, 2)
    c.ask("wait as external", "cuStreamWaitEvent", stream, event, 1)
    c.ask("wait for no event", "cuStreamWaitEvent", stream, 0, 0)
    c.ask("no callback", "cuStreamAddCallback", stream, None, None, 0)
    seen = []
    callback = CALLBACK(lambda _stream, status, _data: seen.append(status))
    c.ask("callback with flags", "cuStreamAddCallback", stream, callback, None, 1)
    c.ask("callback", "cuStreamAddCallback", stream, callback, None, 0)
    c.ask("no host function", "cuLaunchHostFunc", stream, None, None)
    inside = []
    function = HOST_FUNCTION(lambda _: inside.extend((c.do("cuMemAlloc_v2", Handle(), 64), c.do("cuStreamQuery", 0), c.do("cuCtxGetCurrent", Handle()))))
    c.ask("host function", "cuLaunchHostFunc", stream, function, None)
    c.do("cuStreamSynchronize", stream)
    c.note("status in the callback", "cuStreamAddCallback", seen)
    c.note("calls in the host function", "cuLaunchHostFunc", [c.name(status) for status in inside])
    value = packed("16i", *[0] * 16)
    for attribute in (1, 3, 4, 5, 8, 99):
        c.ask(f"attribute {attribute}", "cuStreamGetAttribute", stream, attribute, value)
    c.ask("attribute into nothing", "cuStreamGetAttribute", stream, 3, None)
    c.ask("set policy 9", "cuStreamSetAttribute", stream, 3, packed("16i", 9, *[0] * 15))
    c.ask("set policy 2", "cuStreamSetAttribute", stream, 3, packed("16i", 2, *[0] * 15))
    c.ask("policy", "cuStreamGetAttribute", stream, 3, value)
    c.note("the policy", "cuStreamGetAttribute", int.from_bytes(bytes(value)[:4], "little"))
    c.ask("set priority", "cuStreamSetAttribute", stream, 8, packed("16i", -1, *[0] * 15))
    c.ask("set attribute 99", "cuStreamSetAttribute", stream, 99, value)
    c.ask("copy attributes", "cuStreamCopyAttributes", quiet, stream)
    c.ask("copy no attributes", "cuStreamCopyAttributes", 0, 0)
    c.ask("write a value", "cuStreamWriteValue32_v2", stream, memory, 1, 0)
    c.ask("write misaligned", "cuStreamWriteValue32_v2", stream, memory + 2, 1, 0)
    c.ask("write with flags 9", "cuStreamWriteValue32_v2", stream, memory, 1, 8)
    c.ask("write to nothing", "cuStreamWriteValue32_v2", stream, 0, 1, 0)
    c.ask("write 64 bits misaligned", "cuStreamWriteValue64_v2", stream, memory + 4, 1, 0)
    c.ask("write to pageable memory", "cuStreamWriteValue32_v2", stream, value, 1, 0)
    c.ask("wait for a value", "cuStreamWaitValue32_v2", stream, memory, 1, 0)
    c.ask("wait with flags 99", "cuStreamWaitValue32_v2", stream, memory, 1, 99)
    c.ask("wait misaligned", "cuStreamWaitValue32_v2", stream, memory + 1, 1, 0)
    c.ask("no operations", "cuStreamBatchMemOp_v2", stream, 0, value, 0)
    c.ask("operations of nothing", "cuStreamBatchMemOp_v2", stream, 1, None, 0)
    c.ask("operation of kind 99", "cuStreamBatchMemOp_v2", stream, 1, packed("12I", 99, *[0] * 11), 0)
    c.ask("operations with flags", "cuStreamBatchMemOp_v2", stream, 1, packed("12I", 6, *[0] * 11), 1)
    c.ask("at the end", "cuStreamSynchronize", stream)
    c.ask("destroy", "cuStreamDestroy_v2", stream)


def destroyed_stream(c):
    c.context()
    stream = c.stream()
    c.must("cuStreamDestroy_v2", stream)
    c.ask("query", "cuStreamQuery", stream)
    c.ask("synchronise", "cuStreamSynchronize", stream)
    c.ask("destroy again", "cuStreamDestroy_v2", stream)


def events(c):
    c.context()
    handle, stream, event = Handle(), c.stream(), c.event()
    c.ask("flags 16", "cuEventCreate", handle, 16)
    c.ask("into nothing", "cuEventCreate", None, 0)
    c.ask("for processes with timing", "cuEventCreate", handle, 4)
    c.ask("for processes", "cuEventCreate", handle, 6)
    c.ask("unrecorded", "cuEventQuery", event)
    c.ask("wait unrecorded", "cuEventSynchronize", event)
    c.ask("query nothing", "cuEventQuery", 0)
    c.ask("wait for nothing", "cuEventSynchronize", 0)
    c.ask("destroy nothing", "cuEventDestroy_v2", 0)
    c.ask("record nothing", "cuEventRecord", 0, stream)
    c.ask("record with flags 2", "cuEventRecordWithFlags", event, stream, 2)
    c.ask("record as external", "cuEventRecordWithFlags", event, stream, 1)
    c.ask("record", "cuEventRecord", event, stream)
    c.ask("wait", "cuEventSynchronize", event)
    c.ask("query", "cuEventQuery", event)
    module, memory = c.module(), c.memory()
    wait, host = c.function(module, b"wait"), Handle()
    c.must("cuMemHostAlloc", host, 64, 0)
    word = ctypes.c_uint32.from_address(+host)
    word.value = 0
    first, last = c.event(), c.event()
    c.do("cuEventRecord", first, stream)
    c.launch(wait, +host, stream=stream)
    c.do("cuEventRecord", last, stream)
    c.ask("not reached", "cuEventQuery", last)
    c.ask("stream not done", "cuStreamQuery", stream)
    c.ask("elapsed of what is not reached", "cuEventElapsedTime_v2", Float(), first, last)
    c.ask("destroy while under way", "cuEventDestroy_v2", c.event())
    word.value = 1
    c.ask("reached", "cuEventSynchronize", last)
    c.ask("destroy", "cuEventDestroy_v2", last)
    del memory


def captures(c):
    context = c.context()
    module, memory = c.module(), c.memory()
    empty = c.function(module, b"empty")
    buffer = ctypes.create_string_buffer(4096)
    done = c.event()
    c.do("cuEventRecord", done, 0)
    c.do("cuCtxSynchronize")
    callback = CALLBACK(lambda *_: None)
    function = HOST_FUNCTION(lambda _: None)
    pinned, other = Handle(), c.stream(1)
    c.must("cuMemHostAlloc", pinned, 4096, 0)
    c.kept += [callback, function, buffer]
    taken = c.memory()
    calls = {
        "launch": ("cuLaunchKernel", empty, 1, 1, 1, 1, 1, 1, 0, "stream", None, None),
        "cuMemAlloc": ("cuMemAlloc_v2", Handle(), 64),
        "cuMemFree": ("cuMemFree_v2", taken),
        "cuMemHostAlloc": ("cuMemHostAlloc", Handle(), 64, 0),
        "cuMemFreeHost": ("cuMemFreeHost", +pinned),
        "cuMemAllocAsync": ("cuMemAllocAsync", Handle(), 64, "stream"),
        "cuMemAllocManaged": ("cuMemAllocManaged", Handle(), 64, 1),
        "cuMemcpyHtoD": ("cuMemcpyHtoD_v2", memory, buffer, 64),
        "cuMemcpyDtoD": ("cuMemcpyDtoD_v2", memory, memory + 64, 64),
        "cuMemcpyHtoDAsync of pageable": ("cuMemcpyHtoDAsync_v2", memory, buffer, 64, "stream"),
        "cuMemsetD8": ("cuMemsetD8_v2", memory, 1, 64),
        "cuMemsetD8Async": ("cuMemsetD8Async", memory, 1, 64, "stream"),
        "cuStreamQuery": ("cuStreamQuery", "stream"),
        "cuStreamQuery of another": ("cuStreamQuery", other),
        "cuStreamQuery of the default": ("cuStreamQuery", 0),
        "cuStreamSynchronize": ("cuStreamSynchronize", "stream"),
        "cuStreamSynchronize of another": ("cuStreamSynchronize", other),
        "cuCtxSynchronize": ("cuCtxSynchronize",),
        "cuEventQuery": ("cuEventQuery", "event"),
        "cuEventSynchronize": ("cuEventSynchronize", "event"),
        "cuEventElapsedTime": ("cuEventElapsedTime_v2", Float(), "event", "event"),
        "cuEventQuery of a done one": ("cuEventQuery", done),
        "cuEventSynchronize of a done one": ("cuEventSynchronize", done),
        "cuEventDestroy": ("cuEventDestroy_v2", "event"),
        "cuStreamDestroy": ("cuStreamDestroy_v2", "stream"),
        "cuStreamCreate": ("cuStreamCreate", Handle(), 0),
        "cuEventCreate": ("cuEventCreate", Handle(), 0),
        "cuModuleGetFunction": ("cuModuleGetFunction", Handle(), module, b"empty"),
        "cuStreamAddCallback": ("cuStreamAddCallback", "stream", callback, None, 0),
        "cuLaunchHostFunc": ("cuLaunchHostFunc", "stream", function, None),
        "cuStreamBeginCapture": ("cuStreamBeginCapture_v2", "stream", 0),
        "cuCtxGetDevice": ("cuCtxGetDevice", Int32()),
        "cuMemGetInfo": ("cuMemGetInfo_v2", Int64(), Int64()),
        "cuPointerGetAttribute": ("cuPointerGetAttribute", Int64(), 2, memory),
        "launch in the default stream": ("cuLaunchKernel", empty, 1, 1, 1, 1, 1, 1, 0, 0, None, None),
        "cuStreamGetFlags": ("cuStreamGetFlags", "stream", Int32()),
        "cuStreamGetPriority": ("cuStreamGetPriority", "stream", Int32()),
        "cuCtxDestroy": ("cuCtxDestroy_v2", context),
        "cuDevicePrimaryCtxSetFlags": ("cuDevicePrimaryCtxSetFlags_v2", 0, 0),
        "cuMemPoolTrimTo": ("cuMemPoolTrimTo", 0, 0),
        "cuCtxSetLimit": ("cuCtxSetLimit", 0, 2048),
        "cuMemHostRegister": ("cuMemHostRegister_v2", buffer, 64, 0),
        "cuStreamWriteValue32": ("cuStreamWriteValue32_v2", "stream", memory, 1, 0),
        "cuEventRecord as external": ("cuEventRecordWithFlags", done, "stream", 1),
        "cuStreamWaitEvent of a done one": ("cuStreamWaitEvent", "stream", done, 0),
        "cuStreamWaitEvent as external": ("cuStreamWaitEvent", "stream", done, 1),
        "cuStreamSetAttribute": ("cuStreamSetAttribute", "stream", 3, packed("16i", 1, *[0] * 15)),
        "cuStreamAttachMemAsync": ("cuStreamAttachMemAsync", "stream", memory, 0, 1),
        "cuFuncSetAttribute": ("cuFuncSetAttribute", empty, 8, 0),
        "cuModuleLoadData": ("cuModuleLoadData", Handle(), b".version 7.0\n.target sm_80\n.address_size 64\n"),
    }
    for mode, modes_name in ((0, "global"), (1, "thread"), (2, "relaxed")):
        for label, (name, *arguments) in calls.items():
            stream, event, graph = c.stream(1), c.event(), Handle()
            c.do("cuCtxSynchronize")
            c.do("cuStreamBeginCapture_v2", stream, mode)
            c.do("cuEventRecord", event, stream)
            given = [{"stream": stream, "event": event}.get(a, a) if isinstance(a, str) else a for a in arguments]
            c.ask(f"{label} ({modes_name})", name, *given)
            if label == "cuStreamDestroy":
                continue
            c.ask(f"end after {label} ({modes_name})", "cuStreamEndCapture", stream, graph, graph=graph)
            c.do("cuCtxSetCurrent", context)


def joins(c):
    """What has to be joined before a capture ends, where dependencies were set by hand."""
    c.context()
    memory = c.memory()

    class Scene:
        """A capture in `main`, which `side` and `third` take part in."""

        def __init__(self):
            self.main, self.side, self.third = c.stream(1), c.stream(1), c.stream(1)
            c.must("cuStreamBeginCapture_v2", self.main, 0)
            self.work(self.main)
            self.wait(self.side, self.main)
            self.wait(self.third, self.main)
            status, number, graph = Int32(), Int64(), Handle()
            c.must("cuStreamGetCaptureInfo_v2", self.main, status, number, graph, None, None)
            self.graph = +graph

        def work(self, stream):
            c.must("cuMemsetD8Async", memory, 0, 64, stream)

        def wait(self, stream, other):
            event = c.event()
            c.must("cuEventRecord", event, other)
            c.must("cuStreamWaitEvent", stream, event, 0)

        def frontier(self, stream):
            status, first, count = Int32(), Int64(), Int64()
            c.must("cuStreamGetCaptureInfo_v2", stream, status, None, None, first, count)
            return list((ctypes.c_uint64 * +count).from_address(+first)) if +count else []

        def node(self, behind):
            node = Handle()
            array = (ctypes.c_uint64 * max(len(behind), 1))(*behind)
            c.must("cuGraphAddEmptyNode", node, self.graph, array if behind else None, len(behind))
            return +node

        def update(self, stream, nodes, flags):
            array = (ctypes.c_uint64 * max(len(nodes), 1))(*nodes)
            c.must("cuStreamUpdateCaptureDependencies", stream, array if nodes else None, len(nodes), flags)

        def give(self, stream, behind):
            """Has a node that was added by hand be all that a stream waits for."""
            self.update(stream, [self.node(behind)], 1)

    def nothing(scene):
        pass

    def work(scene):
        scene.work(scene.side)

    def given(scene):
        scene.give(scene.side, [])

    def given_behind_own(scene):
        scene.work(scene.side)
        scene.give(scene.side, scene.frontier(scene.side))

    def added_behind_own(scene):
        scene.work(scene.side)
        scene.update(scene.side, [scene.node(scene.frontier(scene.side))], 0)

    def given_elsewhere_behind_own(scene):
        scene.work(scene.side)
        scene.node(scene.frontier(scene.side))

    def waited_for_by_one_set(scene):
        scene.work(scene.side)
        scene.wait(scene.third, scene.side)
        scene.work(scene.third)
        scene.update(scene.third, [], 1)

    def own_set_again(scene):
        scene.work(scene.side)
        scene.update(scene.side, scene.frontier(scene.side), 1)

    def own_added_again(scene):
        scene.work(scene.side)
        scene.update(scene.side, scene.frontier(scene.side), 0)

    def none_set(scene):
        scene.work(scene.side)
        scene.update(scene.side, [], 1)

    def work_behind_given(scene):
        scene.give(scene.side, [])
        scene.work(scene.side)

    def waited_for_and_none_set(scene):
        scene.work(scene.side)
        scene.wait(scene.third, scene.side)
        scene.update(scene.side, [], 1)

    def waited_for_given(scene):
        scene.give(scene.side, [])
        scene.wait(scene.third, scene.side)

    def joined_and_origin_set(scene):
        scene.work(scene.side)
        scene.wait(scene.main, scene.side)
        scene.update(scene.main, [], 1)

    def joined_and_given(scene):
        scene.work(scene.side)
        scene.wait(scene.main, scene.side)
        scene.give(scene.side, scene.frontier(scene.side))

    def others_set(scene):
        scene.work(scene.third)
        scene.update(scene.side, scene.frontier(scene.third), 1)
        scene.update(scene.third, [], 1)

    def set_then_destroyed(scene):
        scene.give(scene.side, [])
        c.must("cuStreamDestroy_v2", scene.side)

    def work_then_destroyed(scene):
        scene.work(scene.side)
        c.must("cuStreamDestroy_v2", scene.side)

    cases = (nothing, work, given, given_behind_own, added_behind_own, given_elsewhere_behind_own,
             waited_for_by_one_set, own_set_again, own_added_again, none_set,
             work_behind_given, waited_for_and_none_set, waited_for_given, joined_and_origin_set, joined_and_given,
             others_set, set_then_destroyed, work_then_destroyed)
    for case in cases:
        scene, graph = Scene(), Handle()
        case(scene)
        c.ask(f"end after {case.__name__}", "cuStreamEndCapture", scene.main, graph, graph=graph)


def capture_rules(c):
    c.context()
    module, memory = c.module(), c.memory()
    empty = c.function(module, b"empty")
    status, graph, stream, size = Int32(), Handle(), c.stream(), Int64()

    def launch(label, into):
        c.ask(label, "cuLaunchKernel", empty, 1, 1, 1, 1, 1, 1, 0, into, None, None)

    c.ask("end without a beginning", "cuStreamEndCapture", stream, graph, graph=graph)
    c.ask("mode 9", "cuStreamBeginCapture_v2", stream, 9)
    c.ask("of the default stream", "cuStreamBeginCapture_v2", 0, 0)
    c.ask("of the legacy stream", "cuStreamBeginCapture_v2", 1, 0)
    c.ask("of the thread's stream", "cuStreamBeginCapture_v2", 2, 0)
    c.ask("end of the thread's stream", "cuStreamEndCapture", 2, graph)
    c.ask("state of none", "cuStreamIsCapturing", stream, status, status=status)
    c.ask("state into nothing", "cuStreamIsCapturing", stream, None)
    c.ask("begin", "cuStreamBeginCapture_v2", stream, 0)
    c.ask("state", "cuStreamIsCapturing", stream, status, status=status)
    c.ask("state of the default stream", "cuStreamIsCapturing", 0, status, status=status)
    c.ask("info", "cuStreamGetCaptureInfo_v2", stream, status, size, None, None, None, status=status)
    c.ask("info of nothing", "cuStreamGetCaptureInfo_v2", stream, None, None, None, None, None)
    c.ask("end into nothing", "cuStreamEndCapture", stream, None)
    c.ask("end of an empty one", "cuStreamEndCapture", stream, graph, graph=graph)
    # A capture that is invalidated, then asked.
    c.do("cuStreamBeginCapture_v2", stream, 0)
    c.ask("what invalidates", "cuStreamSynchronize", stream)
    c.ask("state when invalidated", "cuStreamIsCapturing", stream, status, status=status)
    c.ask("query when invalidated", "cuStreamQuery", stream)
    c.ask("wait when invalidated", "cuStreamSynchronize", stream)
    launch("launch when invalidated", stream)
    c.ask("event when invalidated", "cuEventRecord", c.event(), stream)
    c.ask("info when invalidated", "cuStreamGetCaptureInfo_v2", stream, status, size, None, None, None, status=status)
    c.ask("end when invalidated", "cuStreamEndCapture", stream, graph, graph=graph)
    launch("launch afterwards", stream)
    # A second stream that joins and does not come back.
    other, event = c.stream(1), c.event()
    c.do("cuStreamBeginCapture_v2", stream, 0)
    c.do("cuEventRecord", event, stream)
    c.ask("join", "cuStreamWaitEvent", other, event, 0)
    launch("launch in the joined", other)
    c.ask("end in the joined", "cuStreamEndCapture", other, graph)
    c.ask("end without a return", "cuStreamEndCapture", stream, graph, graph=graph)
    c.ask("state of the joined", "cuStreamIsCapturing", other, status, status=status)
    c.do("cuStreamEndCapture", other, graph)
    # An event of a capture outside of it.
    other, event = c.stream(1), c.event()
    c.do("cuStreamBeginCapture_v2", stream, 0)
    c.do("cuEventRecord", event, stream)
    c.do("cuStreamEndCapture", stream, graph)
    c.ask("event after its capture", "cuEventQuery", event)
    c.ask("wait for it", "cuStreamWaitEvent", other, event, 0)
    c.ask("synchronise it", "cuEventSynchronize", event)
    # Two captures that meet.
    second, event = c.stream(1), c.event()
    c.do("cuStreamBeginCapture_v2", stream, 0)
    c.do("cuStreamBeginCapture_v2", second, 0)
    c.do("cuEventRecord", event, stream)
    c.ask("wait across captures", "cuStreamWaitEvent", second, event, 0)
    c.ask("end of the second", "cuStreamEndCapture", second, graph)
    c.ask("end of the first", "cuStreamEndCapture", stream, graph)
    # Into the legacy stream beside a capture.
    blocking = c.stream(0)
    c.do("cuStreamBeginCapture_v2", blocking, 2)
    launch("legacy beside a relaxed capture", 0)
    c.ask("end of the relaxed one", "cuStreamEndCapture", blocking, graph)
    mode = Int32(2)
    c.ask("exchange", "cuThreadExchangeStreamCaptureMode", mode, mode=mode)
    mode = Int32(9)
    c.ask("exchange with 9", "cuThreadExchangeStreamCaptureMode", mode, mode=mode)
    c.ask("exchange of nothing", "cuThreadExchangeStreamCaptureMode", None)
    c.do("cuStreamBeginCapture_v2", blocking, 0)
    c.ask("allocate in a relaxed thread", "cuMemAlloc_v2", Handle(), 64)
    c.ask("end of the relaxed thread's", "cuStreamEndCapture", blocking, graph)
    c.ask("into no graph", "cuStreamBeginCaptureToGraph", blocking, 0, None, None, 0, 0)
    made = Handle()
    c.must("cuGraphCreate", made, 0)
    c.ask("into a graph", "cuStreamBeginCaptureToGraph", blocking, +made, None, None, 0, 0)
    c.ask("end into a graph", "cuStreamEndCapture", blocking, graph)
    c.note("the same graph", "cuStreamEndCapture", +graph == +made)
    c.ask("dependencies without a capture", "cuStreamUpdateCaptureDependencies", blocking, None, 0, 0)
    del memory


def graphs(c):
    context = c.context()
    module, memory = c.module(), c.memory()
    empty = c.function(module, b"empty")
    graph, node, second, exec_, size, out = Handle(), Handle(), Handle(), Handle(), Int64(), Int32()
    c.ask("create with flags", "cuGraphCreate", graph, 1)
    c.ask("create into nothing", "cuGraphCreate", None, 0)
    c.must("cuGraphCreate", graph, 0)
    g = +graph
    c.ask("an empty node of no graph", "cuGraphAddEmptyNode", node, 0, None, 0)
    c.ask("an empty node into nothing", "cuGraphAddEmptyNode", None, g, None, 0)
    c.ask("an empty node", "cuGraphAddEmptyNode", node, g, None, 0)
    c.ask("after nothing", "cuGraphAddEmptyNode", second, g, None, 1)
    c.ask("a second", "cuGraphAddEmptyNode", second, g, None, 0)
    one, two = (ctypes.c_uint64 * 2)(+node, +second), (ctypes.c_uint64 * 2)(+second, +node)
    c.ask("after the same twice", "cuGraphAddEmptyNode", Handle(), g, (ctypes.c_uint64 * 2)(+node, +node), 2)
    c.ask("edge", "cuGraphAddDependencies", g, one, two, 1)
    c.ask("edge again", "cuGraphAddDependencies", g, one, two, 1)
    c.ask("edge back", "cuGraphAddDependencies", g, two, one, 1)
    c.ask("edge to itself", "cuGraphAddDependencies", g, one, one, 1)
    c.ask("no edge", "cuGraphAddDependencies", g, None, None, 0)
    c.ask("edges of nothing", "cuGraphAddDependencies", g, None, None, 1)
    c.ask("instantiate", "cuGraphInstantiateWithFlags", exec_, g, 0, exec_=exec_)
    c.ask("remove an edge that is not there", "cuGraphRemoveDependencies", g, two, (ctypes.c_uint64 * 1)(+second), 1)
    c.ask("remove the edge", "cuGraphRemoveDependencies", g, one, two, 1)
    c.ask("count of nodes", "cuGraphGetNodes", g, None, size, count=size)
    size = Int64(1)
    c.ask("one node", "cuGraphGetNodes", g, (ctypes.c_uint64 * 4)(), size, count=size)
    size = Int64(4)
    c.ask("four nodes", "cuGraphGetNodes", g, (ctypes.c_uint64 * 4)(), size, count=size)
    c.ask("nodes into nothing", "cuGraphGetNodes", g, None, None)
    c.ask("count of edges", "cuGraphGetEdges", g, None, None, size, count=size)
    c.ask("count of roots", "cuGraphGetRootNodes", g, None, size, count=size)
    c.ask("kind", "cuGraphNodeGetType", +node, out, kind=out)
    c.ask("kind of nothing", "cuGraphNodeGetType", 0, out)
    layout = "Q7I4xQQQQ"
    c.ask("a kernel of nothing", "cuGraphAddKernelNode_v2", node, g, None, 0, None)
    c.ask("a kernel without a function", "cuGraphAddKernelNode_v2", node, g, None, 0, packed(layout, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0))
    c.ask("a kernel of no block", "cuGraphAddKernelNode_v2", node, g, None, 0, packed(layout, empty, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0))
    c.ask("a kernel of 2048 threads", "cuGraphAddKernelNode_v2", node, g, None, 0, packed(layout, empty, 1, 1, 1, 2048, 1, 1, 0, 0, 0, 0, 0))
    kernel = Handle()
    c.ask("a kernel", "cuGraphAddKernelNode_v2", kernel, g, None, 0, packed(layout, empty, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, context))
    fill = "QQIIQQ"
    c.ask("a fill", "cuGraphAddMemsetNode", second, g, None, 0, packed(fill, memory, 0, 0, 1, 64, 1), context)
    c.ask("a fill of 3 bytes", "cuGraphAddMemsetNode", second, g, None, 0, packed(fill, memory, 0, 0, 3, 64, 1), context)
    c.ask("a fill of width 0", "cuGraphAddMemsetNode", second, g, None, 0, packed(fill, memory, 0, 0, 1, 0, 1), context)
    c.ask("a fill of nothing", "cuGraphAddMemsetNode", second, g, None, 0, packed(fill, 0, 0, 0, 1, 64, 1), context)
    c.ask("a fill in no context", "cuGraphAddMemsetNode", second, g, None, 0, packed(fill, memory, 0, 0, 1, 64, 1), 0)
    c.ask("a copy of nothing", "cuGraphAddMemcpyNode", second, g, None, 0, None, context)
    c.ask("a host function of nothing", "cuGraphAddHostNode", second, g, None, 0, None)
    c.ask("a host function without one", "cuGraphAddHostNode", second, g, None, 0, packed("QQ", 0, 0))
    c.ask("a child of itself", "cuGraphAddChildGraphNode", second, g, None, 0, g)
    c.ask("a child of nothing", "cuGraphAddChildGraphNode", second, g, None, 0, 0)
    c.ask("a record of nothing", "cuGraphAddEventRecordNode", second, g, None, 0, 0)
    c.ask("a wait for nothing", "cuGraphAddEventWaitNode", second, g, None, 0, 0)
    c.ask("parameters of another kind", "cuGraphMemsetNodeGetParams", +kernel, packed(fill, 0, 0, 0, 0, 0, 0))
    c.ask("instantiate with flags 256", "cuGraphInstantiateWithFlags", exec_, g, 256)
    c.ask("instantiate nothing", "cuGraphInstantiateWithFlags", exec_, 0, 0)
    c.ask("instantiate into nothing", "cuGraphInstantiateWithFlags", None, g, 0)
    c.must("cuGraphInstantiateWithFlags", exec_, g, 0)
    c.ask("launch", "cuGraphLaunch", +exec_, 0)
    c.ask("launch nothing", "cuGraphLaunch", 0, 0)
    c.ask("upload", "cuGraphUpload", +exec_, 0)
    c.ask("upload nothing", "cuGraphUpload", 0, 0)
    c.ask("flags of it", "cuGraphExecGetFlags", +exec_, size, flags=size)
    c.ask("enabled", "cuGraphNodeGetEnabled", +exec_, +kernel, out, enabled=out)
    c.ask("enabled of an empty node", "cuGraphNodeGetEnabled", +exec_, +node, out)
    c.ask("disable", "cuGraphNodeSetEnabled", +exec_, +kernel, 0)
    c.ask("enable by 7", "cuGraphNodeSetEnabled", +exec_, +kernel, 7)
    copy = Handle()
    c.ask("clone", "cuGraphClone", copy, g, graph=copy)
    c.ask("clone of nothing", "cuGraphClone", copy, 0)
    found = Handle()
    c.ask("find in it", "cuGraphNodeFindInClone", found, +kernel, +copy, node=found)
    c.ask("find in itself", "cuGraphNodeFindInClone", found, +kernel, g)
    result = ctypes.create_string_buffer(32)
    c.ask("update", "cuGraphExecUpdate_v2", +exec_, +copy, result)
    c.do("cuGraphAddEmptyNode", node, +copy, None, 0)
    c.ask("update by another shape", "cuGraphExecUpdate_v2", +exec_, +copy, result)
    c.note("the reason", "cuGraphExecUpdate_v2", int.from_bytes(bytes(result)[:4], "little"))
    c.ask("update by nothing", "cuGraphExecUpdate_v2", +exec_, 0, result)
    c.ask("destroy a node", "cuGraphDestroyNode", +kernel)
    c.ask("destroy no node", "cuGraphDestroyNode", 0)
    c.ask("draw to nowhere", "cuGraphDebugDotPrint", g, b"/no/such/place", 0)
    c.ask("draw nothing", "cuGraphDebugDotPrint", 0, b"/dev/null", 0)
    thing, destroy = Handle(), HOST_FUNCTION(lambda _: None)
    c.kept.append(destroy)
    c.ask("object without a destructor", "cuUserObjectCreate", thing, None, None, 1, 1)
    c.ask("object with flags 0", "cuUserObjectCreate", thing, None, destroy, 1, 0)
    c.ask("object of no reference", "cuUserObjectCreate", thing, None, destroy, 0, 1)
    c.ask("object", "cuUserObjectCreate", thing, None, destroy, 1, 1)
    c.ask("keep 0 of it", "cuUserObjectRetain", +thing, 0)
    c.ask("give it to a graph", "cuGraphRetainUserObject", g, +thing, 1, 1)
    c.ask("take it back twice", "cuGraphReleaseUserObject", g, +thing, 2)
    c.ask("take it back", "cuGraphReleaseUserObject", g, +thing, 1)
    c.ask("destroy nothing", "cuGraphDestroy", 0)
    c.ask("destroy no executable", "cuGraphExecDestroy", 0)
    c.ask("destroy the executable", "cuGraphExecDestroy", +exec_)
    c.ask("destroy", "cuGraphDestroy", g)


def graph_memory(c):
    c.context()
    graph, node, exec_ = Handle(), Handle(), Handle()
    c.must("cuGraphCreate", graph, 0)
    parameters = packed("iiii QQHH52x QQQQ", 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4096, 0)
    c.ask("an allocation", "cuGraphAddMemAllocNode", node, +graph, None, 0, parameters)
    address = int.from_bytes(bytes(parameters)[-8:], "little")
    c.note("its address", "cuGraphAddMemAllocNode", address != 0)
    c.ask("instantiate", "cuGraphInstantiateWithFlags", exec_, +graph, 0)
    c.ask("launch", "cuGraphLaunch", +exec_, 0)
    c.ask("launch again", "cuGraphLaunch", +exec_, 0)
    c.ask("free its memory", "cuMemFree_v2", address)
    c.ask("launch then", "cuGraphLaunch", +exec_, 0)
    c.ask("free it in a stream", "cuMemFreeAsync", address, 0)
    c.ask("a second executable", "cuGraphInstantiateWithFlags", Handle(), +graph, 0)
    c.ask("clone", "cuGraphClone", Handle(), +graph)
    c.ask("destroy its node", "cuGraphDestroyNode", +node)
    freed = Handle()
    c.ask("a free of nothing", "cuGraphAddMemFreeNode", freed, +graph, None, 0, 0)
    c.ask("a free before it", "cuGraphAddMemFreeNode", freed, +graph, None, 0, address)
    after = (ctypes.c_uint64 * 1)(+node)
    c.ask("a free", "cuGraphAddMemFreeNode", freed, +graph, after, 1, address)
    c.ask("a second free", "cuGraphAddMemFreeNode", freed, +graph, after, 1, address)
    c.ask("of 0 bytes", "cuGraphAddMemAllocNode", node, +graph, None, 0,
          packed("iiii QQHH52x QQQQ", 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0))
