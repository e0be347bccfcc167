#!/usr/bin/env python3
"""Runs what the interpreter's filetests ran on a GPU, and says where its answers differ.

    SIMT_RECORD=records.jsonl cargo test -p simt-interpreter --test filetests
    bench/h200/filetests.py records.jsonl

Only the vendor's libcuda is needed. A line for each launch that differs, could not be loaded or
failed; a summary at the end. Instructions whose result PTX leaves open within a bound may differ.
"""
import collections
import ctypes
import json
import struct
import sys

cuda = ctypes.CDLL("libcuda.so.1")
u64, p = ctypes.c_uint64, ctypes.byref


def check(code, what):
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, p(name))
        raise RuntimeError(f"{what}: {name.value.decode() if name.value else code}")


def open_context():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(p(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(p(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return device


def load(text):
    log = ctypes.create_string_buffer(4096)
    options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
    module = ctypes.c_void_p()
    code = cuda.cuModuleLoadDataEx(p(module), text.encode() + b"\0", 2, options, values)
    if code:
        raise RuntimeError("load: " + log.value.decode(errors="replace").strip()[:300])
    return module


def run(record):
    """Contents of the buffers afterwards."""
    # A table's `{ ... }` ends in a semicolon that ptxas does not take.
    module = load(record["ptx"].replace("; };", "; }"))
    function = ctypes.c_void_p()
    check(cuda.cuModuleGetFunction(p(function), module, record["kernel"].encode()), "function")
    params, places = bytearray(bytes.fromhex(record["params"])), []
    for address, before, _ in record["buffers"]:
        before = bytes.fromhex(before)
        pointer = u64()
        check(cuda.cuMemAlloc_v2(p(pointer), max(len(before), 1)), "cuMemAlloc")
        check(cuda.cuMemcpyHtoD_v2(pointer, before, len(before)), "cuMemcpyHtoD")
        places.append((pointer, len(before)))
        for at in range(0, len(params) - 7, 8):
            if struct.unpack_from("<Q", params, at)[0] == address:
                struct.pack_into("<Q", params, at, pointer.value)
    size = ctypes.c_size_t(len(params))
    buffer = ctypes.create_string_buffer(bytes(params), max(len(params), 1))
    extra = (ctypes.c_void_p * 5)(1, ctypes.cast(buffer, ctypes.c_void_p), 2,
                                  ctypes.cast(p(size), ctypes.c_void_p), 0)
    check(cuda.cuLaunchKernel(function, *record["grid"], *record["block"], record["shared"],
                              None, None, extra), "launch")
    check(cuda.cuCtxSynchronize(), "run")
    results = []
    for pointer, length in places:
        out = ctypes.create_string_buffer(max(length, 1))
        check(cuda.cuMemcpyDtoH_v2(out, pointer, length), "cuMemcpyDtoH")
        results.append(out.raw[:length])
        cuda.cuMemFree_v2(pointer)
    cuda.cuModuleUnload(module)
    return results


def form(record):
    """What the launch is about: the one instruction of a table's kernel, or the kernel."""
    lines = [line.strip() for line in record["ptx"].splitlines()]
    for i, line in enumerate(lines):
        if line.startswith(("ld.global.b64 %x", "cvt.", "mov.", "setp.ne.b64")):
            continue
        if record["kernel"] == "k" and ("%o0" in line or "mma" in line) and not line.startswith((".reg", "st.", "selp.b64 %x")):
            return line.rstrip(";")[:100]
    for line in lines:
        if record["kernel"] == "k" and "%o0" in line and not line.startswith((".reg", "st.", "selp.b64 %x", "mov.pred %o0, 0", "mov.b")):
            return line.rstrip(";")[:100]
    return record["kernel"]


def main():
    check(cuda.cuInit(0), "cuInit")
    device = open_context()
    counts, reported = collections.Counter(), set()
    for number, line in enumerate(open(sys.argv[1])):
        record = json.loads(line)
        try:
            results = run(record)
        except RuntimeError as error:
            counts["failed"] += 1
            key = (form(record), str(error)[:60])
            if key not in reported:
                reported.add(key)
                print(f"{number}: {form(record)}: {error}")
            if not str(error).startswith("load"):
                cuda.cuDevicePrimaryCtxReset_v2(device)
                device = open_context()
            continue
        differs = []
        for index, (got, (_, _, ours)) in enumerate(zip(results, record["buffers"])):
            ours = bytes.fromhex(ours)
            for at in range(0, len(ours), 4):
                if got[at:at + 4] != ours[at:at + 4]:
                    differs.append((index, at, got[at:at + 4][::-1].hex(), ours[at:at + 4][::-1].hex()))
        counts["differ" if differs else "same"] += 1
        if differs and (form(record), differs[0][1:]) not in reported:
            reported.add((form(record), differs[0][1:]))
            index, at, gpu, ours = differs[0]
            print(f"{number}: {form(record)}: {len(differs)} words differ, the first in buffer "
                  f"{index} at {at}: GPU 0x{gpu}, soft 0x{ours}; {differs[1:5]}")
    print(dict(counts))


main()
