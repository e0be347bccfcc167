"""Test-suites of other projects: which files, how pytest runs them, and on what."""

import collections
import os

import environments
import results
import sharing

# Ways of running a suite: the software GPU in each process, or through a daemon; the machine's own GPU with its own
# driver, which says what a GPU passes, or through a daemon.
MODES = ("alone", "daemon", "native", "vendor")


class Suite(collections.namedtuple("Suite", "name environment root files package arguments settings")):
    """Where a suite's tests are, and how pytest is to run them."""

    def target(self, path):
        """What pytest is to call a file."""
        inner = path.relative_to(self.root)
        return self.package + ".".join(inner.with_suffix("").parts) if self.package else str(path)


def numba(mode, python):
    environment = environments.installed(python) or environments.NUMBA_SUITE.make()
    root = environment.package("numba_cuda") / "numba/cuda/tests"
    files = [path for part in ("cudadrv", "cudapy", "nocuda") for path in sorted((root / part).glob("test_*.py"))]
    # By module name, which pytest must find as it is: by path it would take numba/cuda for the package `cuda`, which is
    # another one, and processes that tests start would not find the test's module.
    arguments = ["-p", "numba_suite", "--import-mode=importlib", "-o", "consider_namespace_packages=true", "--pyargs"]
    # On a GPU too: what it passes is compared with what the software GPU passes.
    settings = {"COMPAT_HIDE_NVJITLINK": "1"}
    return Suite("numba-cuda", environment, root, files, "numba.cuda.tests.", arguments, settings)


def cupy(mode, python):
    environment = environments.installed(python) or environments.CUPY_SUITE.make()
    root = environments.cupy_tests()
    files = sorted((root / "tests/cupy_tests/core_tests").rglob("test_*.py"))
    settings = {} if python else {"NVCC": str(environments.NVCC.make().cuda / "bin/nvcc")}
    return Suite("cupy", environment, root, files, None, ["-m", "not slow"], settings)


SUITES = {"numba": numba, "cupy": cupy}


def run(name, mode, openmps, arguments, keep):
    """All results, by test: {"outcome", "why", "seconds"}; each file's are also given to `keep` as they come.

    `about` is what the results hold for: the way of running, the machine, the versions.
    """
    suite = SUITES[name](mode, arguments.python)
    about = {"mode": mode, "machine": machine(mode), "packages": suite.environment.versions()}
    files = [path for path in suite.files if arguments.only.search(str(path.relative_to(suite.root)))]
    name = f"{suite.name}.{mode}"
    kept = (results.read(name) if arguments.missing or arguments.failed else None) or {}
    done = kept.get("results", {})
    if arguments.failed and kept:
        done = [test for test, row in done.items() if row["outcome"] in ("passed", "skipped")]
        about = {**kept_about(kept), "again": f"what failed once more on {machine(mode)}"}
        # Of a file with results all tests are known.
        whole = {test.partition("::")[0] for test in kept["results"]} - {
            test.partition("::")[0] for test in kept["results"].keys() - set(done)
        }
        files = [path for path in files if str(path.relative_to(suite.root)) not in whole]
    shared = sharing.Sharing(suite, mode, openmps, files, arguments.jobs, arguments.seconds, done)
    return shared.run(lambda rows: keep(name, rows, about))


def kept_about(kept):
    """What kept results hold for."""
    return {key: kept[key] for key in ("mode", "machine", "packages")}


def machine(mode):
    """What the tests run on, in words."""
    cores = f"{os.cpu_count()} cores"
    return cores if mode in ("alone", "daemon") else f"{environments.gpu_name()}, {cores}"
