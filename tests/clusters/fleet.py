#!/usr/bin/env python3
"""Fleet board: one Prometheus scrapes the daemons of three hosts, and every query of docs/observe/fleet.json has an answer.

fleet.py [INSTALLATION]: as root, with prometheus, promtool and ip. The hosts are network, UTS and mount namespaces of
this machine, each with a daemon and a software GPU: one busy with three programs, one with one, one with none. Not part
of CI. Status 77: something it needs is missing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/observe"))
import scrape  # noqa: E402

BOARD = ROOT / "docs/observe/fleet.json"
PORT = 7070
HOSTS = ("omps-fleet-1", "omps-fleet-2", "omps-fleet-3")
# Programs of each: on the first such whose kernels keep both SMs for tens of milliseconds, so that the time between
# launches is nothing beside them, however busy this machine is.
PROGRAMS = (
    (("spin", "--kernel", "clock", "--work", "20000000", "--blocks", "2", "--seconds", "400"),) * 3,
    (("vector_add", "--seconds", "400"),),
    (),
)
# What has rows, all of them 0.
ZERO_WITHOUT_FAULTS = ("Faults and lost servers", "Recoveries")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options)


class Host:
    """A host: its namespaces live as long as their first process."""

    def __init__(self, number, name, directory, installation):
        self.number, self.name, self.installation = number, name, installation
        self.address = f"10.98.{number}.2"
        self.directory = directory / name
        for part in ("pipe", "log"):
            (self.directory / part).mkdir(parents=True)
        self.first = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c",
                                       f"hostname {name}; ip link set lo up; exec sleep infinity"])
        while run("cat", f"/proc/{self.first.pid}/comm").stdout.strip() != "sleep":
            time.sleep(0.05)
        link = f"ompsflt{number}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.first.pid))
        run("ip", "address", "add", f"10.98.{number}.1/24", "dev", link)
        run("ip", "link", "set", link, "up")
        self.on("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.on("ip", "link", "set", "eth0", "up")
        self.processes = []

    def command(self, *words):
        variables = {"CUDA_MPS_PIPE_DIRECTORY": self.directory / "pipe", "CUDA_MPS_LOG_DIRECTORY": self.directory / "log",
                     "OPENMPS_PROVIDER": "soft", "OPENMPS_SOFT_SMS": "2"}
        return ["nsenter", "--target", str(self.first.pid), "--net", "--uts", "--mount", "--", "env",
                *[f"{name}={value}" for name, value in variables.items()], *[str(word) for word in words]]

    def on(self, *words):
        return run(*self.command(*words))

    def start(self, *words):
        log = open(self.directory / "programs.txt", "a")
        self.processes.append(subprocess.Popen(self.command(*words), stdout=log, stderr=subprocess.STDOUT))

    def begin(self, token, programs):
        self.on(self.installation / "bin/openmps", "up")
        self.start(self.installation / "bin/openmps", "web", "--listen", f"0.0.0.0:{PORT}", "--token-file", token)
        samples = self.installation / "lib/openmps/samples"
        # Has a server, and so a device with counters, on each host.
        self.on(self.installation / "bin/openmps", "run", "--", samples / "vector_add", "--iterations", "1")
        for name, *words in programs:
            self.start(self.installation / "bin/openmps", "run", "--", samples / name, *words)

    def end(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait()
        subprocess.run(self.command(self.installation / "bin/openmps", "down", "--now"), capture_output=True)
        subprocess.run(["ip", "link", "delete", f"ompsflt{self.number}"], capture_output=True)
        self.first.kill()
        self.first.wait()


def check(prometheus):
    """What the board shows is what the hosts do."""
    up = prometheus.until("three hosts answer", lambda: (
        lambda rows: rows if len(rows) == len(HOSTS) else None)(prometheus.query("openmps_up == 1")))
    clients = prometheus.until("programs are counted", lambda: (
        lambda rows: rows if sorted(rows.values()) == sorted(float(len(of)) for of in PROGRAMS) else None)(
            {row["metric"]["instance"]: float(row["value"][1]) for row in prometheus.query("openmps_clients")}))
    print(f"{len(up)} hosts; programs: {clients}")
    asked = 0
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel["targets"]:
            title, expression = panel["title"], target["expr"]
            rows = prometheus.until(f"{title}: {expression}", lambda: prometheus.query(expression))
            asked += 1
            if title in ZERO_WITHOUT_FAULTS:
                assert all(float(row["value"][1]) == 0 for row in rows), (title, rows)
            if title.startswith("Programs that would gain"):
                hosts = {row["metric"]["instance"] for row in rows}
                assert hosts == {f"10.98.1.2:{PORT}"}, (title, rows)
    print(f"{asked} queries of the board have answers")


def main():
    installation = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/dist").resolve()
    if os.geteuid() != 0 or not scrape.is_installed() or shutil.which("ip") is None or not installation.exists():
        print("needs root, prometheus, promtool, ip and an installation", file=sys.stderr)
        return 77
    directory = Path(tempfile.mkdtemp(prefix="openmps-fleet-"))
    hosts = []
    try:
        token = directory / "token"
        for number, name in enumerate(HOSTS, 1):
            hosts.append(Host(number, name, directory, installation))
        for host, programs in zip(hosts, PROGRAMS):
            host.begin(token, programs)
            while not token.exists():
                time.sleep(0.1)
        targets = '", "'.join(f"{host.address}:{PORT}" for host in hosts)
        with scrape.Prometheus(directory, targets, token.read_text().strip()) as prometheus:
            check(prometheus)
    finally:
        for host in hosts:
            host.end()
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
