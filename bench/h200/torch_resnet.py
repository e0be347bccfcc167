#!/usr/bin/env python3
"""ResNet-50 inference (fp16, batch 1) by several processes at once.

    torch_resnet.py LABEL PROCESSES...      e.g. torch_resnet.py openmps 1 4 8

Each process waits for every inference before it starts the next. All start together once each
has warmed up, and run for SECONDS. One line a number of processes: inferences a second of all of
them, the median and the 99th percentile of the latency in ms, and whether all results are equal.
How the processes reach the device (natively, through openmps) is up to the environment.
"""

import json
import os
import subprocess
import sys
import time

SECONDS = 5.0
WARM_UP = 20


def worker():
    import torch
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet50().eval().half().cuda()
    image = torch.randn(1, 3, 224, 224).half().cuda()
    with torch.inference_mode():
        for _ in range(WARM_UP):
            result = model(image)
        torch.cuda.synchronize()
        print("ready", flush=True)
        sys.stdin.readline()
        latencies = []
        start = now = time.perf_counter()
        while now - start < SECONDS:
            result = model(image)
            torch.cuda.synchronize()
            before, now = now, time.perf_counter()
            latencies.append(now - before)
    checksum = float(result.double().sum())
    rate = len(latencies) / (now - start)
    print(json.dumps({"rate": rate, "latencies": latencies, "checksum": checksum}), flush=True)


def measure(label, count):
    command = [sys.executable, os.path.abspath(__file__), "--worker"]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    try:
        for child in children:
            if child.stdout.readline().strip() != "ready":
                raise SystemExit(f"{label} {count}: a process did not get ready")
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        results = [json.loads(child.stdout.readline()) for child in children]
    finally:
        for child in children:
            child.stdin.close()
            child.wait()
    latencies = sorted(latency for result in results for latency in result["latencies"])
    rate = sum(result["rate"] for result in results)
    p50 = latencies[len(latencies) // 2] * 1e3
    p99 = latencies[len(latencies) * 99 // 100] * 1e3
    equal = len({result["checksum"] for result in results}) == 1
    print(f"{label:10} {count:3} processes {rate:9.1f} it/s   p50 {p50:7.3f} ms   p99 {p99:7.3f} ms"
          f"   {'equal' if equal else 'DIFFERENT'} {results[0]['checksum']}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        worker()
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        for number in sys.argv[2:]:
            measure(sys.argv[1], int(number))
