#!/usr/bin/env python3
"""Where processes wait that do not get on: their threads' system calls and stacks, without a debugger.

    stuck.py PID... [--tree]

Of each thread: its name, state, the kernel function it sleeps in, its system call, the kernel's stack (for root), and what
looks like return addresses on its own stack, by the symbols of the libraries that they lie in. Not every such address is
of a call that goes on: read them as hints. With --tree, of the processes' descendants too. Needs Linux on x86-64 and the
right to trace the processes; stops none of them. A part of multi.py, when a program takes too long.
"""

import argparse
import bisect
import functools
import struct
import sys
from pathlib import Path

STACK_BYTES = 24 << 10
FRAMES_MAX = 40
# Threads that do nothing but wait for work, by what they sleep in; one of each kind is shown.
SYSCALLS = {0: "read", 1: "write", 7: "poll", 16: "ioctl", 23: "select", 35: "nanosleep", 47: "recvmsg", 61: "wait4",
            202: "futex", 230: "clock_nanosleep", 232: "epoll_wait", 271: "ppoll", 281: "epoll_pwait"}


def text(path):
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


@functools.cache
def symbols(path):
    """Functions of an ELF file: sorted addresses, names, and its loaded segments (address, offset, bytes)."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return [], [], []
    if data[:5] != b"\x7fELF\x02":
        return [], [], []
    programs, sections = struct.unpack_from("<QQ", data, 32)
    program_bytes, program_count, section_bytes, section_count = struct.unpack_from("<HHHH", data, 54)
    segments = []
    for index in range(program_count):
        kind, _, offset, address, _, bytes_in_file = struct.unpack_from("<IIQQQQ", data, programs + index * program_bytes)
        if kind == 1:
            segments.append((address, offset, bytes_in_file))
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + index * section_bytes) for index in range(section_count)]
    found = {}
    for _, kind, _, _, offset, length, link, _, _, _ in headers:
        if kind not in (2, 11) or link >= len(headers):
            continue
        names = headers[link][4]
        for at in range(offset, offset + length, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == 2 and section:
                end = data.index(b"\0", names + name)
                found[value] = data[names + name:end].decode(errors="replace")
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses], segments


def readable(name):
    """A Rust symbol's path, without its hash."""
    if not name.startswith("_ZN"):
        return name
    parts, rest = [], name[3:]
    while rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        length = int(rest[:digits])
        parts.append(rest[digits:digits + length])
        rest = rest[digits + length:]
    return "::".join(parts[:-1] if parts[-1:] and parts[-1].startswith("h") else parts)


class Process:
    def __init__(self, pid):
        self.pid = pid
        self.code = []
        for line in text(f"/proc/{pid}/maps").splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                start, end = (int(part, 16) for part in fields[0].split("-"))
                self.code.append((start, end, int(fields[2], 16), fields[5]))
        self.code.sort()

    def name_of(self, address):
        """The function that an address lies in; None if it is none of code."""
        at = bisect.bisect(self.code, (address, 1 << 64)) - 1
        if at < 0 or not self.code[at][0] <= address < self.code[at][1]:
            return None
        start, _, file_offset, path = self.code[at]
        offset = address - start + file_offset
        addresses, names, segments = symbols(path)
        for base, begins, length in segments:
            if begins <= offset < begins + length:
                offset = offset - begins + base
                break
        index = bisect.bisect(addresses, offset) - 1
        name = readable(names[index]) if index >= 0 else hex(offset)
        return f"{Path(path).name}:{name}"

    def frames(self, thread):
        fields = text(f"/proc/{self.pid}/task/{thread}/syscall").split()
        # "running", or an error's text: the thread has ended meanwhile.
        if len(fields) < 2 or not fields[0].lstrip("-").isdigit():
            return fields[:1], []
        number = int(fields[0])
        call = SYSCALLS.get(number, str(number)) + "(" + ", ".join(fields[1:4]) + ")"
        try:
            stack, place = int(fields[-2], 16), int(fields[-1], 16)
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
                memory.seek(stack)
                words = memory.read(STACK_BYTES)
        except (OSError, ValueError):
            return [call], []
        found = [self.name_of(place)]
        for (word,) in struct.iter_unpack("<Q", words[:len(words) // 8 * 8]):
            name = self.name_of(word)
            if name and name != found[-1]:
                found.append(name)
        return [call], [name for name in found if name][:FRAMES_MAX]

    def describe(self):
        lines = [f"process {self.pid}: {text(f'/proc/{self.pid}/cmdline').replace(chr(0), ' ')[:200]}"]
        alike = {}
        for task in sorted(Path(f"/proc/{self.pid}/task").glob("*"), key=lambda path: int(path.name)):
            status = dict(line.split(":\t", 1) for line in text(task / "status").splitlines() if ":\t" in line)
            call, frames = self.frames(task.name)
            head = f"{text(task / 'comm')} {status.get('State', '')} in {text(task / 'wchan')} {' '.join(call)}"
            kernel = [line.split()[-1] for line in text(task / "stack").splitlines() if line.startswith("[<")]
            body = tuple(frames)
            # Pools have many threads that wait for work in the same place.
            if body and body in alike:
                alike[body].append(task.name)
                continue
            alike.setdefault(body, []).append(task.name)
            lines.append(f"  thread {task.name}: {head}")
            if kernel:
                lines.append("    kernel: " + " < ".join(kernel))
            lines += [f"    {name}" for name in frames]
        lines += [f"  {len(tasks) - 1} threads as {tasks[0]}" for tasks in alike.values() if len(tasks) > 1]
        return "\n".join(lines)


def descendants(pids):
    """The processes and all that they have started."""
    children = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = text(path / "stat").rpartition(")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found = list(pids)
    for pid in found:
        found += children.get(pid, [])
    return found


def describe(pids):
    """What processes and their descendants wait for, as text."""
    return "\n".join(Process(pid).describe() for pid in descendants(pids))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int, nargs="+")
    parser.add_argument("--tree", action="store_true")
    options = parser.parse_args()
    pids = descendants(options.pid) if options.tree else options.pid
    print("\n".join(Process(pid).describe() for pid in pids))


if __name__ == "__main__":
    sys.exit(main())
