#!/usr/bin/env python3
"""Makes tensor maps and copies tensors with them on a GPU, and writes down what comes out.

    bench/h200/tensor_maps.py [--dump FOLDER] CASES PTX > CASES.new

CASES is crates/soft-gpu/src/api/tests/tensor_maps.txt, PTX the file of that name beside it. What is behind `=>` in a line is
replaced by what the driver and the GPU answer; the test of the software GPU reads the same file. A case is what its map
is made of, where the copy starts (`at`, `off`), and which instruction of the PTX makes it (`mode`); without one it is the
driver's answer alone. With --dump what has changed goes to a folder, as exclusive or with what was there. Only libcuda is
needed.
"""
import argparse
import ctypes
import functools
import os
import sys

GLOBAL_BYTES = 128 << 10
SHARED_BYTES = 32 << 10
OUT_BYTES = SHARED_BYTES + 8
# Processes that a fault may end.
FAULTS_MAX = 200
u64, p = ctypes.c_uint64, ctypes.byref
cuda = ctypes.CDLL(os.environ.get("LIBCUDA", "libcuda.so.1"))


def check(code, what):
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


def words(seed, count):
    """Words that look random."""
    out = []
    for i in range(count):
        x = (i + seed) * 0x9E3779B1 & 0xFFFFFFFF
        x = (x ^ x >> 15) * 0x85EBCA77 & 0xFFFFFFFF
        out.append(x ^ x >> 13)
    return out


# Numbers that conversions and sums do not treat alike.
FLOATS = [0x3F800000, 0x3F801000, 0x3F801001, 0x3F803000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF,
          0x7F800000, 0xFF800000, 0x7F800001, 0x7FC12345, 0xBF802FFF, 0x40490FDB, 0x80000000, 0x3F800FFF]


@functools.cache
def contents(name, seed, count):
    if name == "floats":
        return b"".join(FLOATS[(i + seed) % len(FLOATS)].to_bytes(4, "little") for i in range(count // 4))
    if name == "small":
        # Small whole numbers, as f16 and, in every other word, as f32.
        return b"".join(
            (0x3C003C00 + (i + seed) % 4 * 0x04000400).to_bytes(4, "little") for i in range(count // 4))
    return b"".join(w.to_bytes(4, "little") for w in words(seed, count // 4))


def digest(data):
    """FNV-1a of 64 bits, over words of 8 bytes."""
    h = 0xCBF29CE484222325
    for i in range(0, len(data), 8):
        h = ((h ^ int.from_bytes(data[i:i + 8], "little")) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def changed(before, after):
    return (int.from_bytes(before, "little") ^ int.from_bytes(after, "little")).to_bytes(len(after), "little")


def numbers(text):
    return [int(x, 0) for x in text.split(",")] if text else []


def aligned(size, align):
    raw = ctypes.create_string_buffer(size + align)
    start = (ctypes.addressof(raw) + align - 1) // align * align
    return raw, start


def encode(case, base):
    """The map and the driver's answer."""
    def array(kind, values):
        return (kind * max(len(values), 8))(*values)
    raw, at = aligned(128, 64)
    at += case.get("place", 0)
    rank = case.get("rank", len(case["dim"]))
    address = ctypes.c_void_p(base + case.get("base", 0))
    dims, strides = array(u64, case["dim"]), array(u64, case.get("stride", []))
    steps = array(ctypes.c_uint32, case.get("step", [1] * 5))
    modes = [case.get(name, 0) for name in ("inter", "swz", "l2", "fill")]
    if "low" in case:
        code = cuda.cuTensorMapEncodeIm2col(
            ctypes.c_void_p(at), case["type"], rank, address, dims, strides, array(ctypes.c_int, case["low"]),
            array(ctypes.c_int, case["up"]), case["chan"], case["pix"], steps, *modes)
    else:
        code = cuda.cuTensorMapEncodeTiled(
            ctypes.c_void_p(at), case["type"], rank, address, dims, strides, array(ctypes.c_uint32, case["box"]),
            steps, *modes)
    return ctypes.string_at(at, 128), code


def parse(line):
    case = {}
    for token in line.split("=>")[0].split():
        key, value = token.split("=", 1)
        lists = ("dim", "stride", "box", "step", "low", "up", "at", "off")
        case[key] = numbers(value) if key in lists else value if key == "data" else int(value, 0)
    return case


ELEMENT_BYTES = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4]


def byte_counts(case):
    """How many bytes the mbarrier may hear of, the most first."""
    size, step = ELEMENT_BYTES[case["type"]], case.get("step", [1] * 5)
    taken = [-(-extent // step[i]) for i, extent in enumerate(case.get("box", []))]
    if case.get("inter"):
        # One slice of channels, the second to last dimension; the first is counted in units of it.
        unit = 16 << case["inter"] - 1
        rows = case["pix"] if "low" in case else functools.reduce(int.__mul__, taken[:-2] + taken[-1:])
        return [rows * unit] if rows * unit <= SHARED_BYTES else []
    if "low" in case:
        rows, inner = case["pix"], case["chan"]
    else:
        inner = case["box"][0]
        rows = functools.reduce(int.__mul__, taken[1:], 1)
    pitches = {inner * size, taken[0] * size if taken else 0, 32, 64, 128, inner * 16, inner * 32, -(-inner // 8) * 16}
    return sorted({rows * pitch for pitch in pitches if 0 < rows * pitch <= SHARED_BYTES}, reverse=True)


def run_cases(arguments, lines, first):
    """Runs cases until one faults: no context of a process outlives that. The number of the next one."""
    check(cuda.cuInit(0), "cuInit")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(p(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(p(context), device), "context")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(p(module), open(arguments.ptx, "rb").read() + b"\0"), "load")
    check(cuda.cuModuleGetFunction(p(function), module, b"copy"), "function")
    check(cuda.cuFuncSetAttribute(function, 8, SHARED_BYTES + 1024), "shared memory")
    tensor, given, result = u64(), u64(), u64()
    for pointer, size in ((tensor, GLOBAL_BYTES), (given, SHARED_BYTES), (result, OUT_BYTES)):
        check(cuda.cuMemAlloc_v2(p(pointer), size), "cuMemAlloc")

    def copy(case, descriptor, expected):
        """Shared and device memory afterwards, and whether so many bytes were heard of."""
        data = case.get("data", "random")
        check(cuda.cuMemcpyHtoD_v2(tensor, contents(data, 0, GLOBAL_BYTES), GLOBAL_BYTES), "tensor")
        check(cuda.cuMemcpyHtoD_v2(given, contents(data, 77, SHARED_BYTES), SHARED_BYTES), "in")
        at, offsets = case.get("at", []) + [0] * 5, case.get("off", []) + [0] * 3
        values = [
            ctypes.create_string_buffer(descriptor, 128), given, result, ctypes.c_uint32(case["mode"]),
            ctypes.c_uint32(case.get("shift", 0)), ctypes.c_uint32(expected), (ctypes.c_int32 * 5)(*at[:5]),
            (ctypes.c_int16 * 3)(*offsets[:3])]
        params = (ctypes.c_void_p * len(values))(*[ctypes.cast(p(v), ctypes.c_void_p) for v in values])
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, SHARED_BYTES + 64, None, params, None), "launch")
        check(cuda.cuCtxSynchronize(), "run")
        shared, after = ctypes.create_string_buffer(OUT_BYTES), ctypes.create_string_buffer(GLOBAL_BYTES)
        check(cuda.cuMemcpyDtoH_v2(shared, result, OUT_BYTES), "out")
        check(cuda.cuMemcpyDtoH_v2(after, tensor, GLOBAL_BYTES), "tensor")
        return shared.raw[:SHARED_BYTES], after.raw, shared.raw[SHARED_BYTES] == 1

    def answer(number, case):
        descriptor, code = encode(case, tensor.value)
        if code:
            return f"error={code}"
        if "mode" not in case:
            return "ok"
        loads = case["mode"] < 20
        heard_of = None
        for count in byte_counts(case) if loads else [0]:
            shared, after, heard = copy(case, descriptor, count)
            if heard:
                heard_of = count
                break
        if arguments.dump:
            os.makedirs(arguments.dump, exist_ok=True)
            before = contents(case.get("data", "random"), *((77, SHARED_BYTES) if loads else (0, GLOBAL_BYTES)))
            with open(f"{arguments.dump}/{number + 1}.changed", "wb") as file:
                file.write(changed(before, shared if loads else after))
        return (f"bytes={heard_of} " if loads else "") + f"digest={digest(shared if loads else after)}"

    for number in range(first, len(lines)):
        line = lines[number]
        if not line or line.startswith("#"):
            print(line)
            continue
        try:
            text, fault = answer(number, parse(line)), False
        except RuntimeError as error:
            text, fault = str(error).replace("CUDA error ", "fault=").replace("run: ", ""), True
        print(line.split("=>")[0].rstrip(), "=>", text, flush=True)
        if fault:
            return number + 1
    return len(lines)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--dump")
    arguments.add_argument("cases")
    arguments.add_argument("ptx")
    arguments = arguments.parse_args()
    lines, number, faults = open(arguments.cases).read().splitlines(), 0, 0
    while number < len(lines) and faults < FAULTS_MAX:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            sys.stdout.flush()
            try:
                os.write(writer, str(run_cases(arguments, lines, number)).encode())
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.close(writer)
        number = int(os.read(reader, 16) or len(lines))
        os.close(reader)
        os.waitpid(child, 0)
        faults += 1


main()
