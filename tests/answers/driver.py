"""The driver library by ctypes, and how a case asks it and writes down what it answers.

A whole number is passed as 64 bits, which every integer parameter takes; an object of `Int32`,
`Int64`, `Handle` or a structure is passed by its address; `+object` is its value.
"""

import ctypes
import struct
import sys

UNWRITTEN = 0xA5A5A5A5A5A5A5A5


class Int32(ctypes.c_int32):
    """A result of 32 bits; it holds a mark until the driver writes it."""

    def __init__(self, value=None):
        ctypes.c_int32.__init__(self, UNWRITTEN - (1 << 64) if value is None else value)

    def __pos__(self):
        return self.value

    def text(self):
        return "unwritten" if self.value & 0xFFFFFFFF == UNWRITTEN & 0xFFFFFFFF else str(self.value)


class Int64(ctypes.c_uint64):
    """A result of 64 bits."""

    def __init__(self, value=None):
        ctypes.c_uint64.__init__(self, UNWRITTEN if value is None else value)

    def __pos__(self):
        return self.value

    def text(self):
        return "unwritten" if self.value == UNWRITTEN else str(self.value)


class Handle(Int64):
    """A handle or an address, of which only whether it is null is written down."""

    def text(self):
        return "unwritten" if self.value == UNWRITTEN else "set" if self.value else "null"


class Float(ctypes.c_float):
    """A time; only whether it was written is written down."""

    def text(self):
        return "written" if self.value else "zero"


def packed(layout, *values):
    """A structure in C's layout, to pass by its address."""
    data = struct.pack(layout, *values)
    return ctypes.create_string_buffer(data, len(data))


def text_of(value):
    """How a result is written down."""
    if hasattr(value, "text"):
        return value.text()
    if isinstance(value, ctypes.Array):
        return repr(bytes(value).split(b"\0")[0].decode("utf-8", "replace"))
    return str(value)


class Skipped(Exception):
    """A case that ended the process before; it is not asked again."""


class Asker:
    """Asks the driver, and writes a line for each case: name, function, answer."""

    def __init__(self, path, skip=(), out=sys.stdout):
        self.library = ctypes.CDLL(path)
        self.skip = set(skip)
        self.out = out
        self.kept = []
        self.group = ""

    def do(self, function, *arguments):
        """The status of a call that is written down nowhere."""
        passed = []
        for argument in arguments:
            if isinstance(argument, int):
                argument = ctypes.c_uint64(argument & 0xFFFFFFFFFFFFFFFF)
            elif isinstance(argument, (Int32, Int64, Float, ctypes.Array, ctypes.Structure)):
                argument = ctypes.byref(argument)
            elif isinstance(argument, bytes):
                self.kept.append(argument)
                argument = ctypes.c_char_p(argument)
            elif argument is None:
                argument = ctypes.c_void_p(None)
            passed.append(argument)
        try:
            call = getattr(self.library, function)
        except AttributeError:
            return -1
        call.restype = ctypes.c_uint32
        return call(*passed)

    def name(self, status):
        """A status by its name."""
        if status == -1:
            return "no such symbol"
        name = ctypes.c_char_p()
        self.library.cuGetErrorName(ctypes.c_uint32(status), ctypes.byref(name))
        return name.value.decode() if name.value else str(status)

    def must(self, function, *arguments):
        """A call without which the rest of the group makes no sense."""
        status = self.do(function, *arguments)
        if status != 0:
            raise RuntimeError(f"{function}: {self.name(status)}")

    def ask(self, label, function, /, *arguments, **results):
        """Makes a call and writes down its status and results; returns the status."""
        case = f"{self.group}/{label}"
        if case in self.skip:
            return None
        self.out.write(f"{case}\t{function}\t")
        self.out.flush()
        status = self.do(function, *arguments)
        words = [self.name(status)]
        words += [f"{name}={text_of(value)}" for name, value in results.items()]
        self.out.write(" ".join(words) + "\n")
        self.out.flush()
        return status

    def note(self, label, function, answer):
        """Writes down what was found out about a function otherwise."""
        case = f"{self.group}/{label}"
        if case not in self.skip:
            self.out.write(f"{case}\t{function}\t{answer}\n")
            self.out.flush()

    # What many groups begin with.

    def context(self):
        """cuInit, and the primary context current."""
        context = Handle()
        self.must("cuInit", 0)
        self.must("cuDevicePrimaryCtxRetain", context, 0)
        self.must("cuCtxSetCurrent", +context)
        return +context

    def module(self):
        """The module of `kernels.py`, loaded."""
        from kernels import KERNELS

        module = Handle()
        self.must("cuModuleLoadData", module, KERNELS)
        return +module

    def function(self, module, name):
        """A function of a module."""
        function = Handle()
        self.must("cuModuleGetFunction", function, module, name)
        return +function

    def memory(self, size=4096):
        """Device memory, zeroed."""
        address = Handle()
        self.must("cuMemAlloc_v2", address, size)
        self.must("cuMemsetD8_v2", +address, 0, size)
        return +address

    def stream(self, flags=0):
        """A stream."""
        stream = Handle()
        self.must("cuStreamCreate", stream, flags)
        return +stream

    def event(self, flags=0):
        """An event."""
        event = Handle()
        self.must("cuEventCreate", event, flags)
        return +event

    def arguments(self, *values):
        """An array of pointers to kernel arguments of 64 bits, kept alive."""
        cells = [ctypes.c_uint64(value) for value in values]
        pointers = (ctypes.c_void_p * max(len(cells), 1))(*[ctypes.addressof(c) for c in cells])
        self.kept += [cells, pointers]
        return pointers

    def launch(self, function, *values, stream=0, grid=1, block=1):
        """Launches a function whose arguments are of 64 bits each; the status."""
        return self.do("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream,
                       self.arguments(*values) if values else None, None)

    def word(self, address):
        """A word of device memory."""
        value = Int32()
        self.must("cuMemcpyDtoH_v2", value, address, 4)
        return +value
