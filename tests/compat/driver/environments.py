"""Compilers and packages with exact versions, fetched from PyPI into the ignored folder `.third-party/`."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
THIRD_PARTY = ROOT / ".third-party"

PYTEST = ["pytest==9.2.0", "pluggy==1.7.0", "iniconfig==2.3.1", "packaging==26.3", "pygments==2.21.0"]
NUMPY = ["numpy==2.4.6"]
CUDA_13 = ["nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85"]


class Environment:
    """A virtual environment with exactly these packages, made when it is first asked for."""

    def __init__(self, name, packages):
        self.name, self.packages = name, packages
        self.place = THIRD_PARTY / name

    @property
    def python(self):
        return self.place / "bin/python"

    @property
    def site_packages(self):
        return next(self.place.glob("lib/python3*/site-packages"))

    def package(self, name):
        """The folder of a package."""
        return self.site_packages / name

    def versions(self):
        """Its packages, as pip takes them."""
        return self.packages

    def make(self):
        digest = hashlib.sha256("\n".join(self.packages).encode()).hexdigest()[:16]
        stamp = self.place / f"installed-{digest}"
        if not stamp.exists():
            print(f"fetching {self.name}: {len(self.packages)} packages", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", self.place], check=True)
            pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run(pip + self.packages, check=True)
            stamp.touch()
        return self


class Installed:
    """The packages of an interpreter of the machine, for one from which nothing can be fetched."""

    # What results depend on.
    PACKAGES = ("numba-cuda", "numba", "llvmlite", "numpy", "cuda-bindings", "cuda-core", "cupy-cuda13x", "scipy", "pytest")

    def __init__(self, python):
        self.python = python

    def ask(self, expression):
        program = f"import importlib.util, importlib.metadata; print({expression})"
        return subprocess.run([self.python, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def package(self, name):
        return pathlib.Path(self.ask(f"importlib.util.find_spec({name!r}).origin")).parent

    def versions(self):
        lines = self.ask("*(f'{d.name}=={d.version}' for d in importlib.metadata.distributions()), sep='\\n'").splitlines()
        found = {}
        for name, _, version in (line.partition("==") for line in lines):
            # What is found first is what is imported.
            found.setdefault(name, version)
        return [f"{name}=={found[name]}" for name in self.PACKAGES if name in found]


def installed(python):
    return Installed(python) if python else None


def gpu_name():
    """What the driver calls the machine's first GPU."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


class Toolkit(Environment):
    """Compiler, runtime library and headers of one CUDA version."""

    def __init__(self, name, packages, folder):
        super().__init__(name, packages)
        self.folder = folder

    @property
    def cuda(self):
        return self.site_packages / "nvidia" / self.folder

    @property
    def libraries(self):
        return self.cuda / "lib"

    @property
    def nvcc_flags(self):
        return [f"-L{self.libraries}"]

    def make(self):
        super().make()
        # The wheels have the library without the name that linkers look for.
        plain = self.libraries / "libcudart.so"
        if not plain.exists():
            plain.symlink_to(next(self.libraries.glob("libcudart.so.*")).name)
        return self


class OldToolkit(Toolkit):
    """A version whose wheels have no compiler: its headers, changed so that the compiler of CUDA 13 takes them."""

    @property
    def headers(self):
        return self.place / "headers"

    @property
    def nvcc_flags(self):
        flags = [*super().nvcc_flags, f"-I{self.headers}", "-allow-unsupported-compiler"]
        flags.append("-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK")
        device_runtime = self.libraries / "libcudadevrt.a"
        return flags if device_runtime.exists() else [*flags, "-cudadevrt", "none"]

    def make(self):
        super().make()
        if not self.headers.exists():
            new = self.place / "headers-new"
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(self.cuda / "include", new)
            shutil.copytree(self.cuda.parent / "cuda_nvcc/include/crt", new / "crt", dirs_exist_ok=True)
            # The compiler's output names a second argument, and a way of launching that these runtimes do not have.
            launch = new / "crt/host_runtime.h"
            text = launch.read_text().replace("__cudaLaunch(fun)", "__cudaLaunch(fun, isTileKernel)")
            launch.write_text("#define __NV_LEGACY_LAUNCH\n" + text)
            # Cooperative groups with traits of their own: the compiler's library wants headers of the same version.
            groups = new / "cooperative_groups/details/info.h"
            groups.write_text(groups.read_text().replace("define _CG_USE_CUDA_STL", "define _CG_USE_OWN_TRAITS"))
            new.rename(self.headers)
        return self


NVCC = Toolkit(
    "nvcc",
    ["nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-nvvm==13.0.88"]
    + ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85"]
    + ["nvidia-cuda-nvrtc==13.0.88", "nvidia-nvjitlink==13.0.88"],
    "cu13",
)
RUNTIME_12 = OldToolkit(
    "runtime-12", ["nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-nvcc-cu12==12.9.86"], "cuda_runtime"
)
RUNTIME_11 = OldToolkit(
    "runtime-11", ["nvidia-cuda-runtime-cu11==11.8.89", "nvidia-cuda-nvcc-cu11==11.8.89"], "cuda_runtime"
)

# Without nvidia-nvjitlink Numba links through the driver (cuLink*); with it by nvJitLink.
NUMBA = Environment(
    "numba",
    ["numba-cuda==0.30.4", "numba==0.68.1", "llvmlite==0.50.0", "packaging==26.3", "nvidia-nvvm==13.0.88"]
    + ["cuda-bindings==13.5.0", "cuda-core==1.2.2", "cuda-pathfinder==1.9.0"]
    + NUMPY
    + CUDA_13,
)
NUMBA_JITLINK = Environment("numba-jitlink", NUMBA.packages + ["nvidia-nvjitlink==13.0.88"])
NUMBA_SUITE = Environment(
    "numba-suite",
    NUMBA.packages
    + PYTEST
    + ["psutil==7.2.2", "cffi==2.1.1", "pycparser==3.12", "ml_dtypes==0.6.0", "filecheck==1.0.6"],
)
CUDA_PYTHON = Environment("numba", NUMBA.packages)
NVML = Environment(
    "nvml",
    ["nvidia-ml-py==13.615.71", "gpustat==1.1.1", "nvitop==1.7.2", "psutil==7.2.2", "blessed==1.52.0"]
    + ["wcwidth==0.9.4", "jinxed==2.1.0"],
)
CUPY = Environment("cupy", ["cupy-cuda13x==14.2.0", "cuda-pathfinder==1.9.0"] + NUMPY + CUDA_13)
TRITON = Environment("triton", ["triton==3.9.0"] + NUMPY)
JAX = Environment(
    "jax",
    ["jax==0.10.2", "jaxlib==0.10.2", "jax-cuda13-plugin==0.10.2", "jax-cuda13-pjrt==0.10.2"]
    + ["ml_dtypes==0.6.0", "opt_einsum==3.4.0", "scipy==1.17.1"]
    + ["nvidia-cublas==13.10.0.20", "nvidia-cuda-cccl==13.3.5.0.6", "nvidia-cuda-crt==13.5.37"]
    + ["nvidia-cuda-cupti==13.5.25", "nvidia-cuda-nvcc==13.5.37", "nvidia-cuda-nvrtc==13.5.37"]
    + ["nvidia-cuda-runtime==13.5.37", "nvidia-cudnn-cu13==9.28.1.4", "nvidia-cufft==12.5.0.14"]
    + ["nvidia-cusolver==12.4.1.2", "nvidia-cusparse==12.9.4.2", "nvidia-nccl-cu13==2.32.3"]
    + ["nvidia-nvjitlink==13.5.37", "nvidia-nvshmem-cu13==3.8.0", "nvidia-nvvm==13.5.37"]
    + NUMPY,
)
WARP_12 = Environment("warp-1.12", ["warp-lang==1.12.1"] + NUMPY)
WARP_19 = Environment("warp-1.19", ["warp-lang==1.19.0"] + NUMPY)
CUPY_SUITE = Environment("cupy-suite", CUPY.packages + PYTEST + ["scipy==1.17.1"])
# What docs/reports/compat.md lists.
ALL = [NVCC, RUNTIME_12, RUNTIME_11, NUMBA, NUMBA_JITLINK, CUPY, TRITON, JAX, WARP_12, WARP_19, NVML]


def cupy_tests():
    """The folder with CuPy's `tests`, which only its source distribution has. pip fetches it and, since it cannot be
    built without all of CUDA, fails; the unpacked source is what is wanted."""
    place = THIRD_PARTY / "cupy-source"
    if not (place / "tests").exists():
        unpack = THIRD_PARTY / "cupy-unpack"
        unpack.mkdir(parents=True, exist_ok=True)
        version = next(package for package in CUPY.packages if package.startswith("cupy-cuda")).split("==")[1]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-clean", "--no-deps", "--no-binary", "cupy"]
        environment = {**os.environ, "TMPDIR": str(unpack)}
        subprocess.run(
            [*pip, f"cupy=={version}"], cwd=unpack, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        source = next(unpack.glob("pip-download-*/cupy_*/tests")).parent
        place.mkdir(exist_ok=True)
        (source / "pyproject.toml").rename(place / "pyproject.toml")
        (source / "tests").rename(place / "tests")
        shutil.rmtree(unpack)
    return place
