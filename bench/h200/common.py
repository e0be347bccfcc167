"""Ways in which programs reach a GPU: the driver alone, NVIDIA's MPS, or openmps, with daemons of their own.

A script here imports this module; it is no program itself. A way is

    native   NVIDIA's driver alone: contexts take turns
    mps      NVIDIA's MPS, its daemon in a directory of its own, if it is installed
    openmps  daemon and server of an installation, with NVIDIA's driver as provider
    off, on, oversubscribed
             openmps with that setting of OPENMPS_LAUNCH_BATCHING
"""

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Ways that are openmps with that setting of launch batching.
LAUNCH_BATCHING = ["off", "on", "oversubscribed"]
# No process or group takes longer; what does has hung.
GROUP_SECONDS_MAX = 90


def log(text):
    print(f"[{time.monotonic() - BEGIN:5.0f} s] {text}", file=sys.stderr, flush=True)


BEGIN = time.monotonic()


class Way:
    """How programs reach the device: an environment, and perhaps a daemon while it is used."""

    def __init__(self, name, dist):
        self.name = name
        self.dist = dist
        self.samples = dist / "lib/openmps/samples"
        self.environment = dict(os.environ)
        self.log = ""
        self.directory = None
        self.failures = []
        self.deadline = 0

    def begin_group(self):
        self.failures = []
        self.deadline = time.monotonic() + GROUP_SECONDS_MAX

    @contextlib.contextmanager
    def running(self):
        with tempfile.TemporaryDirectory() as directory:
            directory = self.directory = Path(directory)
            # A directory without a daemon: no other daemon is used by accident.
            self.environment["CUDA_MPS_PIPE_DIRECTORY"] = str(directory / "pipe")
            self.environment["CUDA_MPS_LOG_DIRECTORY"] = str(directory)
            (directory / "pipe").mkdir()
            if self.name == "native":
                yield
                return
            self.environment["OPENMPS_LIB_DIR"] = str(self.dist / "lib/openmps")
            self.environment["OPENMPS_PROVIDER"] = os.environ.get("OPENMPS_PROVIDER", "vendor")
            program = vendor_control()
            if self.name in LAUNCH_BATCHING:
                self.environment["OPENMPS_LAUNCH_BATCHING"] = self.name
            if self.name != "mps":
                program = str(self.dist / "bin/nvidia-cuda-mps-control")
                library = self.environment["OPENMPS_LIB_DIR"]
                path = os.environ.get("LD_LIBRARY_PATH", "")
                self.environment["LD_LIBRARY_PATH"] = f"{library}:{path}"
            daemon = subprocess.Popen([program, "-f"], env=self.environment,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            control = directory / "pipe/control"
            for _ in range(200):
                if control.exists() or daemon.poll() is not None:
                    break
                time.sleep(0.05)
            self.control = program
            try:
                yield
            finally:
                subprocess.run([program], input="quit -t 5\n", text=True, env=self.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
                try:
                    daemon.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.send_signal(signal.SIGTERM)
                    daemon.wait(20)
                logs = directory.glob("*.log")
                self.log = "\n".join(path.read_text(errors="replace") for path in logs)

    def servers(self):
        """Process numbers of all servers."""
        asked = subprocess.run([self.control], input="get_server_list\n", text=True,
                               env=self.environment, capture_output=True, timeout=30).stdout
        return [int(pid) for pid in re.findall(r"^\s*(\d+)\s*$", asked, re.M)]

    def server_seconds(self):
        """Processor time of all servers so far."""
        total = 0
        for pid in self.servers():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def start(self, command, **more):
        return subprocess.Popen([str(part) for part in command], env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def result(self, process):
        """The last line of a process' output, as JSON; None if it failed, with the reason logged."""
        try:
            left = max(self.deadline - time.monotonic(), 0.1)
            output, errors = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            errors += "\nkilled: it took too long"
        try:
            return json.loads(output.strip().splitlines()[-1])
        except (IndexError, ValueError):
            reason = errors.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
            self.failures.append(reason[0][:200])
            return None

    def group(self, count, command, ready_seconds_max=60):
        """Starts `count` processes that wait for each other at a barrier: their results."""
        self.begin_group()
        with tempfile.TemporaryDirectory() as directory:
            barrier = Path(directory) / "go"
            processes = [self.start([*command, "--json", "--barrier", barrier])
                         for _ in range(count)]
            wait_until_ready(barrier, processes, ready_seconds_max)
            barrier.touch()
            results = [self.result(process) for process in processes]
        return [result for result in results if result is not None]


def vendor_control():
    for directory in [*os.environ["PATH"].split(":"), "/usr/local/nvidia/bin"]:
        program = Path(directory) / "nvidia-cuda-mps-control"
        if program.exists() and "openmps" not in str(program.resolve()):
            return str(program)
    return None


def wait_until_ready(barrier, processes, seconds_max):
    end = time.monotonic() + seconds_max
    while time.monotonic() < end:
        ready = len(list(barrier.parent.glob(barrier.name + ".ready.*")))
        alive = sum(process.poll() is None for process in processes)
        if ready >= alive:
            return ready
        time.sleep(0.005)
    return len(list(barrier.parent.glob(barrier.name + ".ready.*")))


def used_memory_mib():
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(command, capture_output=True, text=True).stdout.split()[0])


def machine():
    query = "--query-gpu=name,driver_version,compute_mode,memory.total"
    answer = subprocess.run(["nvidia-smi", query, "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.strip().splitlines()[0]
    device, driver, mode, bytes_total = (part.strip() for part in answer.split(","))
    smi = subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout
    cuda = re.search(r"CUDA Version: ([\d.]+)", smi)
    versions = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        capture_output=True, text=True).stdout.strip()
    return {"device": device, "driver": driver, "cuda": cuda.group(1) if cuda else None,
            "compute_mode": mode, "memory": bytes_total, "cores": os.cpu_count(),
            "kernel": platform.release(), "pytorch": versions}
