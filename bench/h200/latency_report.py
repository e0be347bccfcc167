"""What `latency.py` has measured, as tables, and what happened while one slow request ran.

    latency_report.py FILE...                  tables as text
    latency_report.py --docs FILE[:SET,...]... writes the tables of docs/reports/scheduling.md anew: of each file all sets, or these
"""

import argparse
import json
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs/reports/scheduling.md"
BEGIN, END = "<!-- begin: bench/h200/latency_report.py -->", "<!-- end -->"
# How rows are called that come from a way and a setting of it.
WAYS = {"native": "time-slicing", "mps": "NVIDIA's MPS", "mps-priority": "NVIDIA's MPS with priorities",
        "mps-50": "NVIDIA's MPS, batch at 50 %", "openmps": "openmps"}


def sets_of(rows):
    return list(dict.fromkeys(key.split("/")[0] for key in rows))


def alone_of(rows, name, which="alone"):
    """What each service and the batch program do by themselves without any sharing, else through the
    first way that has it. Older files have the first service only. With "together": what the services do
    beside each other, without the batch program; None where there is one, or it was not measured."""
    own = {key.split("/")[1]: row for key, row in rows.items() if key.startswith(name + "/") and key.endswith(f"/{which}")}
    for way in WAYS:
        if way in own:
            return own[way]
    return None


def worst_multiple(row, alone):
    """The p99 of the service that suffers most, as a multiple of what it has alone."""
    bases = alone["critical"]
    pairs = [(critical.get("p99", 0), bases[min(at, len(bases) - 1)]["p99"]) for at, critical in enumerate(row["critical"])]
    return max(p99 / base for p99, base in pairs)


def is_poisson(setting):
    return setting.endswith(":poisson")


def table(rows):
    lines = []
    for name in sets_of(rows):
        alone, beside = alone_of(rows, name), alone_of(rows, name, "together")
        if alone is None:
            continue
        base = [critical["p99"] for critical in alone["critical"]]
        besides = [critical["p99"] for critical in (beside or {"critical": []})["critical"]]
        lines += [f"{name}: alone p99 {base} ms, batch {alone['batch']['rate']} steps/s",
                  f"{'way':34} {'p50':>8} {'p99':>8} {'p99.9':>8} {'of alone':>9} {'of tog.':>8} {'batch/s':>8} {'share':>6} {'device s':>9}"]
        for key, row in rows.items():
            if not key.startswith(name + "/"):
                continue
            for at, critical in enumerate(row["critical"]):
                device = "/".join(f"{seconds:g}" for seconds in row.get("charged", {}).values())
                lines.append(
                    f"{key.split('/', 1)[1]:34} {critical.get('p50', 0):8.3f} {critical.get('p99', 0):8.3f} "
                    f"{critical.get('p999', 0):8.3f} {critical.get('p99', 0) / base[min(at, len(base) - 1)]:9.2f} "
                    f"{critical.get('p99', 0) / besides[at] if at < len(besides) else 0:8.2f} "
                    f"{row['batch']['rate']:8.2f} {row['batch']['rate'] / alone['batch']['rate']:6.2f} {device:>9}")
    return "\n".join(lines)


def shown(values):
    """Milliseconds of each service, or of many the range."""
    if len(values) > 2:
        return f"{min(values):.2f} to {max(values):.2f}"
    return " / ".join(f"{value:.2f}" for value in values)


def share_of(row, alone):
    """The batch program's steps of what it makes alone."""
    share = row["batch"]["rate"] / alone["batch"]["rate"]
    return f"{share:.2f}" if share else "-"


def markdown(rows, source):
    """The table for the documentation: one row a way and setting."""
    lines = []
    for name in sets_of(rows):
        alone, beside = alone_of(rows, name), alone_of(rows, name, "together")
        if alone is None:
            continue
        base = ", ".join(f"{critical['p99']:.2f}" for critical in alone["critical"])
        lines += [f"Set `{name}`, `{source}`. Alone: p99 {base} ms, batch {alone['batch']['rate']:g} steps a second.", "",
                  "| mode | arrivals | p50, ms | p99, ms | p99.9, ms | p99 of alone | p99 of together | batch of alone |",
                  "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for key, row in rows.items():
            of, way, setting = key.split("/", 2)
            # What all is compared with stands above the table.
            if of != name or row is alone:
                continue
            called = WAYS.get(way, way)
            plain = setting.removesuffix(":poisson")
            if setting in ("alone", "together"):
                called += {"alone": ", each alone", "together": ", services only"}[setting]
            elif way == "openmps":
                called += f", `{plain}`"
            of_together = f"{worst_multiple(row, beside):.2f}" if beside else "-"
            columns = [shown([c.get(which, 0) for c in row["critical"]]) for which in ("p50", "p99", "p999")]
            lines.append(f"| {called} | {'Poisson' if is_poisson(setting) else 'even'} | {' | '.join(columns)} | "
                         f"{worst_multiple(row, alone):.2f} | {of_together} | {share_of(row, alone)} |")
        lines.append("")
    return "\n".join(lines)


def write_docs(files):
    """`files` are names, perhaps with the sets that are wanted of them behind a colon."""
    parts = []
    for name, _, wanted in (file.partition(":") for file in files):
        rows, path = json.loads(Path(name).read_text()), Path(name).resolve()
        rows = {key: row for key, row in rows.items() if not wanted or key.split("/")[0] in wanted.split(",")}
        parts.append(markdown(rows, "/".join(path.parts[-4:])))
    text = DOCS.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    DOCS.write_text(f"{before}{BEGIN}\n{chr(10).join(parts)}{END}{after}")


# One slow request.


def kernels_of(trace):
    """(process, begin, end, name, queued ns), ns, of each kernel and copy of a trace in chrome's JSON."""
    names, begun, found = {}, {}, []
    for event in trace["traceEvents"]:
        track = event.get("tid")
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "B":
            begun.setdefault(track, []).append(event)
        elif event["ph"] == "E" and begun.get(track):
            first = begun[track].pop()
            if first["cat"] in ("kernel", "graph", "copy", "fill"):
                found.append((names.get(first["pid"], "?"), int(1000 * first["ts"]), int(1000 * event["ts"]),
                              first["name"], first["args"].get("queued_ns", 0), first["cat"]))
    return sorted(found, key=lambda k: k[1])


def slow_request(trace, pid, due_ns, start_ns, end_ns):
    """Where the time of a request went: before it was begun, until its first kernel, while its kernels
    ran, between them, and behind the last; and what others had on the device meanwhile."""
    kernels = [k for k in kernels_of(trace) if k[1] < end_ns and k[2] > due_ns]
    # A graph's own slice spans its kernels.
    plain = [k for k in kernels if k[5] != "graph"]
    own = [k for k in plain if k[0].startswith(f"client {pid} ")] or [k for k in kernels if k[0].startswith(f"client {pid} ")]
    others = [k for k in plain if not k[0].startswith(f"client {pid} ")]
    if not own:
        return {"error": "the trace has no kernel of the request"}
    first, last = own[0][1], max(k[2] for k in own)
    busy, at = 0, first
    for _, begin, end, *_ in own:
        busy += max(0, end - max(at, begin))
        at = max(at, end)
    at_arrival = [k for k in others if k[1] <= start_ns < k[2]]
    us = lambda ns: round(ns / 1000, 1)
    return {
        "whole_us": us(end_ns - due_ns),
        "before_its_start_us": us(start_ns - due_ns),
        "until_its_first_kernel_us": us(first - start_ns),
        "its_kernels_us": us(busy),
        "between_its_kernels_us": us(last - first - busy),
        "after_its_last_kernel_us": us(end_ns - last),
        "its_kernels": len(own),
        "others_when_it_came": [{"kernel": k[3], "left_us": us(k[2] - start_ns)} for k in at_arrival],
        "others_begun_meanwhile": [{"kernel": k[3], "after_us": us(k[1] - start_ns), "took_us": us(k[2] - k[1])}
                                   for k in others if k[1] > start_ns][:50],
        "longest_gaps_us": sorted((us(b[1] - a[2]) for a, b in zip(own, own[1:]) if b[1] > a[2]), reverse=True)[:5],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--docs", action="store_true")
    arguments = parser.parse_args()
    if arguments.docs:
        return write_docs(arguments.files)
    rows = {}
    for file in arguments.files:
        rows.update(json.loads(Path(file).read_text()))
    return print(table(rows))


if __name__ == "__main__":
    sys.exit(main())
