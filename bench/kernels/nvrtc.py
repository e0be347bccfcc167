"""Compiles every .cu of a folder to PTX with NVRTC: nvrtc.py CUDA NVRTC SOURCES TARGET OPTION...

CUDA has the headers, NVRTC the library in lib or lib64.
"""

import ctypes
import pathlib
import sys


def check(nvrtc, program, code, source):
    if code == 0:
        return
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    sys.exit(f"{source}: NVRTC error {code}\n{log.value.decode()}")


def compile_to_ptx(nvrtc, source, options):
    program = ctypes.c_void_p()
    text = source.read_text().encode()
    name = source.name.encode()
    check(nvrtc, program, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None), source)
    arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    check(nvrtc, program, nvrtc.nvrtcCompileProgram(program, len(options), arguments), source)
    size = ctypes.c_size_t()
    check(nvrtc, program, nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)), source)
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc, program, nvrtc.nvrtcGetPTX(program, ptx), source)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx.value.decode()


def main():
    cuda, home, sources, target = (pathlib.Path(argument) for argument in sys.argv[1:5])
    # NVRTC looks for its built-in functions by name alone: load them first.
    for name in ["libnvrtc-builtins.so.*", "libnvrtc.so.*"]:
        nvrtc = ctypes.CDLL(str(next(home.glob(f"lib*/{name}"))), mode=ctypes.RTLD_GLOBAL)
    includes = [cuda / "include", cuda / "include/cccl"]
    options = sys.argv[5:] + [f"--include-path={folder}" for folder in includes]
    for source in sorted(sources.glob("*.cu")):
        ptx = compile_to_ptx(nvrtc, source, options)
        (target / source.with_suffix(".ptx").name).write_text(ptx)


main()
