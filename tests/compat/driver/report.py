"""docs/reports/compat.md, from what is in tests/compat/results and what `openmps coverage` says."""

import collections
import pathlib
import re

import environments
import functions
import programs
import results
import tomllib

PAGE = environments.ROOT / "docs/reports/compat.md"
REMARKS = pathlib.Path(__file__).resolve().parent.parent / "remarks.toml"

HEAD = """# Programs and libraries

Made by `tests/compat/run.sh docs` from `tests/compat/results`; do not edit. `tests/compat/run.sh` fetches pinned
compilers and packages from PyPI into the ignored folder `.third-party/` and runs programs through openmps on the software
GPU, without a GPU. Results are compared with ones computed on the CPU. `--record` keeps them; `--help` says more.

There are three modes: *alone* (no daemon: in the program's own process), through a *daemon*, and *two* at the same time
through one daemon. What programs need is in [Programs that run](../compatibility.md).
"""

def known_failures():
    """Programs of which the committed results say that they fail."""
    kept = results.read("programs")
    return {name for name, row in kept["results"].items() if row["outcome"] == "failed"} if kept else set()


def write():
    """Writes the page."""
    remarks = tomllib.loads(REMARKS.read_text())["remark"]
    parts = [HEAD, versions(), program_table(results.read("programs"), remarks)]
    parts += [suite_section(name, remarks) for name in ("numba-cuda", "cupy")]
    parts += [functions.section()]
    PAGE.write_text("\n".join(parts))
    return 0


def versions():
    rows = [f"* {environment.name}: `{', '.join(environment.packages)}`" for environment in environments.ALL]
    return "## Versions\n\n" + "\n".join(rows) + "\n"


def program_table(summary, remarks):
    by_source = collections.defaultdict(lambda: collections.defaultdict(list))
    builds = collections.defaultdict(set)
    failures = []
    for name, row in summary["results"].items():
        program, mode = re.fullmatch(r"(.*) \((\w+)\)", name).groups()
        source, _, build = program.partition("-")
        by_source[source][mode].append(row["outcome"])
        builds[source].add(build)
        if row["outcome"] == "failed":
            remark = explain("programs", program, row["why"], remarks)
            failures.append(f"* {program} ({mode}): {remark or '`' + row['why'].replace('`', '') + '`'}")
    for program in programs.find(programs.FAMILIES, re.compile("")):
        source, _, build = program.name.partition("-")
        builds[source].add(build)
    lines = [f"| program | what it tries | built for | {' | '.join(programs.MODES)} |", "| --- |" + " --- |" * (2 + len(programs.MODES))]
    for source in sorted(builds):
        cells = [share(by_source[source][mode]) for mode in programs.MODES]
        lines.append(f"| {source} | {purpose(source)} | {', '.join(sorted(builds[source]))} | {' | '.join(cells)} |")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in summary["counts"].items())
    text = f"## Programs\n\n{counts} ({summary['date']}). An empty cell: no result is kept.\n\n" + "\n".join(lines) + "\n"
    return text + ("\nWhat fails:\n\n" + "\n".join(failures) + "\n" if failures else "")


def share(outcomes):
    """How many of a program's builds passed."""
    passed = outcomes.count("passed")
    if not outcomes:
        return ""
    if passed == len(outcomes):
        return f"{passed} passed"
    return f"{passed} of {len(outcomes)} passed"


def purpose(source):
    """What the first line of a program's source says, but for those that are the compiler's."""
    family, _, name = source.partition("/")
    place = programs.HERE / programs.SOURCES.get(family, family) / name
    path = next(path for suffix in (".cu", ".py") if (path := place.with_name(name + suffix)).exists())
    first = next(line for line in path.read_text().splitlines() if not line.startswith("// nvcc"))
    return cut(first.strip('/" ').removesuffix("."))


def cut(text, most=150):
    """A text that fits the cell of a table: its whole words, with dots behind them if it was longer."""
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


# How a suite was run, in the order of the table.
WAYS = {
    "daemon": "the software GPU, through a daemon",
    "alone": "the software GPU, in each process",
    "native": "a GPU with its own driver",
    "vendor": "that GPU, through openmps",
}


def suite_section(name, remarks):
    """What became of a suite's tests, and why those fail that do."""
    kept = {mode: summary for mode in WAYS if (summary := results.read(f"{name}.{mode}"))}
    if not kept:
        return ""
    lines = [f"## The test-suite of {name}", "", HIDDEN[name], ""]
    gpu = passed(kept["native"]) if "native" in kept else set()
    lines += ["| on | machine | date | passed | failed | skipped | of what a GPU passes |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    lines += [way(mode, summary, gpu) for mode, summary in kept.items()]
    packages = {package for summary in kept.values() for package in summary["packages"]}
    lines += ["", f"Packages: `{', '.join(sorted(packages))}`.", ""]
    soft = kept.get("daemon") or kept.get("alone")
    if soft:
        lines += failures(name, soft, gpu, remarks) + skips(soft, gpu)
    return "\n".join(lines) + "\n"


HIDDEN = {
    "numba-cuda": "Everywhere without nvJitLink: with it Numba makes machine code.",
    "cupy": "Its core tests (`tests/cupy_tests/core_tests`), without those marked as slow.",
}


def passed(summary):
    return {name for name, row in summary["results"].items() if row["outcome"] == "passed"}


def way(mode, summary, gpu):
    """A row of the table. What was not run is in no column but the last."""
    counts = collections.Counter(summary["counts"])
    both = len(passed(summary) & gpu)
    share = f"{both} of {len(gpu)}: {100 * both / len(gpu):.1f} %" if gpu and mode != "native" else ""
    failed = counts["failed"] + counts["crashed"]
    place = "; ".join(summary[key] for key in ("machine", "again") if key in summary)
    cells = [WAYS[mode], place, summary["date"], counts["passed"], failed, counts["skipped"], share]
    return f"| {' | '.join(map(str, cells))} |"


def failures(name, soft, gpu, remarks):
    """Why tests fail on the software GPU; first what a GPU passes."""
    groups = collections.defaultdict(list)
    for test, row in soft["results"].items():
        if row["outcome"] in ("failed", "crashed"):
            why = explain(name, test, row["why"], remarks) or "not looked into: `" + general(row["why"]) + "`"
            groups[why].append(test)
    missing = sorted(gpu - set(soft["results"]))
    if missing:
        groups["No result: the time was up"] = missing
    lines = ["| tests | of these a GPU passes | fail on the software GPU because | for example |"]
    lines += ["| ---: | ---: | --- | --- |"]
    for why, tests in sorted(groups.items(), key=lambda item: (-len(gpu.intersection(item[1])), -len(item[1]))):
        example = next((test for test in tests if test in gpu), tests[0])
        lines.append(f"| {len(tests)} | {len(gpu.intersection(tests))} | {why} | {example} |")
    return lines


def skips(soft, gpu):
    """Why tests are skipped."""
    reasons = collections.defaultdict(list)
    for test, row in soft["results"].items():
        if row["outcome"] == "skipped":
            reasons[general(row.get("why", ""))].append(test)
    lines = ["", "| tests | of these a GPU passes | are skipped because |", "| ---: | ---: | --- |"]
    for why, tests in sorted(reasons.items(), key=lambda item: -len(item[1]))[:20]:
        lines.append(f"| {len(tests)} | {len(gpu.intersection(tests))} | {why or 'no reason given'} |")
    return lines


def explain(where, name, why, remarks):
    """The first remark that suits a failure."""
    for remark in remarks:
        if remark["where"] == where and re.search(remark["match"], f"{name}: {why}"):
            return remark["text"]
    return None


def general(why):
    """A reason without what differs from test to test."""
    why = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", why).replace("|", "/").replace("`", "'")
    return re.sub(r"^Skipped: ", "", why)[:140]
