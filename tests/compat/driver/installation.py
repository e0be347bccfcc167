"""An installation of openmps to test, with a daemon of its own, in a scratch directory.

`native` programs run on the machine's own driver, without any of it.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

from environments import ROOT

# By which `openmps run` puts its compilers in front of a program's.
COMPILERS = ("LD_AUDIT", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "CUDA_ROOT", "XLA_FLAGS")


class Installation:
    """A context manager: the daemon runs inside of it, if one was asked for. `provider`: soft, or vendor for a GPU."""

    def __init__(self, with_daemon, provider="soft", logs=None):
        self.provider, self.logs = provider, logs
        named = os.environ.get("OPENMPS_DIST")
        self.dist = pathlib.Path(named) if named else build()
        self.with_daemon = with_daemon
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="openmps-compat-"))
        for directory in ("alone", "daemon", "log"):
            (self.scratch / directory).mkdir()

    @property
    def libraries(self):
        return self.dist / "lib/openmps"

    def environment(self, mode, settings=None, library_path=()):
        """The environment of a program: in modes `alone` and `native` without the daemon."""
        path = [*library_path] if mode == "native" else [self.libraries, *library_path]
        path += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
        compilers = {} if mode == "native" or self.provider != "soft" else self.compilers
        pipes = "alone" if mode in ("alone", "native") else "daemon"
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(map(str, path)),
            "OPENMPS_PROVIDER": self.provider,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.scratch / pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(self.scratch / "log"),
            "CUPY_CACHE_DIR": str(self.scratch / "cupy-cache"),
            "TRITON_CACHE_DIR": str(self.scratch / "triton-cache"),
            "WARP_CACHE_PATH": str(self.scratch / "warp-cache"),
            **compilers,
            **(settings or {}),
        }

    @functools.cached_property
    def compilers(self):
        """What `openmps run` sets so that compilers make PTX."""
        command = [self.dist / "bin/openmps", "run", "--no-daemon", "--", "env", "-0"]
        environment = {**os.environ, "OPENMPS_PROVIDER": "soft"}
        output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        variables = dict(line.partition("=")[::2] for line in output.split("\0") if "=" in line)
        return {name: variables[name] for name in COMPILERS if name in variables}

    def control(self, *arguments, text=None):
        program = self.dist / "bin/nvidia-cuda-mps-control"
        subprocess.run(
            [program, *arguments], env=self.environment("daemon"), input=text, text=True, stdout=subprocess.DEVNULL,
            check=True, timeout=60,
        )  # fmt: skip

    def __enter__(self):
        if self.with_daemon:
            self.control("-d")
        return self

    def __exit__(self, *_):
        try:
            if self.with_daemon:
                self.control(text="quit\n")
        finally:
            if self.logs:
                shutil.copytree(self.scratch, self.logs, ignore=shutil.ignore_patterns("*-cache"), dirs_exist_ok=True)
            shutil.rmtree(self.scratch, ignore_errors=True)


def build():
    """The installation that `cargo xtask dist` makes."""
    output = subprocess.run(["cargo", "xtask", "dist"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return pathlib.Path(output.splitlines()[-1])
