#!/usr/bin/env python3
"""What a stretch of 200 kernels costs its thread: one by one, as a graph, as a graph with parameters set.

    relaunch.py [--output FILE]

Runs on the bare driver; ten seconds; needs nvcc. It says whether a server should submit a stretch of
launches that it has seen before as one graph.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("relaunch.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "relaunch"
        source = Path(__file__).with_suffix(".cu")
        command = ["nvcc", "-O2", "-std=c++17", "-o", program, source]
        for folder in ("/usr/local/nvidia/lib64", "/usr/local/cuda/lib64/stubs"):
            command += ["-L", folder] if Path(folder).is_dir() else []
        subprocess.run([*command, "-lcuda"], check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    arguments.output.write_text(said)
    print(said, end="")


if __name__ == "__main__":
    main()
