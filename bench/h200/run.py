#!/usr/bin/env python3
"""Measures one GPU shared by processes three ways, in one go, and writes JSON.

    run.py DIST [--output FILE] [--part time-sliced|shared|servers|batching|mix] [--columns calls,...]

DIST is an installation, made by `cargo xtask dist --release`, perhaps on another machine: nothing
is built here. The ways:

    native   NVIDIA's driver alone: contexts take turns
    mps      NVIDIA's MPS, its daemon in a directory of its own, if it is installed
    openmps  daemon and server of DIST, with NVIDIA's driver as provider

The part batching runs ResNet-50 and then BERT in 16 processes at servers of their own, in turns: under MPS, and through
openmps with OPENMPS_LAUNCH_BATCHING=off, on and oversubscribed; with the servers' processor time, and each way's steps a second over those
under MPS. It ends after --rounds (2), or before a round that would not be over after 280 s. --ways mps,oversubscribed takes only those.

The part mix runs 8 processes of 8 different networks (networks.py has their names) at servers of their own, in turns, until
--seconds (150) are over: steps a second of each, and the geometric mean of openmps' over those under MPS and of the driver
alone.

Every way runs the same programs: the samples of DIST and networks.py. Without that part it takes about twelve minutes,
changes no setting of the GPU and leaves no process behind. A part takes less than six, and adds to
what FILE has of the same machine and day; without one, all parts run. Every figure is written when
it is there. `cargo xtask generate` makes docs/reports/h200.md of it.
"""

import argparse
import ast
import datetime
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from common import (
    HERE,
    Way,
    log,
    machine,
    used_memory_mib,
    vendor_control,
    wait_until_ready,
)

LAUNCH_PROCESSES = [1, 2, 4, 8, 16]
SPIN_PROCESSES = [1, 2, 4, 8, 12, 16]
# Cycles of a kernel of 0.5 ms at 1.98 GHz, the H200's highest clock.
SPIN_CYCLES = 990_000
IDLE_PROCESSES = {"native": [1, 8, 48], "mps": [1, 8, 48, 64], "openmps": [1, 8, 48, 64, 128]}
NETWORKS = {1: "resnet50,bert,train", 4: "resnet50,bert,train", 8: "resnet50,bert,train",
            16: "resnet50,bert"}
NETWORK_SECONDS = 3
RATE_SECONDS = 1.0
START_ROUNDS = 5
CALL_STARTS = 9
# Servers of which each way that has servers starts so many, one after the other.
RESTARTS = 5
# Ways of a part, and whether it compares servers.
ALL_PARTS = ["time-sliced", "shared", "servers"]
PARTS = {"time-sliced": (["native"], False), "shared": (["mps", "openmps"], False),
         "servers": (["mps", "openmps"], True), "batching": (["mps", "off", "on", "oversubscribed"], True),
         "launches": (["mps", "off", "on", "oversubscribed"], True), "mix": (["mps", "openmps", "native"], True)}
BATCHING_SECONDS_MAX = 280



def row(result, name):
    return next(r["value"] for r in result["rows"] if r["name"] == name)


# One function a column: what it gives stands in the JSON under its name.


def calls(way):
    """Cost of single calls of one process: of each the median of some starts of the program, which
    differ more than what one start measures again and again."""
    way.begin_group()
    command = [way.samples / "microbench", "calls", "--json"]
    starts = [way.result(way.start(command))["rows"] for _ in range(CALL_STARTS)]
    figures = {}
    for rows in zip(*starts):
        values = [r["value"] for r in rows]
        figures[rows[0]["name"]] = {
            "value": statistics.median(values), "unit": rows[0]["unit"], "starts": values}
    return figures


def first_kernel(way):
    """From a program's start to the end of its first kernel, ms: the median of some."""
    way.begin_group()
    command = [way.samples / "microbench", "first", "--json"]
    times = [row(way.result(way.start(command)), "first_kernel") for _ in range(START_ROUNDS)]
    return statistics.median(times)


def launches(way):
    """Null launches a second of all processes together."""
    rates = {}
    for count in LAUNCH_PROCESSES:
        command = [way.samples / "microbench", "launches", "--seconds", RATE_SECONDS]
        results = way.group(count, command)
        rates[count] = sum(row(result, "launches_per_s") for result in results)
        log(f"{way.name}: {count} processes, {rates[count]:.0f} launches/s {way.failures or ''}")
    return rates


def run_spin(way, count):
    """Kernels of 4 blocks and 0.5 ms a second, each waited for, of each of the processes."""
    command = [way.samples / "spin", "--kernel", "clock", "--work", SPIN_CYCLES,
               "--blocks", 4, "--seconds", RATE_SECONDS]
    return [result["kernels_per_s"] for result in way.group(count, command)]


def spin(way):
    """Kernels of all processes together."""
    rates = {}
    for count in SPIN_PROCESSES:
        rates[count] = sum(run_spin(way, count))
        log(f"{way.name}: {count} processes, {rates[count]:.0f} kernels/s {way.failures or ''}")
    return rates


def memory(way):
    """Device memory that idle processes take, MiB: a context, a module, a stream and 4 KiB each."""
    taken = {}
    for count in IDLE_PROCESSES[way.name]:
        way.begin_group()
        with tempfile.TemporaryDirectory() as directory:
            before = used_memory_mib()
            barrier = Path(directory) / "go"
            command = [way.samples / "microbench", "idle", "--barrier", barrier]
            processes = [way.start(command) for _ in range(count)]
            ready = wait_until_ready(barrier, processes, 60)
            used = used_memory_mib() - before
            barrier.touch()
            for process in processes:
                way.result(process)
        time.sleep(0.3)
        refused = [failure for failure in way.failures if "exit status 0" not in failure]
        taken[count] = {"mib": used, "ready": ready, "refused": refused[:1]}
        log(f"{way.name}: {ready} of {count} idle processes take {used} MiB {refused[:1] or ''}")
    return taken


def run_networks(way, names, count):
    """What each of the processes that did not fail says of the networks of those names."""
    with tempfile.TemporaryDirectory() as directory:
        way.begin_group()
        processes = [
            way.start([sys.executable, HERE / "networks.py", names, NETWORK_SECONDS,
                       directory, count])
            for _ in range(count)
        ]
        results = [way.result(process) for process in processes]
    return [result for result in results if result is not None]


def networks(way):
    """Inference and training: steps a second of all processes, and what one step takes."""
    measured = {}
    for count, names in NETWORKS.items():
        results = run_networks(way, names, count)
        for name in names.split(","):
            parts = [result[name] for result in results if name in result]
            times = sorted(t for part in parts for t in part["ms"])
            if len(parts) < count or not times:
                log(f"{way.name}: {name} failed for {count}: {way.failures[:1]}")
                continue
            measured.setdefault(name, {})[count] = {
                "per_s": sum(part["per_s"] for part in parts),
                "p50_ms": times[len(times) // 2],
                "p99_ms": times[len(times) * 99 // 100],
                "digests": sorted({part["digest"] for part in parts}),
            }
            log(f"{way.name}: {name}, {count} processes: {measured[name][count]}")
    return measured


def restarts(ways, dist):
    """What 8 processes do with one server after the other, in turns: of each way the median and all,
    the least and the most of a process. Servers may differ, and so does what else the machine does."""
    measured = {way: {} for way in ways}

    def add(way, name, rates):
        log(f"{way.name}: a server of its own, {name} of 8 processes: {sum(rates):.0f} "
            f"{sorted(map(round, rates))} {way.failures[:1] or ''}")
        if len(rates) == 8:
            servers = measured[way.name].setdefault(f"{name}_8", [])
            servers.append({"per_s": sum(rates), "least": min(rates), "most": max(rates)})

    for _ in range(RESTARTS):
        for name in ways:
            way = Way(name, dist)
            with way.running():
                way.start([way.samples / "vector_add"]).communicate()
                add(way, "spin", run_spin(way, 8))
                results = run_networks(way, "resnet50,bert", 8)
                for network in ["resnet50", "bert"]:
                    add(way, network, [result[network]["per_s"] for result in results])
    return {way: {what: {"value": statistics.median(server["per_s"] for server in servers),
                         "servers": servers} for what, servers in figures.items()}
            for way, figures in measured.items()}


def launches_by_servers(ways, dist, rounds):
    """Null launches a second by the number of processes, of one server after the other, in turns: medians of `rounds`
    servers."""
    measured = {way: {} for way in ways}
    for _ in range(rounds):
        for name in ways:
            way = Way(name, dist)
            with way.running():
                way.start([way.samples / "vector_add"]).communicate()
                for count, rate in launches(way).items():
                    measured[name].setdefault(count, []).append(rate)
    return {way: {count: {"value": statistics.median(rates), "servers": rates} for count, rates in figures.items()}
            for way, figures in measured.items()}


def batching(ways, dist, rounds, count, keep):
    """What processes of two networks, one after the other, do with one server after the other, in turns, and the
    processor time of the server for all of them, which has the warming up in it. `keep` is given what there is after
    each server."""
    measured, networks = {way: {} for way in ways}, ["resnet50", "bert"]
    begin, longest = time.monotonic(), 0
    for turn in range(rounds):
        start = time.monotonic()
        if turn > 0 and start - begin + longest > BATCHING_SECONDS_MAX:
            break
        for name in ways:
            way = Way(name, dist)
            with way.running():
                way.start([way.samples / "vector_add"]).communicate()
                before = way.server_seconds()
                results = run_networks(way, ",".join(networks), count)
                spent = way.server_seconds() - before
            said = [line.split("}: ")[-1] for line in way.log.splitlines() if " launches went in " in line]
            if len(results) < count:
                log(f"{name}: only {len(results)} of {count} processes ended well: {way.failures[:2]}")
                continue
            for network in networks:
                of = [result[network] for result in results]
                measured[name].setdefault(f"{network}_{count}", []).append(
                    {"per_s": sum(one["per_s"] for one in of), "digests": sorted({one["digest"] for one in of})})
            steps = {of: measured[name][f"{of}_{count}"][-1]["per_s"] for of in networks}
            measured[name].setdefault(f"server_{count}", []).append({"seconds": spent, "batching": said})
            log(f"{name}: " + ", ".join(f"{of} {steps[of]:.0f} a second" for of in networks)
                + f", {spent:.1f} s of the server {said[:2]}")
            keep(batching_values(measured))
        longest = max(longest, time.monotonic() - start)
    values = batching_values(measured)
    for name in (way for way in ways if way != "mps"):
        for what in (f"{network}_{count}" for network in networks):
            here, there = values[name].get(what), values.get("mps", {}).get(what)
            if here is None or there is None:
                continue
            here["over_mps"] = here["value"] / there["value"]
            digests = [{digest for server in of["servers"] for digest in server["digests"]} for of in (here, there)]
            same = "the same" if digests[0] == digests[1] else "NOT the same"
            log(f"{name}: {what}: {here['over_mps']:.3f} of MPS ({here['value']:.0f} and {there['value']:.0f} a second), "
                f"results are {same}")
    keep(values)


def batching_values(measured):
    """The medians of the servers of each way, and what each server gave."""
    values = {}
    for name, figures in measured.items():
        values[name] = {}
        for what, servers in figures.items():
            value = statistics.median(server.get("per_s", server.get("seconds")) for server in servers)
            values[name][what] = {"value": value, "servers": servers}
    return values


def run_mix(way, networks):
    """Steps a second and the times of a step of each network of the mix, all at once; None if one failed."""
    with tempfile.TemporaryDirectory() as directory:
        way.begin_group()
        processes = {
            network: way.start([sys.executable, HERE / "networks.py", f"mix/{network}", NETWORK_SECONDS,
                                directory, len(networks)])
            for network in networks
        }
        results = {network: way.result(process) for network, process in processes.items()}
    if None in results.values():
        return None
    figures = {}
    for network, result in results.items():
        of, = result.values()
        times = sorted(of["ms"])
        figures[network] = {"per_s": of["per_s"], "p50_ms": times[len(times) // 2],
                            "p99_ms": times[len(times) * 99 // 100], "digest": of["digest"]}
    return figures


def ratio(figures, to, networks):
    """The geometric mean of the networks' steps a second over another way's."""
    return statistics.geometric_mean(figures[of]["per_s"] / to[of]["per_s"] for of in networks)


def mix(ways, dist, seconds_max):
    """8 processes of 8 networks, with one server after the other, in turns, as long as there is time."""
    text = (HERE / "networks.py").read_text()
    networks = ast.literal_eval(re.search(r"^MIX = (\[.*\])$", text, re.M).group(1))
    begin, longest, runs = time.monotonic(), 0, {way: [] for way in ways}
    turn = 0
    while turn < len(ways) or time.monotonic() - begin + longest < seconds_max:
        start, name = time.monotonic(), ways[turn % len(ways)]
        way = Way(name, dist)
        with way.running():
            way.start([way.samples / "vector_add"]).communicate()
            figures = run_mix(way, networks)
        longest, turn = max(longest, time.monotonic() - start), turn + 1
        if figures is None:
            log(f"{name}: mix failed: {way.failures[:2]}")
            continue
        runs[name].append(figures)
        log(f"{name}: mix: " + ", ".join(f"{of} {figures[of]['per_s']:.0f}" for of in networks))
    measured = {}
    for name, of_way in runs.items():
        if not of_way:
            continue
        measured[name] = {
            of: {"per_s": statistics.median(run[of]["per_s"] for run in of_way),
                 "p50_ms": statistics.median(run[of]["p50_ms"] for run in of_way),
                 "p99_ms": statistics.median(run[of]["p99_ms"] for run in of_way),
                 "digests": sorted({run[of]["digest"] for run in of_way})}
            for of in networks}
    ratios = {}
    for name in measured:
        if name != "openmps" and "openmps" in measured:
            ratios[name] = ratio(measured["openmps"], measured[name], networks)
            same = all(measured["openmps"][of]["digests"] == measured[name][of]["digests"] for of in networks)
            log(f"mix: openmps does {ratios[name]:.3f} of {name}; results are {'the same' if same else 'NOT the same'}")
    return {name: {"networks": figures, "runs": runs[name], **({"over": ratios} if name == "openmps" else {})}
            for name, figures in measured.items()}


COLUMNS = [first_kernel, calls, launches, spin, memory, networks]


def table(results):
    """A line a figure, a column a way."""
    ways = list(results["ways"])
    lines = [f"{'':38}" + "".join(f"{way:>14}" for way in ways)]

    def flatten(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(inner, f"{path} {key}".strip())
        elif isinstance(value, (int, float)):
            yield path.removesuffix(" value"), value

    figures = {way: dict(flatten(results["ways"][way], "")) for way in ways}
    for name in dict.fromkeys(name for way in ways for name in figures[way]):
        cells = (figures[way].get(name) for way in ways)
        lines.append(f"{name:38}" + "".join(
            f"{'-' if cell is None else format(cell, '.2f'):>14}" for cell in cells))
    return "\n".join(lines)


def earlier(path, results):
    """What a file has of the same day and such a machine; else `results`."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return results
    before, now = found.get("machine", {}), results["machine"]
    # Another start of the same machine may have another kernel.
    same = all(before.get(key) == now[key] for key in now if key != "kernel")
    return found if same and found.get("date") == results["date"] else results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("h200.json"))
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=2, help="of the parts batching and launches")
    parser.add_argument("--processes", type=int, default=16, help="of the part batching")
    parser.add_argument("--ways", help="of the parts: only these, as in mps,oversubscribed")
    parser.add_argument("--seconds", type=float, default=150, help="of the part mix")
    parser.add_argument("--columns", default=",".join(c.__name__ for c in COLUMNS))
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    if not (dist / "bin/openmps").exists():
        sys.exit(f"no installation in {dist}")
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "ways": {}}
    results = earlier(arguments.output, results)

    def keep(name, column, figures):
        results["ways"].setdefault(name, {})[column] = figures
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")

    columns = [c for c in COLUMNS if c.__name__ in arguments.columns.split(",")]
    for ways, compares in [PARTS[arguments.part]] if arguments.part else [PARTS[p] for p in ALL_PARTS]:
        if arguments.ways:
            ways = [way for way in ways if way in arguments.ways.split(",")]
        if vendor_control() is None and "mps" in ways:
            log("NVIDIA's MPS is not installed")
            ways = [way for way in ways if way != "mps"]
        if arguments.part == "batching":
            batching(ways, dist, arguments.rounds, arguments.processes,
                      lambda values: [keep(name, "batching", of) for name, of in values.items()])
            continue
        if arguments.part == "launches":
            for name, of in launches_by_servers(ways, dist, arguments.rounds).items():
                keep(name, "launches", of)
            continue
        if arguments.part == "mix":
            for name, of in mix(ways, dist, arguments.seconds).items():
                keep(name, "mix", of)
            continue
        if compares:
            for name, figures in restarts(ways, dist).items():
                keep(name, "restarts", figures)
            continue
        for name in ways:
            way = Way(name, dist)
            with way.running():
                # The first program waits for the server's start: that is not its own.
                way.begin_group()
                way.start([way.samples / "vector_add"]).communicate()
                for column in columns:
                    try:
                        keep(name, column.__name__, column(way))
                        log(f"{name}: {column.__name__} done")
                    except Exception as error:  # One figure that fails does not cost the others.
                        log(f"{name}: {column.__name__} failed: {error!r} {way.failures[:2]}")
            if way.log:
                arguments.output.with_suffix(f".{name}.log").write_text(way.log)
    print(table(results))
    log("done")


if __name__ == "__main__":
    main()
