"""docs/compat.md, from what is in tests/compat/results and what `openmps coverage` says."""

import collections
import pathlib
import re
import tomllib

import environments
import functions
import programs
import results

PAGE = environments.ROOT / "docs/compat.md"
REMARKS = pathlib.Path(__file__).resolve().parent.parent / "remarks.toml"

HEAD = """# Programs that bring their own CUDA runtime

Made by `tests/compat/run.sh docs` from `tests/compat/results`; do not edit. `tests/compat/run.sh` fetches pinned
compilers and packages from PyPI into the ignored folder `.third-party/` and runs what is listed here through openmps on
the software GPU, without a GPU: *alone* (no daemon: in the program's own process), through a *daemon*, and *two* at the
same time through one daemon. Results are compared with ones computed on the CPU. `--record` keeps them;
`tests/compat/run.sh --help` says more.

What programs need:

* PTX: the software GPU runs no machine code. nvcc: `-gencode arch=compute_80,code=compute_80`; an image without PTX is
  CUDA_ERROR_NO_BINARY_FOR_GPU, and a line on the program's standard error names the program or library that the image is
  in, once for each. PyTorch's wheels (2.15.0) have machine code only: its own kernels do not run here.
* Of NVIDIA's libraries those of CUDA 13: cuRAND, cuFFT, cuSPARSE, cuSOLVER, NPP, nvJPEG and parts of cuBLAS carry PTX (21 of
  33 programs that were tried run), the matrix products of cuBLAS do not. cuFFT keeps its fatbins among its data,
  where `openmps ptx check` looks as well. cuRAND 10.4.5 (CUDA 13.5) makes all its
  generators but MT19937 of machine code: curandCreateGenerator answers 203. cuRAND 10.4.0.35 (CUDA 13.0) runs all of them.
* Kernels that launch kernels: relocatable device code and the device runtime library (`-rdc=true -lcudadevrt`), as ever. What
  a grid launches runs when the grid has ended, before what comes after it in its stream. Of the device runtime's functions
  those of occupancy and of kernels' attributes, copies of boxes and launches of graphs are CUDA_ERROR_NOT_SUPPORTED.
* What compiles or links at run time (NVRTC, nvJitLink: CuPy, Numba, PyTorch's own kernels): nothing, if `openmps run`
  starts it. The loader then takes openmps' libraries in front of the two compilers, which have them make PTX where a
  program asks for machine code. `OPENMPS_COMPILERS=own` switches that off; programs that are started in another way
  have `CUPY_COMPILE_WITH_PTX=1` for CuPy.
* Triton, and torch.compile with it: nothing, if `openmps run` starts it. It sets `TRITON_PTXAS_PATH` to a `ptxas` of openmps',
  which checks PTX and keeps it. What a user has set stays; `OPENMPS_COMPILERS=own` sets nothing.
* JAX: `openmps run` sets `CUDA_ROOT`, where JAX finds that `ptxas`, and adds `--xla_gpu_enable_libnvptxcompiler=false
  --xla_gpu_enable_libnvjitlink=false` to `XLA_FLAGS`, without which XLA makes machine code within its own process. A version of
  XLA without these options (before 2024) ends with "Unknown flag": `OPENMPS_COMPILERS=own`. Before it asks the driver, JAX
  looks for a file `/dev/nvidia0`, `/dev/nvidiactl` or `/dev/dxg`, and without one it silently takes the CPU; any file will do:
  `touch /dev/nvidiactl` as root, in a container for example. Matrix products are Triton's, which XLA chooses where cuBLAS
  cannot run.
* Warp: 1.12 nothing. A Warp that is newer than the driver says it is (1.19: CUDA 13.4) makes machine code by itself:
  `OPENMPS_DRIVER_VERSION=13.4` has the driver report that version.
"""

PROFILERS = """## Profilers and debuggers

A profiler asks the driver for tables of functions that are not documented and that openmps does not have, and it looks at
kernels in the program's own context, which under openmps is the server's. CUPTI 13.0 and compute-sanitizer 13.0 were tried on the
software GPU; the others, and compute-sanitizer again, on an H200 (`bench/h200/observe.py --parts profilers`).

| tool | under openmps | instead |
| --- | --- | --- |
| CUPTI, and what is built on it (device times of PyTorch's and JAX's profilers, Nsight Systems' CUDA trace) | subscribing and every activity answer CUPTI_ERROR_UNKNOWN (software GPU); the program goes on without device times | `openmps run --trace`, `openmps trace`, `openmps top` |
| NVTX (headers of version 3, the Python package, PyTorch's and JAX's ranges) | ranges are slices of `openmps run --trace` | |
| Nsight Compute | "failed to connect to the CUDA driver" | the program by itself, without openmps |
| compute-sanitizer | the program ends before its first call | `OPENMPS_SOFT_CHECK` on the software GPU |
| cuda-gdb | runs the program (nothing else was tried); its kernels run in the server | the program by itself |
| gdb, perf, strace, Python's profilers | as without openmps: the client library is an ordinary one | |
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
    parts += [PROFILERS, functions.section()]
    PAGE.write_text("\n".join(parts))
    return 0


def versions():
    rows = ["| environment | packages |", "| --- | --- |"]
    for environment in environments.ALL:
        rows.append(f"| {environment.name} | {', '.join(environment.packages)} |")
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
    return first.strip('/" ').removesuffix(".")


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
    lines += ["", f"Packages: {', '.join(sorted(packages))}.", ""]
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
