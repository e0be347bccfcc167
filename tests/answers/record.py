#!/usr/bin/env python3
"""Asks a CUDA driver odd questions and writes its answers as a table.

To record an NVIDIA driver's answers, on a machine with a GPU and nothing else on it:

    python3 tests/answers/record.py --library /usr/lib/x86_64-linux-gnu/libcuda.so.1 > tests/answers/recorded.tsv

It needs Python 3.8 with its standard library, no network and no compiler. Each group of cases is
asked in a process of its own. A case that ends its process is written down so, and the group is
asked again without it. All of it takes some minutes. The table has a line for each case: its name, the function, the answer.
Lines that begin with # name the driver. Write nothing into the table by hand; what openmps answers
differently stands in deviations.tsv with its reason.
"""

import argparse
import concurrent.futures
import ctypes
import importlib
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 60
DEATHS_MAX = 8


def groups():
    """Every group by its name, in the order of the files and of the text."""
    found = {}
    for path in sorted((HERE / "cases").glob("*.py")):
        module = importlib.import_module(f"cases.{path.stem}")
        for name, function in vars(module).items():
            is_own = getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
            if is_own and callable(function):
                found[f"{path.stem}.{name}"] = function
    return found


def ask_here(library, group, skip):
    """Asks one group, in this process."""
    from driver import Asker

    asker = Asker(library, skip)
    asker.group = group
    try:
        groups()[group](asker)
    except Exception as error:  # the rest of the group cannot be asked; that is an answer too
        asker.note("the rest", "-", f"not asked: {error}")
    sys.stdout.flush()
    # What a library does at the end of a process is no answer to a case.
    os._exit(0)


def ask_apart(library, group, seconds):
    """Asks one group in a process of its own, again without what ended the process."""
    lines, skip = [], []
    for _ in range(DEATHS_MAX):
        command = [sys.executable, __file__, "--library", library, "--group", group]
        for case in skip:
            command += ["--skip", case]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            text, _ = process.communicate(timeout=seconds)
            ended = signal.Signals(-process.returncode).name if process.returncode < 0 else ""
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            ended = "no answer"
        complete = text.splitlines()
        cut = complete.pop() if text and not text.endswith("\n") else None
        if cut is None:
            if ended:
                complete.append(f"{group}/the rest\t-\t{ended}")
            return lines + complete
        case, function = cut.split("\t")[:2]
        lines.append(f"{case}\t{function}\t{ended or 'the process ended'}")
        skip.append(case)
    return lines


def version(library):
    """What names the driver."""
    number = ctypes.c_int()
    ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(number))
    yield f"# CUDA\t{number.value}"
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
        yield "# driver\t" + re.search(r"\d+\.\d+(\.\d+)?", text).group()
    except (OSError, AttributeError):
        pass
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if output.returncode == 0:
            yield "# device\t" + output.stdout.splitlines()[0]
    except (OSError, subprocess.TimeoutExpired, IndexError):
        pass


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="libcuda.so.1", help="path to libcuda.so.1")
    parser.add_argument("--only", default="", help="groups whose name contains this")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="for each group")
    parser.add_argument("--jobs", type=int, default=1, help="groups asked at the same time")
    parser.add_argument("--list", action="store_true", help="the groups' names")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    parser.add_argument("--skip", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    if options.group:
        ask_here(options.library, options.group, options.skip)
    if options.list:
        print("\n".join(groups()))
        return
    if not options.only:
        for line in version(options.library):
            print(line)
    wanted = [group for group in groups() if options.only in group]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for lines in pool.map(lambda group: ask_apart(options.library, group, options.seconds), wanted):
            for line in lines:
                print(line, flush=True)


if __name__ == "__main__":
    main()
