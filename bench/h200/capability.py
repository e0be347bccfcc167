#!/usr/bin/env python3
"""What a driver says of its device and of kernels: attributes, occupancy, clusters, images it takes.

    bench/h200/capability.py [--library PATH] --output FILE [PTX FILE ...]

Asks the driver API in this process (libcuda.so.1, or the library named) and writes what it answers
as JSON; crates/soft-gpu holds its model of an SM against that. The kernels are made here, so that
they need a known number of registers, barriers or bytes. Of the PTX files that are named, what
each kernel needs is written down. With nvcc on the PATH, fat binaries of several kinds are tried.
"""
import argparse
import ctypes
import datetime
import json
import pathlib
import shutil
import subprocess
import tempfile

p = ctypes.byref
FUNCTION_ATTRIBUTES = range(16)
MAX_THREADS, SHARED, CONST, LOCAL, REGISTERS, MAX_DYNAMIC, CARVEOUT = 0, 1, 2, 3, 4, 8, 9
NON_PORTABLE = 14
THREADS = [1, 31, 32, 33, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 480, 512, 544, 576,
           640, 672, 736, 768, 800, 896, 960, 992, 1024, 1025]
DYNAMIC = [0, 1, 127, 128, 129, 1000, 1024, 2048, 4096, 6144, 8192, 10000, 16384, 20000, 24576,
           32768, 40000, 48128, 49152, 49153, 65536, 75000, 100000, 101376, 102400, 115712, 131072,
           166912, 200000, 231424, 232448, 232449, 233472]
CARVEOUTS = [-1, 0, 1, 5, 8, 14, 15, 25, 28, 29, 40, 44, 50, 58, 60, 75, 86, 90, 100]


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint)]


def header(version, target):
    return f".version {version}\n.target {target}\n.address_size 64\n"


def kernel(name, values=2, shared=0, barriers=(), directives="", dynamic_barrier=False):
    """A kernel in which so many values are alive at once."""
    lines = [f".visible .entry {name}(.param .u64 p) {directives}", "{", ".reg .b64 %a;"]
    lines += [f".reg .b32 %v<{values}>;"]
    if shared:
        lines += [f".shared .align 16 .b8 s[{shared}];", ".reg .b32 %s;"]
    lines += ["ld.param.u64 %a, [p];"]
    lines += [f"ld.volatile.global.u32 %v{n}, [%a+{4 * n}];" for n in range(values)]
    lines += [f"bar.sync {n};" for n in barriers]
    if dynamic_barrier:
        lines += ["bar.sync %v0;"]
    if shared:
        lines += ["mov.u32 %s, s;", "st.volatile.shared.u32 [%s], %v0;"]
    lines += [f"st.volatile.global.u32 [%a+{4 * n}], %v{n};" for n in reversed(range(values))]
    return "\n".join(lines + ["ret;", "}", ""])


def kernels():
    """Names and texts."""
    for values in [1, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 52, 56, 60, 64, 68, 76, 84, 92, 104, 116,
                   124, 140, 156, 172, 188, 204, 220, 236, 246]:
        yield f"v{values}", {"values": values}
    for shared in [4, 100, 1024, 10000, 24000, 48 << 10]:
        yield f"shared{shared}", {"shared": shared}
    for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16]:
        yield f"barriers{n}", {"barriers": range(n)}
    yield "barrier_high", {"barriers": [9]}
    yield "barrier_any", {"dynamic_barrier": True}
    for name, directives in [("max256", ".maxntid 256"), ("max128x4", ".maxntid 128 .minnctapersm 4"),
                             ("max1000", ".maxntid 1000"), ("required100", ".reqntid 100"),
                             ("least2", ".maxntid 1024 .minnctapersm 2"), ("reg32", ".maxnreg 32"),
                             ("reg100", ".maxnreg 100"), ("max512", ".maxntid 512")]:
        yield name, {"values": 120, "directives": directives}


class Driver:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.check("cuInit", 0)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check("cuDeviceGet", p(self.device), 0)
        self.check("cuDevicePrimaryCtxRetain", p(context), self.device)
        self.check("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def check(self, name, *arguments):
        code = self.call(name, *arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def number(self, name, *arguments):
        """What a function that answers a number answers, or less than 0: its error."""
        value = ctypes.c_int(-12345)
        code = self.call(name, p(value), *arguments)
        return -code if code else value.value

    def load(self, image):
        """Error, module, what the log says."""
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 8192)
        module = ctypes.c_void_p()
        code = self.call("cuModuleLoadDataEx", p(module), image, 2, options, values)
        return code, module, log.value.decode(errors="replace")

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.check("cuModuleGetFunction", p(function), module, name.encode())
        return function

    def attributes(self, function):
        return [self.number("cuFuncGetAttribute", n, function) for n in FUNCTION_ATTRIBUTES]

    def set(self, function, attribute, value):
        return self.call("cuFuncSetAttribute", function, attribute, ctypes.c_int(value))

    def blocks(self, function, threads, dynamic):
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return self.number(name, function, threads, ctypes.c_size_t(dynamic))

    def opt_in(self, function):
        """Lets launches have as much dynamic shared memory as a block may have."""
        most = self.number("cuDeviceGetAttribute", 97, self.device)
        fixed = self.number("cuFuncGetAttribute", SHARED, function)
        return self.set(function, MAX_DYNAMIC, most - fixed)

    def potential(self, function, dynamic, limit):
        grid, block = ctypes.c_int(), ctypes.c_int()
        code = self.call("cuOccupancyMaxPotentialBlockSize", p(grid), p(block), function,
                         dynamic if callable(dynamic) else None,
                         ctypes.c_size_t(0 if callable(dynamic) else dynamic), limit)
        return [code, block.value, grid.value]

    def available(self, function, blocks, threads):
        size = ctypes.c_size_t(0)
        code = self.call("cuOccupancyAvailableDynamicSMemPerBlock", p(size), function, blocks, threads)
        return -code if code else size.value

    def clusters(self, what, function, cluster, threads, dynamic, grid=1 << 14):
        attribute = Attribute(4, 0)  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value[:3] = [cluster or 0, 1, 1]
        count = 0 if cluster is None else 1
        config = Config((ctypes.c_uint * 3)(grid // (cluster or 1) * (cluster or 1), 1, 1),
                        (ctypes.c_uint * 3)(threads, 1, 1), dynamic, None,
                        ctypes.pointer(attribute), count)
        return self.number(what, function, p(config))


def of_functions(driver):
    rows = []
    of_block = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(lambda threads: 64 * threads)
    for name, what in kernels():
        code, module, log = driver.load((header("7.0", "sm_50") + kernel(name, **what)).encode() + b"\0")
        if code:
            rows.append({"name": name, "error": code, "log": log})
            continue
        function = driver.function(module, name)
        row = {"name": name, "attributes": driver.attributes(function),
               "barriers": 16 if what.get("dynamic_barrier") else max(what.get("barriers", []), default=-1) + 1}
        row["default_blocks"] = [driver.blocks(function, t, d) for d in (0, 40000, 49152, 49153) for t in (32, 128)]
        row["opt_in"] = driver.opt_in(function)
        row["max_dynamic"] = driver.number("cuFuncGetAttribute", MAX_DYNAMIC, function)
        row["blocks"] = [[driver.blocks(function, t, d) for t in THREADS] for d in DYNAMIC]
        row["potential"] = [[limit, d, *driver.potential(function, d, limit)]
                            for limit in (0, 1, 33, 100, 128, 500, 1024, 2000)
                            for d in (0, 1000, 16384, 65536)]
        row["potential_of_block"] = [[limit, *driver.potential(function, of_block, limit)] for limit in (0, 300)]
        row["available"] = [[n, t, driver.available(function, n, t)]
                            for n in (0, 1, 2, 3, 4, 5, 7, 8, 16, 24, 31, 32, 33) for t in (32, 128, 256, 1024)]
        rows.append(row)
    return rows


def of_carveouts(driver):
    rows = []
    for name, what in [("v8", {"values": 8}), ("v64", {"values": 60}), ("shared1024", {"shared": 1024}),
                       ("shared24000", {"shared": 24000})]:
        _, module, _ = driver.load((header("7.0", "sm_50") + kernel(name, **what)).encode() + b"\0")
        function = driver.function(module, name)
        driver.opt_in(function)
        row = {"name": name, "attributes": driver.attributes(function), "carveouts": []}
        for carveout in CARVEOUTS:
            code = driver.set(function, CARVEOUT, carveout)
            row["carveouts"].append({
                "carveout": carveout, "code": code,
                "reported": driver.number("cuFuncGetAttribute", CARVEOUT, function),
                "blocks": [[driver.blocks(function, t, d) for t in (32, 128, 256, 1024)] for d in DYNAMIC],
                "available": [[n, t, driver.available(function, n, t)]
                              for n in (1, 2, 4, 8, 16, 32) for t in (32, 256)],
                "potential": [[d, *driver.potential(function, d, 0)] for d in (0, 1000, 16384)],
            })
        row["refused"] = [[n, driver.set(function, CARVEOUT, n)] for n in (-2, 101, 1000)]
        driver.set(function, CARVEOUT, -1)
        row["cache_configurations"] = []
        for configuration in range(5):
            code = driver.call("cuFuncSetCacheConfig", function, configuration)
            blocks = [driver.blocks(function, 32, d) for d in DYNAMIC]
            reported = driver.number("cuFuncGetAttribute", CARVEOUT, function)
            row["cache_configurations"].append([configuration, code, reported, blocks])
        rows.append(row)
    return rows


def of_clusters(driver):
    rows = []
    sizes = [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 32]
    for name, what in [("v8", {"values": 8}), ("v60", {"values": 60}), ("v124", {"values": 124}),
                       ("shared24000", {"shared": 24000})]:
        _, module, _ = driver.load((header("7.8", "sm_90") + kernel(name, **what)).encode() + b"\0")
        function = driver.function(module, name)
        driver.opt_in(function)
        row = {"name": name, "attributes": driver.attributes(function)}
        for key, allowed in (("portable", 0), ("any", 1)):
            driver.set(function, NON_PORTABLE, allowed)
            row[key] = [
                [t, d, driver.clusters("cuOccupancyMaxPotentialClusterSize", function, None, t, d),
                 [driver.clusters("cuOccupancyMaxActiveClusters", function, c, t, d) for c in sizes]]
                for t in (32, 128, 256, 512, 1024) for d in (0, 32768, 65536, 100000, 200000)]
        rows.append(row)
    settings = []
    text = header("7.8", "sm_90") + kernel("required", directives=".reqnctapercluster 2, 1, 1")
    text += kernel("explicit", directives=".explicitcluster .maxclusterrank 4") + kernel("plain")
    _, module, _ = driver.load(text.encode() + b"\0")
    for name in ("required", "explicit", "plain"):
        function = driver.function(module, name)
        settings.append({
            "name": name, "attributes": driver.attributes(function),
            "set": [[attribute, value, driver.set(function, attribute, value),
                     driver.number("cuFuncGetAttribute", attribute, function)]
                    for attribute in range(16) for value in (0, 1, 2, 4)],
            "potential": driver.clusters("cuOccupancyMaxPotentialClusterSize", function, None, 128, 0),
            "active": [driver.clusters("cuOccupancyMaxActiveClusters", function, c, 128, 0) for c in (None, 1, 2, 4, 8)],
        })
    return {"sizes": sizes, "rows": rows, "settings": settings}


def of_launches(driver):
    """Errors of launches that ask for too much; nothing that runs does anything."""
    code, module, _ = driver.load((header("7.8", "sm_90") + kernel("small", 1) + kernel("large", 124)
                                   + kernel("bounded", directives=".maxntid 128")
                                   + kernel("exact", directives=".reqntid 64")).encode() + b"\0")
    memory = ctypes.c_uint64()
    driver.check("cuMemAlloc_v2", p(memory), 4096)
    params = (ctypes.c_void_p * 1)(ctypes.cast(p(memory), ctypes.c_void_p))
    rows = []
    for name, grid, block, shared in [
            ("small", (1, 1, 1), (1024, 1, 1), 0), ("small", (1, 1, 1), (1025, 1, 1), 0),
            ("small", (1, 1, 1), (32, 33, 1), 0), ("small", (1, 1, 1), (1, 1, 65), 0),
            ("small", (1, 65536, 1), (1, 1, 1), 0), ("small", (1, 1, 65536), (1, 1, 1), 0),
            ("small", (0, 1, 1), (1, 1, 1), 0), ("small", (1, 1, 1), (0, 1, 1), 0),
            ("small", (0x80000000, 1, 1), (1, 1, 1), 0),
            ("small", (1, 1, 1), (1, 1, 1), 49152), ("small", (1, 1, 1), (1, 1, 1), 49153),
            ("small", (1, 1, 1), (1, 1, 1), 232449), ("small", (1, 1, 1), (1, 1, 1), 0xffffffff),
            ("large", (1, 1, 1), (1024, 1, 1), 0), ("large", (1, 1, 1), (480, 1, 1), 0),
            ("bounded", (1, 1, 1), (128, 1, 1), 0), ("bounded", (1, 1, 1), (129, 1, 1), 0),
            ("exact", (1, 1, 1), (64, 1, 1), 0), ("exact", (1, 1, 1), (63, 1, 1), 0),
            ("exact", (1, 1, 1), (32, 2, 1), 0)]:
        function = driver.function(module, name)
        code = driver.call("cuLaunchKernel", function, *[ctypes.c_uint(n) for n in (*grid, *block, shared)],
                           None, params, None)
        rows.append([name, grid, block, shared, code, driver.call("cuCtxSynchronize")])
    return rows


def of_images(driver):
    """Which texts are taken, and the error for others."""
    body = ".visible .entry k() { ret; }\n"
    rows = []

    def attempt(what, image):
        code, module, log = driver.load(image)
        row = {"image": what, "code": code, "log": log[:300]}
        if not code:
            attributes = driver.attributes(driver.function(module, "k"))
            row["ptx_version"], row["binary_version"] = attributes[5], attributes[6]
        rows.append(row)

    def text(version, target, code=body):
        attempt(f"{version} {target}", (header(version, target) + code).encode() + b"\0")

    for target in ("sm_10 sm_20 sm_30 sm_32 sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 "
                   "sm_86 sm_87 sm_88 sm_89 sm_90 sm_90a sm_90f sm_100 sm_100a sm_100f sm_101 sm_101a sm_103 sm_103a "
                   "sm_110 sm_110a sm_120 sm_120a sm_120f sm_121 sm_121a sm_130 compute_80").split():
        text("9.0", target)
    for version in ("0.9 1.0 1.4 2.0 3.2 4.0 6.0 7.0 7.8 8.0 8.5 8.8 9.0 9.1 9.2 9.3 9.4 9.9 10.0 99.0").split():
        text(version, "sm_20" if float(version) < 3 else "sm_50")
    text("7.0", "sm_90")
    text("7.8", "sm_90")
    text("7.8", "sm_90a")
    text("8.0", "sm_90a")
    redux = ".visible .entry k() { .reg .b32 %r; redux.sync.add.u32 %r, %r, -1; ret; }\n"
    text("7.0", "sm_75", redux)
    text("7.0", "sm_80", redux)
    text("6.0", "sm_70", redux)
    fence = ".visible .entry k() { wgmma.fence.sync.aligned; ret; }\n"
    text("8.0", "sm_90", fence)
    text("8.0", "sm_90a", fence)
    cluster = ".visible .entry k() { barrier.cluster.arrive; barrier.cluster.wait; ret; }\n"
    text("8.0", "sm_80", cluster)
    text("8.0", "sm_90", cluster)
    text("8.0", "sm_80", ".visible .entry k() .reqnctapercluster 2 { ret; }\n")
    text("9.0", "sm_80", ".visible .entry k() { no.such %r; }\n")
    text("9.0", "sm_80", ".extern .func f();\n.visible .entry k() { call f; ret; }\n")
    text("9.0", "sm_80", ".visible .entry k() { ret; }\n.visible .entry k() { ret; }\n")
    for what, image in [("empty", b"\0"), ("words", b"hello\0"), ("no target", b".version 7.0\n" + body.encode() + b"\0"),
                        ("no version", b".target sm_50\n" + body.encode() + b"\0")]:
        attempt(what, image)
    if shutil.which("nvcc"):
        for what, path in compiled():
            attempt(what, path)
    return rows


def compiled():
    """Fat binaries and machine code of a kernel, by nvcc."""
    ways = [("fatbin", "-gencode arch=compute_80,code=sm_80"), ("fatbin", "-gencode arch=compute_80,code=compute_80"),
            ("fatbin", "-gencode arch=compute_90,code=sm_90"), ("fatbin", "-gencode arch=compute_90a,code=sm_90a"),
            ("fatbin", "-gencode arch=compute_90a,code=compute_90a"), ("fatbin", "-gencode arch=compute_100,code=compute_100"),
            ("fatbin", "-gencode arch=compute_100,code=sm_100"), ("fatbin", "-gencode arch=compute_100f,code=compute_100f"),
            ("fatbin", "-gencode arch=compute_100,code=compute_100 -gencode arch=compute_80,code=compute_80"),
            ("fatbin", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_100,code=sm_100"),
            ("fatbin", "-gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=[compute_80,sm_86]"),
            ("cubin", "-arch=sm_80"), ("cubin", "-arch=sm_90"), ("cubin", "-arch=sm_90a"), ("cubin", "-arch=sm_100")]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "k.cu")
        source.write_text('extern "C" __global__ void k() {}\n')
        started = [(f"{kind} {options}", pathlib.Path(folder, f"{n}.{kind}"), kind, options)
                   for n, (kind, options) in enumerate(ways)]
        running = [subprocess.Popen(["nvcc", f"-{kind}", *options.split(), "-o", path, source],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for _, path, kind, options in started]
        for process in running:
            process.wait()
        for what, path, _, _ in started:
            if path.exists():
                yield what, path.read_bytes()


def of_files(driver, files):
    """What the kernels of PTX files need."""
    rows = []
    for file in files:
        text = pathlib.Path(file).read_text(errors="replace")
        code, module, log = driver.load(text.encode() + b"\0")
        if code:
            rows.append({"file": pathlib.Path(file).name, "code": code, "log": log[:200]})
            continue
        names = [line.split(".entry", 1)[1].split("(")[0].strip() for line in text.splitlines() if ".entry" in line]
        for name in names:
            function = ctypes.c_void_p()
            if driver.call("cuModuleGetFunction", p(function), module, name.encode()) == 0:
                rows.append({"file": pathlib.Path(file).name, "kernel": name, "attributes": driver.attributes(function)})
    return rows


def nvml():
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    library.nvmlInit_v2()
    handle, answers = ctypes.c_void_p(), {}
    library.nvmlDeviceGetHandleByIndex_v2(0, p(handle))
    for name in ("nvmlDeviceGetArchitecture", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMemoryBusWidth",
                 "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetNumFans", "nvmlDeviceGetBrand"):
        value = ctypes.c_uint()
        code = getattr(library, name)(handle, p(value))
        answers[name] = -code if code else value.value
    return answers


class Resource(ctypes.Structure):
    """CUdevResource, of SMs."""
    _fields_ = [("type", ctypes.c_uint), ("pad", ctypes.c_ubyte * 92), ("sms", ctypes.c_uint),
                ("least", ctypes.c_uint), ("unit", ctypes.c_uint), ("rest", ctypes.c_ubyte * 36)]


def of_splits(driver):
    """How SMs are parted: flags, wanted groups and least SMs of each; then error, groups, SMs of each and left."""
    whole = Resource()
    if driver.call("cuDeviceGetDevResource", driver.device, p(whole), 1):
        return None
    rows = []
    for flags in range(4):
        for wanted in (1, 3, 1024):
            for least in [*range(10), 12, 15, 16, 17, 18, 20, 24, 28, 32, 33, 40, 48, 56, 60, 64, 65, 66, 72,
                          80, 88, 96, 100, 112, 120, 124, 128, 130, whole.sms - 1, whole.sms, whole.sms + 1]:
                parts, left, count = (Resource * 1024)(), Resource(), ctypes.c_uint(wanted)
                code = driver.call("cuDevSmResourceSplitByCount", parts, p(count), p(whole), p(left), flags, least)
                sizes = sorted({part.sms for part in parts[:count.value]}) if not code else []
                rows.append([flags, wanted, least, code, count.value, sizes, left.sms])
    return {"sms": whole.sms, "least": whole.least, "unit": whole.unit, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="libcuda.so.1")
    parser.add_argument("--output", required=True)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    driver = Driver(arguments.library)
    name = ctypes.create_string_buffer(100)
    driver.check("cuDeviceGetName", name, 100, driver.device)
    version = driver.number("cuDriverGetVersion")
    try:
        release = pathlib.Path("/proc/driver/nvidia/version").read_text().split("\n")[0]
    except OSError:
        release = None
    document = {
        "date": datetime.date.today().isoformat(), "device": name.value.decode(), "driver": release,
        "cuda": version, "threads": THREADS, "dynamic": DYNAMIC,
        "device_attributes": [driver.number("cuDeviceGetAttribute", n, driver.device) for n in range(171)],
        "nvml": nvml(), "functions": of_functions(driver), "carveouts": of_carveouts(driver),
        "clusters": of_clusters(driver), "launches": of_launches(driver), "images": of_images(driver),
        "files": of_files(driver, arguments.files),
        "splits": of_splits(driver),
    }
    # A line for each kernel, so that what changes between two runs can be read.
    text = json.dumps(document, separators=(",", ":")).replace('{"name"', '\n{"name"').replace('{"image"', '\n{"image"')
    text = text.replace('{"file"', '\n{"file"')
    pathlib.Path(arguments.output).write_text(text + "\n")


main()
