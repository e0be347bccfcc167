"""Initialisation, devices, primary contexts, contexts, limits, errors and entry points."""

import ctypes
import hashlib

from driver import Float, Handle, Int32, Int64, packed
from kernels import KERNELS


def before_initialisation(c):
    out, handle = Int32(), Handle()
    c.ask("version", "cuDriverGetVersion", Int32())
    c.ask("version into nothing", "cuDriverGetVersion", None)
    c.ask("count", "cuDeviceGetCount", out, count=out)
    c.ask("device", "cuDeviceGet", out, 0)
    c.ask("current", "cuCtxGetCurrent", handle, context=handle)
    c.ask("retain", "cuDevicePrimaryCtxRetain", handle, 0)
    c.ask("create", "cuCtxCreate_v2", handle, 0, 0)
    c.ask("allocate", "cuMemAlloc_v2", handle, 64)
    c.ask("allocate host", "cuMemHostAlloc", handle, 64, 0)
    c.ask("load", "cuModuleLoadData", handle, KERNELS)
    c.ask("synchronise", "cuCtxSynchronize")
    c.ask("stream", "cuStreamSynchronize", 0)
    c.ask("graph", "cuGraphCreate", handle, 0)
    name = ctypes.c_void_p()
    c.ask("error name", "cuGetErrorName", 2, ctypes.byref(name))
    c.ask("entry point", "cuGetProcAddress_v2", b"cuInit", handle, 12000, 0, out, address=handle, found=out)
    c.ask("initialise with flags", "cuInit", 1)
    c.ask("initialise", "cuInit", 0)
    c.ask("initialise again", "cuInit", 0)


def devices(c):
    c.must("cuInit", 0)
    out, second, size, handle = Int32(), Int32(), Int64(), Handle()
    c.ask("count into nothing", "cuDeviceGetCount", None)
    c.ask("device below", "cuDeviceGet", out, -1, device=out)
    c.ask("device beyond", "cuDeviceGet", out, 999, device=out)
    c.ask("device into nothing", "cuDeviceGet", None, 0)
    name = ctypes.create_string_buffer(b"xxxxxxxxxxxxxxx")
    c.ask("name of one byte", "cuDeviceGetName", name, 1, 0, name=name)
    c.ask("name of no byte", "cuDeviceGetName", name, 0, 0)
    c.ask("name of less", "cuDeviceGetName", name, -1, 0)
    c.ask("name into nothing", "cuDeviceGetName", None, 16, 0)
    c.ask("name beyond", "cuDeviceGetName", name, 16, 999)
    fixed = {"max threads per block": 1, "max block x": 2, "max block y": 3, "max block z": 4,
             "max grid x": 5, "max grid y": 6, "max grid z": 7, "shared memory per block": 8,
             "constant memory": 9, "warp": 10, "pitch": 11, "registers per block": 12,
             "texture alignment": 14, "overlap": 15, "kernel timeout": 17, "integrated": 18,
             "map host": 19, "concurrent kernels": 31, "tcc": 35, "unified addressing": 41,
             "texture pitch alignment": 51, "stream priorities": 78, "managed": 83,
             "multi gpu board": 84, "cooperative": 95, "host register": 99,
             "virtual memory": 102, "handle type posix": 103, "memory pools": 115,
             "deferred mapping": 127, "no such attribute": 9999, "attribute 0": 0}
    for label, number in fixed.items():
        out = Int32()
        c.ask(label, "cuDeviceGetAttribute", out, number, 0, value=out)
    c.ask("attribute of none", "cuDeviceGetAttribute", out, 1, 999)
    c.ask("attribute into nothing", "cuDeviceGetAttribute", None, 1, 0)
    c.ask("total into nothing", "cuDeviceTotalMem_v2", None, 0)
    c.ask("total beyond", "cuDeviceTotalMem_v2", size, 999, total=size)
    c.ask("capability into nothing", "cuDeviceComputeCapability", None, None, 0)
    c.ask("capability beyond", "cuDeviceComputeCapability", out, second, 999)
    bus = ctypes.create_string_buffer(32)
    c.ask("bus id of no byte", "cuDeviceGetPCIBusId", bus, 0, 0)
    c.ask("bus id of five bytes", "cuDeviceGetPCIBusId", bus, 5, 0)
    c.ask("bus id beyond", "cuDeviceGetPCIBusId", bus, 32, 999)
    c.ask("by bus id", "cuDeviceGetByPCIBusId", out, b"ffff:ff:1f.7")
    c.ask("by no bus id", "cuDeviceGetByPCIBusId", out, b"nonsense")
    c.ask("by nothing", "cuDeviceGetByPCIBusId", out, None)
    c.ask("uuid beyond", "cuDeviceGetUuid_v2", ctypes.create_string_buffer(16), 999)
    c.ask("uuid into nothing", "cuDeviceGetUuid_v2", None, 0)
    out = Int32()
    c.ask("peer of itself", "cuDeviceCanAccessPeer", out, 0, 0, peer=out)
    c.ask("peer beyond", "cuDeviceCanAccessPeer", out, 0, 999)
    out = Int32()
    c.ask("link with itself", "cuDeviceGetP2PAttribute", out, 1, 0, 0, value=out)
    c.ask("link attribute 99", "cuDeviceGetP2PAttribute", out, 99, 0, 0)
    c.ask("default pool into nothing", "cuDeviceGetDefaultMemPool", None, 0)
    c.ask("default pool beyond", "cuDeviceGetDefaultMemPool", handle, 999)
    c.ask("set no pool", "cuDeviceSetMemPool", 0, 0)
    c.ask("affinity 0", "cuDeviceGetExecAffinitySupport", out, 0, 0, value=out)
    c.ask("affinity 9", "cuDeviceGetExecAffinitySupport", out, 9, 0)
    size = Int64()
    c.ask("graph memory", "cuDeviceGetGraphMemAttribute", 0, 0, size, value=size)
    c.ask("graph memory 9", "cuDeviceGetGraphMemAttribute", 0, 9, size)
    c.ask("trim graph memory", "cuDeviceGraphMemTrim", 0)
    c.ask("trim graph memory beyond", "cuDeviceGraphMemTrim", 999)
    c.ask("luid", "cuDeviceGetLuid", bus, out, 0)
    c.ask("resource of kind 9", "cuDeviceGetDevResource", 0, ctypes.create_string_buffer(256), 9)
    c.ask("properties beyond", "cuDeviceGetProperties", ctypes.create_string_buffer(64), 999)
    properties = (ctypes.c_int * 16)()
    c.ask("properties", "cuDeviceGetProperties", properties, 0)
    c.note("properties' values", "cuDeviceGetProperties", " ".join(str(properties[i]) for i in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 13)))


def without_context(c):
    c.must("cuInit", 0)
    out, size, handle, priority = Int32(), Int64(), Handle(), Int32()
    c.ask("current", "cuCtxGetCurrent", handle, context=handle)
    c.ask("device", "cuCtxGetDevice", out)
    c.ask("pop", "cuCtxPopCurrent_v2", handle)
    c.ask("push nothing", "cuCtxPushCurrent_v2", 0)
    c.ask("set nothing", "cuCtxSetCurrent", 0)
    c.ask("synchronise", "cuCtxSynchronize")
    c.ask("destroy nothing", "cuCtxDestroy_v2", 0)
    c.ask("flags", "cuCtxGetFlags", out)
    c.ask("limit", "cuCtxGetLimit", size, 0)
    c.ask("set limit", "cuCtxSetLimit", 0, 2048)
    c.ask("cache", "cuCtxGetCacheConfig", out)
    c.ask("set cache", "cuCtxSetCacheConfig", 1)
    c.ask("priorities", "cuCtxGetStreamPriorityRange", out, priority)
    c.ask("api version of none", "cuCtxGetApiVersion", 0, out)
    c.ask("id of none", "cuCtxGetId", 0, size)
    c.ask("reset cache", "cuCtxResetPersistingL2Cache")
    c.ask("detach", "cuCtxDetach", 0)
    c.ask("attach", "cuCtxAttach", handle, 0)
    c.ask("memory info", "cuMemGetInfo_v2", size, size)
    c.ask("allocate", "cuMemAlloc_v2", handle, 64)
    c.ask("allocate nothing", "cuMemAlloc_v2", handle, 0)
    c.ask("allocate managed", "cuMemAllocManaged", handle, 64, 1)
    c.ask("allocate host", "cuMemHostAlloc", handle, 64, 0)
    c.ask("allocate in stream", "cuMemAllocAsync", handle, 64, 0)
    c.ask("free nothing", "cuMemFree_v2", 0)
    c.ask("free something", "cuMemFree_v2", 4096)
    c.ask("free host nothing", "cuMemFreeHost", 0)
    buffer = ctypes.create_string_buffer(8192)
    c.ask("register", "cuMemHostRegister_v2", buffer, 4096, 0)
    c.ask("unregister", "cuMemHostUnregister", buffer)
    c.ask("pointer", "cuPointerGetAttribute", out, 2, ctypes.addressof(buffer))
    c.ask("copy", "cuMemcpy", 0, 0, 0)
    c.ask("fill", "cuMemsetD8_v2", 0, 0, 0)
    c.ask("stream", "cuStreamCreate", handle, 0)
    c.ask("synchronise stream", "cuStreamSynchronize", 0)
    c.ask("query stream", "cuStreamQuery", 0)
    c.ask("event", "cuEventCreate", handle, 0)
    c.ask("destroy no event", "cuEventDestroy_v2", 0)
    c.ask("load", "cuModuleLoadData", handle, KERNELS)
    c.ask("unload nothing", "cuModuleUnload", 0)
    c.ask("function of nothing", "cuModuleGetFunction", handle, 0, b"x")
    c.ask("launch nothing", "cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, 0, None, None)
    c.ask("array", "cuArrayCreate_v2", handle, packed("QQII", 4, 4, 0x20, 1))
    c.ask("link", "cuLinkCreate_v2", 0, None, None, handle)
    c.ask("occupancy", "cuOccupancyMaxActiveBlocksPerMultiprocessor", out, 0, 32, 0)
    library, graph, pool = Handle(), Handle(), Handle()
    c.ask("library", "cuLibraryLoadData", library, KERNELS, None, None, 0, None, None, 0, library=library)
    c.ask("graph", "cuGraphCreate", graph, 0, graph=graph)
    c.ask("pool", "cuDeviceGetDefaultMemPool", pool, 0, pool=pool)
    c.ask("release", "cuDevicePrimaryCtxRelease_v2", 0)
    c.ask("reset", "cuDevicePrimaryCtxReset_v2", 0)
    c.ask("reserve", "cuMemAddressReserve", handle, 2 << 20, 0, 0, 0)
    c.ask("profiler", "cuProfilerStart")


def primary(c):
    c.must("cuInit", 0)
    flags, active, context, again, handle = Int32(), Int32(), Handle(), Handle(), Handle()
    c.ask("state", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("state beyond", "cuDevicePrimaryCtxGetState", 999, flags, active)
    c.ask("state into nothing", "cuDevicePrimaryCtxGetState", 0, None, None)
    c.ask("wrong flags", "cuDevicePrimaryCtxSetFlags_v2", 0, 0xFF00)
    c.ask("two schedules", "cuDevicePrimaryCtxSetFlags_v2", 0, 3)
    c.ask("flags", "cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    c.ask("state with flags", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("retain into nothing", "cuDevicePrimaryCtxRetain", None, 0)
    c.ask("retain beyond", "cuDevicePrimaryCtxRetain", context, 999)
    c.ask("retain", "cuDevicePrimaryCtxRetain", context, 0)
    c.ask("retain again", "cuDevicePrimaryCtxRetain", again, 0)
    c.note("the same", "cuDevicePrimaryCtxRetain", +context == +again)
    c.ask("flags while active", "cuDevicePrimaryCtxSetFlags_v2", 0, 8)
    c.ask("state while active", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("destroy", "cuCtxDestroy_v2", +context)
    c.ask("detach", "cuCtxDetach", +context)
    c.ask("current", "cuCtxSetCurrent", +context)
    c.ask("flags of current", "cuCtxGetFlags", flags, flags=flags)
    c.ask("cache", "cuCtxSetCacheConfig", 2)
    c.ask("limit", "cuCtxSetLimit", 0, 4096)
    memory = Handle()
    c.ask("memory", "cuMemAlloc_v2", memory, 4096)
    c.ask("reset", "cuDevicePrimaryCtxReset_v2", 0)
    c.ask("state after reset", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("current after reset", "cuCtxGetCurrent", handle, context=handle)
    c.ask("memory after reset", "cuMemAlloc_v2", Handle(), 64)
    c.ask("device after reset", "cuCtxGetDevice", Int32())
    c.ask("synchronise after reset", "cuCtxSynchronize")
    c.ask("retain after reset", "cuDevicePrimaryCtxRetain", again, 0)
    c.note("the same after reset", "cuDevicePrimaryCtxRetain", +context == +again)
    c.ask("state after retain", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("current after retain", "cuCtxSetCurrent", +again)
    cache, size = Int32(), Int64()
    c.ask("cache after reset", "cuCtxGetCacheConfig", cache, config=cache)
    c.ask("limit after reset", "cuCtxGetLimit", size, 0, value=size)
    c.ask("memory after retain", "cuMemAlloc_v2", Handle(), 64)
    c.ask("old memory after retain", "cuMemFree_v2", +memory)
    for which in ("first", "second", "third", "fourth"):
        c.ask(f"{which} release", "cuDevicePrimaryCtxRelease_v2", 0)
    c.ask("release beyond", "cuDevicePrimaryCtxRelease_v2", 999)
    c.ask("reset beyond", "cuDevicePrimaryCtxReset_v2", 999)


def reset_of_one(c):
    flags, active = Int32(), Int32()
    c.must("cuInit", 0)
    c.do("cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    context = c.context()
    c.ask("reset", "cuDevicePrimaryCtxReset_v2", 0)
    c.ask("state", "cuDevicePrimaryCtxGetState", 0, flags, active, flags=flags, active=active)
    c.ask("reset again", "cuDevicePrimaryCtxReset_v2", 0)
    c.ask("release", "cuDevicePrimaryCtxRelease_v2", 0)
    c.ask("release again", "cuDevicePrimaryCtxRelease_v2", 0)
    c.ask("current", "cuCtxSetCurrent", context)
    c.ask("allocate", "cuMemAlloc_v2", Handle(), 64)


def release_of_current(c):
    c.context()
    handle = Handle()
    c.stream()
    c.ask("release", "cuDevicePrimaryCtxRelease_v2", 0)
    c.ask("current", "cuCtxGetCurrent", handle, context=handle)
    c.ask("allocate", "cuMemAlloc_v2", Handle(), 64)
    c.ask("device", "cuCtxGetDevice", Int32())
    c.ask("new stream", "cuStreamCreate", Handle(), 0)
    c.ask("pop", "cuCtxPopCurrent_v2", handle, context=handle)
    c.ask("pop again", "cuCtxPopCurrent_v2", handle)


def contexts(c):
    c.must("cuInit", 0)
    out, size, context, handle = Int32(), Int64(), Handle(), Handle()
    c.ask("wrong flags", "cuCtxCreate_v2", context, 0x1000, 0)
    c.ask("two schedules", "cuCtxCreate_v2", context, 3, 0)
    c.ask("no such device", "cuCtxCreate_v2", context, 0, 999)
    c.ask("into nothing", "cuCtxCreate_v2", None, 0, 0)
    c.ask("with flags", "cuCtxCreate_v2", context, 4, 0, context=context)
    first = +context
    c.ask("flags", "cuCtxGetFlags", out, flags=out)
    c.ask("flags into nothing", "cuCtxGetFlags", None)
    c.ask("set flags", "cuCtxSetFlags", 2)
    c.ask("flags set", "cuCtxGetFlags", out, flags=out)
    c.ask("set wrong flags", "cuCtxSetFlags", 0x1000)
    c.ask("api version", "cuCtxGetApiVersion", first, out, version=out)
    c.ask("api version of current", "cuCtxGetApiVersion", 0, out, version=out)
    c.ask("id", "cuCtxGetId", 0, size)
    c.ask("id into nothing", "cuCtxGetId", 0, None)
    c.ask("device into nothing", "cuCtxGetDevice", None)
    c.ask("current into nothing", "cuCtxGetCurrent", None)
    least, greatest = Int32(), Int32()
    c.ask("priorities", "cuCtxGetStreamPriorityRange", least, greatest, least=least, greatest=greatest)
    c.ask("priorities into nothing", "cuCtxGetStreamPriorityRange", None, None)
    c.ask("cache", "cuCtxGetCacheConfig", out, config=out)
    for value in (0, 1, 2, 3, 4):
        c.ask(f"set cache {value}", "cuCtxSetCacheConfig", value)
    c.ask("cache set", "cuCtxGetCacheConfig", out, config=out)
    c.ask("banks", "cuCtxGetSharedMemConfig", out, config=out)
    for value in (0, 1, 2, 3):
        c.ask(f"set banks {value}", "cuCtxSetSharedMemConfig", value)
    c.ask("banks set", "cuCtxGetSharedMemConfig", out, config=out)
    c.ask("reset cache", "cuCtxResetPersistingL2Cache")
    c.ask("peer of itself", "cuCtxEnablePeerAccess", first, 0)
    c.ask("peer of nothing", "cuCtxEnablePeerAccess", 0, 0)
    c.ask("peer with flags", "cuCtxEnablePeerAccess", first, 1)
    c.ask("no peer", "cuCtxDisablePeerAccess", first)
    c.ask("attach", "cuCtxAttach", handle, 0, context=handle)
    c.ask("attach with flags", "cuCtxAttach", handle, 1)
    c.ask("attach into nothing", "cuCtxAttach", None, 0)
    c.ask("detach once", "cuCtxDetach", first)
    c.ask("current after detach", "cuCtxGetCurrent", handle, context=handle)
    c.ask("affinity 0", "cuCtxGetExecAffinity", ctypes.create_string_buffer(64), 0)
    c.ask("affinity 9", "cuCtxGetExecAffinity", ctypes.create_string_buffer(64), 9)
    c.ask("record nothing", "cuCtxRecordEvent", 0, 0)
    c.ask("wait for nothing", "cuCtxWaitEvent", 0, 0)
    c.ask("with no parameters", "cuCtxCreate_v3", context, None, 0, 0, 0, context=context)
    second = +context
    c.ask("pop", "cuCtxPopCurrent_v2", handle)
    c.note("popped the second", "cuCtxPopCurrent_v2", +handle == second)
    c.ask("now current", "cuCtxGetCurrent", handle)
    c.note("current is the first", "cuCtxGetCurrent", +handle == first)
    c.ask("push twice", "cuCtxPushCurrent_v2", second)
    c.ask("push twice again", "cuCtxPushCurrent_v2", second)
    memory = Handle()
    c.ask("memory of the second", "cuMemAlloc_v2", memory, 4096)
    c.ask("destroy current", "cuCtxDestroy_v2", second)
    handle = Handle()
    c.ask("current then", "cuCtxGetCurrent", handle, context=handle)
    c.ask("device then", "cuCtxGetDevice", out)
    c.ask("allocate then", "cuMemAlloc_v2", Handle(), 64)
    c.ask("set first", "cuCtxSetCurrent", first)
    c.ask("its memory", "cuMemFree_v2", +memory)
    c.ask("destroy first", "cuCtxDestroy_v2", first)


def detached(c):
    c.must("cuInit", 0)
    context, handle = Handle(), Handle()
    c.must("cuCtxCreate_v2", context, 0, 0)
    c.ask("detach", "cuCtxDetach", +context)
    c.ask("current", "cuCtxGetCurrent", handle, context=handle)
    c.ask("allocate", "cuMemAlloc_v2", Handle(), 64)


def created_by_parameters(c):
    c.must("cuInit", 0)
    context = Handle()
    c.ask("no structure", "cuCtxCreate_v4", context, None, 0, 0)
    c.ask("an empty structure", "cuCtxCreate_v4", context, packed("QiiQ", 0, 0, 0, 0), 0, 0)
    c.ask("an affinity of kind 9", "cuCtxCreate_v3", context, packed("iIQ", 9, 1, 0), 1, 0, 0)
    c.ask("a negative count", "cuCtxCreate_v3", context, packed("iIQ", 0, 1, 0), -1, 0, 0)
    c.ask("no structures", "cuCtxCreate_v3", context, None, 1, 0, 0)


def limits(c):
    c.must("cuInit", 0)
    context = Handle()
    c.must("cuCtxCreate_v2", context, 0, 0)
    for limit in (0, 1, 2, 4, 5, 6, 9, 99):
        size = Int64()
        c.ask(f"limit {limit}", "cuCtxGetLimit", size, limit, value=size)
    c.ask("limit into nothing", "cuCtxGetLimit", None, 0)
    asked = ((0, 0), (0, 1), (0, 2000), (0, 1 << 40), (1, 0), (1, 1 << 16), (2, 0), (2, 1 << 24),
             (4, 0), (4, 4096), (4, 1 << 30), (5, 0), (5, 32), (5, 100), (5, 128), (5, 1 << 20), (6, 0), (99, 1))
    for limit, value in asked:
        c.ask(f"set limit {limit} to {value}", "cuCtxSetLimit", limit, value)
        size = Int64()
        c.ask(f"limit {limit} set to {value}", "cuCtxGetLimit", size, limit, value=size)


def heap(c):
    c.context()
    module = c.module()
    allocate, memory = c.function(module, b"allocate"), c.memory()
    c.ask("set", "cuCtxSetLimit", 2, 256 << 20)
    size = Int64()
    c.ask("get", "cuCtxGetLimit", size, 2, value=size)
    c.launch(allocate, memory, 20 << 20)
    c.note("malloc of 20 MiB", "cuCtxSetLimit", "room" if c.word(memory) == 1 else "NULL")
    c.ask("set while in use", "cuCtxSetLimit", 2, 512 << 20)
    c.ask("set less", "cuCtxSetLimit", 2, 8 << 20)


def heap_by_default(c):
    c.context()
    allocate, memory = c.function(c.module(), b"allocate"), c.memory()
    c.launch(allocate, memory, 20 << 20)
    c.note("malloc of 20 MiB", "cuCtxGetLimit", "room" if c.word(memory) == 1 else "NULL")
    c.launch(allocate, memory, 1 << 20)
    c.note("malloc of 1 MiB", "cuCtxGetLimit", "room" if c.word(memory) == 1 else "NULL")


def errors(c):
    names, texts, known = [], [], []
    for status in range(2000):
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        if c.do("cuGetErrorName", status, ctypes.byref(name)) == 0:
            known.append(status)
            names.append(name.value.decode())
            c.do("cuGetErrorString", status, ctypes.byref(text))
            texts.append(text.value.decode())
    c.note("known", "cuGetErrorName", " ".join(map(str, known)))
    c.note("names", "cuGetErrorName", hashlib.sha256("\n".join(names).encode()).hexdigest())
    for status, text in zip(known, texts):
        c.note(f"text of {status}", "cuGetErrorString", text)
    name = ctypes.c_char_p(b"kept")
    c.ask("no such error", "cuGetErrorName", 99999, ctypes.byref(name))
    c.note("its name", "cuGetErrorName", name.value)
    c.ask("no such text", "cuGetErrorString", 99999, ctypes.byref(name))
    c.ask("into nothing", "cuGetErrorName", 0, None)


def entry_points(c):
    c.must("cuInit", 0)
    cases = (("known", b"cuMemAlloc", 12000, 0), ("per thread", b"cuStreamSynchronize", 12000, 2),
             ("legacy", b"cuStreamSynchronize", 12000, 1), ("both flags", b"cuStreamSynchronize", 12000, 3),
             ("wrong flags", b"cuMemAlloc", 12000, 8), ("no such name", b"cuNoSuch", 12000, 0),
             ("empty name", b"", 12000, 0), ("lower case", b"cumemalloc", 12000, 0),
             ("suffix in the name", b"cuMemAlloc_v2", 12000, 0), ("version 0", b"cuMemAlloc", 0, 0),
             ("version 3000", b"cuMemAlloc", 3000, 0), ("version below 0", b"cuMemAlloc", -1, 0),
             ("newer than asked", b"cuGraphCreate", 9000, 0), ("newer function", b"cuLibraryLoadData", 11000, 0),
             ("version of later", b"cuMemAlloc", 99000, 0), ("version 12.99", b"cuMemAlloc", 12990, 0),
             ("version 2000", b"cuMemAlloc", 2000, 0), ("itself", b"cuGetProcAddress", 12000, 0))
    for label, name, version, flags in cases:
        address, found = Handle(), Int32()
        c.ask(label, "cuGetProcAddress_v2", name, address, version, flags, found, address=address, found=found)
    address, found = Handle(), Int32()
    c.ask("no name", "cuGetProcAddress_v2", None, address, 12000, 0, found)
    c.ask("into nothing", "cuGetProcAddress_v2", b"cuInit", None, 12000, 0, found, found=found)
    c.ask("no status", "cuGetProcAddress_v2", b"cuInit", address, 12000, 0, None, address=address)
    address = Handle()
    c.ask("no such name, no status", "cuGetProcAddress_v2", b"cuNoSuch", address, 12000, 0, None, address=address)
    address = Handle()
    c.ask("of the first version", "cuGetProcAddress", b"cuNoSuch", address, 11030, 0, address=address)
    table = Handle()
    c.ask("no such table", "cuGetExportTable", table, ctypes.create_string_buffer(b"0123456789abcdef"), table=table)
    c.ask("table into nothing", "cuGetExportTable", None, ctypes.create_string_buffer(16))
    c.ask("table of nothing", "cuGetExportTable", table, None)


def profiler(c):
    c.context()
    c.ask("start", "cuProfilerStart")
    c.ask("start again", "cuProfilerStart")
    c.ask("stop", "cuProfilerStop")
    c.ask("stop again", "cuProfilerStop")
    c.ask("initialise", "cuProfilerInitialize", b"a", b"b", 0)
    size, out = Int64(4), Int32()
    c.ask("core dump", "cuCoredumpGetAttribute", 1, out, size)
    c.ask("core dump 99", "cuCoredumpGetAttribute", 99, out, size)
    mode = Int32()
    c.ask("loading mode into nothing", "cuModuleGetLoadingMode", None)
    c.ask("checkpoint state", "cuCheckpointProcessGetState", 0, mode)


def elapsed(c):
    c.context()
    first, second, plain, time = c.event(), c.event(), c.event(2), Float()
    c.ask("unrecorded", "cuEventElapsedTime_v2", time, first, second, time=time)
    c.do("cuEventRecord", first, 0)
    c.ask("one recorded", "cuEventElapsedTime_v2", time, first, second)
    c.do("cuEventRecord", second, 0)
    c.do("cuEventRecord", plain, 0)
    c.do("cuCtxSynchronize")
    c.ask("both recorded", "cuEventElapsedTime_v2", Float(), first, second)
    c.ask("without timing", "cuEventElapsedTime_v2", time, first, plain)
    c.ask("into nothing", "cuEventElapsedTime_v2", None, first, second)
    c.ask("of nothing", "cuEventElapsedTime_v2", time, 0, second)
