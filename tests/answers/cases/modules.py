"""Modules, libraries, JIT logs, linking, launches, textures, occupancy, and contexts after an error."""

import ctypes

from driver import Handle, Int32, Int64, packed
from kernels import HEADER, KERNELS

IMAGES = {
    "an empty text": b"",
    "garbage": b"garbage",
    "an ELF": b"\x7fELF" + bytes(4096),
    "a fat binary with a wrong length": b"\x50\xed\x55\xba\x01\x00\x10\x00" + b"\xff" * 8 + bytes(4096),
    "a byte order mark": b"\xef\xbb\xbf" + HEADER,
    "a comment that is not ASCII": HEADER + b"// \xe2\x80\x9c\n.visible .entry e() { ret; }\n",
    "a comment that is not ASCII at first": b"// \xe2\x80\x9c\n" + HEADER,
    "32-bit addresses": b".version 7.0\n.target sm_80\n.address_size 32\n.visible .entry e() { ret; }\n",
    "no version": b".target sm_80\n.visible .entry e() { ret; }\n",
    "version 99": HEADER.replace(b"7.0", b"99.0"),
    "another target": HEADER.replace(b"sm_80", b"sm_120").replace(b"7.0", b"8.7") + b".visible .entry e() { ret; }\n",
    "an unknown target": HEADER.replace(b"sm_80", b"sm_81"),
    "an unknown instruction": HEADER + b".visible .entry e() { rat; }\n",
    "an undeclared register": HEADER + b".visible .entry e() { mov.u32 %r1, 0; ret; }\n",
    "a missing brace": HEADER + b".visible .entry e() { ret;\n",
    "an external function": HEADER + b".extern .func f();\n.visible .entry e() { call f; ret; }\n",
    "two of a name": HEADER + b".visible .entry e() { ret; }\n.visible .entry e() { ret; }\n",
    "nothing but a header": HEADER,
    "right": KERNELS,
}


def images(c):
    c.context()
    for label, image in IMAGES.items():
        module = Handle()
        c.ask(label, "cuModuleLoadData", module, image, module=module)
    c.ask("nothing", "cuModuleLoadData", Handle(), None)
    c.ask("into nothing", "cuModuleLoadData", None, KERNELS)


def logs(c):
    c.context()
    for label, image in IMAGES.items():
        if label == "nothing but a header":
            continue
        error, info = ctypes.create_string_buffer(b"KEPT" * 64, 256), ctypes.create_string_buffer(b"KEPT" * 64, 256)
        options = (ctypes.c_uint32 * 4)(5, 6, 3, 4)
        values = (ctypes.c_uint64 * 4)(ctypes.addressof(error), 256, ctypes.addressof(info), 256)
        c.ask(f"load of {label}", "cuModuleLoadDataEx", Handle(), image, 4, options, values)

        def state(buffer, size):
            raw = bytes(buffer)
            kind = "kept" if raw.startswith(b"KEPT") else "empty" if raw[0] == 0 else "text"
            ended = raw.find(b"\0")
            counted = "untouched" if size == 256 else "0" if size == 0 else "length" if size == ended else "length + 1" if size == ended + 1 else "other"
            return f"{kind} size {counted}"

        c.note(f"error log of {label}", "cuModuleLoadDataEx", state(error, values[1] & 0xFFFFFFFF))
        c.note(f"information log of {label}", "cuModuleLoadDataEx", state(info, values[3] & 0xFFFFFFFF))
    one = (ctypes.c_uint32 * 1)
    for option, value in ((99, 0), (0, 1), (7, 9), (7, 4), (9, 80), (9, 13), (1, 64), (10, 9), (11, 1), (12, 1)):
        c.ask(f"option {option} = {value}", "cuModuleLoadDataEx", Handle(), KERNELS, 1, one(option), (ctypes.c_uint64 * 1)(value))
    small = ctypes.create_string_buffer(b"KEPT", 8)
    values = (ctypes.c_uint64 * 2)(ctypes.addressof(small), 4)
    c.ask("a log of 4 bytes", "cuModuleLoadDataEx", Handle(), IMAGES["an unknown instruction"], 2, (ctypes.c_uint32 * 2)(5, 6), values)
    c.note("its end", "cuModuleLoadDataEx", f"byte 3 {bytes(small)[3]}, byte 4 {bytes(small)[4]}, size {values[1] & 0xFFFFFFFF}")
    c.ask("no options", "cuModuleLoadDataEx", Handle(), KERNELS, 0, None, None)
    c.ask("options of nothing", "cuModuleLoadDataEx", Handle(), KERNELS, 1, None, None)


def modules(c):
    c.context()
    module, handle, address, size, out = c.module(), Handle(), Handle(), Int64(), Int32()
    c.ask("load a missing file", "cuModuleLoad", handle, b"/no/such/file")
    c.ask("load a directory", "cuModuleLoad", handle, b"/tmp")
    c.ask("load an empty file", "cuModuleLoad", handle, b"/dev/null")
    c.ask("load no file", "cuModuleLoad", handle, None)
    c.ask("load an empty name", "cuModuleLoad", handle, b"")
    c.ask("no fat binary", "cuModuleLoadFatBinary", handle, b"garbage")
    c.ask("unload nothing", "cuModuleUnload", 0)
    c.ask("a missing function", "cuModuleGetFunction", handle, module, b"missing", function=handle)
    c.ask("a function of no name", "cuModuleGetFunction", handle, module, None)
    c.ask("a function of an empty name", "cuModuleGetFunction", handle, module, b"")
    c.ask("a function into nothing", "cuModuleGetFunction", None, module, b"empty")
    c.ask("a variable as a function", "cuModuleGetFunction", handle, module, b"variable")
    c.ask("a function as a variable", "cuModuleGetGlobal_v2", address, size, module, b"empty")
    c.ask("a variable", "cuModuleGetGlobal_v2", address, size, module, b"variable", size=size)
    c.ask("a constant", "cuModuleGetGlobal_v2", address, size, module, b"constant", size=size)
    c.ask("a missing variable", "cuModuleGetGlobal_v2", address, size, module, b"missing")
    c.ask("a variable of no name", "cuModuleGetGlobal_v2", address, size, module, None)
    c.ask("a variable's size", "cuModuleGetGlobal_v2", None, size, module, b"variable", size=size)
    c.ask("a variable into nothing", "cuModuleGetGlobal_v2", None, None, module, b"variable")
    c.ask("count of functions", "cuModuleGetFunctionCount", out, module, count=out)
    c.ask("count of no module", "cuModuleGetFunctionCount", out, 0)
    c.ask("functions", "cuModuleEnumerateFunctions", (ctypes.c_uint64 * 2)(), 2, module)
    c.ask("no functions", "cuModuleEnumerateFunctions", (ctypes.c_uint64 * 2)(), 0, module)
    c.ask("a missing texture", "cuModuleGetTexRef", handle, module, b"missing")
    c.ask("a missing surface", "cuModuleGetSurfRef", handle, module, b"missing")
    small = c.function(module, b"small")
    for attribute in (0, 1, 2, 3, 7, 8, 9, 10, 11, 99):
        out = Int32()
        c.ask(f"function attribute {attribute}", "cuFuncGetAttribute", out, attribute, small, value=out if attribute not in (5, 6) else Int32(0))
    c.ask("attribute of no function", "cuFuncGetAttribute", out, 0, 0)
    c.ask("attribute into nothing", "cuFuncGetAttribute", None, 0, small)
    for attribute, value in ((8, 0), (8, 1024), (8, -1), (8, 1 << 30), (9, 0), (9, 50), (9, 101), (9, -1), (9, -2), (0, 5), (10, 1), (14, 0), (15, 1), (99, 1)):
        c.ask(f"set attribute {attribute} to {value}", "cuFuncSetAttribute", small, attribute, value)
    for value in (0, 3, 4):
        c.ask(f"function cache {value}", "cuFuncSetCacheConfig", small, value)
        c.ask(f"function banks {value}", "cuFuncSetSharedMemConfig", small, value)
    c.ask("module of it", "cuFuncGetModule", handle, small)
    c.note("the same module", "cuFuncGetModule", +handle == module)
    c.ask("module of nothing", "cuFuncGetModule", handle, 0)
    name = ctypes.c_char_p()
    c.ask("name", "cuFuncGetName", ctypes.byref(name), small)
    c.note("the name", "cuFuncGetName", name.value)
    c.ask("name of nothing", "cuFuncGetName", ctypes.byref(name), 0)
    c.ask("name into nothing", "cuFuncGetName", None, small)
    for index in (0, 1, 2):
        offset, size = Int64(), Int64()
        c.ask(f"parameter {index}", "cuFuncGetParamInfo", small, index, offset, size, offset=offset, size=size)
    c.ask("parameter's offset only", "cuFuncGetParamInfo", small, 1, offset, None)
    c.ask("parameter into nothing", "cuFuncGetParamInfo", small, 1, None, size)
    c.ask("loaded", "cuFuncIsLoaded", out, small, loaded=out)
    c.ask("load it", "cuFuncLoad", small)
    c.ask("load nothing", "cuFuncLoad", 0)


def libraries(c):
    c.context()
    library, handle, kernel, out, size = Handle(), Handle(), Handle(), Int32(), Int64()
    load = "cuLibraryLoadData"
    c.ask("garbage", load, handle, b"garbage", None, None, 0, None, None, 0)
    c.ask("nothing", load, handle, None, None, None, 0, None, None, 0)
    c.ask("into nothing", load, None, KERNELS, None, None, 0, None, None, 0)
    c.ask("option 99", load, handle, KERNELS, None, None, 0, (ctypes.c_uint32 * 1)(99), (ctypes.c_uint64 * 1)(0), 1)
    c.ask("right", load, library, KERNELS, None, None, 0, None, None, 0)
    c.ask("a missing file", "cuLibraryLoadFromFile", handle, b"/no/such/file", None, None, 0, None, None, 0)
    c.ask("a missing kernel", "cuLibraryGetKernel", kernel, +library, b"missing", kernel=kernel)
    c.ask("a kernel of no name", "cuLibraryGetKernel", kernel, +library, None)
    c.ask("a kernel of no library", "cuLibraryGetKernel", kernel, 0, b"empty")
    c.ask("a kernel", "cuLibraryGetKernel", kernel, +library, b"small")
    c.ask("count of kernels", "cuLibraryGetKernelCount", out, +library, count=out)
    c.ask("a variable", "cuLibraryGetGlobal", handle, size, +library, b"variable", size=size)
    c.ask("a missing variable", "cuLibraryGetGlobal", handle, size, +library, b"missing")
    c.ask("a managed variable", "cuLibraryGetManaged", handle, size, +library, b"variable")
    c.ask("a unified function", "cuLibraryGetUnifiedFunction", handle, +library, b"empty")
    c.ask("its module", "cuLibraryGetModule", handle, +library, module=handle)
    c.ask("module of nothing", "cuLibraryGetModule", handle, 0)
    name = ctypes.c_char_p()
    c.ask("name", "cuKernelGetName", ctypes.byref(name), +kernel)
    c.ask("name of nothing", "cuKernelGetName", ctypes.byref(name), 0)
    c.ask("name into nothing", "cuKernelGetName", None, +kernel)
    c.ask("function", "cuKernelGetFunction", handle, +kernel, function=handle)
    c.ask("function of nothing", "cuKernelGetFunction", handle, 0)
    c.ask("library of it", "cuKernelGetLibrary", handle, +kernel)
    c.note("the same library", "cuKernelGetLibrary", +handle == +library)
    c.ask("attribute", "cuKernelGetAttribute", out, 0, +kernel, 0, value=out)
    c.ask("attribute 99", "cuKernelGetAttribute", out, 99, +kernel, 0)
    c.ask("attribute beyond", "cuKernelGetAttribute", out, 0, +kernel, 999)
    c.ask("set attribute", "cuKernelSetAttribute", 8, 1024, +kernel, 0)
    c.ask("set attribute 0", "cuKernelSetAttribute", 0, 1, +kernel, 0)
    c.ask("cache", "cuKernelSetCacheConfig", +kernel, 1, 0)
    c.ask("parameter 2", "cuKernelGetParamInfo", +kernel, 2, size, size)
    c.ask("launch the kernel", "cuLaunchKernel", +kernel, 1, 1, 1, 1, 1, 1, 0, 0, c.arguments(1, 2), None)
    c.ask("unload nothing", "cuLibraryUnload", 0)
    c.ask("unload", "cuLibraryUnload", +library)


def links(c):
    c.context()
    link, image, size = Handle(), Handle(), Int64()
    c.ask("into nothing", "cuLinkCreate_v2", 0, None, None, None)
    c.ask("create", "cuLinkCreate_v2", 0, None, None, link)
    c.ask("kind 99", "cuLinkAddData_v2", +link, 99, KERNELS, len(KERNELS) + 1, b"x", 0, None, None)
    c.ask("garbage", "cuLinkAddData_v2", +link, 1, b"garbage", 8, b"x", 0, None, None)
    c.ask("nothing", "cuLinkAddData_v2", +link, 1, None, 8, b"x", 0, None, None)
    c.ask("a missing file", "cuLinkAddFile_v2", +link, 1, b"/no/such/file", 0, None, None)
    c.ask("complete nothing", "cuLinkComplete", 0, image, size)
    c.ask("destroy nothing", "cuLinkDestroy", 0)
    c.ask("destroy", "cuLinkDestroy", +link)
    c.must("cuLinkCreate_v2", 0, None, None, link)
    c.ask("right", "cuLinkAddData_v2", +link, 1, KERNELS, len(KERNELS) + 1, b"x", 0, None, None)
    c.ask("complete", "cuLinkComplete", +link, image, size, image=image)
    c.ask("complete again", "cuLinkComplete", +link, image, size)
    c.ask("load it", "cuModuleLoadData", Handle(), +image)


def launches(c):
    c.context()
    module, memory, stream = c.module(), c.memory(), c.stream()
    empty, eight, small = c.function(module, b"empty"), c.function(module, b"eight"), c.function(module, b"small")

    def launch(label, function=empty, grid=(1, 1, 1), block=(1, 1, 1), shared=0, into=0, parameters=None, extra=None):
        c.ask(label, "cuLaunchKernel", function, *grid, *block, shared, into, parameters, extra)

    launch("nothing", function=0)
    launch("empty")
    for axis in range(3):
        shape = [1, 1, 1]
        shape[axis] = 0
        launch(f"grid of 0 on axis {axis}", grid=shape)
        launch(f"block of 0 on axis {axis}", block=shape)
    launch("grid of 2^31", grid=(1 << 31, 1, 1))
    launch("grid of 65536 on axis 1", grid=(1, 65536, 1))
    launch("grid of 65536 on axis 2", grid=(1, 1, 65536))
    launch("block of 1025", block=(1025, 1, 1))
    launch("block of 64 by 32", block=(64, 32, 1))
    launch("block of 65 on axis 2", block=(1, 1, 65))
    launch("shared memory of 49152", shared=49152)
    launch("shared memory of 49153", shared=49153)
    launch("shared memory of 2^31", shared=1 << 31)
    launch("in the legacy stream", into=1)
    launch("in the thread's stream", into=2)
    launch("no parameters for one", function=eight)
    launch("a null parameter", function=eight, parameters=(ctypes.c_void_p * 1)(None))
    launch("parameters for none", parameters=c.arguments(1))

    def extra(size, pointer=True, end=True, given_size=True):
        data = ctypes.create_string_buffer(64)
        length = ctypes.c_size_t(size)
        words = [1, ctypes.addressof(data)] if pointer else []
        words += [2, ctypes.addressof(length)] if given_size else []
        words += [0] if end else [9, 0, 0]
        c.kept += [data, length]
        return (ctypes.c_uint64 * len(words))(*words)

    launch("a buffer of 64", function=eight, extra=extra(64))
    launch("a buffer of 12", function=eight, extra=extra(12))
    launch("a buffer of 8", function=eight, extra=extra(8))
    launch("a buffer of 16 for 4 and 8", function=small, extra=extra(16))
    uneven = c.function(module, b"uneven")
    for size in (12, 14, 16, 20, 24):
        launch(f"a buffer of {size} for 8 and 4", function=uneven, extra=extra(size))
    launch("a buffer of 4", function=eight, extra=extra(4))
    launch("a buffer of 0", function=eight, extra=extra(0))
    launch("a buffer of no size", function=eight, extra=extra(8, given_size=False))
    launch("a size of no buffer", function=eight, extra=extra(8, pointer=False))
    launch("an unknown mark", function=eight, extra=extra(8, end=False))
    launch("an empty list", function=eight, extra=(ctypes.c_uint64 * 1)(0))
    launch("both", function=eight, parameters=c.arguments(1), extra=extra(8))
    c.ask("wait", "cuCtxSynchronize")
    cooperative = "cuLaunchCooperativeKernel"
    c.ask("cooperative", cooperative, empty, 1, 1, 1, 1, 1, 1, 0, stream, None)
    c.ask("cooperative of 2^20 blocks", cooperative, empty, 1 << 20, 1, 1, 32, 1, 1, 0, stream, None)
    c.ask("cooperative of 0 blocks", cooperative, empty, 0, 1, 1, 1, 1, 1, 0, stream, None)

    def configured(label, attributes=(), count=None, function=empty):
        data = b"".join(bytes(packed("i4x16i", kind, *(tuple(values) + (0,) * (16 - len(values))))) for kind, values in attributes)
        buffer = ctypes.create_string_buffer(data, max(len(data), 1))
        c.kept.append(buffer)
        config = packed("7I4xQQI4x", 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(buffer) if attributes else 0, len(attributes) if count is None else count)
        c.ask(label, "cuLaunchKernelEx", config, function, None, None)

    c.ask("by nothing", "cuLaunchKernelEx", None, empty, None, None)
    configured("by no attributes")
    configured("by attributes of nothing", count=1)
    configured("by attribute 99", [(99, (0,))])
    configured("by attribute 0", [(0, (0,))])
    configured("as cooperative", [(2, (1,))])
    configured("by cooperative 7", [(2, (7,))])
    configured("by policy 9", [(3, (9,))])
    configured("by policy 1", [(3, (1,))])
    configured("by a cluster of 0", [(4, (0, 1, 1))])
    configured("by scheduling 9", [(5, (9,))])
    configured("by priority -1", [(8, (-1 & 0x7FFFFFFF,))])
    configured("by priority -5", [(8, (-5,))])
    configured("by priority 0", [(8, (0,))])
    configured("by domain 9", [(10, (9,))])
    configured("by domain 0", [(10, (0,))])
    configured("by a domain map", [(9, (0,))])
    configured("by a priority twice", [(8, (0,)), (8, (0,))])
    c.ask("wait at the end", "cuCtxSynchronize")
    del memory


def old_launches(c):
    c.context()
    module, memory = c.module(), c.memory()
    add, empty = c.function(module, b"add"), c.function(module, b"empty")
    c.ask("launch without a shape", "cuLaunch", empty)
    c.ask("shape of nothing", "cuFuncSetBlockShape", 0, 1, 1, 1)
    c.ask("shape of 0", "cuFuncSetBlockShape", add, 0, 1, 1)
    c.ask("shape of 1025", "cuFuncSetBlockShape", add, 1025, 1, 1)
    c.ask("shape below 0", "cuFuncSetBlockShape", add, -1, 1, 1)
    c.ask("shape", "cuFuncSetBlockShape", add, 4, 1, 1)
    c.ask("shared memory", "cuFuncSetSharedSize", add, 0)
    c.ask("shared memory of 2^30", "cuFuncSetSharedSize", add, 1 << 30)
    c.do("cuFuncSetSharedSize", add, 0)
    c.ask("parameters below 0", "cuParamSetSize", add, -1)
    c.ask("parameters of 8192", "cuParamSetSize", add, 8192)
    c.ask("parameters of 16", "cuParamSetSize", add, 16)
    value = Int64(memory)
    c.ask("pointer", "cuParamSetv", add, 0, value, 8)
    c.ask("pointer from nothing", "cuParamSetv", add, 0, None, 8)
    c.ask("pointer beyond", "cuParamSetv", add, 4092, value, 8)
    c.ask("number", "cuParamSeti", add, 8, 3)
    c.ask("number below 0", "cuParamSeti", add, -4, 3)
    c.ask("number's upper half", "cuParamSeti", add, 12, 0)
    c.ask("launch", "cuLaunch", add)
    c.ask("wait", "cuCtxSynchronize")
    c.note("sum of 4 threads", "cuLaunch", c.word(memory))
    c.ask("launch a grid", "cuLaunchGrid", add, 2, 3)
    c.ask("launch a grid in a stream", "cuLaunchGridAsync", add, 1, 1, c.stream())
    c.ask("launch no grid", "cuLaunchGrid", add, 0, 1)
    c.ask("launch a negative grid", "cuLaunchGrid", add, -1, 1)
    c.ask("launch nothing", "cuLaunch", 0)
    c.ask("wait again", "cuCtxSynchronize")
    c.note("sum of 32 threads", "cuLaunchGrid", c.word(memory))
    c.ask("no texture", "cuParamSetTexRef", add, -1, 0)


def _after_an_error(c, name, *arguments):
    c.context()
    module, memory, stream, event = c.module(), c.memory(), c.stream(), c.event()
    empty, pinned = c.function(module, b"empty"), Handle()
    c.must("cuMemHostAlloc", pinned, 64, 0)
    c.note("launch", "cuLaunchKernel", c.name(c.launch(c.function(module, name), *([memory] if arguments else []))))
    c.ask("wait", "cuCtxSynchronize")
    c.ask("wait again", "cuCtxSynchronize")
    c.ask("allocate", "cuMemAlloc_v2", Handle(), 64)
    c.ask("free", "cuMemFree_v2", memory)
    c.ask("allocate pinned", "cuMemHostAlloc", Handle(), 64, 0)
    c.ask("free pinned", "cuMemFreeHost", +pinned)
    c.ask("launch then", "cuLaunchKernel", empty, 1, 1, 1, 1, 1, 1, 0, 0, None, None)
    c.ask("stream", "cuStreamQuery", stream)
    c.ask("new stream", "cuStreamCreate", Handle(), 0)
    c.ask("destroy a stream", "cuStreamDestroy_v2", stream)
    c.ask("event", "cuEventQuery", event)
    c.ask("record", "cuEventRecord", event, 0)
    c.ask("destroy an event", "cuEventDestroy_v2", event)
    c.ask("copy", "cuMemcpyDtoH_v2", ctypes.create_string_buffer(4), memory, 4)
    c.ask("memory info", "cuMemGetInfo_v2", Int64(), Int64())
    c.ask("load", "cuModuleLoadData", Handle(), KERNELS)
    c.ask("unload", "cuModuleUnload", module)
    c.ask("current", "cuCtxGetCurrent", Handle())
    c.ask("device", "cuCtxGetDevice", Int32())
    c.ask("limit", "cuCtxGetLimit", Int64(), 0)
    c.ask("pointer", "cuPointerGetAttribute", Int64(), 2, memory)
    c.ask("attribute", "cuDeviceGetAttribute", Int32(), 1, 0)
    c.ask("reset", "cuDevicePrimaryCtxReset_v2", 0)
    context = Handle()
    c.ask("retain", "cuDevicePrimaryCtxRetain", context, 0)
    c.ask("set current", "cuCtxSetCurrent", +context)
    c.ask("allocate after the reset", "cuMemAlloc_v2", Handle(), 64)


def after_a_trap(c):
    _after_an_error(c, b"stop")


def after_a_wild_store(c):
    _after_an_error(c, b"wild")


def after_a_misaligned_store(c):
    _after_an_error(c, b"misaligned", 1)


def arrays(c):
    c.context()
    handle, level, out = Handle(), Handle(), ctypes.create_string_buffer(256)
    flat, deep = "QQII", "QQQIII4x"
    create, create_3d = "cuArrayCreate_v2", "cuArray3DCreate_v2"
    c.ask("of width 0", create, handle, packed(flat, 0, 4, 0x20, 1))
    c.ask("of format 0", create, handle, packed(flat, 4, 4, 0, 1))
    c.ask("of format 99", create, handle, packed(flat, 4, 4, 99, 1))
    c.ask("of 3 channels", create, handle, packed(flat, 4, 4, 0x20, 3))
    c.ask("of 0 channels", create, handle, packed(flat, 4, 4, 0x20, 0))
    c.ask("too wide", create, handle, packed(flat, 1 << 20, 4, 0x20, 1))
    c.ask("of nothing", create, handle, None)
    c.ask("into nothing", create, None, packed(flat, 4, 4, 0x20, 1))
    c.ask("of one line", create, handle, packed(flat, 4, 0, 0x20, 1))
    c.ask("right", create, handle, packed(flat, 4, 4, 0x20, 1))
    array = +handle
    c.ask("descriptor", "cuArrayGetDescriptor_v2", out, array)
    c.ask("descriptor of nothing", "cuArrayGetDescriptor_v2", out, 0)
    c.ask("descriptor into nothing", "cuArrayGetDescriptor_v2", None, array)
    c.ask("3D with flags 0x1000", create_3d, handle, packed(deep, 4, 4, 4, 0x20, 1, 0x1000))
    c.ask("cube of 5 layers", create_3d, handle, packed(deep, 4, 4, 5, 0x20, 1, 4))
    c.ask("cube that is not square", create_3d, handle, packed(deep, 4, 8, 6, 0x20, 1, 4))
    c.ask("layers of none", create_3d, handle, packed(deep, 4, 4, 0, 0x20, 1, 1))
    c.ask("3D without height", create_3d, handle, packed(deep, 4, 0, 4, 0x20, 1, 0))
    buffer = ctypes.create_string_buffer(64)
    c.ask("copy beyond", "cuMemcpyHtoA_v2", array, 60, buffer, 64)
    c.ask("copy", "cuMemcpyHtoA_v2", array, 0, buffer, 16)
    c.ask("copy to no array", "cuMemcpyHtoA_v2", 0, 0, buffer, 16)
    mipmapped = Handle()
    c.ask("mipmap of 0 levels", "cuMipmappedArrayCreate", mipmapped, packed(deep, 4, 4, 0, 0x20, 1, 0), 0)
    c.ask("mipmap of 99 levels", "cuMipmappedArrayCreate", Handle(), packed(deep, 4, 4, 0, 0x20, 1, 0), 99)
    c.ask("mipmap", "cuMipmappedArrayCreate", mipmapped, packed(deep, 4, 4, 0, 0x20, 1, 0), 2)
    c.ask("level 0", "cuMipmappedArrayGetLevel", level, +mipmapped, 0)
    c.ask("level 2", "cuMipmappedArrayGetLevel", level, +mipmapped, 2)
    c.ask("destroy a level", "cuArrayDestroy", +level)
    c.ask("destroy the mipmap", "cuMipmappedArrayDestroy", +mipmapped)
    c.ask("destroy nothing", "cuArrayDestroy", 0)
    c.ask("plane 0", "cuArrayGetPlane", level, array, 0)
    c.ask("sparse properties", "cuArrayGetSparseProperties", out, array)
    c.ask("memory requirements", "cuArrayGetMemoryRequirements", out, array, 0)
    c.ask("destroy", "cuArrayDestroy", array)


def textures(c):
    c.context()
    memory, array, texture, out = c.memory(), Handle(), Handle(), ctypes.create_string_buffer(256)
    c.must("cuArrayCreate_v2", array, packed("QQII", 4, 4, 0x20, 1))
    create = "cuTexObjectCreate"

    def of_array(which=None, flags=0):
        return packed("I4xQ120xI4x", 0, +array if which is None else which, flags)

    def linear(address=None, form=0x20, channels=1, size=64):
        return packed("I4xQIIQ104xI4x", 2, memory if address is None else address, form, channels, size, 0)

    def pitched(address=None, pitch=512, width=4, height=4):
        return packed("I4xQIIQQQ88xI4x", 3, memory if address is None else address, 0x20, 1, width, height, pitch, 0)

    def sampler(mode=1, filtering=0, flags=0, anisotropy=0):
        return packed("3III IIfff4f12I", mode, mode, mode, filtering, flags, anisotropy, 0, 0, 0, 0, 0, 0, 0, 0, *[0] * 12)

    c.ask("of nothing", create, texture, None, sampler(), None)
    c.ask("without a sampler", create, texture, of_array(), None, None)
    c.ask("into nothing", create, None, of_array(), sampler(), None)
    c.ask("of no array", create, texture, of_array(0), sampler(), None)
    c.ask("of kind 9", create, texture, packed("I4x136x", 9), sampler(), None)
    c.ask("with flags", create, texture, of_array(flags=1), sampler(), None)
    c.ask("address mode 9", create, texture, of_array(), sampler(mode=9), None)
    c.ask("filter 9", create, texture, of_array(), sampler(filtering=9), None)
    c.ask("flags 256", create, texture, of_array(), sampler(flags=256), None)
    c.ask("anisotropy 99", create, texture, of_array(), sampler(anisotropy=99), None)
    c.ask("linear misaligned", create, texture, linear(memory + 4), sampler(), None)
    c.ask("linear of nothing", create, texture, linear(0), sampler(), None)
    c.ask("linear of 0 bytes", create, texture, linear(size=0), sampler(), None)
    c.ask("linear of 3 channels", create, texture, linear(channels=3), sampler(), None)
    c.ask("linear of format 99", create, texture, linear(form=99), sampler(), None)
    c.ask("linear filtered", create, texture, linear(), sampler(filtering=1), None)
    c.ask("linear", create, texture, linear(), sampler(), None, texture=texture)
    c.ask("pitched with a pitch of 20", create, texture, pitched(pitch=20), sampler(), None)
    c.ask("pitched misaligned", create, texture, pitched(memory + 16), sampler(), None)
    c.ask("pitched of width 0", create, texture, pitched(width=0), sampler(), None)
    c.ask("pitched", create, texture, pitched(), sampler(), None)
    c.ask("of an array", create, texture, of_array(), sampler(), None)
    c.ask("its resource", "cuTexObjectGetResourceDesc", out, +texture)
    c.ask("its view", "cuTexObjectGetResourceViewDesc", out, +texture)
    c.ask("resource of nothing", "cuTexObjectGetResourceDesc", out, 0)
    c.ask("resource into nothing", "cuTexObjectGetResourceDesc", None, +texture)
    c.ask("destroy", "cuTexObjectDestroy", +texture)
    c.ask("destroy again", "cuTexObjectDestroy", +texture)
    c.ask("destroy nothing", "cuTexObjectDestroy", 0)
    surface = Handle()
    c.ask("surface of an array without the flag", "cuSurfObjectCreate", surface, of_array())
    c.ask("surface of memory", "cuSurfObjectCreate", surface, linear())
    c.ask("destroy no surface", "cuSurfObjectDestroy", 0)
    size = Int64()
    c.ask("widest linear texture", "cuDeviceGetTexture1DLinearMaxWidth", size, 0x20, 1, 0, size=size)
    c.ask("widest of format 99", "cuDeviceGetTexture1DLinearMaxWidth", size, 99, 1, 0)
    reference = Handle()
    c.ask("a texture reference", "cuTexRefCreate", reference)
    map_ = ctypes.create_string_buffer(192)
    sizes, strides, ones = (ctypes.c_uint64 * 2)(64, 4), (ctypes.c_uint64 * 1)(256), (ctypes.c_uint32 * 2)(1, 1)
    c.ask("a tensor map of rank 0", "cuTensorMapEncodeTiled", map_, 7, 0, memory, sizes, strides, ones, ones, 0, 0, 0, 0)


def occupancy(c):
    c.context()
    module, out, size = c.module(), Int32(), Int64()
    empty = c.function(module, b"empty")
    active = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    for threads in (32, 1024):
        c.ask(f"of {threads}", active, out, empty, threads, 0, blocks=out)
    c.ask("of 0", active, out, empty, 0, 0)
    c.ask("of -1", active, out, empty, -1, 0)
    out = Int32()
    c.ask("of 1025", active, out, empty, 1025, 0, blocks=out)
    out = Int32()
    c.ask("with 2^30 of shared memory", active, out, empty, 32, 1 << 30, blocks=out)
    c.ask("of nothing", active, out, 0, 32, 0)
    c.ask("into nothing", active, None, empty, 32, 0)
    c.ask("with flags 9", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", out, empty, 32, 0, 9)
    grid, block = Int32(), Int32()
    best = "cuOccupancyMaxPotentialBlockSize"
    c.ask("best", best, grid, block, empty, None, 0, 0, block=block)
    block = Int32()
    c.ask("best of 100", best, grid, block, empty, None, 0, 100, block=block)
    c.ask("best of -1", best, grid, block, empty, None, 0, -1)
    c.ask("best of 9999", best, grid, block, empty, None, 0, 9999, block=block)
    c.ask("best of nothing", best, grid, block, 0, None, 0, 0)
    c.ask("best into nothing", best, None, None, empty, None, 0, 0)
    c.ask("best with flags 9", "cuOccupancyMaxPotentialBlockSizeWithFlags", grid, block, empty, None, 0, 0, 9)
    c.ask("room of 0 blocks", "cuOccupancyAvailableDynamicSMemPerBlock", size, empty, 0, 32)
    c.ask("room of 99 blocks", "cuOccupancyAvailableDynamicSMemPerBlock", size, empty, 99, 32)
    c.ask("room into nothing", "cuOccupancyAvailableDynamicSMemPerBlock", None, empty, 1, 32)
    clusters = Int32()
    c.ask("clusters by nothing", "cuOccupancyMaxActiveClusters", clusters, empty, None)
