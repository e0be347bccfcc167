#!/usr/bin/env python3
"""A decode server of class latency beside training of class batch: what sharing in space gives each.

    space.py DIST --output FILE [--ways openmps,native,mps] [--slots 2] [--size 1b] [--seconds 20]
             [--settings "default;space=off;slowdown=1.1;slowdown=1.5;least=0%"]

The server is that of serving.py in a closed loop, so that it is never idle for long; the training is ResNet-50 at
batch size 64. Each runs alone first, then both together, for each of the settings of `schedule` (openmps only). With
openmps the programs say `latency` and `batch` and nothing else. Figures: tokens a second, time per token (p50, p99),
steps a second, each as part of alone; of openmps also the SMs that batch work had at the end and how much the server was
slowed, as `report` says. Called as `space.py train JSON` it is the training.

FILE is JSON and is written after each figure. Needs PyTorch and torchvision. A setting takes --seconds and about 15 s.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SETTINGS = "default;space=off;slowdown=1.1;slowdown=1.5;least=0%;slowdown=1.0 least=25%"
# What a setting is put back to before the next one.
DEFAULT = "preset=balanced slowdown=1.25 least=10% pause-max=100ms"


def training(wanted):
    import torch
    from latency import train
    from networks import wait_for_all

    torch.manual_seed(0)
    step = train(torch)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    wait_for_all(wanted["directory"], "serving", wanted["count"])
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < wanted["seconds"]:
        step()
        torch.cuda.synchronize()
        steps += 1
    print("RESULT " + json.dumps({"steps_per_s": steps / (time.perf_counter() - begin)}), flush=True)


def start_training(environment, directory, count, seconds):
    wanted = {"directory": str(directory), "count": count, "seconds": seconds}
    command = [sys.executable, str(HERE / "space.py"), "train", json.dumps(wanted)]
    return subprocess.Popen(command, env={**environment, "OPENMPS_CLASS": "batch"}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shared(way):
    """What the daemon says of the two clients while they run."""
    program = str(way.dist / "bin/nvidia-cuda-mps-control")
    done = subprocess.run([program, "report"], env=way.environment, capture_output=True, text=True, timeout=20)
    found = {}
    for server in json.loads(done.stdout).get("servers", []):
        for client in server["clients"]:
            of = client.get("scheduling", {})
            if of.get("class") == "batch":
                found["batch_sms"] = of.get("space_sms")
            if of.get("class") == "latency":
                found["slowed_permille"] = of.get("slowed_permille")
    return found


def together(way, options, roles):
    from serving import result_of, start_server

    with tempfile.TemporaryDirectory() as directory:
        programs = {}
        if "server" in roles:
            programs["server"] = start_server(way.environment, directory, 0, len(roles), slots=options.slots,
                                              seconds=options.seconds, size=options.size, OPENMPS_CLASS="latency")
        if "training" in roles:
            programs["training"] = start_training(way.environment, directory, len(roles), options.seconds)
        said = {}
        if way.name == "openmps" and len(roles) == 2:
            # The size has been found by then.
            deadline = time.monotonic() + 120
            while not said.get("batch_sms") and time.monotonic() < deadline:
                if any(program.poll() is not None for program in programs.values()):
                    break
                time.sleep(0.5)
                said = shared(way)
            time.sleep(options.seconds * 0.6)
            said = shared(way)
        return {**{role: result_of(program) for role, program in programs.items()}, **said}


def main():
    if sys.argv[1:2] == ["train"]:
        return training(json.loads(sys.argv[2]))
    from common import Way, log, vendor_control
    from latency import schedule

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default="openmps,native,mps")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--size", default="1b")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--settings", default=SETTINGS)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []

    def note(way, setting, figures):
        found.append({"way": way, "setting": setting, **figures})
        log(json.dumps(found[-1]))
        options.output.write_text(json.dumps(found, indent=1) + "\n")

    for name in options.ways.split(","):
        if name == "mps" and vendor_control() is None:
            continue
        way = Way(name, options.dist.resolve())
        with way.running():
            alone = {}
            for role in ("server", "training"):
                alone.update(together(way, options, [role]))
            note(name, "alone", alone)
            settings = options.settings.split(";") if name == "openmps" else ["default"]
            for setting in settings:
                if name == "openmps":
                    schedule(way, DEFAULT)
                    if setting != "default":
                        schedule(way, setting)
                figures = together(way, options, ["server", "training"])
                for role, key in (("server", "tokens_per_s"), ("training", "steps_per_s")):
                    if key in figures[role] and alone[role].get(key):
                        figures[role]["of_alone"] = figures[role][key] / alone[role][key]
                note(name, setting, figures)


if __name__ == "__main__":
    main()
