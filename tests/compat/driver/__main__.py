"""Programs that bring their own CUDA runtime, run through openmps on the software GPU.

  run.sh                                  every program, in every way
  run.sh nvcc cupy --only graphs          some of them
  run.sh suite numba --only cudadrv       another project's tests
  run.sh suite cupy --mode native         the same on a GPU with its own driver: what a GPU passes
  run.sh startup                          what openmps adds to the start of a program
  run.sh take FOLDER                      keep the results that another machine's run has kept
  run.sh docs                             write docs/reports/compat.md from tests/compat/results
"""

import argparse
import json
import os
import re
import sys

import installation
import programs
import report
import results
import startup
import suites


def main():
    parser = argparse.ArgumentParser(
        prog="tests/compat/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT",
        help="families of programs (" + ", ".join(programs.FAMILIES) + "; default: all); "
        "or suite " + "|".join(suites.SUITES) + "; or startup; or take FOLDER; or docs",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="REGEX", type=re.compile, default=re.compile(""),
        help="only programs (files of a suite) in whose name this is found",
    )  # fmt: skip
    parser.add_argument(
        "--mode", action="append", choices=dict.fromkeys(programs.MODES + suites.MODES),
        help="only this way of running (repeatable); of a suite one: " + ", ".join(suites.MODES) + " [alone]",
    )  # fmt: skip
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    parser.add_argument("--failed", action="store_true", help="of a suite only what failed, or has no result yet")
    parser.add_argument("--logs", metavar="FOLDER", help="keep a suite's logs there, and the server's")
    parser.add_argument("--seconds", type=int, metavar="S", help="end a suite then: what is not done has no result")
    parser.add_argument(
        "--python", metavar="PROGRAM", help="for a suite: this interpreter with what is installed, in place of fetched packages"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="so many at a time [cores]")
    parser.add_argument("--list", action="store_true", help="list the programs and run nothing")
    parser.add_argument("--json", action="store_true", help="print the results as JSON; progress goes to standard error")
    parser.add_argument("--record", action="store_true", help="keep the results in tests/compat/results")
    arguments = parser.parse_args()
    what = arguments.what or list(programs.FAMILIES)
    if what == ["docs"]:
        return report.write()
    if what[0] == "take" and len(what) == 2:
        return results.take(what[1])
    if what == ["startup"]:
        with installation.Installation(with_daemon=True) as openmps:
            print(json.dumps(startup.measure(openmps), indent=1))
        return 0
    if what[0] == "suite":
        if len(what) != 2 or what[1] not in suites.SUITES:
            parser.error("suite " + "|".join(suites.SUITES))
        return run_suite(what[1], arguments)
    for family in what:
        if family not in programs.FAMILIES:
            parser.error(f"no family of programs is called {family}")
    return run_programs(what, arguments)


def run_programs(families, arguments):
    modes = arguments.mode or programs.MODES
    if arguments.list:
        for program in programs.find(families, arguments.only):
            print(program.name)
        return 0
    known = report.known_failures()

    def keep(program, mode, row):
        if "calls" in row:
            calls = row.pop("calls")
            if arguments.record:
                results.keep_calls(program, calls)
        if arguments.record:
            results.keep("programs", {f"{program} ({mode})": row})

    with installation.Installation(with_daemon=True) as openmps:
        kept = results.read("programs") if arguments.missing else None
        done = kept["results"] if kept else {}
        found = programs.find(families, arguments.only)
        rows = programs.run(found, modes, openmps, arguments.jobs, done, keep)
    finish(rows, arguments)
    surprises = [name for name, row in rows.items() if row["outcome"] == "failed" and name not in known]
    for name in surprises:
        print(f"not known to fail: {name}: {rows[name]['why']}", file=sys.stderr)
    return 1 if surprises else 0


def run_suite(name, arguments):
    mode = arguments.mode[0] if arguments.mode else "alone"

    def keep(*rows):
        if arguments.record:
            results.keep(*rows)

    provider = "soft" if mode in ("alone", "daemon") else "vendor"
    with installation.Installation(mode in ("daemon", "vendor"), provider, arguments.logs) as openmps:
        finish(suites.run(name, mode, openmps, arguments, keep), arguments)
    return 0


def finish(rows, arguments):
    """Prints what came out."""
    summary = results.summary(rows)
    if arguments.json:
        print(json.dumps(summary, indent=1))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in summary["counts"].items())
    print(counts or "nothing to run", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
