"""What tests/compat/results keeps: each result as soon as it is there, so that a run that is ended has kept what it found."""

import collections
import json
import pathlib
import time

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "results"


def summary(rows, about=None):
    """Results by name, how many there are of each outcome, today's date, and what else is said about them."""
    counts = collections.Counter(row["outcome"] for row in rows.values())
    head = {"counts": dict(sorted(counts.items())), "date": time.strftime("%Y-%m-%d"), **(about or {})}
    return {**head, "results": dict(sorted(rows.items()))}


def read(name):
    """What is kept under a name, None if nothing."""
    path = DIRECTORY / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def keep(name, rows, about=None):
    """Adds results to what is kept: what was not run this time is as it was, if it holds for the same."""
    kept = read(name)
    # Who runs again what failed says so, and changes nothing else.
    same = {key: value for key, value in (about or {}).items() if key != "again"}
    if kept and any(kept.get(key) != value for key, value in same.items()):
        kept = None
    write(name, summary({**(kept["results"] if kept else {}), **rows}, about))


def take(folder):
    """Takes results that another machine kept, in the place of what is kept under the same names."""
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        write(path.stem, json.loads(path.read_text()))


def keep_calls(program, functions):
    """Keeps which driver functions a program called."""
    kept = read("calls")
    write("calls", {"results": dict(sorted({**(kept["results"] if kept else {}), program: functions}.items()))})


def write(name, summary):
    """JSON with a line a result, so that changes are easy to read."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in summary["results"].items())
    head = json.dumps({key: value for key, value in summary.items() if key != "results"})[1:-1]
    DIRECTORY.mkdir(exist_ok=True)
    (DIRECTORY / f"{name}.json").write_text("{" + head + (",\n" if head else "\n") + f' "results": {{\n{rows}\n }}\n}}\n')
