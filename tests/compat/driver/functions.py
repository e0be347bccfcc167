"""The part of docs/compat.md about driver functions: which there are, which programs call them, how those ended."""

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

How each function that programs get is answered for clients of a daemon (without one, calls go straight to the provider):
*local*: in the client library; *post*: through the ring, no reply waited for; *call*: through the ring, with a reply;
*special*: by code of its own. Then how many of the programs above called it through a daemon (by what the client library
says with `OPENMPS_TRACE=calls`), how those ended, and the crates whose own tests name it.

| function | answered | for example by | passed | failed | tests of |
| --- | --- | --- | ---: | ---: | --- |
"""
UNSUPPORTED = """
### Not supported

CUDA_ERROR_NOT_SUPPORTED for clients of a daemon. Where a program called one and went on, a star stands behind it.

"""
TESTS = ("crates/*/src/**/tests.rs", "crates/*/src/**/tests/*.rs", "tests/whole_way/*.rs", "samples/**/*.rs")


def section():
    """The part of the page."""
    callers = callers_of()
    lines, unsupported = [], []
    for row in coverage():
        name = row["name"]
        passed, failed = callers[name]
        if row["policy"] == "unsupported":
            unsupported.append(name + (" \\*" if passed else ""))
            continue
        examples = sorted({program.partition("-")[0] for program in passed or failed})
        shown = ", ".join(examples[:2]) + (", ..." if len(examples) > 2 else "")
        cells = [name, row["policy"], shown, len(passed) or "", len(failed) or "", ", ".join(named_in_tests(name))]
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
    return HEAD + "".join(lines) + UNSUPPORTED + ", ".join(unsupported) + "\n"


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
