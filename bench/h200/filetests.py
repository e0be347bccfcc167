#!/usr/bin/env python3
"""Runs what the interpreter's filetests ran on a GPU, and says where its answers differ.

    OPENMPS_FUZZ_ROUNDS=0 SIMT_RECORD=records.jsonl cargo test -p simt-interpreter --test filetests
    bench/h200/filetests.py [--jobs N] [--json FILE] records.jsonl[.gz]

Only the vendor's libcuda is needed (LIBCUDA names another one). Tables: for each instruction
whose results differ, in how many launches and words, and how far at most, in units of the last
place of its type; for each text that the driver does not take, why; what failed. `--json` keeps
the words themselves. Launches of more than a given size are left out, and so are repeats, textures
and tensor maps.
"""
import argparse
import collections
import ctypes
import gzip
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import struct
import time

# Lines of the file: longer ones hold a heap of megabytes.
LINE_CHARACTERS_MAX = 2_000_000
# How long a kernel may run: most take a few microseconds.
RUN_S_MAX = 5
NOT_READY = 600
UNSUPPORTED_PTX_VERSION = 222
# Of what a buffer held before, kept for each launch that differs.
INPUT_CHARACTERS_MAX = 1 << 16
# Words that differ, kept for each launch.
WORDS_MAX = 64
# What works on objects that only the software GPU can read: their bytes are its own.
OWN_OBJECTS = re.compile(r"\b(tex|tld4|txq|suld|sust|sured|suq|istypep|tensormap)\.|\bcp\.\S*\.tensor\b")

cuda = ctypes.CDLL(os.environ.get("LIBCUDA", "libcuda.so.1"))
u64, p = ctypes.c_uint64, ctypes.byref


def check(code, what):
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, p(name))
        raise RuntimeError(f"{what}: {name.value.decode() if name.value else code}")


def open_context():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(p(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(p(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return device


def newest_version():
    """The PTX version that came with the driver's CUDA: 9.0 with 13.0."""
    version = ctypes.c_int()
    check(cuda.cuDriverGetVersion(p(version)), "cuDriverGetVersion")
    return f"{version.value // 1000 - 4}.{version.value % 1000 // 10}"


def load(text):
    """A module; a text for a newer PTX than the driver's is tried as one for the driver's, as many
    are newer for the sake of one of their forms only."""
    code, error, module = load_as_is(text)
    if code == UNSUPPORTED_PTX_VERSION:
        text = re.sub(r"(?m)^\.version .*", f".version {newest_version()}", text, count=1)
        code, error, module = load_as_is(text)
    if code:
        raise RuntimeError(f"load: {error}")
    return module


def load_as_is(text):
    log = ctypes.create_string_buffer(4096)
    options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
    module = ctypes.c_void_p()
    code = cuda.cuModuleLoadDataEx(p(module), text.encode() + b"\0", 2, options, values)
    lines = [line for line in log.value.decode(errors="replace").splitlines() if "rror" in line]
    return code, (lines or [f"error {code}"])[0].strip()[:300], module


def addresses(record):
    """Places in the parameters that hold the address of a buffer, and which."""
    params, known = bytes.fromhex(record["params"]), {b[0]: i for i, b in enumerate(record["buffers"])}
    for at in range(0, len(params) - 7, 8):
        index = known.get(struct.unpack_from("<Q", params, at)[0])
        if index is not None:
            yield at, index


def key(record):
    """What tells launches apart: not the addresses."""
    params = bytearray(bytes.fromhex(record["params"]))
    for at, index in addresses(record):
        struct.pack_into("<Q", params, at, index)
    parts = [record["ptx"], record["kernel"], record["grid"], record["block"], record["shared"], params.hex()]
    return hashlib.sha1(repr(parts + [before for _, before, _ in record["buffers"]]).encode()).digest()


def wait():
    """Waits for the kernel, not for ever."""
    end = time.monotonic() + RUN_S_MAX
    while (code := cuda.cuStreamQuery(None)) == NOT_READY:
        if time.monotonic() > end:
            raise RuntimeError(f"run: still runs after {RUN_S_MAX} s")
        time.sleep(50e-6)
    check(code, "run")


def run(record):
    """Contents of the buffers afterwards."""
    module = load(record["ptx"])
    function = ctypes.c_void_p()
    check(cuda.cuModuleGetFunction(p(function), module, record["kernel"].encode()), "function")
    params, places = bytearray(bytes.fromhex(record["params"])), []
    for _, before, _ in record["buffers"]:
        before = bytes.fromhex(before)
        pointer = u64()
        check(cuda.cuMemAlloc_v2(p(pointer), max(len(before), 1)), "cuMemAlloc")
        check(cuda.cuMemcpyHtoD_v2(pointer, before, len(before)), "cuMemcpyHtoD")
        places.append((pointer, len(before)))
    for at, index in addresses(record):
        struct.pack_into("<Q", params, at, places[index][0].value)
    size = ctypes.c_size_t(len(params))
    buffer = ctypes.create_string_buffer(bytes(params), max(len(params), 1))
    extra = (ctypes.c_void_p * 5)(1, ctypes.cast(buffer, ctypes.c_void_p), 2,
                                  ctypes.cast(p(size), ctypes.c_void_p), 0)
    check(cuda.cuLaunchKernel(function, *record["grid"], *record["block"], record["shared"],
                              None, None, extra), "launch")
    wait()
    results = []
    for pointer, length in places:
        out = ctypes.create_string_buffer(max(length, 1))
        check(cuda.cuMemcpyDtoH_v2(out, pointer, length), "cuMemcpyDtoH")
        results.append(out.raw[:length])
        cuda.cuMemFree_v2(pointer)
    cuda.cuModuleUnload(module)
    return results


FRAME = re.compile(r"(\.reg|ld\.|st\.|mov\.b|mov\.pred %o|mov\.u(32|64) %(row|lane|rank|s\d|t)\b|mad\.wide|mad\.lo\.u32 %rank|"
                   r"cvt\.(u|b|s)\d+\.\w+ (%x|%i|%o\d+, %x)|cvt\.u64\.u32 %x|selp\.b64 %x|setp\.ne\.(b64|u32) %(odd|i|p)|and\.b32 %lane|"
                   r"@|bra|ret|[A-Z]+:|\{|\}|\.v|\.t|\.a|//|$)")


def form(record):
    """What the launch is about: the one instruction of a table's kernel, or the kernel."""
    if record["kernel"] != "k":
        return record["kernel"]
    lines = [line.strip() for line in record["ptx"].splitlines()]
    own = [line for line in lines if not FRAME.match(line)]
    return re.sub(r"%\w+", "%", own[0]).rstrip(";")[:100] if own else "k"


def operation(text):
    return text.split(" ")[0].rstrip(";")


def type_of(text):
    """Type of an instruction's result."""
    types = re.findall(r"\.(f64|f32|f16x2|f16|bf16x2|bf16|tf32|[usb]64|[usb]32|[usb]16|[usb]8)(?![\dx])", operation(text))
    return types[0] if types else ""


def place(bits, width):
    """A float's place among its like, in order."""
    sign = 1 << width - 1
    return -(bits & sign - 1) if bits & sign else bits


FLOATS = {"f64": (8, 0x7FF << 52), "f32": (4, 0xFF << 23), "f16": (2, 0x1F << 10), "bf16": (2, 0xFF << 7)}


def distance(kind, gpu, ours):
    """Units in the last place between two numbers; None if one is not a number, or not a float."""
    kind = kind.removesuffix("x2").replace("tf32", "f32")
    if kind not in FLOATS:
        return None
    size, exponent = FLOATS[kind]
    most = 0
    for at in range(0, len(gpu), size):
        a, b = (int.from_bytes(x[at:at + size], "little") for x in (gpu, ours))
        if a == b:
            continue
        if a & exponent == exponent or b & exponent == exponent:
            return None
        most = max(most, abs(place(a, 8 * size) - place(b, 8 * size)))
    return most


def compare(record):
    """Words that differ: buffer, offset, on the GPU, here, and how far apart."""
    text = form(record)
    kind, differs = type_of(text), []
    size = 8 if kind == "f64" else 4
    for index, (got, (_, _, ours)) in enumerate(zip(run(record), record["buffers"])):
        ours = bytes.fromhex(ours)
        for at in range(0, len(ours), size):
            gpu, here = got[at:at + size], ours[at:at + size]
            if gpu != here:
                far = distance(kind, gpu, here)
                differs.append((index, at, gpu[::-1].hex(), here[::-1].hex(), far))
    return differs


def work(path, jobs, first, answers):
    """Every `jobs`-th launch of a file, from one on, up to one that faults or hangs: no context of a
    process outlives that. The number of the launch to go on with."""
    open_context()
    seen = set()
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        for number, line in enumerate(lines):
            if number < first or (number - first) % jobs or len(line) > LINE_CHARACTERS_MAX:
                continue
            record = json.loads(line)
            if OWN_OBJECTS.search(record["ptx"]) or key(record) in seen:
                continue
            seen.add(key(record))
            answer = {"number": number, "form": form(record), "differs": [], "error": None}
            try:
                differs = compare(record)
                answer["words"], answer["differs"] = len(differs), differs[:WORDS_MAX]
                answer["far"] = max((d[4] if d[4] is not None else -1 for d in differs), default=0)
            except RuntimeError as error:
                answer["error"] = str(error)
            if answer["differs"] or answer["error"]:
                answer["ptx"] = record["ptx"]
                answer["inputs"] = [before[:INPUT_CHARACTERS_MAX] for _, before, _ in record["buffers"]]
            answers.append(answer)
            if answer["error"] and not answer["error"].startswith("load"):
                return number + jobs
    return None


def process(sender, *task):
    """Does work in this process and ends it, even if other work still runs."""
    answers = []
    sender.send((work(*task, answers), answers))
    sender.close()
    os._exit(0)


def report(answers):
    groups, errors = collections.defaultdict(list), collections.defaultdict(list)
    same = 0
    for answer in answers:
        if answer["error"]:
            errors[re.sub(r"line \d+;?", "", answer["error"])].append(answer)
        elif answer["differs"]:
            groups[operation(answer["form"])].append(answer)
        else:
            same += 1
    print(f"{len(answers)} launches: {same} the same, {sum(map(len, groups.values()))} differ, "
          f"{sum(map(len, errors.values()))} failed\n")
    for name, group in sorted(groups.items()):
        far = max(answer["far"] for answer in group)
        others = [d for answer in group for d in answer["differs"] if d[4] is None]
        first = (others or group[0]["differs"])[0]
        print(f"{name}: {len(group)} launches, {sum(a['words'] for a in group)} words, at most {far} ulp"
              f"{', others too' if others else ''}; GPU 0x{first[2]}, here 0x{first[3]} "
              f"({group[0]['number']}, buffer {first[0]} at {first[1]})")
    print()
    for text, group in sorted(errors.items()):
        names = collections.Counter(answer["form"] for answer in group)
        print(f"{text}: {len(group)}: {', '.join(name for name, _ in names.most_common(8))}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--json")
    arguments.add_argument("records")
    arguments = arguments.parse_args()
    answers, running, spawn = [], set(), multiprocessing.get_context("spawn")

    def start(first):
        receiver, sender = spawn.Pipe(duplex=False)
        task = (sender, arguments.records, arguments.jobs, first)
        spawn.Process(target=process, args=task, daemon=True).start()
        sender.close()
        running.add(receiver)

    for first in range(arguments.jobs):
        start(first)
    while running:
        for receiver in multiprocessing.connection.wait(running):
            running.remove(receiver)
            first, part = receiver.recv()
            answers += part
            if first is not None:
                start(first)
    answers.sort(key=lambda answer: answer["number"])
    if arguments.json:
        with (gzip.open if arguments.json.endswith(".gz") else open)(arguments.json, "wt") as file:
            json.dump([a for a in answers if a["differs"] or a["error"]], file)
    report(answers)


if __name__ == "__main__":
    main()
