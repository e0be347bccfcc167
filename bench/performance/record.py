#!/usr/bin/env python3
"""Record the table of kernels: reads `openmps bench kernels --json`, writes results/NAME.json.

Usage: openmps bench kernels --json | bench/performance/record.py NAME MACHINE
"""

import datetime
import json
import pathlib
import sys

COLUMNS = {
    "kernel": "kernel",
    "unit": "unit",
    "ours": "ours",
    "c": "C",
    "pocl": "PoCL",
    "ratio_c": "ours / C",
    "ratio_pocl": "ours / PoCL",
    "first_run_ms": "first run, ms",
}


def cell(value, digits=3):
    """A figure as the page shows it."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}f}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    name, machine = sys.argv[1:]
    output = json.load(sys.stdin)
    rows = []
    for row in output["rows"]:
        rows.append([cell(row[key], 2 if key == "first_run_ms" else 3) for key in COLUMNS])
    mean = ["geometric mean", "", "", "", ""]
    rows.append(mean + [cell(output["ratio_c"]), cell(output["ratio_pocl"]), ""])
    result = {
        "command": "openmps bench kernels",
        "machine": machine,
        "date": datetime.date.today().isoformat(),
        "columns": list(COLUMNS.values()),
    }
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in result.items())
    body = ",\n".join("    " + json.dumps(row) for row in rows)
    path = pathlib.Path(__file__).parent / "results" / f"{name}.json"
    path.write_text(f'{{\n{head}  "rows": [\n{body}\n  ]\n}}\n')
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
