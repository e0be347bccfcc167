"""The part of docs/reports/compat.md about driver functions: which there are, which programs call them, how those ended."""

import collections
import functools
import json
import os
import pathlib
import re
import subprocess

import environments
import installation
import results

HEAD = """## Driver functions

How each function is answered for clients of a daemon. Without a daemon calls go straight to the provider.

| answered | where |
| --- | --- |
| local | in the client library |
| post | through the ring, without a reply |
| call | through the ring, with a reply |
| special | by code of its own |

The table also has how many of the programs above called a function through a daemon (`OPENMPS_TRACE=calls`), how those
ended, and the crates whose own tests name it.

| function | answered | for example by | passed | failed | tests of |
| --- | --- | --- | ---: | ---: | --- |
"""
UNSUPPORTED = """
### Not supported

These are CUDA_ERROR_NOT_SUPPORTED for clients of a daemon. A star marks those that a program called and went on.

"""
# Groups of functions that are not supported: a title, and what their names have. The first that fits counts.
GROUPS = (
    ("Checkpoints", "Checkpoint"),
    ("EGL, OpenGL, VDPAU and other graphics", "EGL|^cuGL|VDPAU|Graphics"),
    ("External memory and semaphores", "External"),
    ("Texture and surface references", "TexRef|SurfRef"),
    ("Multicast", "Multicast"),
    ("Core dumps and logs", "Coredump|Logs"),
    ("Arrays", "Array"),
    ("Copies", "Memcpy"),
    ("Others", ""),
)
TESTS = ("crates/*/src/**/tests.rs", "crates/*/src/**/tests/*.rs", "tests/whole_way/*.rs", "samples/**/*.rs")


def section():
    """The part of the page."""
    callers = callers_of()
    lines, unsupported = [], []
    for row in coverage():
        name = row["name"]
        passed, failed = callers[name]
        if row["policy"] == "unsupported":
            unsupported.append(name + ("*" if passed else ""))
            continue
        examples = sorted({program.partition("-")[0] for program in passed or failed})
        shown = ", ".join(examples[:2]) + (", ..." if len(examples) > 2 else "")
        cells = [name, row["policy"], shown, len(passed) or "", len(failed) or "", ", ".join(named_in_tests(name))]
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
    return HEAD + "".join(lines) + UNSUPPORTED + grouped(unsupported)


def grouped(names):
    """The names in groups, one a line."""
    groups = {title: [] for title, _ in GROUPS}
    for name in names:
        title = next(title for title, pattern in GROUPS if re.search(pattern, name))
        groups[title].append(name)
    return "".join(f"* {title}: `{', '.join(names)}`\n" for title, names in groups.items() if names)


def coverage():
    """All functions, with how they are answered."""
    dist = pathlib.Path(os.environ["OPENMPS_DIST"]) if "OPENMPS_DIST" in os.environ else installation.build()
    output = subprocess.run([dist / "bin/openmps", "coverage", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(output)["functions"]


def callers_of():
    """The programs that call a function through a daemon, by function: those that passed, those that failed."""
    callers = collections.defaultdict(lambda: ([], []))
    outcomes = results.read("programs")["results"]
    for program, names in results.read("calls")["results"].items():
        row = outcomes.get(f"{program} (daemon)")
        if row:
            for name in names:
                callers[name][row["outcome"] != "passed"].append(program)
    return callers


def named_in_tests(function):
    """The crates whose own tests name a function."""
    return [crate for crate, text in sorted(tests().items()) if re.search(rf"\b{function}\b", text)]


@functools.cache
def tests():
    """The text of all tests, by crate."""
    texts = collections.defaultdict(str)
    for pattern in TESTS:
        for path in environments.ROOT.glob(pattern):
            parts = path.relative_to(environments.ROOT).parts
            texts[parts[parts[0] == "crates"]] += path.read_text()
    return texts
