"""CUDA programs built by NVIDIA's compiler: each source with each runtime, static and shared.

The wheels of CUDA 12 and 11 have runtime libraries and headers but no compiler, so their programs are compiled by the
compiler of CUDA 13 with the older headers: what counts here is the runtime library and the code that calls it. A source
says with `// nvcc: FLAGS` which flags it needs, with `// nvcc[NAME]: FLAGS` that it is to be built once more so, and with
`// toolkits: NAMES` that it is for no others.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

import environments

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "nvcc"
BUILDS = environments.THIRD_PARTY / "build"
# The software GPU runs PTX, so the programs carry some.
ARCHITECTURE = ["-gencode", "arch=compute_80,code=compute_80"]
FLAGS = re.compile(r"^// nvcc(?:\[(\w+)\])?: (.*)$", re.MULTILINE)

ONLY = re.compile(r"^// toolkits: (.*)$", re.MULTILINE)

Toolkit = collections.namedtuple("Toolkit", "name environment kinds")
TOOLKITS = [
    Toolkit("13", environments.NVCC, ("static", "shared")),
    Toolkit("12", environments.RUNTIME_12, ("static", "shared")),
    Toolkit("11", environments.RUNTIME_11, ("shared",)),
]


class Build(collections.namedtuple("Build", "name source flags toolkit kind")):
    """One program to be made of a source."""

    @property
    def library_path(self):
        return [self.toolkit.environment.libraries]

    def make(self):
        """The program, built if it is older than what it is made of."""
        program = BUILDS / self.name.removeprefix("nvcc/")
        inputs = [self.source, *SOURCES.glob("*.h"), pathlib.Path(__file__)]
        if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
            BUILDS.mkdir(parents=True, exist_ok=True)
            compiler = environments.NVCC.make()
            self.toolkit.environment.make()
            # A source that names architectures is for no others.
            architecture = [] if "-gencode" in self.flags else ARCHITECTURE
            command = [
                compiler.cuda / "bin/nvcc", "-O1", "-std=c++17", *architecture, *self.toolkit.environment.nvcc_flags,
                "-cudart", self.kind, *self.flags, "-o", program, self.source,
            ]  # fmt: skip
            path = f"{compiler.cuda / 'bin'}:{os.environ['PATH']}"
            result = subprocess.run(command, env={**os.environ, "PATH": path}, stderr=subprocess.PIPE, text=True)
            if result.returncode != 0:
                print(result.stderr, file=sys.stderr)
                result.check_returncode()
        return program


def builds():
    found = []
    for source in sorted(SOURCES.glob("*.cu")):
        text = source.read_text()
        flags = {name: words.split() for name, words in FLAGS.findall(text)}
        common = flags.pop("", [])
        only = ONLY.search(text)
        for toolkit in TOOLKITS:
            if only and toolkit.name not in only[1].split():
                continue
            for kind in toolkit.kinds:
                found.append(Build(f"nvcc/{source.stem}-{toolkit.name}-{kind}", source, common, toolkit, kind))
        for name, more in flags.items():
            found.append(Build(f"nvcc/{source.stem}-{name}", source, common + more, TOOLKITS[0], "static"))
    return found
