#!/usr/bin/env python3
"""What a request costs that has the device to itself: BERT-base as a CUDA graph, by way and by arrivals.

    launch.py DIST [--output FILE] [--seconds 3] [--ways native,mps,openmps]

DIST is an installation, as for run.py. Each way runs one program and nothing beside it; openmps runs it as
a normal client, as a latency-critical one, and as one whose both sides spin for 10 ms (OPENMPS_SPIN_US).
Arrivals: closed (one request after the other), even and poisson (100 a second). Where the first differs
from native, submission costs; where only the others do, being woken costs. A minute and a half; needs
PyTorch and transformers.
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

ARRIVALS = ["closed", "even", "poisson"]
VARIANTS = {
    "native": {"": {}},
    "mps": {"": {}},
    "openmps": {"normal": {}, "latency": {"OPENMPS_CLASS": "latency"},
                "spin": {"OPENMPS_SPIN_US": "10000"}},
}


def rows_of(way_name, arguments):
    from common import Way
    from latency import Program
    for variant, settings in VARIANTS[way_name].items():
        way = Way(way_name, arguments.dist)
        way.environment = dict(way.environment, **settings)
        with way.running():
            program = Program("bert", dict(way.environment, **settings))
            try:
                program.answer()
                for arrivals in ARRIVALS:
                    program.tell(f"measure 0.3 {arrivals}")
                    program.answer()
                    program.tell(f"measure {arguments.seconds} {arrivals}")
                    yield f"{way_name}/{variant}/{arrivals}", program.answer()
            finally:
                program.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("launch.json"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--ways", default="native,mps,openmps")
    arguments = parser.parse_args()
    arguments.dist = arguments.dist.resolve()
    rows = {}
    print(f"{'way':28} {'p50':>8} {'p99':>8} {'p99.9':>8} {'rate':>8}", flush=True)
    for way in arguments.ways.split(","):
        try:
            for name, row in rows_of(way, arguments):
                rows[name] = row
                arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
                print(f"{name:28} {row.get('p50', 0):8.3f} {row.get('p99', 0):8.3f} "
                      f"{row.get('p999', 0):8.3f} {row['rate']:8.1f}", flush=True)
        except (RuntimeError, OSError, ValueError) as error:
            print(f"{way}: {error}", flush=True)


if __name__ == "__main__":
    main()
