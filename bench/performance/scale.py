#!/usr/bin/env python3
"""What idle clients cost as they become more, on the software GPU: JSON, and a plot beside it.

    scale.py DIST --output FILE.json [--clients 1,4,16,64,256,1024] [--seconds 3]

DIST is an installation. For each number of clients a daemon of its own is started, and so many programs that hold a
context and 4 KiB (`microbench idle`), the first of which does nothing at all after that. While they wait: memory of a client, the
server and the daemon (/proc/PID/smaps_rollup, proportional), and how often their threads fell asleep a second (voluntary context
switches; of that first client, as the others look for a file); the time of `openmps ps
--json`, of another program from its start to the end of its first kernel, and from `quit -t 0` to the daemon's end.
Times are the least of three, but for the end. Other load changes times, and neither memory nor sleeps.
"""

import argparse
import datetime
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROUP = 32
SAMPLE = 16
READY_SECONDS_MAX = 300
# What is plotted: a key, what it is, and whether all clients together are meant.
PANELS = [
    ("client_kib", "memory of a client, KiB"),
    ("server_kib", "memory of the server, KiB"),
    ("daemon_kib", "memory of the daemon, KiB"),
    ("client_sleeps", "wake-ups of a client, 1/s"),
    ("server_sleeps", "wake-ups of the server, 1/s"),
    ("daemon_sleeps", "wake-ups of the daemon, 1/s"),
    ("ps_ms", "openmps ps, ms"),
    ("attach_ms", "start to first kernel, ms"),
    ("end_ms", "quit -t 0, ms"),
]


def memory_kib(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def sleeps(pid):
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except OSError:
            continue
        total += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


def least_ms(times, command, environment):
    taken = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=120)
        taken.append((time.monotonic() - began) * 1e3)
    return min(taken)


def rates(pids, seconds):
    before = [sleeps(pid) for pid in pids]
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return [(sleeps(pid) - then) / elapsed for pid, then in zip(pids, before)]


STILL = '''
import ctypes, os, signal, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))):
    assert status == 0, status
open(f"{sys.argv[1]}.ready.{os.getpid()}", "w").close()
signal.pause()
'''


def start_clients(dist, environment, barrier, count):
    programs = [subprocess.Popen([sys.executable, "-c", STILL, barrier], env=environment)]
    command = [dist / "lib/openmps/samples/microbench", "idle", "--barrier", barrier]
    is_first = True
    while is_first or len(programs) < count:
        is_first = False
        for _ in range(min(GROUP, count - len(programs))):
            programs.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        end = time.monotonic() + READY_SECONDS_MAX
        while sum(name.name.startswith("go.ready.") for name in barrier.parent.iterdir()) < len(programs):
            ended = [program for program in programs if program.poll() is not None]
            if ended or time.monotonic() > end:
                sys.exit(f"{len(ended)} of {len(programs)} programs have ended before all were ready")
            time.sleep(0.02)
    return programs


def measure(dist, count, seconds):
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "pipe").mkdir()
        environment = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=str(place / "pipe"), CUDA_MPS_LOG_DIRECTORY=directory,
                           OPENMPS_PROVIDER="soft", OPENMPS_LIB_DIR=str(dist / "lib/openmps"), LD_LIBRARY_PATH=str(dist / "lib/openmps"))
        control = dist / "bin/nvidia-cuda-mps-control"
        daemon = subprocess.Popen([control, "-f"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        programs = []
        try:
            while not (place / "pipe/control").exists():
                time.sleep(0.02)
            began = time.monotonic()
            programs = start_clients(dist, environment, place / "go", count)
            ready_s = time.monotonic() - began
            # The daemon's process may be a child of the one that was started.
            report = json.loads(subprocess.run([dist / "bin/openmps", "ps", "--json"], env=environment, capture_output=True, check=True).stdout)
            server, daemon_pid = report["servers"][0]["pid"], report["pid"]
            clients = [program.pid for program in programs[1:SAMPLE + 1]]
            rested = rates([programs[0].pid, server, daemon_pid], seconds)
            found = {
                "clients": count,
                "ready_s": ready_s,
                "client_kib": sum(memory_kib(pid) for pid in clients) / len(clients) if clients else None,
                "server_kib": memory_kib(server),
                "daemon_kib": memory_kib(daemon_pid),
                "client_sleeps": rested[0],
                "server_sleeps": rested[1],
                "daemon_sleeps": rested[2],
                "ps_ms": least_ms(3, [dist / "bin/openmps", "ps", "--json"], environment),
                # One more than a server has room for is refused.
                "attach_ms": None if count >= 1024 else
                least_ms(3, [dist / "lib/openmps/samples/microbench", "first", "--json"], environment),
            }
            began = time.monotonic()
            subprocess.run([control], input="quit -t 0\n", text=True, env=environment, stdout=subprocess.DEVNULL, timeout=300)
            daemon.wait(300)
            found["end_ms"] = (time.monotonic() - began) * 1e3
            return found
        finally:
            for program in programs:
                program.kill()
            for program in programs:
                program.wait()
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(60)


def growth(rows, key):
    """Exponent of the growth between the two largest numbers of clients: 0 does not grow, 1 is linear."""
    have = [row for row in rows if row.get(key)]
    if len(have) < 2:
        return None
    a, b = have[-2:]
    return math.log(b[key] / a[key]) / math.log(b["clients"] / a["clients"])


def plot(rows, title):
    width, height, left, top = 300, 190, 56, 34
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * width}" height="{3 * height + 30}" '
             'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="10" y="20" font-size="14">{title}</text>']
    most = max(row["clients"] for row in rows)
    for place, (key, name) in enumerate(PANELS):
        x0, y0 = place % 3 * width, 30 + place // 3 * height
        have = [row for row in rows if row.get(key) is not None]
        top_value = max([row[key] for row in have] + [1e-9])
        w, h = width - left - 14, height - top - 30
        at = lambda row: (x0 + left + math.log2(max(row["clients"], 1)) / max(math.log2(most), 1) * w,
                          y0 + top + h - row[key] / top_value * h)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, have))
        parts += [f'<text x="{x0 + left}" y="{y0 + top - 10}">{name}</text>',
                  f'<path d="M{x0 + left} {y0 + top}v{h}h{w}" fill="none" stroke="#888"/>',
                  f'<text x="{x0 + left - 4}" y="{y0 + top + 8}" text-anchor="end">{top_value:.3g}</text>',
                  f'<text x="{x0 + left - 4}" y="{y0 + top + h}" text-anchor="end">0</text>',
                  f'<polyline points="{points}" fill="none" stroke="#1965b0" stroke-width="1.5"/>']
        for row in have:
            x, y = at(row)
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="#1965b0"/>',
                      f'<text x="{x:.1f}" y="{y0 + top + h + 14}" text-anchor="middle">{row["clients"]}</text>']
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--clients", default="1,4,16,64,256,1024")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    dist = options.dist.resolve()
    version = subprocess.run([dist / "bin/openmps", "--version"], capture_output=True, text=True).stdout.strip()
    today = datetime.date.today().isoformat()
    rows = []
    for count in map(int, options.clients.split(",")):
        rows.append(measure(dist, count, options.seconds))
        print(json.dumps({key: round(value, 2) if value is not None else None for key, value in rows[-1].items()}), flush=True)
        result = {"date": today, "version": version, "cores": os.cpu_count(), "load": os.getloadavg()[0], "rows": rows,
                  "growth": {key: growth(rows, key) for key, _ in PANELS}}
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    options.output.with_suffix(".svg").write_text(plot(rows, f"Idle clients on the software GPU, {today}"))
    print("growth between the last two:", {key: value and round(value, 2) for key, value in result["growth"].items()})


if __name__ == "__main__":
    main()
